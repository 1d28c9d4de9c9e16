"""Cores of standard cells: areas, longest path, and energy of a network."""
