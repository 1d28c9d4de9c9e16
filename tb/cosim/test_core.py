import pytest

from celosia.hw.arch.config import Config

SQUARE = Config(
    rows=4,
    columns=4,
    unified_bytes=256,
    weight_tiles=12,
    accumulator_depth=16,
    lanes=1,
    weight_rows=2,
    bus_bytes=4,
    parameter_channels=32,
    burst_beats=8,
    outstanding=4,
)
WIDE = Config(
    rows=8,
    columns=12,
    unified_bytes=512,
    weight_tiles=8,
    accumulator_depth=16,
    lanes=4,
    bus_bytes=8,
    parameter_channels=16,
    tables=2,
    queue_depth=3,
    dsp_columns=5,
)


@pytest.mark.parametrize(
    ("config", "stall"), [(SQUARE, 0.0), (WIDE, 0.3)], ids=["4x4", "8x12-stalls"]
)
def test_programs(cosim, simulator, config, stall):
    fast = simulator == "verilator"
    options = (
        {"programs": 4, "longest": 30, "wrong": 12, "resets": 5}
        if fast
        else {"programs": 1, "longest": 11, "wrong": 2, "resets": 1}
    )
    cosim("core", config, stall=stall, widths=[20, 14, 5], batch=3, **options)
