"""Gateware of the core."""
