import pytest

from celosia.hw.arch.presets import preset

SQUARE = (
    "nano,unified_bytes=256,weight_tiles=12,accumulator_depth=16,weight_rows=2,bus_bytes=4,"
    "parameter_channels=32,burst_beats=8,outstanding=4"
)
WIDE = (
    "micro,columns=12,unified_bytes=512,weight_tiles=8,accumulator_depth=16,lanes=4,"
    "parameter_channels=16,tables=2,queue_depth=3,dsp_columns=5"
)


@pytest.mark.parametrize(
    ("sizes", "stall"), [(f"{SQUARE},dsp_columns=0", 0.0), (WIDE, 0.3)], ids=["4x4", "8x12-stalls"]
)
def test_programs(cosim, simulator, sizes, stall):
    options = {"programs": 1, "longest": 11, "wrong": 2, "resets": 1}
    if simulator == "verilator":
        options = {"programs": 3, "longest": 25, "wrong": 8, "resets": 4}
    cosim(preset(sizes), stall=stall, widths=[20, 14, 5], batch=3, **options)


@pytest.mark.parametrize("simulator", ["verilator"], indirect=True)
@pytest.mark.parametrize(
    ("cells", "columns"), [("pair", 6), ("ecp5", 5), ("ecp5_pair", 6), ("ice40_pair", 4)]
)
def test_cells(cosim, verilator, cells, columns):
    """Columns after the fourth have cells in logic."""
    sizes = f"{SQUARE},columns={columns},cells={cells},dsp_columns=4"
    options = {"programs": 2, "longest": 12, "only": "random_programs"}
    cosim(preset(sizes), stall=0.2, **options)
