"""Units that no core can have: what was wanted, and what was given."""

from collections.abc import Callable
from typing import Any

import pytest
from matrix_passes import sizes as matrix_sizes
from vector_sizes import SHAPES, vector_sizes

from celosia.hw.arch.presets import PRESETS
from celosia.hw.dma.load import LoadUnit
from celosia.hw.dma.sizes import LoadSizes
from celosia.hw.dma.splitter import BurstSplitter
from celosia.hw.matrix.unit import MatrixUnit
from celosia.hw.vector.unit import VectorUnit


def load(visible_cycles: int) -> LoadUnit:
    return LoadUnit(sizes=LoadSizes.of(PRESETS["nano"]), visible_cycles=visible_cycles)


def splitter(burst_beats: int) -> BurstSplitter:
    return BurstSplitter(
        data_bytes=32, burst_beats=burst_beats, local_bits=8, extent_bits=8, limits=[1], tag=1
    )


def matrix(**changes: Any) -> MatrixUnit:
    return MatrixUnit(sizes=matrix_sizes(rows=4, **changes), read_latency=6)


def vector(visible_cycles: int = 3, **changes: Any) -> VectorUnit:
    sizes = vector_sizes("micro", **changes)
    return VectorUnit(sizes=sizes, bus_bytes=SHAPES["micro"][3], visible_cycles=visible_cycles)


LANES = "lanes: wanted a power of two up to rows = 8 that divides columns = 8, got 3"
REQUANTIZER = "requantizer: wanted pipelined, for softmax, got sequential"
VISIBLE = "visible_cycles: wanted at least"


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (load, {"visible_cycles": 0}, f"{VISIBLE} 1, got 0"),
        (splitter, {"burst_beats": 256}, "at most 4096 bytes, got 256 beats of 32"),
        (matrix, {"weight_rows": 3}, "weight_rows: wanted a divisor of rows = 4, got 3"),
        (matrix, {"accumulator_depth": 6}, "depth: wanted a power of two, at least 4, got 6"),
        (vector, {"lanes": 3}, LANES),
        (vector, {"visible_cycles": 1}, f"{VISIBLE} 2, got 1"),
        (vector, {"softmax": True, "requantizer": "sequential"}, REQUANTIZER),
        (vector, {"requantizer": "slow"}, "requantizer: wanted one of pipelined, .*, got 'slow'"),
    ],
)
def test_refusals(make: Callable[..., Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)
