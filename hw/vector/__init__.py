"""Vector unit: pooling, bias, requantisation, clamp and table."""
