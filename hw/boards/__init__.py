"""Boards: ``table.py`` has a row for each; the rest is what the rows are made of."""
