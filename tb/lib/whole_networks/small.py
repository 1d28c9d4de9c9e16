"""A small network of most kinds of layers, some of the host, and its compilation."""

from functools import cache
from typing import Any

import networks as w
import numpy as np

from celosia.hw.arch.isa import Rounding
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.compiler.compiled import Compiled
from celosia.sw.frontend.tflite import load
from celosia.sw.layers.spec import MatrixLayer, Pool
from celosia.sw.layers.values import Scaling


def convolution(channels: int, size: int, depth: int, **changes: Any) -> w.Convolution:
    rng = np.random.default_rng(channels)
    values: dict[str, Any] = {
        "weights": rng.integers(-127, 128, (channels, size, size, depth)).astype(np.int8),
        "weight_scale": 0.01,
        "output_scale": 0.5,
        "padding": "SAME",
        "stride": (1, 1),
    }
    return w.Convolution(**values | changes)


def alone(
    channels: int = 1, kernel: tuple[int, int] = (1, 1), depth: int = 1, **changes: Any
) -> MatrixLayer:
    """Return a product of one pixel as the compiler knows it, whose weights are zeros."""
    zeros = np.zeros(channels, np.int64)
    numbers = {"bias": zeros, "multiplier": zeros, "left": zeros, "right": zeros}
    kept = {"rounding": Rounding.DOUBLE, "zero_point": 0, "low": -128, "high": 127}
    values: dict[str, Any] = {
        **{"name": "layer", "kind": "CONV_2D", "place": 0, "source": 0, "result": 1, "macs": 0},
        **{"origin": (0, 0), "stride": (1, 1), "dilation": (1, 1), "grid": (1, 1)},
        **{"kernel": kernel, "pool": Pool(window=(1, 1), stride=(1, 1))},
        "weights": np.zeros((channels, *kernel, depth), np.int8),
        "scaling": Scaling(**numbers, **kept),
    }
    return MatrixLayer(**values | changes)


def dense(channels: int, taps: int) -> w.FullyConnected:
    rng = np.random.default_rng(channels)
    weights = rng.integers(-127, 128, (channels, taps)).astype(np.int8)
    return w.FullyConnected(weights=weights, weight_scale=0.01, output_scale=0.5)


#: Padded and not, pooled alone and with sums, with an operator of the host.
LAYERS: tuple[w.Layer, ...] = (
    *(convolution(8, 3, 1), convolution(12, 3, 8, padding="VALID"), w.Pool()),
    *(w.Pool(kind="AVERAGE_POOL_2D", padding="SAME"), w.Reshape(shape=(1, 108)), dense(20, 108)),
    *(dense(10, 20), w.Softmax()),
)


@cache
def compiled(sizes: str, batch: int) -> Compiled:
    graph = load(w.write_sequential(LAYERS, input_shape=(1, 14, 14, 1), input_scale=0.5))
    return compile_steps(graph, preset(sizes), batch)


def through_memory(*, joined: bool = False) -> bytes:
    """Return a model of values that a small core keeps outside, one of them made by channels.

    ``joined``: that one is an output, too.
    """

    def layer(channels: int, size: int, depth: int, **changes: Any) -> w.Convolution:
        small = convolution(channels, size, depth).weights // 8
        biased = {"weights": small, "bias": np.zeros(channels, np.int32), "output_zero_point": -3}
        return convolution(channels, size, depth, **biased, **changes)

    chain = w.Chain((1, 24, 12, 8), 0.5, 4)
    layer(8, 1, 8).add(chain)
    first = chain.number
    chain.back_to(0)
    layer(8, 3, 8).add(chain)
    chain.operator("CONCATENATION", (1, 24, 12, 16), inputs=[first, chain.number], axis=3)
    outputs = (chain.number,) * joined
    layer(8, 1, 16, stride=(2, 2)).add(chain)
    layer(4, 3, 8).add(chain)
    return w.serialize(chain.graph(*outputs, chain.number))


def two_signatures() -> bytes:
    """Return a model of two subgraphs with a signature each, and a third, ``c``, without one."""
    first, second, third = (w.Chain((1, 6), 0.5) for _ in range(3))
    first.operator("RELU")
    second.operator("RELU6")
    second.operator("RESHAPE", (1, 2, 3), [w.Constant(np.array([-1, 2, 3], np.int32))])
    third.operator("RELU_N1_TO_1")
    ends = (("encode", "x", "y"), ("decode", "y", "z"))
    graphs = [first.graph(), second.graph(name="b"), third.graph(name="c")]
    signatures = [
        w.Signature(key, number, ((one, graph.inputs[0]),), ((other, graph.outputs[0]),))
        for number, (graph, (key, one, other)) in enumerate(zip(graphs, ends, strict=False))
    ]
    return w.serialize(*graphs, signatures=signatures)
