"""Malformed files: models and programs changed at random, and what must become of them."""
