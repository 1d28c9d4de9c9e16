"""Operators of models: one record each, one file for each family."""
