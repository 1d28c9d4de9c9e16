"""Matrix unit: systolic array, accumulators, and their control."""
