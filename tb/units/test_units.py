"""Units of the core: their generated Verilog on two simulators, against the machine model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cosim.cores import CORES
from cosim.runner import simulators

from celosia.hw.arch.presets import preset

#: Cores beside the first two whose options matter to a bench.
MORE_CORES = {
    "array": ("pair", "ecp5", "least"),
    "matrix": ("complete", "protected"),
    "vector": ("least", "complete", "protected"),
    "load": ("least",),
    "store": ("protected",),
    "sequencer": ("least",),
}
#: Benches of these cores that take Icarus less time than it takes to compile for Verilator.
QUICK = {("array", "least"), ("load", "least"), ("sequencer", "least")}
BENCHES = sorted(path.stem[len("bench_") :] for path in Path(__file__).parent.glob("bench_*.py"))


def runs() -> Iterator[Any]:
    """Yield simulator, bench, core and rounds.

    Flips of bits need Icarus, which takes long; for the other cores it is Verilator's turn.
    """
    for bench in BENCHES:
        yield pytest.param("icarus", bench, "square", 2)
        yield pytest.param("verilator", bench, "wide", 5)
        for core in MORE_CORES.get(bench, ()):
            quick = core not in ("least", "complete") or (bench, core) in QUICK
            marks = [] if quick else [pytest.mark.slow]
            yield pytest.param("icarus", bench, core, 2, marks=marks)
            if not quick:
                marks = [] if core == "complete" else [pytest.mark.slow]
                yield pytest.param("verilator", bench, core, 3, marks=marks)


@pytest.mark.parametrize(
    ("simulator", "bench", "core", "rounds"),
    [run for run in runs() if run.values[0] in simulators()],
    indirect=["simulator"],
)
def test_unit(cosim, simulator, bench, core, rounds):
    cosim(f"bench_{bench}", preset(CORES[core]), rounds=rounds)
