"""Operators that clamp or change the scale of each element."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator, Operand
from celosia.sw.layers.lowering import Lowering
from celosia.sw.layers.node import ModelError, Node, described
from celosia.sw.layers.quantize import BOUNDS, ends, rescaling, single_factor
from celosia.sw.layers.record import SAME, Attributes, Operator, Shape, require
from celosia.sw.operators import gradients
from celosia.sw.operators.fixed_point import finished, quotients, rescaled, single
from celosia.sw.operators.functions import same_shape

_RELUS = ("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1")


def _lower(lowering: Lowering, operation: Operation) -> None:
    """Lower RELU and its kind, and QUANTIZE."""
    view = lowering.view(operation)
    if operation.kind == "QUANTIZE" and lowering.same_scale(
        operation.inputs[0], operation.outputs[0]
    ):
        lowering.views[operation.outputs[0]] = view
        return
    activation = operation.kind if operation.kind in _RELUS else "NONE"
    scaling = rescaling(*ends(lowering.graph, operation), activation)
    lowering.vector(operation, view, scalings=[scaling])


def _run_relu(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    if arrays[0].dtype == np.float32:
        return [np.clip(arrays[0], *BOUNDS[operator.kind])]
    (source,), (output,) = operator.sources, operator.results
    centred = arrays[0].astype(np.int64) - source.zero_point
    values = rescaled(centred, single_factor(single(source), over=single(output)))
    return finished(values, output, operator.kind)


def _read_scales(node: Node) -> dict[str, Any]:
    """Return scales and zero points of channels, between float32 and integers alone."""
    node.require_inputs(1)
    source, result = node.tensor(0), node.outputs[0]
    one, other = (result, source) if source.dtype == np.float32 else (source, result)
    meaning = one.quantization
    if meaning is None or len(meaning.scales) == 1 or other.dtype != np.float32:
        return {}
    if one is source and one.dtype == np.int16:
        raise ModelError(f"wanted int8 where there are several scales, got {described(one)}")
    return {
        "axis": meaning.axis,
        "channel_scales": tuple(meaning.scales.tolist()),
        "channel_zero_points": tuple(meaning.zero_points.tolist()),
    }


def _scaled_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shapes = same_shape(operator, attributes)
    if "channel_scales" not in operator.attributes:
        return shapes
    (source,), (output,) = operator.sources, operator.results
    one = output if source.dtype == "float32" else source
    require("float32" in (source.dtype, output.dtype), "float32 at one end")
    limits, count = (
        np.iinfo(one.dtype),
        one.shape[attributes.integer("axis", 0, len(one.shape) - 1)],
    )
    attributes.integers("channel_zero_points", count, int(limits.min), int(limits.max))
    scales = operator.attributes["channel_scales"]
    require(isinstance(scales, list | tuple) and len(scales) == count, f"{count} scales")
    good = all(type(scale) is float and 1e-38 < scale < 1e38 for scale in scales)
    require(good, "scales above 0", scales)
    return shapes


def _scales(operator: HostOperator, operand: Operand) -> tuple[Any, Any]:
    """Return scale and zero point of an operand, or those of its channels."""
    attributes = operator.attributes
    if "channel_scales" not in attributes:
        return single(operand), operand.zero_point
    shape = [1] * (1 + len(operand.shape))
    shape[1 + attributes["axis"]] = -1
    scales = np.array(attributes["channel_scales"], np.float32).reshape(shape)
    return scales, np.array(attributes["channel_zero_points"], np.int64).reshape(shape)


def _run_quantize(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return float as integers, or integers of another meaning or type."""
    (source,), (output,), (array,) = operator.sources, operator.results, arrays
    limits = np.iinfo(np.dtype(output.dtype))
    if source.dtype != "float32":
        centred = array.astype(np.int64) - source.zero_point
        values = rescaled(centred, source.scale / output.scale) + output.zero_point
        return [np.clip(values, limits.min, limits.max).astype(output.dtype)]
    scale, zero_point = _scales(operator, output)
    ratio = (array / scale).astype(np.float64)
    # Past this they saturate whatever the zero point; no number counts as nothing.
    limit = 4 * limits.max + 8
    ratio = np.clip(np.nan_to_num(ratio, nan=0.0), -limit, limit)
    rounded = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio) + zero_point
    return [np.clip(rounded, limits.min, limits.max).astype(output.dtype)]


def _run_dequantize(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return integers, or float16, as float32."""
    if arrays[0].dtype == np.float16:
        return [arrays[0].astype(np.float32)]
    scale, zero_point = _scales(operator, operator.sources[0])
    return [scale * (arrays[0].astype(np.int64) - zero_point).astype(np.float32)]


_CLAMP = "a clamp, part of the previous matrix layer if scales are equal"
_INTEGERS = ("int8", "uint8", "int16")

OPERATORS = (
    *(
        Operator(
            kind=kind,
            shapes=same_shape,
            types=(("int8", "int16", "float32"), SAME),
            kernel=_run_relu,
            lower=_lower,
            gradient=gradients.activation if kind in ("RELU", "RELU6") else None,
            factors=quotients,
            core=f"int8: {_CLAMP}",
            host="int8, int16, float32",
        )
        for kind in _RELUS
    ),
    Operator(
        kind="QUANTIZE",
        shapes=_scaled_shapes,
        read=_read_scales,
        types=((*_INTEGERS, "float32"), _INTEGERS),
        kernel=_run_quantize,
        lower=_lower,
        factors=quotients,
        core="int8 to int8",
        host="float32 or integers to integers of 8 or 16 bits; from float32 also one scale per channel",
    ),
    Operator(
        kind="DEQUANTIZE",
        shapes=_scaled_shapes,
        read=_read_scales,
        types=((*_INTEGERS, "float16"), ("float32",)),
        kernel=_run_dequantize,
        host="integers of 8 or 16 bits to float32; those of 8 bits also with one scale per channel; "
        "constant float16",
    ),
)
