"""Whole programs with MOVE_WEIGHTS: products of two matrices, both loaded as activations."""

import numpy as np
import pytest
from all_options import EDGE_WITH_ALL, NANO_WITH_ALL
from both_devices import run

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import assemble
from celosia.hw.arch.presets import preset
from celosia.sim.model import quantize

CORES = (NANO_WITH_ALL, EDGE_WITH_ALL)
LEFT, RIGHT, PARAMETERS, RESULT = 0, 0x2000, 0x4000, 0x6000
MULTIPLIER = 1 << 30


def parameters(config: Config, shift: int) -> bytes:
    """Return parameters that divide by 2 ** (shift + 1)."""
    one = MULTIPLIER.to_bytes(4, "little")
    return (bytes(4) + one + bytes([0, shift]) + bytes(6)) * config.lanes


def divided(sums: np.ndarray, shift: int) -> np.ndarray:
    """Return what VECTOR makes of sums with ``parameters``."""
    bias, multiplier, left, right = (np.array(n, np.int64) for n in (0, MULTIPLIER, 0, shift))
    rounding = quantize.Rounding.DOUBLE
    h = quantize.requantize(sums.astype(np.int64), bias, multiplier, left, right, rounding)
    return quantize.finish(h, 0, -128, 127)


def operands(config: Config, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices of M × K and K × C, where K is no multiple of the rows."""
    depth = 2 * config.rows + 3
    left = rng.integers(-128, 128, (3 * config.rows + 1, depth), np.int8)
    return left, rng.integers(-128, 128, (depth, config.columns), np.int8)


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_of_activations(name: str, transposed: bool, rng, verilator):
    config = preset(name)
    left, right = operands(config, rng)
    count, depth = left.shape
    columns, lanes = config.columns, config.lanes
    stored = right.T if transposed else right
    # Rows of the transposed matrix lie R + 1 bytes apart, modulo R, so that columns are in R banks.
    skip = -(-depth // config.rows)
    pitch = skip * config.rows + 1 if transposed else columns
    column = f"x_stride=1 run=1 skip={skip}" if transposed else f"x_stride={pitch}"
    base = 1 << (count * depth).bit_length()
    output = 2 * base + len(stored) * pitch
    program = assemble(
        f"""
        LOAD external={LEFT} length={left.size}
        LOAD external={RIGHT} external_pitch={stored.shape[1]} unified={base} \
            unified_pitch={pitch} rows={len(stored)} length={stored.shape[1]} post=0
        LOAD_PARAMS external={PARAMETERS} count={lanes} post=1
        MOVE_WEIGHTS wait=0 unified={base} x_count={depth} {column} taps={columns} tile=5
        MATMUL x_count={count} x_stride={depth} taps={depth} tile=5 post=2
        VECTOR wait=1+2 source=ACCUMULATORS x_count={count} source_x_stride=1 channels={columns} \
            destination_base={output} destination_x_stride={columns} post=3
        STORE wait=3 external={RESULT} unified={output} length={count * columns}
        HALT
        """.replace("\\\n", " ")
    )
    contents = {LEFT: left.tobytes(), RIGHT: np.ascontiguousarray(stored).tobytes()}
    contents[PARAMETERS] = parameters(config, 9)
    found, _ = run(config, program, contents, RESULT, count * columns)
    found = found.reshape(count, columns)
    np.testing.assert_array_equal(found, divided(left.astype(np.int64) @ right, 9))
    assert np.unique(found).size > 20


@pytest.mark.parametrize("name", CORES)
def test_a_pass_over_an_identity_transposes(name: str, rng: np.random.Generator, verilator: None):
    """The identity has 64 on its diagonal; VECTOR divides by 64 and writes pixels as columns."""
    config = preset(name)
    rows, columns = config.rows, config.columns
    assert rows == columns
    matrix = rng.integers(-128, 128, (rows, rows), np.int8)
    identity = (64 * np.eye(rows)).astype(np.int8)
    base, output, pitch = rows * rows, 2 * rows * rows, rows + 1
    program = assemble(
        f"""
        LOAD external={LEFT} length={matrix.size}
        LOAD external={RIGHT} unified={base} length={identity.size} post=0
        LOAD_PARAMS external={PARAMETERS} count={config.lanes} post=1
        MOVE_WEIGHTS wait=0 unified={base} x_count={rows} x_stride={rows} taps={rows}
        MATMUL x_count={rows} x_stride={rows} taps={rows} post=2
        VECTOR wait=1+2 source=ACCUMULATORS x_count={rows} source_x_stride=1 channels={rows} \
            destination_base={output} destination_x_stride=1 destination_run=1 \
            destination_skip=1 post=3
        STORE wait=3 external={RESULT} external_pitch={rows} unified={output} \
            unified_pitch={pitch} rows={rows} length={rows}
        HALT
        """.replace("\\\n", " ")
    )
    contents = {LEFT: matrix.tobytes(), RIGHT: identity.tobytes()}
    contents[PARAMETERS] = parameters(config, 5)
    found, _ = run(config, program, contents, RESULT, rows * rows)
    found = found.reshape(rows, rows)
    np.testing.assert_array_equal(found, matrix.T)
