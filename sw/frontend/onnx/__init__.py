"""Reads ONNX models quantised by ONNX Runtime, as QDQ pairs or as quantised operators."""
