"""LUTs in a row, in netlists made by hand."""

import json
from collections import Counter

import pytest

from celosia.hw.flow.depth import DeepPath, Depth, depth, graph
from celosia.hw.flow.netlist import Blocks, assign, read
from celosia.hw.flow.parts import ECP5, GOWIN, ICE40
from celosia.hw.flow.paths import End, Timing, ends
from celosia.hw.verilog.sources import Source

BLOCKS = Blocks(["core"], {"core.a.x": Source("a.py:1", True), "core.b.y": Source("b.py:2", True)})
#: Ports of outputs, of all families.
OUTPUTS = ("Z", "Q", "COUT", "S0", "S1", "DO", "P", "O", "CO", "F", "SUM", "RDATA", "D_OUT")


def measured(folder, family, cells, names=None):
    """Return the depth of a netlist: kind and nets of cells by name; texts are constants."""
    module = {"cells": {}, "netnames": {}}
    for name, (kind, ports) in cells.items():
        module["cells"][name] = {
            "type": kind,
            "attributes": {},
            "port_directions": {p: "output" if p in OUTPUTS else "input" for p in ports},
            "connections": {p: n if isinstance(n, list) else [n] for p, n in ports.items()},
        }
    for name, net in (names or {}).items():
        module["netnames"][name] = {"bits": [net]}
    path = folder / "netlist.json"
    path.write_text(json.dumps({"modules": {"top": module}}))
    netlist = read(path, "top")
    known = assign(netlist, BLOCKS)
    return depth(Timing(graph(netlist, family), ends(netlist, known, BLOCKS.sources)))


def register(data, out, **more):
    return "TRELLIS_FF", {"CLK": 1, "DI": data, "Q": out, **more}


def lut(out, *nets):
    return "LUT4", dict(zip("ABCD", nets, strict=False)) | {"Z": out}


def row(first, last, count):
    """Return LUTs one after the other, from one net to another."""
    nets = [first, *range(1000 * first, 1000 * first + count - 1), last]
    return {f"row{first}.{n}": lut(nets[n + 1], nets[n], "0") for n in range(count)}


def depths(result):
    return dict(result.total)


def test_a_row_of_luts_by_block_and_source(tmp_path):
    cells = {
        "core.a.r": register(20, 10),
        "core.b.r": register(30, 11),
        "core.b.s": register("1", 12, CE=30),
        **row(10, 30, 9),
        **row(11, 20, 2),
    }
    result = measured(tmp_path, ECP5, cells, {"core.a.x": 10, "core.b.y": 11})
    # The register's data and the enable of the other, nine LUTs after x; clocks are no inputs.
    assert result.blocks == {"b": Counter({9: 2}), "a": Counter({2: 1})}
    start, end = End("core.a.x", "a.py:1", "a"), End("core.b.y", "b.py:2", "b")
    assert DeepPath(9, 1, start, end) in result.paths
    assert sum(path.inputs for path in result.paths) == 2
    record = result.as_dict()
    assert (record["inputs"], record["over_7"], record["over_8"], record["greatest"]) == (
        3,
        2,
        2,
        9,
    )
    assert record["blocks"]["a"]["greatest"] == 2
    (worst,) = [line for line in result.lines() if " -> " in line]
    assert worst.split()[:3] == ["9", "2", "core.a.x"] and worst.endswith(", b")


def test_paths_of_a_shallow_netlist_are_the_deepest(tmp_path):
    cells = {"r": register(10, 10), "s": register(12, 11), **row(10, 12, 3)}
    assert [(path.depth, path.inputs) for path in measured(tmp_path, ECP5, cells).paths] == [(3, 1)]
    assert measured(tmp_path, ECP5, {}) == Depth({}, [])


def carries(first, count, data):
    """Return a chain of carries of two bits each, its last sum as net ``first + count``."""
    return {
        f"c{n}": (
            "CCU2C",
            {"A0": data, "B0": "0", "CIN": first + n if n else "0", "COUT": first + n + 1},
        )
        for n in range(count - 1)
    } | {"c": ("CCU2C", {"A1": "0", "CIN": first + count - 1, "S1": first + count})}


@pytest.mark.parametrize(
    ("family", "cells", "wanted"),
    [
        # A chain counts one, however long, and what comes before it counts as well.
        (ECP5, {"r": register(116, 10), **row(10, 20, 2), **carries(100, 16, 20)}, {3: 1}),
        # A memory of LUTs: reading is a step, writing an end, its clock neither.
        (
            ECP5,
            {
                "r": register(60, 10),
                "m": (
                    "TRELLIS_DPR16X4",
                    {"RAD": [20, 20, "0", "0"], "DI": [21, 10], "WAD": [10], "WCK": 1, "DO": [50]},
                ),
                **row(10, 20, 3),
                **row(20, 21, 2),
                **row(50, 60, 1),
            },
            {5: 2, 0: 2},
        ),
        # A block memory and a multiplier begin and end rows.
        (
            ECP5,
            {
                "ram": ("DP16KD", {"CLKA": 1, "ADA3": 31, "DIA0": "x", "DO": 10}),
                "mult": ("MULT18X18D", {"CLK0": 1, "A0": 20, "CE0": "1", "P": [30, 32]}),
                **row(10, 20, 4),
                **row(30, 31, 1),
            },
            {4: 1, 1: 1},
        ),
        # Loops and what comes from pins are left out.
        (
            ECP5,
            {"r": register(20, 10), "s": register(40, 11), "l": lut(20, 10, 20), "p": lut(40, 99)},
            {},
        ),
        # The LUT at the end of the carries is the step.
        (
            ICE40,
            {
                "r": ("SB_DFFE", {"C": 1, "D": 30, "E": 10, "Q": 10}),
                "c0": ("SB_CARRY", {"I0": 10, "I1": "0", "CI": "0", "CO": 20}),
                "c1": ("SB_CARRY", {"I0": "0", "I1": 10, "CI": 20, "CO": 21}),
                "l": ("SB_LUT4", {"I0": 10, "I3": 21, "O": 30}),
                "m": ("SB_RAM40_4K", {"RCLK": 1, "WCLK": 1, "RADDR": [30], "RDATA": [31, 32]}),
            },
            {1: 2, 0: 1},
        ),
        (
            GOWIN,
            {
                "r": ("DFFE", {"CLK": 1, "D": 40, "CE": "1", "Q": 10}),
                "a0": ("ALU", {"I0": 10, "I1": 10, "CIN": "0", "COUT": 20}),
                "a1": ("ALU", {"I0": "0", "CIN": 20, "SUM": 30}),
                "l": ("LUT2", {"I0": 30, "I1": 10, "F": 40}),
            },
            {2: 1},
        ),
    ],
    ids=["carries", "lut-memory", "block-memory", "loops", "ice40", "gowin"],
)
def test_depth_of_cells(tmp_path, family, cells, wanted):
    assert depths(measured(tmp_path, family, cells)) == wanted
