"""Clocks of a design: what each reached, and which paths between them count."""

import json

import pytest

from celosia.hw.flow.clocks import Clock, clocks, reached
from celosia.hw.flow.netlist import aliases
from celosia.hw.flow.paths import End, Timing, read

PATHS = [("clk", "double", 25.0), ("core", "clk", 40.0), ("double", "core", 50.0)]
RECORD = {
    "fmax": {
        "$glbnet$clk": {"achieved": 55.0, "constraint": 50.0},
        "$glbnet$double": {"achieved": 130.0, "constraint": 100.0},
        "$glbnet$pll.out": {"achieved": 62.0, "constraint": 60.0},
    },
    "critical_paths": [
        {
            "from": f"posedge $glbnet${start.replace('core', 'pll.out')}",
            "to": f"posedge $glbnet${end.replace('core', 'pll.out')}",
            "path": [{"delay": delay / 2}, {"delay": delay / 2}],
        }
        for start, end, delay in PATHS
    ],
}


@pytest.mark.parametrize(
    ("paths", "own", "share"),
    [
        ([], "", 62 / 60),
        # Between a clock and twice that clock a period of the faster one counts.
        (PATHS[:1], "core", 1000 / 25 / 100),
        (PATHS[1:], "core", 62 / 60),
        (PATHS[1:], "", 1000 / 50 / 100),
    ],
)
def test_a_clock_with_crossings(tmp_path, paths, own, share):
    netlist = tmp_path / "netlist.json"
    nets = {"core": [7], "pll.out": [7], "clk": [8], "bus": [7, 8]}
    nets = {name: {"bits": bits} for name, bits in nets.items()}
    netlist.write_text(json.dumps({"modules": {"top": {"netnames": nets}}}))
    names = aliases(netlist, "top", own)
    assert names == ({"core", "pll.out"} if own else set())
    chosen = [RECORD["critical_paths"][PATHS.index(path)] for path in paths]
    record = {**RECORD, "critical_paths": chosen}
    assert reached(record, 60, names) == pytest.approx(60 * share)
    assert Clock("pll.out", 62.0, 60.0) in clocks(record)


SDF = """
  (INTERCONNECT own/O a/CLK (0:0:0) (0:0:0))
  (INTERCONNECT own/O b/CLK (0:0:0) (0:0:0))
  (INTERCONNECT bus/O c/CLK (0:0:0) (0:0:0))
  (INTERCONNECT bus/O d/CLK (0:0:0) (0:0:0))
  (INTERCONNECT a/Q b/DI (2000:2000:2000) (0:0:0))
  (INTERCONNECT c/Q b/DI (9000:9000:9000) (0:0:0))
  (INTERCONNECT c/Q d/DI (3000:3000:3000) (0:0:0))
  (INTERCONNECT a/Q d/DI (8000:8000:8000) (0:0:0))
""" + "".join(
    f"""
  (INSTANCE {name})
  (IOPATH CLK Q (500:500:500) (500:500:500))
  (SETUPHOLD (posedge DI) (posedge CLK) (0:0:0) (0:0:0))
"""
    for name in "abcd"
)


def test_paths_of_one_clock():
    delays = read(SDF.splitlines())

    def slowest(part):
        timing = Timing(part, lambda cell: End(cell, "", ""))
        return [(path.start.name, path.end.name, path.nanoseconds) for path in timing.slowest()]

    assert slowest(delays) == [("c", "b", 9.5), ("a", "d", 8.5)]
    assert slowest(delays.of_clock({"own"})) == [("a", "b", 2.5)]
    assert slowest(delays.of_clock({"own"}, others=True)) == [("c", "d", 3.5)]
