"""Passes that make instructions of the work."""
