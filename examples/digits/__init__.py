"""Handwritten digits: a picture of a run, and a page for drawings."""
