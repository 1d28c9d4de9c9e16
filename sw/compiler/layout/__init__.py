"""Passes that choose tiles, and where everything lies."""
