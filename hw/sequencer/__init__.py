"""Fetch, check and dispatch, semaphores, counters and errors."""
