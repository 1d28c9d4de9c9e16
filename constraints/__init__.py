"""Pins of boards that amaranth-boards does not know, one file per board."""
