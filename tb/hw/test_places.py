"""Places of multipliers: every one its own site, no block with more enables than it can take."""

import json
from collections import defaultdict

import pytest

from celosia.hw.flow.parts import PARTS
from celosia.hw.flow.places import array_places, fix

PART = PARTS["LFE5U-85F"]


def multiplier(row, pair, prefix="inner.matrix"):
    return f"{prefix}.array.row_{row}.cell_{2 * pair}.product.multiplier"


def block(site):
    place, multiplier = site.split("/MULT18_")
    x, y = place.removeprefix("X").split("/Y")
    return int(x) - int(multiplier), int(y)


@pytest.mark.parametrize(("rows", "pairs"), [(16, 8), (8, 3), (5, 2), (1, 1)])
def test_sites(rows, pairs):
    cells = {multiplier(row, pair): (row, pair) for row in range(rows) for pair in range(pairs)}
    places = array_places([*cells, "inner.vector.pipe.multiplier"], PART)
    assert places.keys() == cells.keys()
    assert len(set(places.values())) == len(cells)
    starts = {(x, y) for y, line in PART.multiplier_blocks for x in line}
    switches = defaultdict(set)
    for name, (row, pair) in cells.items():
        assert block(places[name]) in starts
        # Cycles after the first cell at which this one switches its weights.
        switches[block(places[name])].add(row + 2 * pair)
    # The fourth enable is that of the other registers, always on.
    assert max(len(when) for when in switches.values()) <= 3


def test_sums_go_to_a_neighbour():
    places = array_places([multiplier(row, 0) for row in range(16)], PART)
    xs = [block(places[multiplier(row, 0)])[0] for row in range(16)]
    assert max(b - a for a, b in zip(xs, xs[1:], strict=False)) <= 11


@pytest.mark.parametrize(
    ("names", "part"),
    [
        ([], PART),
        (["inner.matrix.array.row_0.cell_0.sum"], PART),
        ([multiplier(0, 0)], PARTS["LFE5U-25F-CABGA381"]),
        ([multiplier(row, pair) for row in range(32) for pair in range(6)], PART),
    ],
)
def test_nothing_to_say(names, part):
    assert array_places(names, part) == {}


def netlist(folder, kind):
    cells = {multiplier(0, 0): {"type": kind, "attributes": {}}}
    path = folder / "core.json"
    path.write_text(json.dumps({"modules": {"top": {"cells": cells}}}))
    return path


def test_netlist(tmp_path):
    given = netlist(tmp_path, "MULT18X18D")
    fixed, options = fix(given, "top", PART)
    assert fixed != given and options == PART.family.fixed
    assert fix(given, "top", PART) == (fixed, options)
    top = json.loads(fixed.read_text())["modules"]["top"]
    assert top["settings"] == PART.settings
    cells = top["cells"]
    assert cells[multiplier(0, 0)]["attributes"] == {"BEL": "X4/Y10/MULT18_0"}


def test_without_multipliers_the_router_has_its_settings_alone(tmp_path):
    given = netlist(tmp_path, "LUT4")
    small = PARTS["LFE5U-12F-CABGA381"]
    for part in (PART, small):
        fixed, options = fix(given, "top", part)
        assert fixed != given and options == ()
        top = json.loads(fixed.read_text())["modules"]["top"]
        assert top["settings"] == part.settings
        assert top["cells"] == {multiplier(0, 0): {"type": "LUT4", "attributes": {}}}
    assert fix(given, "top", PARTS["iCE40UP5K"]) == (given, ())
