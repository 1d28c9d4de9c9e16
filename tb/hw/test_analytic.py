"""Analytic placement: rough places keep order and fill the part, memories end near wires."""

import numpy as np
import pytest

from celosia.hw.flow.analytic import Cells, Sites, _spread, _Wires, site_places

SIZE = np.array([40.0, 30.0])


@pytest.mark.parametrize("count", [1, 2, 13, 500, 3000])
def test_spread_fills_the_part(count):
    places = np.random.default_rng(count).normal(15, 1, (count, 2))
    found = _spread(places, np.ones(count), SIZE)
    assert (found > 0).all() and (found < SIZE).all()
    for axis in (0, 1):
        # A quarter of the part holds a quarter of the cells, but for those on its edge.
        inside = (found[:, axis] < SIZE[axis] / 4).sum()
        assert abs(inside - count / 4) <= 2 + count / 20
    left = places[:, 0].argsort()
    if count > 100:
        assert (
            found[left[: count // 2], 0].mean() < found[left[count // 2 :], 0].mean() - SIZE[0] / 4
        )


def test_spread_gives_large_cells_more_space():
    """The left half is as large as the right: it takes half, nine of ten small ones less."""
    places = np.stack([np.arange(1000.0), np.zeros(1000)], axis=1)
    areas = np.where(np.arange(1000) < 100, 9.0, 1.0)
    found = _spread(places, areas, SIZE)
    assert found[:100, 0].max() == pytest.approx(SIZE[0] / 2, rel=0.1)


def lengths_by_hand(nets, places):
    total = 0.0
    for net in nets:
        for axis in (0, 1):
            at = [places[cell, axis] for cell in net]
            total += max(at) - min(at)
    return total


@pytest.mark.parametrize("seed", range(5))
def test_springs_hold_the_length_of_nets(seed):
    """Springs of both axes store the sum of the sides of all boxes; rest is no longer."""
    rng = np.random.default_rng(seed)
    count = 60
    nets = [np.sort(rng.choice(count, rng.integers(2, 9), replace=False)) for _ in range(90)]
    held = np.zeros(count, bool)
    held[:6] = True
    places = rng.uniform(0, 30, (count, 2)) * 10
    wires = _Wires(nets, held, np.array([300.0, 300.0]))
    assert wires.length(places) == pytest.approx(lengths_by_hand(nets, places))
    for axis in (0, 1):
        a, b, strength = wires._springs(places[:, axis])
        stored = strength * (places[a, axis] - places[b, axis]) ** 2
        low, high = wires.bounds(places[:, axis])
        # Springs shorter than a tile are weaker.
        assert stored.sum() == pytest.approx((high - low).sum(), rel=0.02)
    rest = wires.relaxed(places, np.zeros(count), places)
    assert wires.length(rest) < wires.length(places)
    assert (rest[held] == places[held]).all()


def test_a_net_at_one_place():
    """All pins where they are: two ends are taken, none twice."""
    nets = [np.array([0, 1]), np.array([0, 1, 2])]
    wires = _Wires(nets, np.zeros(3, bool), SIZE)
    a, b, strength = wires._springs(np.full(3, 7.0))
    assert (a != b).all() and np.isfinite(strength).all()


def grid(rng):
    """Return cells in columns of logic between a fixed cell and a memory, and memory sites."""
    kinds, nets, fixed = [], [], {}
    for column in range(8):
        first = len(kinds)
        kinds += ["FIXED", *["LUT4"] * 20, "MEMORY"]
        fixed[first] = (5 * column, 5)
        nets += [np.array([n, n + 1]) for n in range(first, first + 21)]
    order = rng.permutation(8).tolist()
    shuffled = Sites([f"S{n}" for n in order], np.array([(5 * n, 20) for n in order], float))
    areas = np.array([1.0 if kind == "LUT4" else 0.0 for kind in kinds])
    return Cells(kinds, areas, nets), shuffled, fixed


def test_chains_keep_their_columns():
    """Every site is taken, so all memories have to agree; no crossing is the shortest."""
    cells, sites, fixed = grid(np.random.default_rng(3))
    found = site_places(cells, {"MEMORY": sites}, fixed, SIZE)
    assert [found[22 * n + 21] for n in range(8)] == [f"S{n}" for n in range(8)]


def test_netlist_becomes_cells():
    netlist = {
        "a": {"type": "LUT4", "connections": {"A": [2, "0"], "Z": [3]}},
        "b": {"type": "TRELLIS_FF", "connections": {"DI": [3], "Q": [2]}},
        "c": {"type": "DP16KD", "connections": {"DIA": [3, 3], "DOA": [4]}},
    }
    cells = Cells.of(netlist, {"LUT4": 1.0, "TRELLIS_FF": 0.5})
    assert cells.kinds == ["LUT4", "TRELLIS_FF", "DP16KD"]
    assert cells.areas.tolist() == [1.0, 0.5, 0.0]
    assert sorted(net.tolist() for net in cells.nets) == [[0, 1], [0, 1, 2]]
