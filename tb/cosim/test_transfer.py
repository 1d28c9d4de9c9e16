import pytest

from celosia.hw.arch.config import Config


@pytest.mark.parametrize(
    ("rows", "columns", "bus_bytes", "burst_beats", "outstanding", "stall"),
    [(4, 4, 4, 4, 2, 0.0), (8, 12, 8, 16, 8, 0.4)],
)
def test_transfers(cosim, simulator, rows, columns, bus_bytes, burst_beats, outstanding, stall):
    config = Config(
        rows=rows,
        columns=columns,
        unified_bytes=32 * rows,
        weight_tiles=4,
        accumulator_depth=4,
        lanes=4,
        bus_bytes=bus_bytes,
        parameter_channels=12,
        tables=2,
        burst_beats=burst_beats,
        outstanding=outstanding,
    )
    cosim("transfer", config, batches=15 if simulator == "verilator" else 5, stall=stall)
