"""Pin and clock constraints, one file per board."""
