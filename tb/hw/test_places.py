"""Places of multipliers: every one its own site, no block with more enables than it can take."""

import json
from collections import defaultdict

import pytest

from celosia.hw.flow.parts import PARTS
from celosia.hw.flow.places import array_places, fix, other_places

PART = PARTS["LFE5U-85F"]
SMALLER = {size: PARTS[f"LFE5U-{size}F-CABGA381"] for size in (12, 25, 45)}
#: Nobody looked up the sites of this one.
UNKNOWN = PARTS["GW2AR-18"]


def multiplier(row, cell, *, columns=2):
    return f"inner.matrix.array.row_{row}.cell_{columns * cell}.product.multiplier"


def block(site):
    place, multiplier = site.split("/MULT18_")
    x, y = place.removeprefix("X").split("/Y")
    return int(x) - int(multiplier), int(y)


@pytest.mark.parametrize(
    ("part", "multipliers", "memories"),
    [(SMALLER[12], 28, 56), (SMALLER[25], 28, 56), (SMALLER[45], 72, 108), (PART, 156, 208)],
)
def test_blocks(part, multipliers, memories):
    """As many as in the data sheet, all on the part."""
    assert part.multipliers == multipliers
    for count, rows in ((multipliers, part.multiplier_blocks), (memories, part.memory_blocks)):
        assert 4 * sum(len(line) for _, line in rows) == count
        assert all(x + 8 < part.size[0] and y < part.size[1] for y, line in rows for x in line)


@pytest.mark.parametrize(
    ("part", "rows", "count", "columns"),
    [
        (PART, 16, 8, 2),
        (PART, 8, 3, 2),
        (PART, 5, 2, 2),
        (PART, 1, 1, 2),
        (PART, 8, 8, 1),
        (PART, 4, 4, 1),
        (SMALLER[45], 8, 4, 2),
        (SMALLER[25], 4, 4, 1),
    ],
)
def test_sites(part, rows, count, columns):
    cells = {
        multiplier(row, cell, columns=columns): (row, cell)
        for row in range(rows)
        for cell in range(count)
    }
    places = array_places([*cells, "inner.vector.pipe.multiplier"], part)
    assert places.keys() == cells.keys()
    assert len(set(places.values())) == len(cells)
    starts = {(x, y) for y, line in part.multiplier_blocks for x in line}
    switches = defaultdict(set)
    for name, (row, cell) in cells.items():
        assert block(places[name]) in starts
        # Cycles after the first cell at which this one switches its weights.
        switches[block(places[name])].add(row + columns * cell)
    # The fourth enable is that of the other registers, always on.
    assert max(len(when) for when in switches.values()) <= 3


def test_sums_go_to_a_neighbour():
    places = array_places([multiplier(row, 0) for row in range(16)], PART)
    xs = [block(places[multiplier(row, 0)])[0] for row in range(16)]
    assert max(b - a for a, b in zip(xs, xs[1:], strict=False)) <= 11


def test_several_arrays_follow_one_another():
    names = [multiplier(row, cell, columns=1) for row in range(4) for cell in range(3)]
    both = [name.replace("inner", f"core_{n}") for n in range(2) for name in names]
    places = array_places(both, PART)
    assert places.keys() == set(both) and len(set(places.values())) == len(both)
    alone = array_places(names, PART)
    assert [places[name] for name in both[:12]] == [alone[name] for name in names]


@pytest.mark.parametrize(
    ("names", "part"),
    [
        ([], PART),
        (["inner.matrix.array.row_0.cell_0.sum"], PART),
        ([multiplier(0, 0)], UNKNOWN),
        ([multiplier(row, pair) for row in range(8) for pair in range(4)], SMALLER[25]),
        ([multiplier(row, pair) for row in range(32) for pair in range(6)], PART),
        ([f"{n}{multiplier(row, 0)}" for n in range(6) for row in range(32)], PART),
    ],
)
def test_nothing_to_report(names, part):
    assert array_places(names, part) == {}


