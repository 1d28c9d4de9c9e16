"""Operators of other quantisers: Quant of eight bits becomes a QDQ pair."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from celosia.sw.layers.node import ModelError

#: Operators that are not read, and who writes them.
_FOREIGN = {
    "BipolarQuant": "QONNX (Brevitas, FINN)",
    "IntegerAdd": "NEMO",
    "IntegerMean": "NEMO",
    "Quant": "QONNX (Brevitas, FINN)",
    "RequantizedConv": "Deeploy",
    "RequantizedGemm": "Deeploy",
    "RequantShift": "Deeploy",
    "Trunc": "QONNX (Brevitas, FINN)",
}

#: Domains of Quant.
_QUANT = ("finn.custom_op.general", "onnx.brevitas", "qonnx.custom_op.general")

#: Rounding of QuantizeLinear, as Quant names it.
_ROUNDINGS = ("HALF_EVEN", "ROUND")


def without_quant(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which pairs of QuantizeLinear and DequantizeLinear stand for Quant.

    Raises ModelError for operators of other quantisers, and for Quant of other than eight bits.
    """
    quants = [node for node in model.graph.node if _is_quant(node)]
    kinds = Counter(node.op_type for node in model.graph.node if node.op_type in _FOREIGN)
    kinds["Quant"] -= len(quants)
    kinds = +kinds
    if kinds:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        raise ModelError(
            f"quantised by {_FOREIGN[min(kinds)]} ({counts}), whose operators are not supported; "
            "wanted QuantizeLinear and DequantizeLinear: export it in QDQ form, or quantise the "
            "float model with `celosia quantize`"
        )
    if not quants:
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    arrays = {name: numpy_helper.to_array(tensor) for name, tensor in constants.items()}
    del result.graph.node[:], result.opset_import[:]
    result.opset_import.extend(
        tensor for tensor in model.opset_import if tensor.domain not in _QUANT
    )
    for node in model.graph.node:
        nodes = _pair(node, arrays, result.graph) if _is_quant(node) else [node]
        result.graph.node.extend(nodes)
    return result


def _is_quant(node: onnx.NodeProto) -> bool:
    return node.op_type == "Quant" and node.domain in _QUANT


def _pair(node: onnx.NodeProto, arrays: dict[str, Any], graph: Any) -> Iterator[onnx.NodeProto]:
    """Yield the nodes that stand for a Quant; their constants become initializers."""
    source, *parameters = node.input
    label = f"Quant ({node.output[0]!r})"
    if any(name not in arrays for name in parameters):
        raise ModelError(f"{label}: wanted a constant scale, zero point and number of bits")
    scale, point, bits = (arrays[name].astype(np.float32) for name in parameters)
    flags = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    rounding = flags.get("rounding_mode", b"ROUND").decode().upper()
    if bits.reshape(-1).tolist() != [8] or rounding not in _ROUNDINGS:
        got = f"{', '.join(f'{n:g}' for n in bits.reshape(-1))} bits and {rounding}"
        raise ModelError(f"{label}: wanted 8 bits, rounded with ROUND, got {got}")
    kind = np.int8 if flags.get("signed", 1) else np.uint8
    low, high = float(np.iinfo(kind).min), float(np.iinfo(kind).max)
    if not ((point == np.rint(point)) & (low <= point) & (point <= high)).all():
        raise ModelError(f"{label}: wanted whole zero points from {low:g} to {high:g}")
    axes = [axis for axis, extent in enumerate(scale.shape) if extent > 1]
    if len(axes) > 1 or point.size not in (1, scale.size):
        raise ModelError(f"{label}: wanted scales along one axis, got shape {scale.shape}")
    more: dict[str, Any] = {"axis": axes[0]} if axes else {}

    def constant(name: str, array: Any) -> str:
        graph.initializer.append(numpy_helper.from_array(array, f"{node.output[0]} {name}"))
        return graph.initializer[-1].name

    if flags.get("narrow"):
        # One number less: the least of signed ones, the greatest of others.
        choice, end = ("Max", low + 1) if kind == np.int8 else ("Min", high - 1)
        bound = constant("bound", ((end - point) * scale).astype(np.float32))
        source, origin = f"{node.output[0]} (bounded)", source
        yield helper.make_node(choice, [origin, bound], [source])
    flat = scale.reshape(-1) if axes else scale.reshape(())
    points = np.broadcast_to(point.reshape(-1), (scale.size,)).reshape(flat.shape).astype(kind)
    ends = [constant("scale", flat), constant("zero point", points)]
    integers = f"{node.output[0]} (integers)"
    yield helper.make_node("QuantizeLinear", [source, *ends], [integers], **more)
    yield helper.make_node("DequantizeLinear", [integers, *ends], [node.output[0]], **more)
