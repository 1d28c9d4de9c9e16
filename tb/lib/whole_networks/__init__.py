"""Whole networks: those whose figures are frozen, and those that ONNX Runtime quantises."""
