"""Netlists of Yosys and nextpnr: cells, nets and the blocks they belong to."""

import fnmatch
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from celosia.hw.flow.parts import COLUMNS, Family
from celosia.hw.verilog.sources import Source

#: What lies between the blocks, and outside the instances that contain them.
BETWEEN, OUTSIDE = "between", "outside"


class GateCell(NamedTuple):
    """One cell: its kind, the nets at its inputs and at its outputs, and where it was placed.

    ``ports``: names of its inputs, then of its outputs.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    bel: str
    ports: tuple[str, ...] = ()


class Netlist(NamedTuple):
    """Cells by name, and the names of every net, the cells of a hierarchy joined by dots."""

    cells: dict[str, GateCell]
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
        pins: dict[str, dict[str, int]] = {"input": {}, "output": {}, "inout": {}}
        for port, bits in cell["connections"].items():
            for n, bit in enumerate(bits):
                if isinstance(bit, int):
                    pins[directions[port]][f"{port}[{n}]" if len(bits) > 1 else port] = bit
        bel = cell["attributes"].get("NEXTPNR_BEL", "")
        nets_in, nets_out = (pins[side] for side in ("input", "output"))
        cells[plain(name)] = GateCell(
            cell["type"],
            tuple(nets_in.values()),
            tuple(nets_out.values()),
            bel,
            (*nets_in, *nets_out),
        )
    nets: dict[int, list[str]] = defaultdict(list)
    for name, net in module["netnames"].items():
        for bit in net["bits"]:
            if isinstance(bit, int):
                nets[bit].append(plain(name))
    return Netlist(cells, dict(nets))


def aliases(path: Path, top: str, name: str) -> frozenset[str]:
    """Return all names that a net has in a netlist as JSON; nothing for no name."""
    nets = json.loads(path.read_text())["modules"][top]["netnames"] if name else {}
    bits = nets[name]["bits"] if name else []
    return frozenset(plain(other) for other, net in nets.items() if net["bits"] == bits)


class Blocks:
    """Blocks of a design, by the names of their cells and nets.

    Parameters
    ----------
    opened : sequence of str
        Instances, dots between them, that are no blocks: what they contain are blocks, and nothing
        else is.
    sources : mapping of str to Source
        What is known of the signals.

    Examples
    --------
    >>> blocks = Blocks(["inner", "inner.core"], {})
    >>> names = "inner.core.matrix.cell.sum", "inner.core.reset", "pin", "$abc$1"
    >>> [blocks.of(name) for name in names]
    ['matrix', 'between', 'outside', None]
    """

    def __init__(self, opened: Sequence[str], sources: Mapping[str, Source]) -> None:
        self.opened = frozenset(opened)
        self.sources = sources

    def of(self, name: str) -> str | None:
        """Return the block, ``BETWEEN``, ``OUTSIDE``, or None if the name does not show it."""
        path = ""
        *instances, _ = name.split(".")
        for instance in instances:
            if instance.startswith("$"):
                break
            path = f"{path}.{instance}" if path else instance
            if path not in self.opened:
                return instance if path.rpartition(".")[0] in self.opened else BETWEEN
        if path:
            return BETWEEN
        return None if name.startswith("$") else OUTSIDE

    def of_nets(self, names: Iterable[str]) -> str | None:
        """Return the module that drives a net of these names: it assigns it, or is the deepest."""
        candidates = []
        for name in names:
            block = None if name.startswith("$") else self.of(name)
            if block:
                source = self.sources.get(name)
                known = -1 if source is None else int(source.assigned)
                inside = block not in (BETWEEN, OUTSIDE)
                candidates.append((known, inside, name.count("."), block))
        return max(candidates)[3] if candidates else None


def assign(
    netlist: Netlist, blocks: Blocks, known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the block of each cell.

    The name of a cell shows its block, or those of the nets it drives. A cell that technology
    mapping made and named belongs where most of the cells that it feeds belong, else where most of
    those that feed it do.

    Parameters
    ----------
    netlist : Netlist
        The cells.
    blocks : Blocks
        Block of each name.
    known : mapping of str to str, optional
        Blocks of cells of an earlier netlist, whose names may have got a suffix.
    """
    owners: dict[str, str] = {}
    earlier = known or {}
    driver: dict[int, str] = {}
    for name, cell in netlist.cells.items():
        for net in cell.outputs:
            driver[net] = name
        if block := earlier.get(name) or earlier.get(name.rpartition("$")[0]):
            owners[name] = block
            continue
        block = blocks.of(name) if "." in name else None
        if block in (None, BETWEEN):
            names = (name for net in cell.outputs for name in netlist.nets.get(net, ()))
            block = blocks.of_nets(names) or block
        if block:
            owners[name] = block
    sinks: dict[str, list[str]] = defaultdict(list)
    sources: dict[str, list[str]] = defaultdict(list)
    for name, cell in netlist.cells.items():
        for net in cell.inputs:
            if net in driver:
                sinks[driver[net]].append(name)
                sources[name].append(driver[net])
    for neighbours in (sinks, sources):
        _spread(owners, [name for name in netlist.cells if name not in owners], neighbours)
    return {name: owners.get(name, BETWEEN) for name in netlist.cells}


def _spread(owners: dict[str, str], left: list[str], neighbours: dict[str, list[str]]) -> None:
    """Give cells the block of most of their neighbours, until no more can be given."""
    while left:
        news = {}
        for name in left:
            votes = Counter(owners[other] for other in neighbours[name] if other in owners)
            if votes:
                news[name] = max(sorted(votes), key=votes.__getitem__)
        if not news:
            return
        owners |= news
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
    """Return the cells of each block, by column of ``COLUMNS``; the largest block first."""
    table: dict[str, dict[str, int]] = {}
    for name, cell in netlist.cells.items():
        entry = column_of(family, cell.kind)
        if entry:
            row = table.setdefault(belongs[name], dict.fromkeys(COLUMNS, 0))
            row[entry[0]] += entry[1]
    return dict(sorted(table.items(), key=lambda item: [-count for count in item[1].values()]))
