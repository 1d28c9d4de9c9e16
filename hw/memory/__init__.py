"""Memories of the core and their address paths."""
