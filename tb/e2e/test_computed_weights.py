"""FULLY_CONNECTED of computed weights: every byte is that of LiteRT's reference kernel."""

from typing import NamedTuple

import numpy as np
import pytest
from conformance import assert_equal, differences
from networks import Chain, Constant
from random_networks.cases import Case
from turns import in_turn

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import HostOperator

pytestmark = pytest.mark.usefixtures("litert")

OPTION = ",activation_weights=true"


class Rows(NamedTuple):
    """A FULLY_CONNECTED of two inputs."""

    shape: tuple[int, ...]  #: Of the first input; the last dimension is the taps.
    channels: int
    zeros: tuple[int, int] = (0, 0)
    bias: bool = True
    activation: str = "NONE"
    keeps: bool = False  #: True if the result has the dimensions of the input.
    few_bits: bool = False  #: True if many sums are exact halves.
    dtype: str = "int8"

    def case(self, rng: np.random.Generator) -> Case:
        """Return three invocations; the last one has the largest sums."""
        taps, size = self.shape[-1], (self.channels, self.shape[-1])
        scales = (0.0625, 0.03125) if self.few_bits else (0.05, 0.03)
        more = 128 * (self.dtype == "uint8")
        chain = Chain(self.shape, scales[0], self.zeros[0] + more, self.dtype)
        weights = chain.input("weights", size, scales[1], self.zeros[1] + more, self.dtype)
        read: list[int | Constant] = [0, weights]
        unit = scales[0] * scales[1]
        scale = unit * 2 ** np.round(np.log2(100 * np.sqrt(taps))) if self.few_bits else 0
        scale = scale or unit * 150 * np.sqrt(taps)
        if self.bias:
            bias = rng.uniform(-100, 100, self.channels) * scale / unit
            read.append(Constant(bias.astype(np.int32), unit))
        rows = self.shape[:-1] if self.keeps else (int(np.prod(self.shape[:-1])),)
        printed = {"fusedActivationFunction": self.activation, "keepNumDims": self.keeps}
        about = {"scale": scale, "zero_point": -7 + more}
        chain.operator("FULLY_CONNECTED", (*rows, self.channels), inputs=read, **about, **printed)
        inputs = [
            rng.integers(-128, 128, (3, *each)).astype(np.int8) for each in (self.shape, size)
        ]
        for values in inputs:
            values[2] = rng.choice(np.array([-128, 127], np.int8), (1, *[1] * (values.ndim - 2)))
        given = [values.view(np.uint8) if more else values for values in inputs]
        return Case(0, "", chain.graph(), tuple(given), 2)


def check(rows: Rows, sizes: str, device: str, rng: np.random.Generator) -> None:
    """Compare with LiteRT: with ``activation_weights`` the core runs all of it, else the host."""
    case, config = rows.case(rng), preset(sizes)
    program = compile_graph(load(case.content), config, case.batch)
    assert bool(program.parts) == config.activation_weights
    notes = [step.note for step in program.steps if isinstance(step, HostOperator)]
    reason = "the core lacks the option `activation_weights`; preset `transformer` has it"
    assert notes == ([] if config.activation_weights else [reason])
    assert differences(case, config, device) == ""


ZEROS = [(0, 0), (-128, 0), (0, -128), (-128, -128), (127, -128), (127, 127), (-1, 1)]
ROWS = [
    Rows((9, 21), 19),
    # As many rows as channels.
    Rows((6, 20), 6, bias=False),
    Rows((1, 40), 1, activation="RELU"),
    Rows((2, 3, 17), 30, activation="RELU6"),
    Rows((2, 3, 17), 5, keeps=True),
    Rows((1, 3, 5, 8), 12, keeps=True, activation="RELU_N1_TO_1"),
    # An image is read as rows.
    Rows((1, 3, 5, 8), 40),
    Rows((33, 16), 16, few_bits=True),
    Rows((16, 32), 32, few_bits=True, bias=False),
    # Sums of columns are copied, and parameters may stream.
    Rows((70, 64), 35),
    Rows((5, 12), 300),
]


#: Cores that run it, and one that leaves it to the host.
SIZES = [f"{n}{OPTION}" for n in ("nano", "micro", "edge", "edge,columns=8,weight_tiles=12")]


@pytest.mark.parametrize(("sizes", "zeros"), in_turn([*SIZES, "nano"], ZEROS))
def test_rows_times_computed_weights(
    sizes: str, zeros: tuple[int, int], rng: np.random.Generator
) -> None:
    for rows in ROWS:
        check(rows._replace(zeros=zeros), sizes, "machine", rng)


def zero_point(rng: np.random.Generator) -> int:
    """Return a zero point, often one of the ends."""
    return int(rng.choice([-128, 127, 0, *rng.integers(-128, 128, 4)]))


