"""Readers of operators: units become operations of the graph."""
