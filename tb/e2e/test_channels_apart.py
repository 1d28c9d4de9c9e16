"""Channels that the core cannot round like the kernel: the host runs those alone."""

import numpy as np
import onnx_operator as o
import pytest
from agreement import compare
from networks import FullyConnected, write_fully_connected

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.operators.work import macs

#: No multiplier of 31 bits rounds a sum of 74 and its odd multiples as float64 does.
INPUT, WEIGHT, OUTPUT = 0.1875, 1.34375, 0.8671875
CHANNELS = 24


def dense(rng: np.random.Generator, refused: list[int], taps: int = 3) -> FullyConnected:
    weights = rng.integers(-3, 4, (CHANNELS, taps)).astype(np.int8)
    scales = np.full(CHANNELS, 0.5)
    weights[refused], scales[refused] = 1, WEIGHT
    bias = np.arange(CHANNELS, dtype=np.int32) - 5
    return FullyConnected(
        weights=weights, weight_scale=scales, bias=bias, output_scale=OUTPUT, output_zero_point=3
    )


def rows(rng: np.random.Generator, scale: float) -> FullyConnected:
    weights = rng.integers(-9, 10, (3, CHANNELS)).astype(np.int8)
    return FullyConnected(weights=weights, weight_scale=0.1, output_scale=scale)


@pytest.mark.parametrize(
    ("refused", "on_host"),
    [
        ([3], 1),
        ([0], 1),
        ([CHANNELS - 1], 1),
        ([3, 4, 9], 3),
        ([1, 4, 12, 15, 17, 20], 10),  # Of too many layers, those of few channels are the host's.
        ([*range(0, CHANNELS, 2)], 20),
        ([*range(CHANNELS)], CHANNELS),
    ],
)
def test_fully_connected(refused: list[int], on_host: int, rng: np.random.Generator) -> None:
    """Alone; between other layers, whose samples are rows."""
    x = rng.integers(-128, 128, (60, 2, 3)).astype(np.int8)
    for before, after in ((0, 0), (1, 1)):
        layers = [rows(rng, INPUT)] * before + [dense(rng, refused)] + [rows(rng, 0.9)] * after
        if before:
            x = rng.integers(-128, 128, (60, 2, CHANNELS)).astype(np.int8)
        content = write_fully_connected(layers, input_scale=INPUT, batch=2)
        program = compare(content, x, sizes="edge", batch=3)
        assert sum(map(macs, program.host)) == 3 * on_host


@pytest.mark.parametrize("kind", ["Conv", "MatMul"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_onnx_runtime(kind: str, dtype: type) -> None:
    """A scale that is too small for a shift."""
    weights = o.weights(5, 6, axis=1) if kind == "MatMul" else o.weights(6, 4, 3, 3, axis=0)
    weights.scales[2] = 1e-12
    shapes = [(4, 5)] if kind == "MatMul" else []
    case = o.case(kind, *shapes, constants={1: weights})
    assert o.differences(case, dtype)[0] == 0
    program = compile_graph(load(o.model(case, dtype).SerializeToString()), preset("edge"))
    on_host = sum(map(macs, program.host))
    assert 0 < 5 * on_host == program.macs
