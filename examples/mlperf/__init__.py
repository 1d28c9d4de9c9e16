"""MLPerf Tiny: its models compared byte by byte, their cycles, beside published results."""
