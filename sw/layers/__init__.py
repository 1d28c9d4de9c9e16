"""Layers, and what operators are lowered with: values, scalings, tables, windows."""
