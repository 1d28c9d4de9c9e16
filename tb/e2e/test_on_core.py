"""Single operators that the core runs: random cases against LiteRT's kernels, none on the host."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from conformance import assert_equal, differences
from networks import Chain, Constant, Pool, Resize, TransposedConvolution
from random_networks.cases import Case
from random_networks.draw import Draw

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.legalise import legalise
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import HostOperator

pytestmark = pytest.mark.usefixtures("litert")

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
    unit = float(np.float32(draw.chain.scale) * np.float32(constant.scale))
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


def matrices(draw: Draw) -> None:
    """BATCH_MATMUL by one constant matrix, after nothing or another one."""
    batch = (1, draw.few(6)) if draw.chance(0.5) else (1,)
    shape = (*batch[: draw.integer(0, 2)], draw.few(9), draw.few(30))
    draw.chain = Chain(shape, draw.scale(), draw.zero_point())
    for _ in range(draw.integer(1, 2)):
        depth, columns, turned = draw.chain.last.shape[-1], draw.few(30), draw.chance(0.5)
        matrix = draw.int8((columns, depth) if turned else (depth, columns))
        ones = [1] * draw.integer(0, len(draw.chain.last.shape) - 2)
        constant = Constant(matrix.reshape(*ones, *matrix.shape), draw.scale(), draw.zero_point())
        scale = draw.about(draw.chain.scale * constant.scale * 100 * np.sqrt(depth))
        shape = (*draw.chain.last.shape[:-1], columns)
        printed = {"scale": scale, "zero_point": draw.zero_point(), "adjX": False, "adjY": turned}
        draw.chain.operator("BATCH_MATMUL", shape, [constant], **printed)


def sums(draw: Draw) -> None:
    """SUM or MEAN of int8 or uint8 over rows, columns, both, or channels."""
    shape = (
        (1, *draw.pair(12), draw.few(20)) if draw.chance(0.7) else (1, draw.few(40), draw.few(9))
    )
    dtype, rank = draw.one_of("int8", "uint8"), len(shape)
    shift = 128 * (dtype == "uint8")
    draw.chain = Chain(shape, draw.scale(), draw.zero_point() + shift, dtype)
    choices = [(1,), (rank - 1,), (1, 2), (2,)] if rank == 4 else [(1,), (2,)]
    axes = choices[draw.integer(0, len(choices) - 1)]
    count = math.prod(shape[axis] for axis in axes)
    kind, keep = draw.one_of("SUM", "SUM", "MEAN"), draw.chance(0.5)
    left = [1 if n in axes else extent for n, extent in enumerate(shape)]
    left = left if keep else [extent for n, extent in enumerate(shape) if n not in axes]
    size = math.sqrt(count) if kind == "SUM" else 1 / math.sqrt(count)
    scale = draw.about(draw.chain.scale * size)
    zero_point = draw.zero_point() + shift
    printed = {"scale": scale, "zero_point": zero_point, "keepDims": keep}
    draw.chain.operator(kind, left, [Constant(list(axes))], **printed)


def nearest(draw: Draw) -> None:
    """RESIZE_NEAREST_NEIGHBOR to any size, to twice the size in half of the cases."""
    shape = (1, *draw.pair(9), draw.few(40))
    draw.chain = Chain(shape, draw.scale(), draw.zero_point())
    size = (2 * shape[1], 2 * shape[2]) if draw.chance(0.5) else draw.pair(20)
    way = draw.one_of("", "align_corners", "half_pixel_centers")
    Resize(kind="RESIZE_NEAREST_NEIGHBOR", size=size, **({way: True} if way else {})).add(
        draw.chain
    )
    if draw.chance(0.5):
        Pool(window=(1, 2), stride=(1, 1), padding="SAME").add(draw.chain)


def transposed(draw: Draw) -> None:
    """TRANSPOSE_CONV at any stride, with a bias or without."""
    depth, channels = draw.few(20), draw.few(20)
    taps, stride = (draw.integer(1, 4), draw.integer(1, 4)), draw.pair(3)
    draw.chain = Chain((1, *draw.pair(6), depth), draw.scale(), draw.zero_point())
    scales = draw.rng.uniform(0.004, 0.02, channels).astype(np.float32)
    bias = draw.rng.integers(-999, 999, channels).astype(np.int32) if draw.chance(0.5) else None
    scale = draw.about(draw.chain.scale * 0.01 * 80 * math.sqrt(depth * math.prod(taps)))
    TransposedConvolution(
        weights=draw.int8((channels, *taps, depth)),
        weight_scale=scales,
        bias=bias,
        stride=stride,
        padding=draw.one_of("SAME", "VALID"),
        output_scale=scale,
        output_zero_point=draw.zero_point(),
    ).add(draw.chain)


def repeated(draw: Draw) -> None:
    """ADD, SUB, MAXIMUM or MINIMUM of an image and one of its size, or a row, column or pixel."""
    shape = (1, draw.integer(2, 9), draw.integer(2, 9), draw.few(20))
    draw.chain = Chain(shape, draw.scale(), draw.zero_point())
    cut = [(1, 1), (1, shape[2]), (shape[1], 1), shape[1:3]][draw.integer(0, 3)]
    window = (shape[1] // cut[0], shape[2] // cut[1])
    kind = draw.one_of("MAX_POOL_2D", "AVERAGE_POOL_2D")
    Pool(kind=kind, window=window, stride=window, padding="VALID").add(draw.chain)
    pair = [0, draw.chain.number]
    pair = pair[::-1] if draw.chance(0.5) else pair
    kind, printed = draw.one_of("ADD", "SUB", "MAXIMUM", "MINIMUM"), {}
    if kind in ("ADD", "SUB"):
        printed = {"scale": draw.about(draw.chain.scale * 1.5), "zero_point": draw.zero_point()}
    draw.chain.operator(kind, shape, inputs=pair, **printed)


MAKERS = (scaled, unsigned, matrices, sums, nearest, transposed, repeated)


def drawn(make: Callable[[Draw], None], seed: int) -> Case:
    """Return a case of random inputs of the whole type."""
    draw = Draw(seed)
    make(draw)
    source = draw.chain.tensor(0)
    low, high = np.iinfo(source.dtype).min, np.iinfo(source.dtype).max
    values = draw.rng.integers(low, high, (3, *source.shape), source.dtype, endpoint=True)
    return Case(seed, make.__name__, draw.chain.graph(), (values,), draw.integer(1, 2))


def check(make: Callable[[Draw], None], seed: int, sizes: str, device: str = "machine") -> bool:
    """Compare a case with LiteRT; return whether the core runs all of it."""
    one = drawn(make, seed)
    assert differences(one, preset(sizes), device) == "", seed
    steps = legalise(load(one.content), preset("transformer")).steps
    notes = [step.note for step in steps if isinstance(step, HostOperator)]
    assert all("a factor that 31 bits round" in note for note in notes), (seed, notes)
    return not notes


@pytest.mark.parametrize(
    ("seeds", "least"), [(range(16), 15), pytest.param(range(16, 316), 290, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("make", MAKERS)
def test_machine(make: Callable[[Draw], None], seeds: range, least: int) -> None:
    assert sum(check(make, seed, SIZES[seed % len(SIZES)]) for seed in seeds) >= least


def test_halves_between_pixels_round_up(rng: np.random.Generator) -> None:
    """Six pixels at aligned corners of eleven: every second one lies between two."""
    chain = Chain((1, 6, 3, 5), 0.1, 3)
    Resize(kind="RESIZE_NEAREST_NEIGHBOR", size=(11, 5), align_corners=True).add(chain)
    x = rng.integers(-128, 128, (2, 1, 6, 3, 5)).astype(np.int8)
    assert_equal(chain.graph(), x, sizes="micro")


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS)
def test_rtl(make: Callable[[Draw], None], verilator: None) -> None:
    assert sum(check(make, seed, "micro", "rtl") for seed in range(10)) >= 9
