"""Passes that turn actions into instructions."""
