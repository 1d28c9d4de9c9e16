"""Networks of ``quantize_dynamic`` in float again, to be quantised with ranges known beforehand."""

from importlib import import_module
from typing import Any

import numpy as np

#: Operators on integers, and those on floats in their place.
_PRODUCTS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}

_onnx: Any = import_module("onnx")

_RANGES = ("DynamicQuantizeLinear",)


class _DynamicModel:
    """Nodes and constants of a model whose dynamic products become float ones."""

    def __init__(self, model: Any) -> None:
        self.constants = {
            tensor.name: _onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer
        }
        self.makers = {name: node for node in model.graph.node for name in node.output}
        self.added: list[Any] = []

    def readers(self, model: Any, name: str) -> list[Any]:
        """Return the nodes that read a tensor."""
        return [node for node in model.graph.node if name in node.input]

    def source(self, name: str) -> str | None:
        """Return the float tensor whose range a DynamicQuantizeLinear measures."""
        node = self.makers.get(name)
        return node.input[0] if node is not None and node.op_type in _RANGES else None

    def scale(self, name: str) -> np.ndarray | None:
        """Return the scale of weights in its product with that of an activation."""
        if name in self.constants:
            return self.constants[name]
        node = self.makers.get(name)
        if node is None or node.op_type != "Mul":
            return None
        scales = [self.constants[operand] for operand in node.input if operand in self.constants]
        return scales[0] if len(scales) == 1 and any(map(self.source, node.input)) else None


def in_float(model: Any) -> Any:
    """Return a model whose dynamically quantised products are computed in float.

    A product of another shape than ``quantize_dynamic`` writes does not change.
    """
    result = type(model)()
    result.CopyFrom(model)
    network = _DynamicModel(model)
    gone: set[str] = set()
    nodes: list[Any] = []
    for node in model.graph.node:
        product = _product(network, model, node) if node.op_type in _PRODUCTS else None
        if product is not None:
            replaced, absorbed = product
            gone.update(absorbed)
            nodes.append(replaced)
        elif node.output[0] not in gone:
            nodes.append(node)
    _fill(result, nodes, network.added)
    return result


def _product(network: _DynamicModel, model: Any, node: Any) -> tuple[Any, list[str]] | None:
    """Return the float product in place of one of integers, and the results that go with it."""
    first, second = map(network.source, node.input[:2])
    casts = network.readers(model, node.output[0])
    if first is None or [reader.op_type for reader in casts] != ["Cast"]:
        return None
    scalings = network.readers(model, casts[0].output[0])
    if [reader.op_type for reader in scalings] != ["Mul"]:
        return None
    (other,) = [name for name in scalings[0].input if name != casts[0].output[0]]
    name = second or _weights(network, node, other)
    if name is None:
        return None
    result = scalings[0].output[0]
    replaced = _onnx.helper.make_node(_PRODUCTS[node.op_type], [first, name], [result], node.name)
    replaced.attribute.extend(node.attribute)
    return replaced, [casts[0].output[0], result]


def _weights(network: _DynamicModel, node: Any, product: str) -> str | None:
    """Add the float weights of a product of integers; return their name.

    ``product``: name of the product of both scales.
    """
    weights, scale = network.constants.get(node.input[1]), network.scale(product)
    if weights is None or scale is None:
        return None
    point = network.constants.get(node.input[3] if len(node.input) > 3 else "", np.zeros(1))
    axes = (-1, *[1] * (weights.ndim - 1)) if node.op_type == "ConvInteger" else (-1,)
    data = weights.astype(np.float32) - point.astype(np.float32).reshape(axes)
    data = data * scale.astype(np.float32).reshape(axes)
    name = f"{node.input[1]}_float_{len(network.added)}"
    network.added.append(_onnx.numpy_helper.from_array(data.astype(np.float32), name))
    return name


def _fill(model: Any, nodes: list[Any], constants: list[Any]) -> None:
    """Set nodes and constants; what no output needs is left out."""
    needed = {end.name for end in model.graph.output}
    used = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed.update(inputs_of(node))
            used.append(node)
    tensors = [tensor for tensor in (*model.graph.initializer, *constants) if tensor.name in needed]
    del model.graph.node[:], model.graph.initializer[:], model.graph.value_info[:]
    model.graph.node.extend(used[::-1])
    model.graph.initializer.extend(tensors)


def inputs_of(node: Any) -> list[str]:
    """Return the tensors that a node reads, and those that graphs in it read."""
    graphs = [graph for one in node.attribute for graph in (one.g, *one.graphs)]
    nodes = [inner for graph in graphs for inner in graph.node]
    return [*node.input, *(name for inner in nodes for name in inputs_of(inner))]
