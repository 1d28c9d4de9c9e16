"""SDRAM controller: a chip of single data rate as external memory behind AXI4."""
