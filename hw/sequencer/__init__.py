"""Fetch, check and dispatch of instructions; semaphores, counters and errors."""