def netlist(folder, kind):
    cells = {
        multiplier(0, 0): {"type": kind, "attributes": {}, "connections": {"A": [1]}},
        "memory": {"type": "DP16KD", "attributes": {}, "connections": {"DOA": [1]}},
    }
    path = folder / "core.json"
    path.write_text(json.dumps({"modules": {"top": {"cells": cells}}}))
    return path


def test_netlist(tmp_path):
    given = netlist(tmp_path, "MULT18X18D")
    printed = []
    fixed = fix(given, "top", PART, printed.append)
    assert fixed != given and printed == ["looking for sites of block memories"]
    assert fix(given, "top", PART, printed.append) == fixed and len(printed) == 1
    top = json.loads(fixed.read_text())["modules"]["top"]
    assert top["settings"] == PART.settings
    cells = top["cells"]
    assert cells[multiplier(0, 0)]["attributes"] == {"BEL": "X4/Y58/MULT18_0"}
    assert cells["memory"]["attributes"]["BEL"].startswith("X4/Y")


def test_without_multipliers_the_router_has_its_settings_alone(tmp_path):
    given = netlist(tmp_path, "LUT4")
    for part in (PART, SMALLER[12]):
        fixed = fix(given, "top", part)
        assert fixed != given
        top = json.loads(fixed.read_text())["modules"]["top"]
        assert top["settings"] == part.settings
        assert not any(cell["attributes"] for cell in top["cells"].values())
    assert fix(given, "top", PARTS["iCE40UP5K"]) == given


def around(places):
    """Return a netlist: for each multiplier with a site, a memory that is wired to it alone."""
    cells = {}
    for n, name in enumerate(places):
        wires = list(range(8 * n, 8 * n + 8))
        cells[name] = {"type": "MULT18X18D", "attributes": {}, "connections": {"A": wires}}
        cells[f"memory_{n}"] = {"type": "DP16KD", "attributes": {}, "connections": {"DOA": wires}}
    return cells


def test_memories_go_where_their_wires_go():
    corners = ("X4/Y10/MULT18_0", "X119/Y10/MULT18_5", "X4/Y58/MULT18_0", "X119/Y58/MULT18_5")
    places = {f"m{n}": site for n, site in enumerate(corners)}
    found = other_places(around(places), places, PART)
    # In a row of memories above or below, at most a tile to the side.
    for n, (x, rows) in enumerate([(4, {22}), (119, {22}), (4, {46, 70}), (119, {46, 70})]):
        column, row, _ = found[f"memory_{n}"].split("/")
        assert abs(int(column[1:]) - x) <= 1 and int(row[1:]) in rows


def test_every_memory_has_a_site_of_its_own():
    """As many as there are, all wired to one multiplier; other multipliers find sites, too."""
    places = {"m": "X58/Y34/MULT18_0"}
    wires = list(range(300))
    cells = {"m": {"type": "MULT18X18D", "connections": {"A": wires}}}
    for n in range(4 * sum(len(line) for _, line in PART.memory_blocks)):
        cells[f"memory_{n}"] = {"type": "DP16KD", "connections": {"DOA": wires[n : n + 1]}}
    for n in range(8):
        cells[f"other_{n}"] = {"type": "MULT18X18D", "connections": {"A": wires[n : n + 1]}}
    found = other_places(cells, places, PART)
    assert found.keys() == cells.keys() - {"m"}
    assert len(set(found.values()) | set(places.values())) == len(cells)
    assert all(
        f"/{'EBR' if 'memory' in name else 'MULT18_'}" in site for name, site in found.items()
    )
    assert {block(found[f"other_{n}"])[1] for n in range(8)} == {34}
    assert other_places(cells, places, PART) == found
    cells["one more"] = {"type": "DP16KD", "connections": {"DOA": wires}}
    assert other_places(cells, places, PART) == {}


def test_parts_whose_sites_nobody_looked_up():
    places = {"m": "X4/Y10/MULT18_0"}
    assert other_places(around(places), places, UNKNOWN) == {}
