"""MLPerf Tiny: its models compared byte by byte, their cycles, and published results beside them."""
