import pytest

from celosia.hw.arch.config import Config


@pytest.mark.parametrize(
    ("rows", "columns", "lanes", "bus_bytes", "stall", "cells"),
    [
        (4, 4, 1, 4, 0.0, "portable"),
        (8, 12, 4, 8, 0.35, "portable"),
        (4, 4, 2, 4, 0.2, "ecp5_pair"),
    ],
)
def test_vectors(cosim, simulator, rows, columns, lanes, bus_bytes, stall, cells):
    config = Config(
        rows=rows,
        columns=columns,
        unified_bytes=32 * rows,
        weight_tiles=2,
        accumulator_depth=16,
        lanes=lanes,
        bus_bytes=bus_bytes,
        parameter_channels=8 * lanes,
        tables=2,
        cells=cells,
    )
    cosim("vector", config, programs=8 if simulator == "verilator" else 2, stall=stall)
