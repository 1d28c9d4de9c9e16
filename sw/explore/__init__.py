"""Cores that fit a part or a board, their cycles on networks, area and clock."""
