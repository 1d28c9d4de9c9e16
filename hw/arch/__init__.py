"""What hardware and software agree on: sizes, instructions, registers."""
