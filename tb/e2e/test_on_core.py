"""Single operators that the core runs: random cases against LiteRT's kernels, none on the host."""

from collections.abc import Callable

import numpy as np
import prerequisites
import pytest
from cases import Case
from conformance import differences
from draw import Draw
from networks import Chain, Constant

from celosia.hw.arch.config import preset
from celosia.sw.compiler.partition import partition
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import HostOperator

SIZES = ("nano", "micro", "edge", "micro,columns=12,lanes=4")


def scaled(draw: Draw) -> None:
    """MUL by a constant for each channel less a zero point at either end, then ADD of another."""
    shape = (1, draw.few(6), draw.few(6), draw.integer(2, 40))
    draw.chain = Chain(shape, draw.scale(), draw.zero_point())
    factor = draw.rng.integers(-128, 128, shape[-1]).astype(np.int8)
    # The greatest distance from the zero point, on which all bits of two int8 are not enough.
    factor[draw.integer(0, shape[-1] - 1)] = 127
    factor[draw.integer(0, shape[-1] - 1)] = -128
    size = draw.scale()
    constant = Constant(factor, size, int(draw.rng.choice([-128, 127])))
    output = draw.about(draw.chain.scale * size * 150)
    draw.chain.operator("MUL", None, [constant], scale=output, zero_point=draw.zero_point())
    if draw.chance(0.5):
        size = draw.near(output)
        constant = Constant(draw.int8(shape[-1:]), size, draw.zero_point())
        kind, scale = draw.one_of("ADD", "SUB"), draw.about(output * 1.5)
        draw.chain.operator(kind, None, [constant], scale=scale, zero_point=draw.zero_point())


def unsigned(draw: Draw) -> None:
    """CONV_2D of uint8 whose weights are up to 255 less their zero point."""
    depth, channels, side = draw.few(20), draw.few(20), draw.integer(1, 3)
    shape = (1, side + draw.few(5), side + draw.few(5), depth)
    draw.chain = Chain(shape, draw.scale(), draw.zero_point() + 128, "uint8")
    weights = draw.rng.integers(0, 256, (channels, side, side, depth)).astype(np.uint8)
    weights.reshape(-1)[:: draw.integer(1, 50)] = 255
    constant = Constant(weights, draw.scale(), int(draw.rng.choice([0, 255, 3])))
    unit = np.float32(draw.chain.scale) * np.float32(constant.scale)
    bias = Constant(draw.rng.integers(-9999, 9999, channels).astype(np.int32), unit)
    scale = draw.about(draw.chain.scale * constant.scale * 6000 * side * np.sqrt(depth))
    rows, columns = (extent - side + 1 for extent in shape[1:3])
    options = {"padding": "VALID", "dilationHFactor": 1, "dilationWFactor": 1}
    draw.chain.operator(
        "CONV_2D",
        (1, rows, columns, channels),
        [constant, bias],
        scale=scale,
        zero_point=draw.zero_point() + 128,
        strideH=1,
        strideW=1,
        **options,
    )


MAKERS = (scaled, unsigned)


def drawn(make: Callable[[Draw], None], seed: int) -> Case:
    """Return a case of random inputs of the whole type."""
    draw = Draw(seed)
    make(draw)
    source = draw.chain.tensor(0)
    low, high = np.iinfo(source.dtype).min, np.iinfo(source.dtype).max
    values = draw.rng.integers(low, high, (3, *source.shape), source.dtype, endpoint=True)
    return Case(seed, make.__name__, draw.chain.graph(), (values,), draw.integer(1, 2))


def check(make: Callable[[Draw], None], seed: int, sizes: str, device: str = "machine") -> None:
    one = drawn(make, seed)
    for step in partition(load(one.content)).steps:
        assert not isinstance(step, HostOperator), (seed, step.kind, step.note)
    assert differences(one, preset(sizes), device) == "", seed


@pytest.fixture(autouse=True)
def litert_is_there() -> None:
    prerequisites.package("ai_edge_litert.interpreter")


@pytest.mark.parametrize("make", MAKERS)
def test_some(make: Callable[[Draw], None]) -> None:
    for seed in range(16):
        check(make, seed, SIZES[seed % len(SIZES)])


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS)
def test_many(make: Callable[[Draw], None]) -> None:
    for seed in range(16, 316):
        check(make, seed, SIZES[seed % len(SIZES)])


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS)
def test_rtl(make: Callable[[Draw], None], verilator: None) -> None:
    for seed in range(10):
        check(make, seed, "micro", "rtl")
