"""Malformed files: models and programs with random changes, and checks of their outcomes."""
