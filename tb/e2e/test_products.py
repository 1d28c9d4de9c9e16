"""MUL and SQUARED_DIFFERENCE of two computed values: bytes of LiteRT's reference kernels."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from all_options import NANO_WITH_ALL
from conformance import differences
from networks import Chain
from random_networks.cases import Case
from random_networks.draw import Draw

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import HostOperator

pytestmark = pytest.mark.usefixtures("litert")

OPTION = ",elementwise_products=true"
KINDS = ("MUL", "SQUARED_DIFFERENCE")
ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


class Factors(NamedTuple):
    """A MUL or SQUARED_DIFFERENCE of two inputs."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    zeros: tuple[int, int, int] = (3, -5, 7)  #: Zero points of the inputs and of the result.
    scales: tuple[float, float, float] = (0.05, 0.03, 0.1)
    activation: str = "NONE"  #: Of MUL only.
    batch: int = 2
    kind: str = "MUL"

    def case(self, rng: np.random.Generator) -> Case:
        """Return three invocations; the last one has the greatest factors."""
        shapes = self.first, self.second
        chain = Chain(self.first, self.scales[0], self.zeros[0])
        second = chain.input("second", self.second, self.scales[1], self.zeros[1])
        about: dict[str, Any] = {"scale": self.scales[2], "zero_point": self.zeros[2]}
        result = np.broadcast_shapes(*shapes)
        if self.kind == "MUL":
            about["fusedActivationFunction"] = self.activation
        chain.operator(self.kind, result, inputs=[0, second], **about)
        inputs = [rng.integers(-128, 128, (3, *shape)).astype(np.int8) for shape in shapes]
        for values in inputs:
            values[2] = rng.choice(np.array([-128, 127], np.int8), values.shape[1:])
        return Case(0, self.kind, chain.graph(), tuple(inputs), self.batch)


def drawn(seed: int) -> Case:
    """Return a MUL of random shapes, scales, zero points and activation."""
    draw = Draw(seed)
    shape, second = drawn_shapes(draw)
    scales = draw.scale(), draw.scale()
    result = draw.about(scales[0] * scales[1] * float(draw.rng.uniform(20, 200)))
    zeros = draw.zero_point(), draw.zero_point(), draw.zero_point()
    activation = draw.one_of(*ACTIVATIONS, "NONE", "NONE")
    factors = Factors(shape, second, zeros, (*scales, result), activation, draw.integer(1, 4))
    return factors.case(draw.rng)


def drawn_difference(seed: int) -> Case:
    """Return a SQUARED_DIFFERENCE of random shapes, scales and zero points.

    Scales of the inputs are often equal, or far apart. Results saturate in many models.
    """
    draw = Draw(seed)
    shape, second = drawn_shapes(draw)
    scale = draw.scale()
    far = float(2.0 ** draw.rng.uniform(-12, 12))
    other = [scale, draw.scale(), draw.about(scale * far)][draw.integer(0, 2)]
    # At least 1/4096 of the greater scale squared.
    result = draw.about(max(scale, other) ** 2 * float(2.0 ** draw.rng.uniform(-11, 10)))
    zeros = draw.zero_point(), draw.zero_point(), draw.zero_point()
    scales = scale, other, result
    batch = draw.integer(1, 4)
    factors = Factors(shape, second, zeros, scales, batch=batch, kind="SQUARED_DIFFERENCE")
    return factors.case(draw.rng)