def drawn(rng: np.random.Generator) -> Rows:
    """Return random dimensions, zero points, bias and activation."""
    rank = int(rng.integers(2, 5))
    between = rng.integers(1, (1, 40, 6, 5)[rank - 1] + 1, rank - 2)
    # The first dimension of an image is the batch.
    first = 1 if rank == 4 else int(rng.integers(1, 20))
    return Rows(
        shape=(first, *map(int, between), int(np.exp(rng.uniform(0, 5)))),
        channels=int(np.exp(rng.uniform(0, 5))),
        zeros=(zero_point(rng), zero_point(rng)),
        bias=bool(rng.random() < 0.7),
        activation=str(rng.choice(["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])),
        keeps=bool(rng.random() < 0.5),
        few_bits=bool(rng.random() < 0.3),
        dtype="uint8" if rng.random() < 0.2 else "int8",
    )


@pytest.mark.parametrize(("option", "seed"), in_turn(["", OPTION], range(16)))
def test_random_dimensions(option: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = ("nano", "micro", "edge")[seed % 3]
    for _ in range(6):
        check(drawn(rng), sizes + option, "machine", rng)


@pytest.mark.parametrize("option", ["", OPTION])
def test_sums_that_wrap(option: str) -> None:
    chain = Chain((4, 3), 1.0, 5)
    weights = chain.input("weights", (5, 3), 2.0**-33, -100)
    ends = np.array([(1 << 31) - 1, -(1 << 31), (1 << 30) - 1, -(1 << 30), 0], np.int32)
    read = [0, weights, Constant(ends, 2.0**-33)]
    chain.operator("FULLY_CONNECTED", (4, 5), inputs=read, scale=2.0**-8, zero_point=3)
    rng = np.random.default_rng(1)
    inputs = tuple(
        rng.integers(-128, 128, (9, *shape)).astype(np.int8) for shape in ((4, 3), (5, 3))
    )
    assert_equal(chain.graph(), *inputs, sizes="micro" + option, batch=2)


def projected(chain: Chain, shape: tuple[int, int], rng: np.random.Generator) -> int:
    """Add a FULLY_CONNECTED of the input by constant weights."""
    chain.back_to(0)
    rows, channels = shape
    weights = rng.integers(-128, 128, (channels, chain.last.shape[-1])).astype(np.int8)
    printed = {"scale": 0.9, "zero_point": int(rng.integers(-20, 20))}
    chain.operator("FULLY_CONNECTED", (rows, channels), [Constant(weights, 0.02)], **printed)
    return chain.number


@pytest.mark.parametrize("sizes", ["nano", "edge"])
@pytest.mark.parametrize("option", ["", OPTION])
def test_attention_of_rows(sizes: str, option: str, rng: np.random.Generator) -> None:
    """Rows times rows, a table, and rows times the transpose of columns."""
    chain = Chain((20, 11), 0.05, -3)
    first, second = projected(chain, (20, 24), rng), projected(chain, (20, 24), rng)
    bias = Constant(rng.integers(-900, 900, 20).astype(np.int32), 0.81)
    chain.operator(
        "FULLY_CONNECTED", (20, 20), inputs=[first, second, bias], scale=150.0, zero_point=4
    )
    chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
    scores = chain.number
    values = projected(chain, (20, 20), rng)
    chain.operator("FULLY_CONNECTED", (20, 20), inputs=[scores, values], scale=0.3, zero_point=0)
    inputs = (rng.integers(-128, 128, (3, 20, 11)).astype(np.int8),)
    case, config = Case(0, "", chain.graph(), inputs, 2), preset(sizes + option)
    program = compile_graph(load(case.content), config, 2)
    kinds = [layer.kind for layer in program.layers if layer.runs_on == "core"]
    assert ("FULLY_CONNECTED+LOGISTIC" in kinds) == config.activation_weights
    assert differences(case, config, "machine") == ""


def test_a_constant_times_computed_weights() -> None:
    chain = Chain((6, 7), 0.03, 5)
    rows = Constant(np.arange(-14, 14, dtype=np.int8).reshape(4, 7), 0.05, -3)
    about = {"scale": 0.02, "zero_point": 1}
    chain.operator("FULLY_CONNECTED", (4, 6), inputs=[rows, 0], **about)
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (3, 6, 7)).astype(np.int8)
    assert_equal(chain.graph(), x, sizes="micro" + OPTION, batch=2)


@pytest.mark.slow
def test_computed_weights_on_the_rtl(rng: np.random.Generator, verilator: None) -> None:
    for index, rows in enumerate(ROWS):
        zeros = ZEROS[index % len(ZEROS)]
        check(rows._replace(zeros=zeros), "micro" + OPTION, "rtl", rng)
