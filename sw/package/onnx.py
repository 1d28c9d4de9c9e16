"""Celosia in ONNX: a backend of ``onnx.backend.base``."""

from celosia.sw.onnx.backend import Backend, Prepared

__all__ = ["Backend", "Prepared"]
