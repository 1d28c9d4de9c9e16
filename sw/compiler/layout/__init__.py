"""Passes that choose tiles and addresses."""
