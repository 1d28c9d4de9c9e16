"""Netlists of Yosys and nextpnr: cells, nets and the blocks they belong to."""

import fnmatch
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from celosia.hw.flow.parts import COLUMNS, Family
from celosia.hw.flow.sources import Source

#: Room of what lies between the rooms.
BETWEEN = "between"


class Cell(NamedTuple):
    """One cell: its kind, the nets at its inputs and at its outputs, and where it was placed."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    bel: str


class Netlist(NamedTuple):
    """Cells by name, and the names of every net, the cells of a hierarchy joined by dots."""

    cells: dict[str, Cell]
    nets: dict[int, list[str]]


def plain(name: str) -> str:
    """Return a name as the source has it: Yosys marks flattened hierarchies in several ways.

    Examples
    --------
    >>> plain("$flatten\\\\core.\\\\matrix.$procdff$12")
    'core.matrix.$procdff$12'
    """
    return name.removeprefix("$flatten").replace("\\", "")


def read(path: Path, top: str) -> Netlist:
    """Return the netlist that a tool has written as JSON; nextpnr calls every top ``top``."""
    modules = json.loads(path.read_text())["modules"]
    module = modules.get(top) or modules["top"]
    cells = {}
    for name, cell in module["cells"].items():
        directions = cell["port_directions"]
        ends: dict[str, list[int]] = {"input": [], "output": [], "inout": []}
        for port, bits in cell["connections"].items():
            ends[directions[port]] += [bit for bit in bits if isinstance(bit, int)]
        bel = cell["attributes"].get("NEXTPNR_BEL", "")
        inputs, outputs = tuple(ends["input"]), tuple(ends["output"])
        cells[plain(name)] = Cell(cell["type"], inputs, outputs, bel)
    nets: dict[int, list[str]] = defaultdict(list)
    for name, net in module["netnames"].items():
        for bit in net["bits"]:
            if isinstance(bit, int):
                nets[bit].append(plain(name))
    return Netlist(cells, dict(nets))


class Rooms:
    """Says to which room a name belongs.

    Parameters
    ----------
    opened : sequence of str
        Instances, dots between them, that are no rooms: what they contain are rooms, and nothing
        else is.
    sources : mapping of str to Source
        What is known of the signals.

    Examples
    --------
    >>> rooms = Rooms(["inner", "inner.core"], {})
    >>> rooms.of("inner.core.matrix.cell.sum"), rooms.of("inner.core.reset"), rooms.of("$abc$1")
    ('matrix', 'between', None)
    """

    def __init__(self, opened: Sequence[str], sources: Mapping[str, Source]) -> None:
        self.opened = frozenset(opened)
        self.sources = sources

    def of(self, name: str) -> str | None:
        """Return the room, ``BETWEEN`` for what is in none, None for a name that does not tell."""
        path = ""
        *instances, _ = name.split(".")
        for instance in instances:
            if instance.startswith("$"):
                break
            path = f"{path}.{instance}" if path else instance
            if path not in self.opened:
                return instance if path.rpartition(".")[0] in self.opened else BETWEEN
        return BETWEEN if path or not name.startswith("$") else None

    def of_nets(self, names: Iterable[str]) -> str | None:
        """Return the module that drives a net of these names: it assigns it, or is the deepest."""
        told = []
        for name in names:
            room = None if name.startswith("$") else self.of(name)
            if room:
                source = self.sources.get(name)
                known = -1 if source is None else int(source.assigned)
                told.append((known, room != BETWEEN, name.count("."), room))
        return max(told)[3] if told else None


def assign(
    netlist: Netlist, rooms: Rooms, known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the room of each cell.

    A cell's own name tells, or those of the nets it drives. What technology mapping made and
    named anew belongs where most of what it feeds belongs, else where most of what feeds it does.

    Parameters
    ----------
    netlist : Netlist
        The cells.
    rooms : Rooms
        Says to which room names belong.
    known : mapping of str to str, optional
        Rooms of cells of an earlier netlist, whose names may have got something appended.
    """
    found: dict[str, str] = {}
    earlier = known or {}
    driver: dict[int, str] = {}
    for name, cell in netlist.cells.items():
        for net in cell.outputs:
            driver[net] = name
        if room := earlier.get(name) or earlier.get(name.rpartition("$")[0]):
            found[name] = room
            continue
        room = rooms.of(name) if "." in name else None
        if room in (None, BETWEEN):
            names = (name for net in cell.outputs for name in netlist.nets.get(net, ()))
            room = rooms.of_nets(names) or room
        if room:
            found[name] = room
    sinks: dict[str, list[str]] = defaultdict(list)
    sources: dict[str, list[str]] = defaultdict(list)
    for name, cell in netlist.cells.items():
        for net in cell.inputs:
            if net in driver:
                sinks[driver[net]].append(name)
                sources[name].append(driver[net])
    for neighbours in (sinks, sources):
        _spread(found, [name for name in netlist.cells if name not in found], neighbours)
    return {name: found.get(name, BETWEEN) for name in netlist.cells}


def _spread(found: dict[str, str], left: list[str], neighbours: dict[str, list[str]]) -> None:
    """Give cells the room of most of their neighbours, until no more can be given."""
    while left:
        news = {}
        for name in left:
            votes = Counter(found[other] for other in neighbours[name] if other in found)
            if votes:
                news[name] = max(sorted(votes), key=votes.__getitem__)
        if not news:
            return
        found |= news
        left = [name for name in left if name not in news]


def column_of(family: Family, kind: str) -> tuple[str, int] | None:
    """Return the column of ``COLUMNS`` that a kind of cell counts for, and how often."""
    return _columns(tuple(family.columns.items()), kind)


@lru_cache
def _columns(columns: tuple[tuple[str, tuple[str, int]], ...], kind: str) -> tuple[str, int] | None:
    for pattern, entry in columns:
        if fnmatch.fnmatchcase(kind, pattern):
            return entry
    return None


def areas(netlist: Netlist, belongs: dict[str, str], family: Family) -> dict[str, dict[str, int]]:
    """Return what each room takes, by column of ``COLUMNS``; the largest room first."""
    table: dict[str, dict[str, int]] = {}
    for name, cell in netlist.cells.items():
        entry = column_of(family, cell.kind)
        if entry:
            row = table.setdefault(belongs[name], dict.fromkeys(COLUMNS, 0))
            row[entry[0]] += entry[1]
    return dict(sorted(table.items(), key=lambda item: [-count for count in item[1].values()]))
