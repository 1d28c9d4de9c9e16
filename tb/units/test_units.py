"""Units of the core: their generated Verilog on two simulators, against the machine model."""

import pytest

from celosia.hw.arch.presets import preset

#: Sizes of small cores; a bench runs on several where forms of its unit differ.
CORES = {
    "square": (
        "nano,unified_bytes=256,weight_tiles=12,accumulator_depth=16,weight_rows=2,bus_bytes=4,"
        "parameter_channels=32,burst_beats=8,outstanding=4"
    ),
    "wide": (
        "micro,columns=12,unified_bytes=512,weight_tiles=8,accumulator_depth=16,lanes=4,"
        "parameter_channels=16,tables=2,queue_depth=3,dsp_columns=5"
    ),
}
#: Bench, core, rounds.
BENCHES = [
    *((bench, core, 4) for bench in ("array", "matrix") for core in CORES),
    *(("vector", core, 4) for core in CORES),
]


@pytest.mark.parametrize(("bench", "core", "rounds"), BENCHES)
def test_unit(cosim, simulator, bench, core, rounds):
    cosim(f"bench_{bench}", preset(CORES[core]), rounds=rounds)
