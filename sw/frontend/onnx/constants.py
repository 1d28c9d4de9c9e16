"""Constants of quantised operators: biases in the units of their sums, channels of scale 0.

ONNX Runtime multiplies integers if the scale of a bias is that of the input times that of the
weights, within 1 %, and its zero point 0. It then takes the integers of the bias unchanged. A
float bias it rounds to these units. Around any other bias a convolution stays in float; a Gemm
becomes integers all the same, with results other than ONNX defines, and is refused here.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from celosia.sw.frontend.onnx.operand import Operand
from celosia.sw.ir.graph import Quantization
from celosia.sw.layers.node import ModelError

#: Operators with weights, the second input, and a bias, the third.
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")

#: Of these, those whose float weights ONNX Runtime quantises.
_QUANTISED = ("Conv", "ConvTranspose", "Gemm")

#: Part by which ONNX Runtime lets the scale of a bias differ.
_TOLERANCE = 0.01
#: Part by which quotients of scales in float32 miss a whole number.
_ROUNDING = 5e-7

_INT32 = np.iinfo(np.int32)


def along(meaning: Quantization, values: np.ndarray, rank: int) -> np.ndarray:
    """Return scales or zero points as they broadcast with a tensor of some rank."""
    if len(values) == 1:
        return values.reshape(())
    shape = [1] * rank
    shape[meaning.axis] = -1
    return values.reshape(shape)


def real_array(operand: Operand | None) -> np.ndarray:
    """Return a constant operand in float32; whole numbers and truth values without scale."""
    if operand is None or operand.data is None:
        raise ModelError(f"wanted a constant, got {operand.name if operand else 'none'!r}")
    data, meaning = operand.data, operand.quantization
    if meaning is None:
        return data.astype(np.float32) if data.dtype.kind not in "iub" else data
    points = along(meaning, meaning.zero_points, data.ndim)
    integers = (data.astype(np.int64) - points).astype(np.float32)
    return integers * along(meaning, meaning.scales, data.ndim)


def nonzero(operand: Operand | None) -> Operand | None:
    """Return a constant whose channels of scale 0 hold their zero points, with scale 1."""
    if operand is None or operand.data is None or operand.quantization is None:
        return operand
    meaning, data = operand.quantization, operand.data
    if meaning.scales.all():
        return operand
    dead = along(meaning, meaning.scales == 0, data.ndim)
    points = along(meaning, meaning.zero_points, data.ndim)
    scales = np.where(meaning.scales == 0, np.float32(1), meaning.scales)
    held = np.where(dead, points, data).astype(data.dtype)
    return replace(operand, data=held, quantization=replace(meaning, scales=scales))


def rescaled(operand: Operand | None, factor: float) -> Operand:
    """Return a constant whose numbers are multiplied by a factor."""
    if operand is None or operand.data is None or operand.quantization is None or factor <= 0:
        raise ModelError(f"wanted constant weights, and alpha greater than 0, got {factor:g}")
    scales = operand.quantization.scales * np.float32(factor)
    return replace(operand, quantization=replace(operand.quantization, scales=scales))


def quantised_weights(kind: str, inputs: list[Operand | None]) -> list[Operand | None]:
    """Return the operands of an operator, float weights as ONNX Runtime quantises them.

    It makes them int8 of one scale and zero point, right between DequantizeLinear and
    QuantizeLinear.

    - ``kind``: of the float operator.
    - ``inputs``: its operands.
    """
    source, weights, bias = [*inputs, None, None, None][:3]
    if source and not source.dequantised:
        return inputs
    data = weights.data if weights and weights.quantization is None else None
    if kind not in _QUANTISED or (bias and bias.quantization) or not weights:
        return inputs
    if data is None or not np.isfinite(data).all():
        return inputs
    data = data.astype(np.float32)
    least, greatest = np.minimum(data.min(), 0), np.maximum(data.max(), 0)
    scale = (greatest - least) / np.float32(255) if greatest > least else np.float32(1)
    point = np.rint(np.float32(-128) - least / scale)
    integers = np.clip(np.rint(data / scale) + point, -128, 127).astype(np.int8)
    quantization = Quantization(np.array([scale], np.float32), np.array([point], np.int64))
    weights = Operand(weights.name, integers.dtype, quantization, integers)
    return [inputs[0], weights, *inputs[2:]]


def kernel_operands(kind: str, inputs: Sequence[Operand | None]) -> list[Operand | None] | None:
    """Return the operands of an operator as ONNX Runtime's integer kernel takes them.

    - ``kind``: of the float operator.
    - ``inputs``: its operands.

    None if ONNX Runtime leaves it in float, and its bias is no whole number of units of the sums.
    """
    source, weights, bias = [*inputs, None, None, None][:3]
    if kind not in WEIGHTED or bias is None:
        return [nonzero(operand) for operand in inputs]
    if not source or not weights or source.quantization is None or weights.quantization is None:
        return None
    unit = source.quantization.scales[0] * weights.quantization.scales
    data = _bias(bias, unit, kind, direct=source.dequantised)
    if data is None:
        return None
    data = np.where(unit == 0, 0, data)
    meaning = Quantization(unit, np.zeros(len(unit), np.int64), 0)
    integers = Operand(bias.name, np.dtype(np.int32), meaning, data.astype(np.int32))
    return [source, nonzero(weights), integers, *inputs[3:]]


def _bias(bias: Operand, unit: np.ndarray, kind: str, *, direct: bool) -> np.ndarray | None:
    """Return a bias in units of the sums, float64; None if it stays in float.

    ``direct``: whether ONNX Runtime has a DequantizeLinear right before the operator's input.
    """
    if bias.data is None:
        raise ModelError(f"wanted a constant bias, got {bias.name!r} that is computed")
    if bias.data.ndim > 1 and bias.data.size != bias.data.shape[-1]:
        return None
    if len(unit) > 1 and bias.data.size not in (1, len(unit)):
        # Scales of the channels of one group.
        return None
    data, meaning = bias.data.reshape(-1), bias.quantization
    if meaning is None and data.dtype.kind != "f":
        return data.astype(np.float64)
    if meaning is None and direct and bias.data.ndim < 2:
        with np.errstate(all="ignore"):
            units = np.rint(data.astype(np.float32) / unit).astype(np.float64)
        return np.clip(np.nan_to_num(units), _INT32.min, _INT32.max)
    real = data.astype(np.float64)
    if meaning is not None:
        close = np.abs(meaning.scales - unit) <= _TOLERANCE * np.abs(unit)
        if data.dtype == np.int32 and close.all() and not meaning.zero_points.any():
            return real
        if kind == "Gemm" and data.dtype == np.int32:
            raise ModelError(
                f"wanted a bias {bias.name!r} of zero point 0, whose scale is that of the input "
                "times that of the weights: ONNX Runtime's QGemm does not read others"
            )
        real = (real - meaning.zero_points) * meaning.scales
    with np.errstate(all="ignore"):
        units = real / unit
        missed = np.abs(units - np.rint(units)) > _ROUNDING * np.maximum(1, np.abs(units))
    if not np.isfinite(units).all() or missed.any() or np.abs(units).max() > _INT32.max:
        return None
    return np.rint(units)
