"""Sites for block memories and multipliers: an analytic placement of the whole netlist.

A part that has all its block memories in four rows, nearly all of them taken, leaves a placer that
fits them in one after the other no near site for the last ones, and what is wired to them follows.
Here all of them are fitted in at once, again and again, while wires pull the logic between them
together and a limit of cells per tile pushes it apart.

The method is that of SimPL (Kim, Lee, Markov: SimPL, an effective placement algorithm, IEEE TCAD
31(1), 2012): lengths of wires are minimised as a system of springs, a rough legal placement is made
of the result, and the next system has a spring more from each cell to its rough place, stronger
each time. Springs follow the bound-to-bound model (Spindler, Schlichtmann, Johannes: Kraftwerk2,
IEEE TCAD 27(8), 2008), whose energy is half the perimeter of the box around a net. Rough places of
logic come from halving, those of memories and multipliers from an optimal assignment to sites.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

# SciPy has no types: a checker would infer them from its sources, for seconds.
optimize: Any = import_module("scipy.optimize")
sparse: Any = import_module("scipy.sparse")
linalg: Any = import_module("scipy.sparse.linalg")

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

#: Rounds of springs and rough places.
_ROUNDS = 40
#: What a rough place pulls more in each round: cells of logic, and those that have sites.
_LOGIC_PULL = 0.02
_SITE_PULL = 3.0
#: Nets of more cells than this pull nothing anywhere.
_WIDEST = 400
#: Logic that is not worth halving any further: cells, tiles.
_FEW = 12
_SMALL = 3.0


class Sites(NamedTuple):
    """Places of cells of one kind: names, and column and row of each, of shape (n, 2)."""

    names: Sequence[str]
    places: Floats


class Cells(NamedTuple):
    """A netlist as the placement sees it.

    Parameters
    ----------
    kinds : sequence of str
        Kind of each cell.
    areas : ndarray of float64, shape (n,)
        Of each cell, in any unit.
    nets : sequence of ndarray of int64
        Cells of each net, ascending, two or more.
    """

    kinds: Sequence[str]
    areas: Floats
    nets: Sequence[Ints]

    @classmethod
    def of(cls, cells: Mapping[str, Mapping[str, Any]], areas: Mapping[str, float]) -> "Cells":
        """Return the cells of a netlist of Yosys in their order there; ``areas`` is by kind."""
        ends: defaultdict[int, set[int]] = defaultdict(set)
        for n, cell in enumerate(cells.values()):
            for bits in cell["connections"].values():
                for bit in bits:
                    if isinstance(bit, int):
                        ends[bit].add(n)
        kinds = [cell["type"] for cell in cells.values()]
        nets = [np.array(sorted(end)) for end in ends.values() if 2 <= len(end) <= _WIDEST]
        return cls(kinds, np.array([areas.get(kind, 0.0) for kind in kinds]), nets)


class _Wires:
    """The nets of a netlist, and the springs that they are.

    Cells that are ``fixed`` do not move. ``size`` is that of the part in tiles.
    """

    def __init__(self, nets: Sequence[Ints], fixed: NDArray[np.bool_], size: Floats) -> None:
        self.nets = nets
        self.free = ~fixed
        self.index = np.cumsum(self.free) - 1
        self.count = int(self.free.sum())
        self.size = size
        self.pins = np.concatenate(nets)
        self.degrees = np.array([len(net) for net in nets])
        self.starts = np.r_[0, np.cumsum(self.degrees)[:-1]]
        self.net = np.repeat(np.arange(len(nets)), self.degrees)

    def bounds(self, places: Floats) -> tuple[Floats, Floats]:
        """Return the least and the greatest place along one axis of each net."""
        at = places[self.pins]
        return np.minimum.reduceat(at, self.starts), np.maximum.reduceat(at, self.starts)

    def length(self, places: Floats) -> float:
        """Return half the perimeters of the boxes around all nets, in tiles."""
        sides = (np.subtract(*self.bounds(places[:, axis])[::-1]).sum() for axis in (0, 1))
        return float(sum(sides))

    def _first(self, chosen: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Return nets that have a chosen pin, and the first of each."""
        pins = np.flatnonzero(chosen)
        nets, first = np.unique(self.net[pins], return_index=True)
        return nets, pins[first]

    def _springs(self, places: Floats) -> tuple[Ints, Ints, Floats]:
        """Return both ends and the strength of each spring along one axis."""
        at = places[self.pins]
        least, greatest = self.bounds(places)
        _, low = self._first(at == least[self.net])
        far = at == greatest[self.net]
        far[low] = False
        # Where all pins of a net are at one place, any other one is its far end.
        high = self.starts + (low == self.starts)
        nets, pins = self._first(far)
        high[nets] = pins
        inner = np.ones(len(self.pins), bool)
        inner[low] = inner[high] = False
        inner = np.flatnonzero(inner)
        of = self.net[inner]
        a = self.pins[np.r_[low, inner, inner]]
        b = self.pins[np.r_[high, low[of], high[of]]]
        degrees = self.degrees[np.r_[np.arange(len(low)), of, of]]
        return a, b, 1 / ((degrees - 1) * np.maximum(np.abs(places[a] - places[b]), 1.0))

    def relaxed(self, places: Floats, pulls: Floats, targets: Floats) -> Floats:
        """Return where springs of nets, and of each cell to its target, come to rest."""
        moved = places.copy()
        free, index = self.free, self.index
        for axis in (0, 1):
            was = moved[:, axis]
            a, b, strength = self._springs(was)
            pull = (pulls / np.maximum(np.abs(was - targets[:, axis]), 1.0))[free] + 1e-6
            diagonal, right = pull, pull * targets[free, axis]
            for one, other in ((a, b), (b, a)):
                loose = free[one]
                diagonal = diagonal + np.bincount(
                    index[one[loose]], strength[loose], minlength=self.count
                )
                held = loose & ~free[other]
                right = right + np.bincount(
                    index[one[held]], strength[held] * was[other[held]], minlength=self.count
                )
            both = free[a] & free[b]
            i, j, values = index[a[both]], index[b[both]], strength[both]
            between = sparse.coo_matrix(
                (np.r_[values, values], (np.r_[i, j], np.r_[j, i])), (self.count, self.count)
            )
            system = (sparse.diags(diagonal) - between).tocsr()
            start = {"x0": was[free], "M": sparse.diags(1 / diagonal)}
            solution, _ = linalg.cg(system, right, rtol=1e-3, maxiter=100, **start)
            moved[free, axis] = np.clip(solution, 0.0, self.size[axis])
        return moved


