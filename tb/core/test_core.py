import pytest
from cosim.cores import CORES

from celosia.hw.arch.presets import preset

#: Sizes for each simulator: a cycle takes Icarus as much longer as an array is larger.
SIZES = {"icarus": f"{CORES['square']},dsp_columns=0", "verilator": CORES["wide"]}


@pytest.mark.parametrize(
    ("simulator", "stall"),
    [pytest.param("verilator", 0.0, marks=pytest.mark.slow), ("verilator", 0.3), ("icarus", 0.3)],
    indirect=["simulator"],
)
def test_programs(cosim, simulator, stall):
    options = {"programs": 1, "longest": 11, "wrong": 2, "resets": 1}
    if simulator == "verilator":
        options = {"programs": 3, "longest": 25, "wrong": 8, "resets": 4}
    cosim(
        "bench_core", preset(SIZES[simulator]), stall=stall, widths=[20, 14, 5], batch=3, **options
    )


@pytest.mark.parametrize("simulator", ["icarus"], indirect=True)
@pytest.mark.parametrize(
    ("cells", "columns", "language"), [("ecp5_pair", 6, "2012"), ("ice40_pair", 4, "2005")]
)
def test_cells(cosim, icarus, cells, columns, language):
    """Columns after the fourth have cells in logic; the core is the same in both languages.

    tb/units has the array with other cells.
    """
    sizes = f"{CORES['square']},columns={columns},cells={cells},dsp_columns=4"
    options = {"programs": 1, "longest": 16, "only": "random_programs", "language": language}
    cosim("bench_core", preset(sizes), stall=0.2, **options)
