"""Shipped quantised models and the scripts that trained them."""
