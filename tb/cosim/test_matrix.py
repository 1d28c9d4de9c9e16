import pytest

from celosia.hw.arch.config import Config


@pytest.mark.parametrize(
    ("rows", "columns", "weight_rows", "stall", "cells"),
    [
        (4, 4, 1, 0.0, "portable"),
        (8, 6, 4, 0.35, "pair"),
        (4, 5, 2, 0.2, "ecp5"),
        (8, 6, 1, 0.2, "ecp5_pair"),
        (4, 4, 1, 0.2, "ice40_pair"),
    ],
)
def test_programs(cosim, simulator, rows, columns, weight_rows, stall, cells):
    config = Config(
        rows=rows,
        columns=columns,
        unified_bytes=32 * rows,
        weight_tiles=8,
        accumulator_depth=16,
        lanes=1,
        weight_rows=weight_rows,
        bus_bytes=4,
        parameter_channels=1,
        dsp_columns=columns - 2 if columns > 4 else columns,
        cells=cells,
    )
    cosim("matrix", config, programs=20 if simulator == "verilator" else 6, stall=stall)
