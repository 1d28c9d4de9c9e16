"""Units of the core: their generated Verilog on two simulators, against the machine model."""

import pytest
from cosim.runner import simulators

from celosia.hw.arch.presets import preset

#: Sizes of small cores. Icarus runs the benches on the first, Verilator on the second.
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
BENCHES = (
    *("array", "accumulators", "weight_buffer", "unified_buffer", "matrix", "vector"),
    *("load", "store", "sequencer"),
)
RUNS = [
    (simulator, bench, core, rounds)
    for simulator, core, rounds in (("icarus", "square", 2), ("verilator", "wide", 8))
    for bench in BENCHES
    if simulator in simulators()
]


@pytest.mark.parametrize(("simulator", "bench", "core", "rounds"), RUNS, indirect=["simulator"])
def test_unit(cosim, simulator, bench, core, rounds):
    cosim(f"bench_{bench}", preset(CORES[core]), rounds=rounds)
