"""SVDF: a matrix layer of low rank over the present input and those of earlier invocations.

As in ``reference/svdf.h`` of LiteRT. The state holds, for each filter, the last results of the
feature weights. Each invocation appends one, multiplies by the time weights, and shifts.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.node import ModelError, Node, constant_name
from celosia.sw.layers.record import Attributes, Operator, Shape, by_type, each_sample, require
from celosia.sw.operators.fixed_point import MOST_FACTOR, single, times
from celosia.sw.operators.gates import word
from celosia.sw.operators.vectors import ACTIVATIONS, activated, summed

_STATE = 4

#: Types of input, feature weights, time weights, bias and state, by that of the input.
_TYPES = {
    "int8": ("int8", "int8", "int16", "int32", "int16"),
    "float32": ("float32",) * 5,
}


def _read(node: Node) -> dict[str, Any]:
    options = node.require_options(tflite.SVDFOptions)
    node.require_inputs(3, 5, results=None)
    source, weights = node.tensor(0), node.tensor(1)
    if source.dtype == np.float32 and weights.dtype != np.float32:
        raise ModelError("wanted weights of the input's type, got int8 weights of a float input")
    name = constant_name(tflite.ActivationFunctionType, options.FusedActivationFunction())
    return {"rank": options.Rank(), "activation": name}


def _shapes(operator: HostOperator, attributes: Attributes) -> Sequence[Shape]:
    sources = operator.sources
    require(len(sources) in (4, 5), "4 or 5 inputs", len(sources))
    source, features, times, state = *sources[:3], sources[-1]
    kinds = _TYPES[source.dtype]
    types = kinds if len(sources) == 5 else (*kinds[:3], kinds[4])
    got = tuple(operand.dtype for operand in sources)
    require(got == types, f"types {', '.join(types)}", ", ".join(got))
    require(all(operand.data is not None for operand in sources[1:-1]), "constant weights and bias")
    require(state.data is None, "a computed state")
    names = ("RELU",) if source.dtype == "int8" else ACTIVATIONS
    attributes.name("activation", names)
    shapes = [operand.shape for operand in (source, features, times)]
    require([len(shape) for shape in shapes] == [2, 2, 2], "operands of two dimensions", shapes)
    (batch, width), (filters, columns), (rows, memory) = shapes
    require(columns == width and rows == filters, "weights of one size", shapes)
    rank = attributes.integer("rank", 1, filters)
    require(filters % rank == 0, f"{filters} filters to be a multiple of the rank", rank)
    if len(sources) == 5:
        require(sources[3].shape == (filters // rank,), "a bias for each result", sources[3].shape)
    for operand in (features, times, state):
        require(operand.zero_point == 0, f"zero point 0 of {operand.name!r}", operand.zero_point)
    require(state.shape == (batch, memory * filters), "a state of all filters", state.shape)
    successor = operator.results[-1]
    require(len(operator.results) == 2, "two results", len(operator.results))
    require(successor.dtype == state.dtype, f"{state.dtype} as the next state", successor.dtype)
    require(operator.results[0].dtype == source.dtype, f"{source.dtype} as result")
    if source.dtype == "int8":
        factors = _factors(operator)
        require(all(0 < f < MOST_FACTOR for f in factors), "factors from 0 to 2^30", factors)
    return [(batch, filters // rank), state.shape]


def _factors(operator: HostOperator) -> list[float]:
    """Return the factors of features and results, in single precision."""
    source, features, weights = map(single, operator.sources[:3])
    state, output = single(operator.sources[-1]), single(operator.results[0])
    with np.errstate(all="ignore"):
        return [float(source * features / state), float(state * weights / output)]


def _run_int8(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    source, output = operator.sources[0], operator.results[0]
    first, second = (quantize_multiplier(factor) for factor in _factors(operator))
    x, kernel, over_time, state = (a.astype(np.int64) for a in (*arrays[:3], arrays[-1]))
    sums = (x - source.zero_point) @ kernel.T
    fresh = word(times(sums, *first))
    window = state.reshape(len(x), *over_time.shape)
    window[..., -1] = fresh
    # The kernel's sums wrap around.
    totals = (window * over_time).sum(axis=-1).reshape(len(x), -1, operator.attributes["rank"])
    bias = arrays[3].astype(np.int64) if len(arrays) == 5 else 0
    totals = (totals.sum(axis=-1) + bias).astype(np.int32).astype(np.int64)
    values = times(totals, *second) + output.zero_point
    return [np.clip(values, -128, 127).astype(np.int8), _shifted(window).astype(np.int16)]


def _run_float(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    x, kernel, weights, state = *arrays[:3], arrays[-1]
    window = state.reshape(len(x), *weights.shape).copy()
    window[..., -1] = summed(x[:, None] * kernel)
    sums = summed(window * weights).reshape(len(x), -1, operator.attributes["rank"])
    totals = summed(sums) + (arrays[3] if len(arrays) == 5 else np.float32(0))
    return [activated(totals, operator.attributes["activation"]), _shifted(window)]


def _shifted(window: np.ndarray) -> np.ndarray:
    """Return the next state: without the oldest results, 0 as the newest."""
    later = np.zeros_like(window)
    later[..., :-1] = window[..., 1:]
    return later.reshape(len(window), -1)


OPERATORS = (
    Operator(
        kind="SVDF",
        shapes=_shapes,
        read=_read,
        types=(("int8", "float32"), ("int8", "int16", "float32")),
        weighted=True,
        takes_batch=True,
        states=(_STATE,),
        kernel=each_sample(by_type(int8=_run_int8, plain=_run_float)),
        host="int8 with a state of int16 and RELU, or float32; constant weights; its state is kept",
    ),
)