def drawn_shapes(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two shapes that the core combines."""
    rank = draw.integer(2, 4)
    shape = 1, *(draw.integer(1, 12) for _ in range(rank - 2)), draw.few(70)
    second = shape
    if rank == 4 and draw.chance(0.4):
        extents = (1 if draw.chance(0.6) else extent for extent in shape[1:3])
        second = 1, *extents, shape[3]
    if draw.chance(0.2):
        shape, second = second, shape
    return shape, second


def on_core(case: Case, sizes: str) -> bool:
    """Return True if the core computes all of a case."""
    program = compile_graph(load(case.content), preset(sizes), case.batch)
    return not any(isinstance(step, HostOperator) for step in program.steps)


def check(case: Case, sizes: str, core: bool = True) -> None:
    """Compare a case with LiteRT; ``core``: the core computes all of it."""
    assert on_core(case, sizes) == core
    assert differences(case, preset(sizes), "machine") == "", case.seed


@pytest.mark.parametrize("sizes", ["nano", "micro", "edge", "pico", "edge,columns=8"])
@pytest.mark.parametrize("draw", [drawn, drawn_difference])
def test_random_products(sizes: str, draw: Callable[[int], Case]) -> None:
    for seed in range(12):
        check(draw(seed), sizes + OPTION)


@pytest.mark.parametrize("zeros", [(-128, -128, -128), (127, 127, 0), (-128, 127, -1)])
@pytest.mark.parametrize(
    ("kind", "scales"),
    [
        ("MUL", (1.0, 1.0, 512.0)),  # Exact halves.
        ("MUL", (0.5, 0.25, 0.0625)),  # A factor above 1.
        ("MUL", (0.01, 0.01, 1.0)),  # A result of nearly nothing.
        ("MUL", (1 / 256, 0.02, 0.011)),
        ("SQUARED_DIFFERENCE", (1.0, 1.0, 512.0)),  # Exact halves; the greatest differences.
        # The greatest factor: most results saturate.
        ("SQUARED_DIFFERENCE", (1.0, 1.0, 1.0 / 4095)),
        ("SQUARED_DIFFERENCE", (0.5, 0.375, 1.0)),  # Halves in the second input.
        # Halves in the first one, before its shift.
        ("SQUARED_DIFFERENCE", (129 / 256, 1.0, 300.0)),
        # Of the second input nearly nothing; of the first one nothing.
        ("SQUARED_DIFFERENCE", (1.0, 2.0**-20, 256.0)),
        ("SQUARED_DIFFERENCE", (2.0**-31, 1.0, 3.0)),
    ],
)
def test_roundings(
    kind: str,
    zeros: tuple[int, int, int],
    scales: tuple[float, float, float],
    rng: np.random.Generator,
) -> None:
    shape = (1, 9, 7, 16)
    check(Factors(shape, shape, zeros, scales, kind=kind).case(rng), "edge" + OPTION)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("scales", [(0.5, 0.375), (0.05, 0.03), (129 / 256, 1.0)])
def test_differences_of_all_pairs(scales: tuple[float, float], swapped: bool) -> None:
    """Each pair of int8, so that every half is met."""
    first, second = scales[::-1] if swapped else scales
    shape, zeros = (1, 32, 64), (-128, 17, -128)
    all_scales = first, second, max(scales) ** 2 * 37
    factors = Factors(shape, shape, zeros, all_scales, batch=4, kind="SQUARED_DIFFERENCE")
    numbers = np.arange(-128, 128, dtype=np.int8)
    pairs = [array.reshape(-1, *shape) for array in np.meshgrid(numbers, numbers)]
    check(replace(factors.case(np.random.default_rng(0)), inputs=tuple(pairs)), "edge" + OPTION)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("first", "second", "core"),
    [
        ((1, 5, 6, 9), (1, 1, 1, 9), True),
        ((1, 1, 1, 9), (1, 5, 6, 9), True),
        ((1, 5, 6, 9), (1, 5, 1, 9), True),
        ((1, 5, 6, 9), (1, 1, 6, 9), True),
        ((1, 5, 6, 9), (1, 5, 6, 1), True),
        # Fewer dimensions run on the host.
        ((1, 5, 6, 9), (6, 9), False),
    ],
)
def test_what_broadcasts(
    first: tuple[int, ...], second: tuple[int, ...], core: bool, kind: str, rng: np.random.Generator
) -> None:
    check(Factors(first, second, kind=kind).case(rng), "micro" + OPTION, core)


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_option_the_host_multiplies(kind: str, rng: np.random.Generator) -> None:
    case = Factors((1, 4, 4, 8), (1, 4, 4, 8), kind=kind).case(rng)
    program = compile_graph(load(case.content), preset("nano"), 1)
    (step,) = program.steps
    assert isinstance(step, HostOperator)
    assert (
        step.note == "the core lacks the option `elementwise_products`; preset `transformer` has it"
    )
    assert differences(case, preset("nano"), "machine") == ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_with_itself(kind: str, rng: np.random.Generator) -> None:
    """Both inputs are one value."""
    chain = Chain((1, 6, 5, 9), 0.05, 11)
    chain.operator(kind, inputs=[0, 0], scale=0.3, zero_point=-20)
    inputs = rng.integers(-128, 128, (2, 1, 6, 5, 9)).astype(np.int8)
    check(Case(0, kind, chain.graph(), (inputs,), 2), "nano" + OPTION)


@pytest.mark.parametrize("sizes", [NANO_WITH_ALL, "pico" + OPTION])
@pytest.mark.parametrize("draw", [drawn, drawn_difference])
def test_products_on_the_rtl(sizes: str, draw: Callable[[int], Case], verilator: None) -> None:
    for seed in range(3):
        assert differences(draw(seed), preset(sizes), "rtl") == "", seed
