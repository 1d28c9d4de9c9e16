"""Operators in place of the chains that ONNX Runtime's optimiser writes for them."""

from collections import Counter
from importlib import import_module
from typing import Any

from celosia.sw.quantize.in_float import inputs_of

_onnx: Any = import_module("onnx")


def with_hard_swish(model: Any) -> Any:
    """Return a model with HardSwish in place of x · HardSigmoid(x): one table instead of two ends.

    ONNX Runtime has no kernel for HardSwish and writes this product instead. Changes ``model``.
    """
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    readers = Counter(name for node in graph.node for name in inputs_of(node))
    readers.update(end.name for end in graph.output)
    for node in graph.node:
        for x, factor in (node.input, node.input[::-1]) if node.op_type == "Mul" else ():
            gate = makers.get(factor)
            if gate is not None and _is_gate(gate) and gate.input[0] == x and readers[factor] == 1:
                gate.op_type, node.op_type = "", "HardSwish"
                del node.input[:]
                node.input.append(x)
                break
    nodes = [node for node in graph.node if node.op_type]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def _is_gate(node: Any) -> bool:
    """Return whether a node is the HardSigmoid of HardSwish."""
    if node.op_type != "HardSigmoid":
        return False
    values = {one.name: _onnx.helper.get_attribute_value(one) for one in node.attribute}
    alpha, beta = values.get("alpha", 0.2), values.get("beta", 0.5)
    return abs(6 * alpha - 1) < 1e-6 and beta == 0.5
