"""AXI4-Lite registers, AXI4 masters, load and store units."""
