"""Coverage of the core's gateware: branches and bits, by lines of the Amaranth sources."""
