"""The slowest paths of a placed and routed design, out of the delays that nextpnr writes."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from celosia.hw.flow.netlist import Netlist, plain
from celosia.hw.verilog.sources import Source

_CELL = re.compile(r"\(INSTANCE (.*)\)")
_WIRE = re.compile(r"\(INTERCONNECT (\S+)/(\S+) (\S+)/(\S+) \(([^)]*)\) \(([^)]*)\)\)")
_ARC = re.compile(r"\(IOPATH (\S+) (\S+) \(([^)]*)\) \(([^)]*)\)\)")
_SETUP = re.compile(r"\(SETUPHOLD \(\w+ (\S+)\) \(\w+ (\S+)\) \(([^)]*)\)")


class End(NamedTuple):
    """Start or end of a path: a signal, where it is declared, and its block."""

    name: str
    source: str
    block: str


class TimingPath(NamedTuple):
    """A path from register to register; times in ns, cells are those passed between the two."""

    nanoseconds: float
    wires: float
    levels: int
    start: End
    end: End

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return self._asdict() | {"start": self.start._asdict(), "end": self.end._asdict()}


class Start(NamedTuple):
    """A signal from which paths start that are too long: its slowest in ns, and how many."""

    start: End
    nanoseconds: float
    ends: int

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return self._asdict() | {"start": self.start._asdict()}


class Late(NamedTuple):
    """Inputs that a clock is too fast for: all inputs of registers, late ones, and their starts."""

    ends: int
    late: int
    starts: list[Start]


class Delays(NamedTuple):
    """A graph of pins, each ``(cell, port)``; times in ps.

    ``clocks``: pins that launch, or have a setup time, to the pin that drives their clock.
    """

    wires: dict[tuple[str, str], list[tuple[tuple[str, str], int]]]
    arcs: dict[tuple[str, str], list[tuple[str, int]]]
    launches: dict[tuple[str, str], int]
    setups: dict[tuple[str, str], int]
    clocks: Mapping[tuple[str, str], tuple[str, str]] = {}

    def of_clock(self, cells: Collection[str], *, others: bool = False) -> "Delays":
        """Return the paths from and to the clock that some cells drive, or from and to others."""

        def chosen(pins: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
            return {
                pin: time
                for pin, time in pins.items()
                if (self.clocks.get(pin, ("", ""))[0] in cells) != others
            }

        return self._replace(launches=chosen(self.launches), setups=chosen(self.setups))

    def unwired(self) -> "Delays":
        """Return the same with wires that take no time."""
        wires = {start: [(end, 0) for end, _ in ends] for start, ends in self.wires.items()}
        return self._replace(wires=wires)


def _longest(*triples: str) -> int:
    """Return the greatest of triples least:typical:greatest."""
    return max(round(float(text.rpartition(":")[2] or 0)) for text in triples)


def _name(text: str) -> str:
    return plain(text.replace("\\", "")).strip()


def read(lines: Iterable[str]) -> Delays:
    """Return the delays of an SDF of nextpnr; times are held against clocks and launch paths."""
    clocked: dict[tuple[str, str], tuple[str, str]] = {}
    delays = Delays(defaultdict(list), defaultdict(list), {}, {}, clocked)
    clocks: set[str] = set()
    drivers: dict[tuple[str, str], tuple[str, str]] = {}
    cell = ""
    for line in lines:
        word = line.lstrip()
        if word.startswith("(INTERCONNECT"):
            match = _WIRE.match(word)
            assert match is not None
            start, end = (_name(match[1]), match[2]), (_name(match[3]), match[4])
            delays.wires[start].append((end, _longest(match[5], match[6])))
        elif word.startswith("(INSTANCE"):
            match = _CELL.match(word)
            cell = _name(match[1]) if match else ""
        elif word.startswith("(IOPATH"):
            match = _ARC.match(word)
            assert match is not None
            delays.arcs[cell, match[1]].append((match[2], _longest(match[3], match[4])))
        elif word.startswith("(SETUPHOLD"):
            match = _SETUP.match(word)
            assert match is not None
            pin = (cell, match[1])
            delays.setups[pin] = max(_longest(match[3]), delays.setups.get(pin, 0))
            clocks.add(match[2])
            clocked[pin] = (cell, match[2])
    for cell, port in [pin for pin in delays.arcs if pin[1] in clocks]:
        for output, delay in delays.arcs.pop((cell, port)):
            delays.launches[cell, output] = delay
            clocked[cell, output] = (cell, port)
    for start, ends in delays.wires.items():
        drivers.update((end, start) for end, _ in ends if end[1] in clocks)
    clocked.update({pin: drivers[clock] for pin, clock in clocked.items() if clock in drivers})
    return delays


def _arrivals(
    delays: Delays,
) -> dict[tuple[str, str], tuple[int, int, tuple[str, str] | None]]:
    """Return when each pin settles after the clock, how much of that is wires, and the pin before.

    Pins are taken in an order in which everything before them is known; loops are left out.
    """
    waiting: dict[tuple[str, str], int] = defaultdict(int)

    def after(pin: tuple[str, str]) -> Iterator[tuple[tuple[str, str], int, int]]:
        for end, delay in delays.wires.get(pin, ()):
            yield end, delay, delay
        for port, delay in delays.arcs.get(pin, ()):
            yield (pin[0], port), delay, 0

    reached: set[tuple[str, str]] = set(delays.launches)
    stack = list(reached)
    while stack:
        for end, _, _ in after(stack.pop()):
            waiting[end] += 1
            if end not in reached:
                reached.add(end)
                stack.append(end)
    arrivals: dict[tuple[str, str], tuple[int, int, tuple[str, str] | None]] = {
        pin: (delay, 0, None) for pin, delay in delays.launches.items()
    }
    stack = [pin for pin in delays.launches if not waiting[pin]]
    while stack:
        pin = stack.pop()
        time, wires, _ = arrivals[pin]
        for end, delay, wire in after(pin):
            if end not in arrivals or arrivals[end][0] < time + delay:
                arrivals[end] = (time + delay, wires + wire, pin)
            waiting[end] -= 1
            if not waiting[end]:
                stack.append(end)
    return arrivals


class Timing:
    """When each register, memory and multiplier of a design is reached.

    Parameters
    ----------
    graph : Delays
        Of its cells and wires.
    end : function of str
        Gives the signal that a cell drives, see ``ends``.
    """

    def __init__(self, graph: Delays, end: Callable[[str], End]) -> None:
        self._graph = graph
        self._end = end
        self._arrivals = _arrivals(graph)
        self._ends = sorted(
            (
                (self._arrivals[pin][0] + setup, pin)
                for pin, setup in graph.setups.items()
                if pin in self._arrivals
            ),
            reverse=True,
        )

    def _cells(self, pin: tuple[str, str]) -> list[str]:
        """Return the cells of the longest path to a pin, that of the pin first."""
        cells = [pin[0]]
        while (before := self._arrivals[pin][2]) is not None:
            pin = before
            if pin[0] != cells[-1]:
                cells.append(pin[0])
        return cells

    def paths(self) -> Iterator[TimingPath]:
        """Yield the longest path to each input, the slowest first."""
        for time, pin in self._ends:
            cells = self._cells(pin)
            start, end = self._end(cells[-1]), self._end(cells[0])
            wires = self._arrivals[pin][1] / 1000
            yield TimingPath(time / 1000, wires, max(0, len(cells) - 2), start, end)

    def slowest(self, count: int = 5) -> list[TimingPath]:
        """Return the slowest paths, one for each pair of signals."""
        paths: dict[tuple[str, str], TimingPath] = {}
        for path in self.paths():
            paths.setdefault((path.start.name, path.end.name), path)
            if len(paths) == count:
                break
        return list(paths.values())

    def unwired(self) -> TimingPath:
        """Return the path whose cells take longest by themselves, wires left out.

        What placing and routing cannot shorten.

        Raises
        ------
        ValueError
            If there is no path at all.
        """
        paths = Timing(self._graph.unwired(), self._end).slowest(1)
        if not paths:
            raise ValueError("delays: no path from register to register")
        return paths[0]

    def late(self, nanoseconds: float) -> Late:
        """Return what is reached later than a clock of this period allows, by where it starts."""
        starts: dict[str, Start] = {}
        count = 0
        for path in self.paths():
            if path.nanoseconds <= nanoseconds:
                break
            count += 1
            known = starts.get(path.start.name, Start(path.start, path.nanoseconds, 0))
            starts[path.start.name] = known._replace(ends=known.ends + 1)
        return Late(len(self._ends), count, list(starts.values()))


def ends(
    netlist: Netlist, belongs: Mapping[str, str], sources: Mapping[str, Source]
) -> Callable[[str], End]:
    """Return a function from a cell to the signal that it drives.

    Parameters
    ----------
    netlist : Netlist
        As synthesised.
    belongs : mapping of str to str
        Block of each of its cells.
    sources : mapping of str to Source
        See ``sources.separate``.
    """
    return cache(lambda cell: _end(cell, netlist, belongs, sources))


def _end(
    cell: str, netlist: Netlist, belongs: Mapping[str, str], sources: Mapping[str, Source]
) -> End:
    """Return the signal that a register, memory or multiplier drives."""
    known = netlist.cells.get(cell)
    names = [name for net in known.outputs for name in netlist.nets.get(net, ())] if known else []
    block = belongs.get(cell, "")
    named = [name for name in names if name in sources]
    if named:
        name = max(named, key=lambda text: (sources[text].assigned, text.count(".")))
        return End(name, sources[name].place, block)
    # An input of a module, or a memory or a primitive that is named after its instance: any signal
    # of the module has the file.
    public = [name for name in names if not name.startswith("$")]
    if cell.startswith("$") and public:
        cell = max(public, key=lambda text: text.count("."))
    module = cell.rpartition(".")[0]
    while module and module not in sources:
        module = module.rpartition(".")[0]
    return End(cell, sources[module].place if module else "", block)
