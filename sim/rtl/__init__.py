"""Simulated RTL: Verilog of cores and systems, compiled by Verilator and driven in process."""
