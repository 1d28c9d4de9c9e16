"""Graphs of operations, and the programs compiled from them."""
