"""Units of the core: their generated Verilog on two simulators, against the machine model."""

from collections.abc import Iterator
from typing import Any

import pytest
from cosim.runner import simulators

from celosia.hw.arch.presets import preset

#: Sizes of small cores: without options, without what takes area, with all units' options, and
#: with memories that are protected.
CORES = {
    "square": (
        "nano,unified_bytes=256,weight_tiles=12,accumulator_depth=16,weight_rows=2,bus_bytes=4,"
        "parameter_channels=32,burst_beats=8,outstanding=4"
    ),
    "wide": (
        "micro,columns=12,unified_bytes=512,weight_tiles=8,accumulator_depth=16,lanes=4,"
        "parameter_channels=16,tables=2,queue_depth=3,dsp_columns=5"
    ),
    "least": (
        "pico,unified_bytes=256,weight_tiles=6,accumulator_depth=8,parameter_channels=8,"
        "columns=6,dsp_columns=3,lanes=2,burst_beats=4"
    ),
    "complete": (
        "micro,unified_bytes=512,weight_tiles=8,accumulator_depth=16,weight_rows=4,lanes=4,"
        "columns=16,parameter_channels=32,bus_bytes=4,activation_weights=true,softmax=true,"
        "elementwise_products=true"
    ),
    "protected": (
        "nano,unified_bytes=256,weight_tiles=8,accumulator_depth=16,weight_rows=2,columns=3,"
        "dsp_columns=2,"
        "parameter_channels=16,links=skid,skips=parallel,protection=parity,"
        "activation_weights=true,elementwise_products=true"
    ),
}
#: Benches, and the cores with options that matter to them.
BENCHES = {
    **dict.fromkeys(("array", "accumulators", "weight_buffer", "unified_buffer"), ()),
    "matrix": ("complete", "protected"),
    "vector": ("least", "complete", "protected"),
    "load": ("least",),
    "store": ("protected",),
    "sequencer": ("least",),
}


def runs() -> Iterator[Any]:
    """Yield simulator, bench, core and rounds; flips of bits need Icarus, which takes long."""
    for bench, cores in BENCHES.items():
        yield pytest.param("icarus", bench, "square", 2)
        yield pytest.param("verilator", bench, "wide", 8)
        for core in cores:
            slow = [] if core == "protected" else [pytest.mark.slow]
            yield pytest.param("icarus", bench, core, 2, marks=slow)
            if slow:
                yield pytest.param("verilator", bench, core, 6)


@pytest.mark.parametrize(
    ("simulator", "bench", "core", "rounds"),
    [run for run in runs() if run.values[0] in simulators()],
    indirect=["simulator"],
)
def test_unit(cosim, simulator, bench, core, rounds):
    cosim(f"bench_{bench}", preset(CORES[core]), rounds=rounds)
