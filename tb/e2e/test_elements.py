"""Functions of each element: the bytes of LiteRT's reference kernels, every lane in use."""

from typing import Any

import networks as w
import numpy as np
import pytest
from agreement import compare, compare_cycles
from networks import Layer

from celosia.hw.arch.isa import Opcode

pytestmark = pytest.mark.usefixtures("litert")

OTHER: dict[str, Any] = {"output_scale": 0.031, "output_zero_point": 11}
RESCALED = w.Quantize(**OTHER)
LEAKY = w.Function(kind="LEAKY_RELU", alpha=0.3, **OTHER)


def convolution(depth: int, kernel: int) -> Layer:
    weights = np.random.default_rng(3).integers(-127, 128, (5, kernel, kernel, depth))
    scales: dict[str, Any] = {"weight_scale": 0.01, "output_scale": 0.7}
    scales["bias"] = np.arange(5, dtype=np.int32)
    return w.Convolution(weights=weights.astype(np.int8), padding="SAME", **scales)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("sizes", ["edge", "nano", "micro,unified_bytes=2048"])
@pytest.mark.parametrize(
    ("layers", "channels"),
    [
        ([RESCALED], 3),
        ([RESCALED, convolution(3, 3)], 3),
        ([LEAKY, convolution(11, 1)], 11),
        ([w.Activation(kind="RELU6", **OTHER), w.Pool(padding="SAME")], 1),
        ([convolution(2, 3), w.Activation(**OTHER), w.Back(to="output_0"), LEAKY], 2),
    ],
    ids=["whole", "margins", "table", "one channel", "after a layer"],
)
def test_elements(layers, channels, sizes, batch, rng) -> None:
    shape = (1, 13, 15, channels)
    content = w.write_sequential(layers, input_shape=shape, input_scale=0.05, input_zero_point=-3)
    x = rng.integers(-128, 128, (batch, *shape)).astype(np.int8)
    compare(content, x, sizes=sizes, batch=batch)


@pytest.mark.parametrize("rows", [7, 8])
def test_as_many_elements_as_an_instruction_counts(rows, rng) -> None:
    """Rows side by side are one row up to 65,535 elements."""
    shape = (1, rows, 1 << 13, 1)
    content = w.write_sequential([RESCALED], input_shape=shape, input_scale=0.05)
    x = rng.integers(-128, 128, (1, *shape)).astype(np.int8)
    program = compare(content, x, sizes="edge,unified_bytes=131072")
    vectors = [i for i in program.main.instructions if i.opcode is Opcode.VECTOR]
    assert max(i.channels for i in vectors) == (rows << 13 if rows < 8 else 1 << 13)


@pytest.mark.parametrize(
    ("layers", "most"), [([RESCALED], 2000), ([RESCALED, convolution(3, 3)], 7000)]
)
def test_every_lane_has_an_element(layers, most, rng, verilator) -> None:
    """Pixels of three channels take the cycles of their bytes, not one each."""
    shape = (1, 40, 52, 3)
    content = w.write_sequential(layers, input_shape=shape, input_scale=0.05, input_zero_point=-3)
    x = rng.integers(-128, 128, (1, *shape)).astype(np.int8)
    cycles = compare_cycles(content, x, sizes="edge")
    assert cycles < most, cycles
