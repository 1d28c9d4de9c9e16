"""Arithmetic on two tensors that broadcast, computed or constant: the bytes of LiteRT."""

from typing import Any

import numpy as np
import pytest
from all_options import NANO_WITH_ALL
from conformance import differences
from networks import Chain, Constant
from random_networks.cases import Case
from random_networks.draw import Draw
from test_products import OPTION, check, on_core

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import Part
from celosia.sw.ir.program import Program

pytestmark = pytest.mark.usefixtures("litert")

Shape = tuple[int, ...]

KINDS = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM")


def pair(
    kind: str,
    first: Shape,
    second: Shape,
    rng: np.random.Generator,
    *,
    constant: bool = False,
    turned: bool = False,
    batch: int = 2,
) -> Case:
    """Return two invocations of an operator on an input and on another one, or a constant.

    ``turned``: the operands change places. The first result of a chain is no view of an input.
    """
    chain = Chain(first, 0.05, 3)
    chain.operator("LOGISTIC", first, scale=1 / 256, zero_point=-128)
    one, inputs = chain.number, [rng.integers(-128, 128, (2, *first)).astype(np.int8)]
    extreme = kind in ("MAXIMUM", "MINIMUM")
    about = (1 / 256, -128) if extreme else (0.01, -7)
    if constant:
        other: Any = Constant(rng.integers(-128, 128, second).astype(np.int8), *about)
    else:
        other = chain.input("second", second, *about)
        inputs.append(rng.integers(-128, 128, (2, *second)).astype(np.int8))
    operands = [other, one] if turned else [one, other]
    scale, zero = about if extreme else (0.01 if kind != "MUL" else 0.005, 9)
    shape = np.broadcast_shapes(first, second)
    chain.operator(kind, shape, inputs=operands, scale=scale, zero_point=zero)
    return Case(0, kind, chain.graph(), tuple(inputs), batch)


def program_of(case: Case, sizes: str) -> Program:
    return compile_graph(load(case.content), preset(sizes), case.batch)


def drawn(seed: int) -> Case:
    """Return an operator on random shapes: any dimension of either may be 1."""
    draw = Draw(seed)
    rank = draw.integer(2, 4)
    whole = 1, *(draw.integer(1, 9) for _ in range(rank - 2)), draw.few(40)
    shapes = [
        tuple(1 if draw.chance(0.25) else extent for extent in whole),
        tuple(1 if draw.chance(0.25) else extent for extent in whole),
    ]
    constant = draw.chance(0.5)
    if constant and draw.chance(0.3):
        shapes[1] = shapes[1][draw.integer(1, rank - 1) :]
    kind = draw.one_of(*KINDS)
    about: dict[str, Any] = {"constant": constant, "turned": draw.chance(0.3)}
    first, second = shapes
    return pair(kind, first, second, draw.rng, batch=draw.integer(1, 4), **about)


@pytest.mark.parametrize("sizes", ["nano", "micro", "edge", "pico", "edge,columns=8"])
def test_random_pairs(sizes: str) -> None:
    for seed in range(24):
        assert differences(drawn(seed), preset(sizes + OPTION), "machine") == "", seed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "constant"),
    [
        # Computed: rows, columns, channels, or several of them, of either one.
        ((1, 5, 6, 9), (1, 1, 1, 9), False),
        ((1, 5, 6, 9), (1, 5, 6, 1), False),
        ((1, 5, 6, 1), (1, 1, 6, 9), False),
        ((1, 49, 64), (1, 49, 1), False),
        ((1, 49, 1), (1, 49, 64), False),
        ((1, 9), (1, 9), False),
        # Constants: for each channel, row, column, pixel, element; of fewer dimensions.
        ((1, 5, 6, 9), (9,), True),
        ((1, 5, 6, 9), (6, 9), True),
        ((1, 5, 6, 9), (1, 5, 1, 9), True),
        ((1, 5, 6, 9), (1, 5, 6, 1), True),
        ((1, 16, 24), (16, 24), True),
        ((1, 16, 1), (24,), True),
        ((1, 70), (1, 70), True),
    ],
)
def test_pairs_on_the_core(
    kind: str, turned: bool, first: Shape, second: Shape, constant: bool, rng: np.random.Generator
) -> None:
    for batch in (1, 3):
        case = pair(kind, first, second, rng, constant=constant, turned=turned, batch=batch)
        check(case, "micro" + OPTION)


def test_a_constant_lies_once_in_memory(rng: np.random.Generator) -> None:
    """Samples of a batch read the same bytes of external memory."""
    case = pair("ADD", (1, 5, 6, 9), (5, 6, 9), rng, constant=True, batch=4)
    program = program_of(case, "micro")
    (segment,) = (each for each in program.segments if each.name.startswith("values"))
    assert len(segment.data) == 5 * 6 * 9
    assert len(program.inputs) == 1


def test_a_repeated_row_is_not_copied(rng: np.random.Generator) -> None:
    case = pair("ADD", (1, 5, 6, 9), (1, 1, 1, 9), rng)
    (part,) = program_of(case, "micro").steps
    assert isinstance(part, Part)
    assert [layer.kind for layer in program_of(case, "micro").layers] == ["LOGISTIC", "ADD"]


def test_products_by_channel_need_no_option(rng: np.random.Generator) -> None:
    assert on_core(pair("MUL", (1, 5, 6, 9), (9,), rng, constant=True), "nano")
    assert on_core(pair("MUL", (1, 16, 1), (24,), rng, constant=True), "nano")
    assert not on_core(pair("MUL", (1, 5, 6, 9), (6, 9), rng, constant=True), "nano")


def test_a_constant_larger_than_memory_is_added_on_the_host(rng: np.random.Generator) -> None:
    case = pair("ADD", (1, 40, 40, 16), (40, 40, 16), rng, constant=True)
    assert differences(case, preset("nano,unified_bytes=2048"), "machine") == ""


def test_pairs_on_the_rtl(verilator: None) -> None:
    for seed in range(6):
        assert differences(drawn(seed), preset(NANO_WITH_ALL), "rtl") == "", seed
