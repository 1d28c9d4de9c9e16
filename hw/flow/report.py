"""Report of a design: area, clock, and the paths that limit it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from celosia.hw.flow import netlist, paths, tools
from celosia.hw.flow.clocks import net_of
from celosia.hw.flow.depth import Depth, depth, graph
from celosia.hw.flow.flow import Design, Run, speeds, synthesised
from celosia.hw.flow.parts import COLUMNS

#: Signals shown from which late paths start, the slowest first.
_STARTS = 20

#: Multiples of the fastest run's clock for which late ends are reported.
_BEYOND = (1.1, 1.25, 1.5, 2.0)

_PLACE = re.compile(r"X(\d+)/?Y(\d+)/")


class Place(NamedTuple):
    """Place of a cell: column and row of the part, its block, and the kind it counts for."""

    column: int
    row: int
    block: str
    kind: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """Of one design.

    Parameters
    ----------
    design : Design
        What was built.
    runs : list of Run
        The fastest first; none where the design was only synthesised.
    blocks : dict
        Block, to column of ``COLUMNS``, to how many; as synthesised.
    depth : Depth
        LUTs in a row, as synthesised.
    slowest : list of paths.TimingPath
        The worst paths of the fastest run.
    unwired : paths.TimingPath, optional
        The path of it whose cells take longest, wires left out.
    late : paths.Late, optional
        What is too late in it for the wanted clock.
    beyond : list of (float, paths.Late)
        What is too late in it for clocks that are faster than it, in MHz.
    places : list of Place
        Its cells.
    bitstream : Path, optional
        What was made, under a name of the run's.
    """

    design: Design
    runs: Sequence[Run]
    blocks: dict[str, dict[str, int]]
    depth: Depth
    slowest: list[paths.TimingPath] = field(default_factory=list)
    unwired: paths.TimingPath | None = None
    late: paths.Late | None = None
    beyond: list[tuple[float, paths.Late]] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    bitstream: Path | None = None

    @property
    def used(self) -> dict[str, tuple[int, int]]:
        """Cells of each kind, and how many the part has."""
        return self.runs[0].used if self.runs else {}

    @property
    def total(self) -> dict[str, int]:
        """Cells of all blocks, as synthesised, without those outside the core."""
        blocks = [row for name, row in self.blocks.items() if name != netlist.OUTSIDE]
        return {column: sum(row[column] for row in blocks) for column in COLUMNS}

    @property
    def fmax_mhz(self) -> tuple[float, float, float]:
        """Least, median and greatest clock over the seeds; there must be runs."""
        return speeds(self.runs)

    @property
    def is_fast_enough(self) -> bool:
        """True if the fastest run reaches the requested clock."""
        return bool(self.runs) and self.runs[0].fmax >= self.design.megahertz

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the places, as JSON takes it."""
        record: dict[str, Any] = {
            "part": self.design.part.title,
            "tools": {
                name: tools.choose(name).title for name in ("yosys", self.design.part.family.router)
            },
            "asked_mhz": self.design.megahertz,
            "blocks": self.blocks,
            "depth": self.depth.as_dict(),
        }
        if self.runs:
            least, middle, most = self.fmax_mhz
            record["seed"] = self.runs[0].seed
            record["fmax_mhz"] = {
                "minimum": least,
                "median": middle,
                "maximum": most,
                "seeds": {run.seed: run.fmax for run in sorted(self.runs)},
            }
            record["clocks"] = {
                clock.net: {"reached_mhz": clock.reached, "wanted_mhz": clock.wanted}
                for clock in self.runs[0].clocks
            }
            record["cells"] = {
                kind: {"used": used, "available": there}
                for kind, (used, there) in sorted(self.used.items())
            }
            record["slowest_paths"] = [path.as_dict() for path in self.slowest]
        if self.unwired:
            record["longest_without_wires"] = self.unwired.as_dict()
        if self.late:
            starts = [start.as_dict() for start in self.late.starts]
            record["late"] = {"of": self.late.ends, "count": self.late.late, "starts": starts}
            record["beyond"] = [
                {"mhz": clock, "count": late.late, "starts": len(late.starts)}
                for clock, late in self.beyond
            ]
        return record