def site_places(
    cells: Cells, sites: Mapping[str, Sites], fixed: Mapping[int, tuple[int, int]], size: Floats
) -> dict[int, str]:
    """Return sites for all cells of the kinds that have them, the fixed ones left out.

    Parameters
    ----------
    cells : Cells
        The netlist.
    sites : dict of str to Sites
        By kind of cell; as many as there are cells, or more.
    fixed : dict of int to (int, int)
        Column and row of cells that have their places already; their sites are not among ``sites``.
    size : ndarray of float64, shape (2,)
        Columns and rows of the part.

    Returns
    -------
    dict of int to str
        Name of a site by number of cell.
    """
    count = len(cells.kinds)
    held = np.zeros(count, bool)
    places = np.tile(size / 2, (count, 1))
    # All of them at one point would have no springs between them.
    places += np.random.default_rng(1).normal(0, 1, places.shape)
    for cell, place in fixed.items():
        held[cell] = True
        places[cell] = place
    kinds = np.array(cells.kinds)
    sited = np.isin(kinds, list(sites))
    groups = {kind: np.flatnonzero((kinds == kind) & ~held) for kind in sites}
    logic = np.flatnonzero(~sited & ~held)
    wires = _Wires(cells.nets, held, size)
    growth = np.where(sited, _SITE_PULL, _LOGIC_PULL)

    for _ in range(3):
        places = wires.relaxed(places, np.zeros(count), places)
    best, shortest, chosen = places, np.inf, dict[str, Ints]()
    for n in range(1, _ROUNDS + 1):
        rough = places.copy()
        rough[logic] = _spread(places[logic], cells.areas[logic], size)
        taken = {}
        for kind, group in groups.items():
            apart = np.abs(places[group][:, None] - sites[kind].places[None]).sum(axis=2)
            _, taken[kind] = optimize.linear_sum_assignment(apart)
            rough[group] = sites[kind].places[taken[kind]]
        length = wires.length(rough)
        if length < shortest:
            best, shortest, chosen = rough, length, taken
        places = wires.relaxed(places, growth * n, rough)
    for kind, group in groups.items():
        best, chosen[kind] = _exchanged(wires, best, group, sites[kind].places, chosen[kind])
    return {
        int(cell): sites[kind].names[int(site)]
        for kind, group in groups.items()
        for cell, site in zip(group, chosen[kind], strict=True)
    }


def _spread(places: Floats, areas: Floats, size: Floats) -> Floats:
    """Return places of the same order that fill the part evenly.

    Cells and part are halved, across the longer side, until little is left; cells of a rest are
    put in it in order.
    """
    spread = np.empty_like(places)
    work = [(np.arange(len(places)), np.zeros(2), size)]
    while work:
        group, low, high = work.pop()
        if len(group) <= _FEW or np.prod(high - low) <= _SMALL:
            ranks = places[group].argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
            spread[group] = low + (high - low) * (ranks + 0.5) / max(len(group), 1)
            continue
        axis = int(np.argmax(high - low))
        group = group[places[group, axis].argsort(kind="stable")]
        sums = np.cumsum(np.maximum(areas[group], 1e-3))
        cut = min(int(np.searchsorted(sums, sums[-1] / 2)) + 1, len(group) - 1)
        middle = low[axis] + (high - low)[axis] * sums[cut - 1] / sums[-1]
        end, start = high.copy(), low.copy()
        end[axis] = start[axis] = middle
        work += [(group[:cut], low, end), (group[cut:], start, high)]
    return spread


def _exchanged(
    wires: _Wires, places: Floats, group: Ints, sites: Floats, taken: Ints
) -> tuple[Floats, Ints]:
    """Return places, and the site of each cell of a group, after moving the group alone.

    All others stay: what each cell adds to the boxes of its nets at each site is known then, but
    for nets that have more than one of the group, so it is done again while wires get shorter.
    """
    mine: defaultdict[int, list[int]] = defaultdict(list)
    for pin in np.flatnonzero(np.isin(wires.pins, group)):
        mine[int(wires.pins[pin])].append(int(wires.net[pin]))
    length = wires.length(places)
    while True:
        costs = np.zeros((len(group), len(sites)))
        for cost, cell in zip(costs, group, strict=True):
            for net in mine[int(cell)]:
                others = places[wires.nets[net][wires.nets[net] != cell]]
                cost += _outside(sites, others.min(axis=0), others.max(axis=0))
        _, better = optimize.linear_sum_assignment(costs)
        moved = places.copy()
        moved[group] = sites[better]
        shorter = wires.length(moved)
        if shorter >= length:
            return places, taken
        places, length, taken = moved, shorter, better


def _outside(sites: Floats, low: Floats, high: Floats) -> Floats:
    """Return how far outside a box each site is."""
    return (np.maximum(0, low - sites) + np.maximum(0, sites - high)).sum(axis=1)
