"""Recurrent layers without gates, in single precision: of one step, and of sequences."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.node import ModelError, Node, constant_name, described
from celosia.sw.layers.record import FLOAT, Attributes, Operator, Shape, each_sample, require
from celosia.sw.operators.vectors import ACTIVATIONS, activated, summed

_OPTIONS: dict[str, type] = {
    "RNN": tflite.RNNOptions,
    "UNIDIRECTIONAL_SEQUENCE_RNN": tflite.SequenceRNNOptions,
    "BIDIRECTIONAL_SEQUENCE_RNN": tflite.BidirectionalSequenceRNNOptions,
}

#: Operands of one direction: weights, recurrent weights, bias, state.
_OPERANDS = 4


def _reader(kind: str):
    """Return the reader of a kind."""

    def read(node: Node) -> dict[str, Any]:
        options = node.require_options(_OPTIONS[kind])
        count = 1 + _OPERANDS * (2 if kind == "BIDIRECTIONAL_SEQUENCE_RNN" else 1)
        node.require_inputs(count, 12 if count > 5 else 5, results=None)
        if any(tensor is not None for tensor in node.inputs[count:]):
            raise ModelError("wanted no auxiliary input: layers one after the other, joined")
        for tensor in map(node.tensor, range(count)):
            if tensor.dtype != np.float32:
                raise ModelError(f"wanted float32 throughout, got {described(tensor)}")
        name = constant_name(tflite.ActivationFunctionType, options.FusedActivationFunction())
        merged = kind == "BIDIRECTIONAL_SEQUENCE_RNN" and options.MergeOutputs()
        major = kind != "RNN" and options.TimeMajor()
        return {"activation": name, "time_major": bool(major), "merged": bool(merged)}

    return read


def _shapes(operator: HostOperator, attributes: Attributes) -> Sequence[Shape]:
    source, layers = operator.sources[0], _directions(operator.sources[1:])
    count = 2 if operator.kind == "BIDIRECTIONAL_SEQUENCE_RNN" else 1
    require(len(layers) == count and len(layers[-1]) == _OPERANDS, f"{1 + 4 * count} inputs")
    attributes.name("activation", ACTIVATIONS)
    rank = 2 if operator.kind == "RNN" else 3
    require(len(source.shape) == rank, f"an input of {rank} dimensions", source.shape)
    batch = source.shape[1 if attributes.flag("time_major") and rank == 3 else 0]
    for weights, recurrent, bias, state in layers:
        constants = (weights, recurrent, bias)
        types = {operand.dtype for operand in (*constants, state)}
        require(types == {"float32"}, "float32 throughout", sorted(types))
        require(
            all(constant.data is not None for constant in constants), "constant weights and bias"
        )
        require(state.data is None, "a computed state")
        cells, shapes = bias.shape[:1], [operand.shape for operand in (*constants, state)]
        required = [(*cells, source.shape[-1]), (*cells, *cells), cells, (batch, *cells)]
        require(shapes == required, f"shapes {required}", shapes)
    widths = [layer[2].shape[0] for layer in layers]
    widths = [sum(widths)] if attributes.flag("merged") else widths
    states = [layer[3].shape for layer in layers]
    return [*((*source.shape[:-1], width) for width in widths), *states]


def _directions(operands: Sequence[Any]) -> list[Sequence[Any]]:
    """Return the operands of each direction."""
    return [operands[n : n + _OPERANDS] for n in range(0, len(operands), _OPERANDS)]


def _run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    attributes = operator.attributes
    x, *constants = arrays
    # Time before batch.
    x = x[None] if x.ndim == 2 else x if attributes["time_major"] else x.swapaxes(0, 1)
    results, states = [], []
    for way, (weights, recurrent, bias, h) in zip((1, -1), _directions(constants), strict=False):
        outputs = []
        for step in x[::way]:
            total = summed(step[:, None] * weights, bias)
            h = activated(summed(h[:, None] * recurrent, total), attributes["activation"])
            outputs.append(h)
        y = np.stack(outputs[::way])
        y = y.swapaxes(0, 1) if not attributes["time_major"] else y
        results.append(y)
        states.append(h)
    results = [np.concatenate(results, axis=-1)] if attributes["merged"] else results
    shapes = (operand.shape for operand in operator.results)
    return [y.reshape(shape) for y, shape in zip((*results, *states), shapes, strict=True)]


def _record(kind: str, states: tuple[int, ...], host: str) -> Operator:
    return Operator(
        kind=kind,
        shapes=_shapes,
        read=_reader(kind),
        operands=tuple(range(states[-1] + 1)),
        types=FLOAT,
        weighted=True,
        takes_batch=True,
        states=states,
        kernel=each_sample(_run),
        host=host,
    )


_HOST = "float32, constant weights; its state is kept"

OPERATORS = (
    _record("RNN", (4,), _HOST),
    _record("UNIDIRECTIONAL_SEQUENCE_RNN", (4,), _HOST),
    _record("BIDIRECTIONAL_SEQUENCE_RNN", (4, 8), f"{_HOST}; without an auxiliary input"),
)