def examine(design: Design, directory: Path, runs: Sequence[Run]) -> Report:
    """Return the report of a design that was synthesised in ``directory`` and run some times."""
    family = design.part.family
    blocks = netlist.Blocks(design.opened, design.sources)
    cells = netlist.read(synthesised(design, directory), design.name)
    known = netlist.assign(cells, blocks)
    areas = netlist.areas(cells, known, family)
    ends = paths.ends(cells, known, design.sources)
    depths = depth(paths.Timing(graph(cells, family), ends))
    if not runs:
        return Report(design=design, runs=runs, blocks=areas, depth=depths)
    best = runs[0]
    placed = netlist.read(best.placed, design.name)
    belongs = netlist.assign(placed, blocks, known)
    places = []
    for name, cell in placed.cells.items():
        entry, place = netlist.column_of(family, cell.kind), _PLACE.match(cell.bel)
        if entry and place:
            places.append(Place(int(place[1]), int(place[2]), belongs[name], entry[0]))
    with best.delays.open() as lines:
        delays = paths.read(lines)
    timings = [(paths.Timing(delays, ends), design.megahertz)]
    if design.own_clock:
        own = netlist.aliases(synthesised(design, directory), design.name, design.own_clock)
        nets = {net for net, names in placed.nets.items() if not own.isdisjoint(map(net_of, names))}
        drivers = {name for name, cell in placed.cells.items() if not nets.isdisjoint(cell.outputs)}
        timings = [
            (paths.Timing(delays.of_clock(drivers), ends), design.megahertz),
            (paths.Timing(delays.of_clock(drivers, others=True), ends), design.other_megahertz),
        ]
    slowest = [path for timing, _ in timings for path in timing.slowest()]
    return Report(
        design=design,
        runs=runs,
        blocks=areas,
        depth=depths,
        slowest=sorted(slowest, key=lambda path: -path.nanoseconds),
        unwired=timings[0][0].unwired(),
        late=_late(timings, 1),
        beyond=[
            (times * best.fmax, _late(timings, times * best.fmax / design.megahertz))
            for times in _BEYOND
        ],
        places=places,
    )


def _late(timings: Sequence[tuple[paths.Timing, float]], factor: float) -> paths.Late:
    """Return what is too late where all clocks, in MHz, are ``factor`` times as fast."""
    late = [timing.late(1000 / (factor * megahertz)) for timing, megahertz in timings]
    starts = (start for clock in late for start in clock.starts)
    return paths.Late(
        sum(clock.ends for clock in late),
        sum(clock.late for clock in late),
        sorted(starts, key=lambda start: -start.nanoseconds),
    )


def as_text(report: Report) -> str:
    """Return the report as tables."""
    lines = []
    if report.runs:
        lines.append(f"{'cells':<16} {'used':>9} {'available':>11} {'percent':>9}")
        for kind, (used, there) in sorted(report.used.items()):
            share = f"{used / there:>9.1%}" if there else ""
            lines.append(f"{kind:<16} {used:>9,} {there:>11,} {share}".rstrip())
        least, middle, most = report.fmax_mhz
        count = f"{len(report.runs)} {'seed' if len(report.runs) == 1 else 'seeds'}"
        text = (
            f"{least:.1f} / {middle:.1f} / {most:.1f} MHz (minimum / median / maximum of {count})"
        )
        lines.append(f"{'Fmax':<16} {text}")
        lines.append(f"{'requested':<16} {report.design.megahertz:.1f} MHz")
        for clock in report.runs[0].clocks:
            lines.append(f"{clock.net:<16} {clock.reached:.1f} of {clock.wanted:.1f} MHz")
    lines += ["", f"{'block':<16} " + " ".join(f"{column:>9}" for column in COLUMNS)]
    blocks = dict(report.blocks)
    outside = {netlist.OUTSIDE: blocks.pop(netlist.OUTSIDE)} if netlist.OUTSIDE in blocks else {}
    for block, row in {**blocks, "total": report.total, **outside}.items():
        lines.append(f"{block:<16} " + " ".join(f"{row[column]:>9,}" for column in COLUMNS))
    lines += ["", *report.depth.lines()]
    if report.slowest:
        lines += ["", "slowest paths"]
    for path in report.slowest:
        lines += _path(path)
    if report.unwired:
        lines += ["", "longest path of cells, without wires", *_path(report.unwired)]
    if report.late and report.late.late:
        share = f"{report.late.late:,} of {report.late.ends:,}"
        ends = "inputs of registers, memories and multipliers"
        lines += ["", f"too late for the requested clock: {share} {ends}, from"]
        for start in report.late.starts[:_STARTS]:
            signal = start.start
            place = f"({signal.source or 'source unknown'}), {signal.block}"
            lines.append(f"{start.nanoseconds:>6.2f} ns {start.ends:>7,}  {signal.name} {place}")
    if report.beyond:
        lines += ["", f"{'clock':<16} {'too late':>9} {'signals that start it':>25}"]
    for clock, late in report.beyond:
        lines.append(f"{clock:>12.1f} MHz {late.late:>9,} {len(late.starts):>25,}")
    return "".join(f"{line}\n" for line in lines)


def _path(path: paths.TimingPath) -> list[str]:
    lines = [f"{path.nanoseconds:>6.2f} ns, of it wires {path.wires:.2f}, {path.levels} cells"]
    for what, end in (("from", path.start), ("to", path.end)):
        lines.append(f"{what:>9} {end.name} ({end.source or 'source unknown'}), {end.block}")
    return lines
