"""Whole programs with SOFTMAX, on the RTL and on the machine model."""

import numpy as np
import pytest
from all_options import EDGE_WITH_ALL
from both_devices import run

from celosia.hw.arch.config import EXPONENTIAL_TABLES, TABLE_BYTES, Config
from celosia.hw.arch.isa import assemble
from celosia.hw.arch.presets import preset
from celosia.sim.timing.cycles import estimate
from celosia.sw.operators import softmax

pytestmark = pytest.mark.usefixtures("verilator")

CORES = ("nano,softmax=true", EDGE_WITH_ALL)
ROWS, TABLES, RESULT = 0, 0x4000, 0x4800


def run_estimated(config, program, contents: dict[int, bytes], size: int) -> np.ndarray:
    """Return ``size`` result bytes; the RTL takes as many cycles as estimated."""
    found, cycles = run(config, program, contents, RESULT, size)
    assert cycles == estimate(program, config).total
    return found


def program(config: Config, rows: int, elements: int, pitch: int, repeats: int = 1) -> str:
    """Return a program that loads rows, computes SOFTMAX in place, and stores them."""
    size, tables = rows * pitch, f"first={config.tables} count={EXPONENTIAL_TABLES}"
    lines = [f"LOAD external={ROWS} length={size} post=0"]
    lines += [f"LOAD_PARAMS external={TABLES} kind=TABLES {tables} post=0"]
    lines += ["NOP wait=0", "NOP wait=0 post=1"]
    strides = f"source_x_stride={pitch} destination_x_stride={pitch}"
    for n in range(repeats):
        semaphores = " wait=1" * (n == 0) + " post=2" * (n == repeats - 1)
        lines.append(f"SOFTMAX x_count={rows} channels={elements} {strides}{semaphores}")
    return "\n".join([*lines, f"STORE external={RESULT} length={size} wait=2", "HALT"])


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize(
    ("rows", "elements", "pitch"),
    [(1, 10, 10), (64, 17, 19), (5, 197, 200), (2, 1, 1), (3, 511, 511)],
)
def test_rows_equal_the_kernel(name: str, rows: int, elements: int, pitch: int) -> None:
    config = preset(name)
    rng = np.random.default_rng(rows)
    x = rng.integers(-128, 128, (rows, pitch)).astype(np.int8)
    x[0] = x[0, 0]
    scale = 0.0625
    table = softmax.exponentials(scale, 1.0).astype("<u4")
    assert table.nbytes == EXPONENTIAL_TABLES * TABLE_BYTES
    contents = {ROWS: x.tobytes(), TABLES: table.tobytes()}
    code = assemble(program(config, rows, elements, pitch))
    found = run_estimated(config, code, contents, x.size)
    wanted = x.copy()
    wanted[:, :elements] = softmax.softmax(x[:, :elements], scale)
    assert np.array_equal(found.reshape(x.shape), wanted)


@pytest.mark.parametrize("name", CORES)
def test_one_after_the_other(name: str) -> None:
    """The rows of the second are shares: its exponentials are those of another scale."""
    config, rows, elements = preset(name), 9, 40
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (rows, elements)).astype(np.int8)
    table = softmax.exponentials(0.03, 1.0)
    contents = {ROWS: x.tobytes(), TABLES: table.astype("<u4").tobytes()}
    code = assemble(program(config, rows, elements, elements, repeats=2))
    found = run_estimated(config, code, contents, x.size).reshape(x.shape)
    once = softmax.softmax(x, 0.03)
    assert np.array_equal(found, softmax.softmax(once, 0.03))
