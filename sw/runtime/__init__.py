"""Devices and the interpreter that drives them."""
