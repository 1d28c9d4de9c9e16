"""Logic depth: LUTs in a row between registers, counted in a netlist that nobody has placed."""

import fnmatch
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from celosia.hw.flow.netlist import Netlist
from celosia.hw.flow.parts import Family
from celosia.hw.flow.paths import Delays, End, Timing

#: Depths that few inputs should have more than: at 1.2 ns a LUT with its wire, 100 MHz allow seven.
LIMITS = (7, 8)
#: A LUT takes a nanosecond here, and a wire takes nothing.
_STEP = 1000
#: Rows of the printed table.
_ROWS = 20


class DeepPath(NamedTuple):
    """Greatest depth between two signals, and how many inputs are too deep between them."""

    depth: int
    inputs: int
    start: End
    end: End

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return self._asdict() | {"start": self.start._asdict(), "end": self.end._asdict()}


class Depth(NamedTuple):
    """Inputs of registers, memories and multipliers of each block by their depth.

    ``paths``: those deeper than the least of ``LIMITS``, the deepest first; if there are none, the
    deepest of all.
    """

    blocks: dict[str, Counter[int]]
    paths: list[DeepPath]

    @property
    def total(self) -> Counter[int]:
        """Inputs of all blocks by their depth."""
        return sum(self.blocks.values(), Counter())

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return {
            **_figures(self.total),
            "blocks": {block: _figures(depths) for block, depths in self.blocks.items()},
            "paths": [path.as_dict() for path in self.paths],
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of a table."""
        heads = ("inputs", *(f"over {limit}" for limit in LIMITS), "greatest")
        yield f"{'logic depth':<16} " + " ".join(f"{head:>9}" for head in heads)
        for block, depths in {**self.blocks, "total": self.total}.items():
            row = _figures(depths).values()
            yield f"{block:<16} " + " ".join(f"{figure:>9,}" for figure in row)
        yield from ("", f"{'depth':>5} {'inputs':>7}  from, to the deepest")
        starts: dict[str, DeepPath] = {}
        for path in self.paths:
            first = starts.get(path.start.name, path._replace(inputs=0))
            starts[path.start.name] = first._replace(inputs=first.inputs + path.inputs)
        for path in list(starts.values())[:_ROWS]:
            ends = (f"{end.name} ({end.source or 'source unknown'})" for end in path[2:])
            yield f"{path.depth:>5} {path.inputs:>7,}  {' -> '.join(ends)}, {path.end.block}"


def _figures(depths: Counter[int]) -> dict[str, int]:
    over = {
        f"over_{limit}": sum(count for depth, count in depths.items() if depth > limit)
        for limit in LIMITS
    }
    return {"inputs": depths.total(), **over, "greatest": max(depths, default=0)}


@cache
def _matches(name: str, *patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def graph(netlist: Netlist, family: Family) -> Delays:
    """Return a netlist as delays: one step for each LUT and each chain, none for wires."""
    delays = Delays(defaultdict(list), defaultdict(list), {}, {})
    drivers: dict[int, tuple[str, str]] = {}
    for name, cell in netlist.cells.items():
        steps, chain = next(
            (ports for kind, ports in family.logic.items() if _matches(cell.kind, kind)), ("", "")
        )
        outputs = cell.ports[len(cell.inputs) :]
        drivers |= {net: (name, port) for net, port in zip(cell.outputs, outputs, strict=True)}
        for port in cell.ports[: len(cell.inputs)]:
            if _matches(port, chain) or _matches(port, steps):
                step = 0 if _matches(port, chain) else _STEP
                delays.arcs[name, port] = [(output, step) for output in outputs]
            elif not _matches(port, *family.clocks):
                delays.setups[name, port] = 0
        # What is written at a clock edge, if any is, appears at the outputs after it.
        if steps != "*" and chain != "*":
            delays.launches.update({(name, output): 0 for output in outputs})
    for name, cell in netlist.cells.items():
        for net, port in zip(cell.inputs, cell.ports, strict=False):
            if net in drivers:
                delays.wires[drivers[net]].append(((name, port), 0))
    return delays


def depth(timing: Timing) -> Depth:
    """Return the depths of a netlist, out of the timing of its ``graph``."""
    blocks: dict[str, Counter[int]] = defaultdict(Counter)
    paths: dict[tuple[str, str], DeepPath] = {}
    deepest = 0
    for path in timing.paths():
        steps = round(path.nanoseconds)
        blocks[path.end.block][steps] += 1
        deepest = max(deepest, steps)
        if steps >= min(deepest, min(LIMITS) + 1):
            ends = path.start, path.end
            known = paths.get((path.start.name, path.end.name), DeepPath(steps, 0, *ends))
            paths[path.start.name, path.end.name] = known._replace(inputs=known.inputs + 1)
    by_depth = sorted(blocks.items(), key=lambda item: (-max(item[1]), -item[1].total()))
    return Depth(dict(by_depth), list(paths.values()))
