"""Scales and zero points of a model: what a node names, and what the readers of integers name."""

import numpy as np

from celosia.sw.frontend.onnx.file.nodes import LINEAR, OnnxModel, OnnxNode
from celosia.sw.frontend.onnx.kinds import MOVERS
from celosia.sw.ir.graph import Quantization
from celosia.sw.layers.node import ModelError


def as_read(source: OnnxModel, name: str) -> Quantization | None:
    """Return the quantisation that the readers of integers give them; None without one."""
    names = {name}
    for node in source.nodes:
        scales = source.constants.get(node.input(1), np.ones(2))
        positions = (0,) if node.kind == "DequantizeLinear" and scales.size == 1 else ()
        if node.kind in LINEAR:
            positions = LINEAR[node.kind][1] or range(2, len(node.inputs), 3)
        for index in positions:
            if node.input(index) in names:
                return meaning(source, node, index + 1)
        if node.kind in MOVERS and node.input(0) in names:
            names.update(node.outputs)
    return None


def constant(source: OnnxModel, name: str, role: str) -> np.ndarray:
    """Return a constant; raises ModelError where the tensor is computed."""
    if name not in source.constants:
        raise ModelError(f"wanted a constant {role}, got {name!r} that is computed")
    return source.constants[name]


def meaning(
    source: OnnxModel, node: OnnxNode, index: int, axis: int = 0, *, zeros: bool = False
) -> Quantization:
    """Return the scale at an index of a node's inputs, and the zero point after it."""
    scales = constant(source, node.input(index), "scale")
    if scales.ndim > 1 or scales.dtype not in (np.float32, np.float16):
        raise ModelError(f"wanted scales of one dimension, got {scales.dtype} {scales.shape}")
    scales = scales.reshape(-1).astype(np.float32)
    # Constants of scale 0 are zeros.
    least = 0 if zeros else np.nextafter(np.float32(0), np.float32(1))
    if not (np.isfinite(scales) & (scales >= least)).all():
        raise ModelError(f"wanted scales greater than 0, got {scales.min()}")
    points = np.zeros(len(scales), np.int64)
    if name := node.input(index + 1):
        zero_points = constant(source, name, "zero point").reshape(-1).astype(np.int64)
        if len(zero_points) not in (1, len(scales)):
            raise ModelError(f"wanted {len(scales)} zero points, got {len(zero_points)}")
        points[:] = zero_points
    return Quantization(scales, points, axis)
