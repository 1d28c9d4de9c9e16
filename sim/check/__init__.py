"""Checks of programs: what instructions touch, in which order they run, and their hazards."""
