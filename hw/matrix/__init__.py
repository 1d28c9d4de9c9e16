"""The matrix unit: systolic array, accumulators, and what feeds them."""
