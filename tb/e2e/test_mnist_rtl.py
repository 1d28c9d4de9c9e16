"""The shipped MLP: simulated RTL, machine model and LiteRT's reference kernels, byte for byte."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from celosia.hw.arch.config import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program
from celosia.sw.runtime.interpreter import open_session
from celosia.sw.runtime.session import Statistics, quantized

#: Wider than high, and not by a power of two.
OBLONG = "micro,columns=12,lanes=4"
UNITS = {"sequencer", "load", "store", "matrix", "vector"}


@pytest.fixture
def compiled(mnist_model: Path) -> Callable[[str, int], Program]:
    """The MLP compiled for a core and a batch."""
    return lambda sizes, batch: compile_graph(load(mnist_model), preset(sizes), batch)


def images(mnist: tuple[np.ndarray, np.ndarray], program: Program, count: int) -> np.ndarray:
    return quantized(mnist[0][:count] / np.float32(255), program.inputs[0], flat=True)


def ran(program: Program, x: np.ndarray, device: str) -> tuple[np.ndarray, Statistics]:
    with open_session(program, device=device) as session:
        return session.run([x])[0], session.statistics


def assert_every_cycle_is_counted_once(costs: Statistics) -> None:
    for cycles, counters in (
        (costs.cycles, costs.counters),
        (costs.setup_cycles, costs.setup_counters),
    ):
        assert counters is not None and set(counters) == UNITS
        assert {unit: sum(classes.values()) for unit, classes in counters.items()} == dict.fromkeys(
            UNITS, cycles
        )


def assert_the_same_everywhere(
    program: Program, x: np.ndarray, model: Path, litert: Callable[[bytes, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, Statistics]:
    """Check bytes and counters; return the RTL's outputs and costs."""
    y, costs = ran(program, x, "rtl")
    want = litert(model.read_bytes(), x)
    np.testing.assert_array_equal(ran(program, x, "machine")[0], want)
    np.testing.assert_array_equal(y, want)
    assert_every_cycle_is_counted_once(costs)
    assert costs.inputs == len(x)
    return y, costs


@pytest.mark.parametrize(
    ("sizes", "count", "batch"),
    [("nano", 4, 2), ("micro", 16, 5), ("edge", 64, 16), (OBLONG, 8, 8)],
)
def test_the_same_bytes_everywhere(
    sizes: str, count: int, batch: int, mnist, mnist_model, compiled, litert, verilator
) -> None:
    program = compiled(sizes, batch)
    x = images(mnist, program, count)
    assert_the_same_everywhere(program, x, mnist_model, litert)


@pytest.mark.parametrize(("batch", "bound", "over"), [(1, 6400, 1.15), (64, 64 * 400, 1.10)])
def test_cycles_at_edge(
    batch: int, bound: int, over: float, mnist, mnist_model, compiled, litert, verilator
) -> None:
    program = compiled("edge", batch)
    x = images(mnist, program, batch)
    _, costs = assert_the_same_everywhere(program, x, mnist_model, litert)
    assert costs.cycles is not None and costs.cycles <= over * bound


@pytest.mark.slow
def test_all_images_on_the_machine_model(mnist, mnist_model, compiled, litert, figure) -> None:
    pictures, labels = mnist
    program = compiled("edge", 64)
    x = images(mnist, program, len(pictures))
    y, costs = ran(program, x, "machine")
    want = litert(mnist_model.read_bytes(), x)
    np.testing.assert_array_equal(y, want)
    accuracy = float(np.mean(y.argmax(axis=1) == labels))
    figure(
        f"machine, edge, batch 64: {len(x):,} images identical to LiteRT, "
        f"accuracy {accuracy:.2%}, {costs.seconds:.1f} s"
    )
    assert accuracy >= 0.975


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "count", "batch"),
    [("edge", 1000, 64), ("nano", 100, 64), ("micro", 100, 64), (OBLONG, 100, 64)],
)
def test_many_images_on_the_rtl(
    sizes: str,
    count: int,
    batch: int,
    mnist,
    mnist_model,
    compiled,
    litert,
    verilator,
    figure: Callable[[str], None],
) -> None:
    program = compiled(sizes, batch)
    x = images(mnist, program, count)
    y, costs = assert_the_same_everywhere(program, x, mnist_model, litert)
    accuracy = float(np.mean(y.argmax(axis=1) == mnist[1][:count]))
    assert costs.cycles_per_input and costs.utilisation and costs.cycles
    figure(
        f"rtl, {sizes}, batch {batch}: {count:,} images identical to LiteRT, accuracy "
        f"{accuracy:.2%}, {costs.cycles_per_input:,.1f} cycles per image, {costs.utilisation:.1%} "
        f"of the multipliers in use, {costs.cycles / costs.seconds:,.0f} cycles/s"
    )
