import pytest

from celosia.hw.arch.config import Config


@pytest.mark.parametrize(
    ("rows", "columns", "weight_rows", "stall"), [(4, 4, 1, 0.0), (8, 6, 4, 0.35)]
)
def test_programs(cosim, simulator, rows, columns, weight_rows, stall):
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
        dsp_columns=columns // 2,
    )
    cosim("matrix", config, programs=30 if simulator == "verilator" else 12, stall=stall)
