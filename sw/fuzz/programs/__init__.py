"""Random programs of the fuzzer: cores, memory contents, instructions, semaphores, errors."""
