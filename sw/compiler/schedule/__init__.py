"""Passes that choose the order of work."""
