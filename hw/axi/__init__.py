"""AXI4: signatures, masters, arbiter; AXI4-Lite registers; interrupts."""
