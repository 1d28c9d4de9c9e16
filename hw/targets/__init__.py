"""Multipliers of FPGA families."""
