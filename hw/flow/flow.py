"""Verilog to a netlist, a netlist to placed and routed designs, the best of them to a bitstream."""

import hashlib
import json
import math
import os
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from celosia.hw.flow import places, tools
from celosia.hw.flow.clocks import Clock, clocks, reached
from celosia.hw.flow.netlist import aliases, column_of
from celosia.hw.flow.parts import Family, FpgaPart
from celosia.hw.flow.tools import Progress
from celosia.hw.verilog.sources import Source

# ``hierarchy; proc; opt_clean -purge`` before synthesis and ``check -assert`` after it: abc9
# can take the bits of an array port for aliases of one another (YosysHQ/yosys#4349). Registers of
# signals to be kept are kept themselves, else equal ones become one again. ``-norom``: a table in a
# block memory is ten times as late as one in LUTs.
_SCRIPT = """\
read_verilog {verilog}
hierarchy -top {top}
proc -norom
opt_clean -purge
setattr -set keep 1 a:keep %ci1:+[Q] t:$dff %i
{synthesis}
hierarchy -check
check -assert
stat
{finish}
write_json {netlist}
"""

#: Passes of Yosys that take a while, and how to call the stages that they begin.
_PASSES = {
    "FLATTEN": "flattening",
    "SHARE": "sharing operators",
    "ALUMACC": "adders and multipliers",
    "MEMORY_LIBMAP": "memories",
    "DFFLEGALIZE": "flip-flops",
    "ABC": "logic to LUTs",
    "ABC9": "logic to LUTs",
}
_PASS = re.compile(r"[\d.]+ Executing (\w+) pass")

#: Output of nextpnr when a stage begins, and the name of the stage.
_STAGES = {
    "Info: Packing": "packing",
    "Info: Creating initial analytic placement": "placing",
    "Info: Running main analytical placer": "placing",
    "Info: Running parallel refinement": "refining the placement",
    "Info: Running simulated annealing": "refining the placement",
    "Info: Routing": "routing",
    "Info: Running router2": "routing",
}

#: A round of router 2, and how many there may be: seeds that get to their end take 40 to 210. Those
#: that look for faster ways, too, may take 1,500 rounds for these. Where the wires wanted twice
#: become this many times as many as they once were, they rise without end.
_ROUND = re.compile(r"Info: +iter=(\d+) wires=\d+ overused=(\d+) (?:.*tmgfail=(\d+) )?")
_ROUNDS = 600
_TIMED_ROUNDS = 1500
#: Rounds between two reports of the inputs that are too late.
_REPORTED = 100
_RISEN = 8
#: So few wires may become more for a while.
_FEW = 500

#: Output of nextpnr after packing a kind of cells: how many, and how many there are.
_COUNT = re.compile(r"Info:\s+(\w+):\s+(\d+)/\s*(\d+)\s+\d+%")


@dataclass(frozen=True, kw_only=True)
class Design:
    """A design to build.

    Parameters
    ----------
    name : str
        Of the top module, and of the files.
    verilog : str
        Its text.
    part : FpgaPart
        What it is built for.
    megahertz : float
        Wanted clock, unless the file of pins has one.
    pins : str
        File of pins and clocks; empty for none.
    project : mapping of str to str
        Other files for the vendor's tools, by name: clocks, script.
    opened : sequence of str
        Instances that are no blocks, see ``netlist.Blocks``.
    sources : mapping of str to Source
        Where its signals are declared, see ``sources.separate``.
    own_clock : str
        Net of the clock of ``megahertz`` if it meets all others in crossings alone.
    other_megahertz : float
        Wanted clock of the others then.
    """

    name: str
    verilog: str
    part: FpgaPart
    megahertz: float
    pins: str = ""
    project: Mapping[str, str] = field(default_factory=dict)
    opened: Sequence[str] = ()
    sources: Mapping[str, Source] = field(default_factory=dict)
    own_clock: str = ""
    other_megahertz: float = 0.0

    @property
    def script(self) -> str:
        """Commands for Yosys."""
        family = self.part.family
        return _SCRIPT.format(
            verilog=f"{self.name}.v",
            top=self.name,
            synthesis=family.synthesis.format(top=self.name),
            finish=family.finish,
            netlist="netlist.json",
        )


class TooLargeError(tools.ToolError):
    """A part has fewer cells than a design wants, whatever the seed."""


class Run(NamedTuple):
    """One placed and routed design.

    ``used`` holds the cells of each kind and how many the part has, ``fmax`` the wanted clock in
    MHz, times the least share that one of ``clocks`` reaches. ``routed`` is for the packer,
    ``placed`` the netlist with places, ``delays`` the delays as SDF; the three exist for the best
    seed alone.
    """

    seed: int
    fmax: float
    used: dict[str, tuple[int, int]]
    routed: Path
    placed: Path
    delays: Path
    clocks: tuple[Clock, ...] = ()


def synthesised(design: Design, directory: Path, report: Progress = lambda line: None) -> Path:
    """Return the netlist of a design; made anew only when Verilog or script changed.

    Other runs in the same folder are waited for.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    """
    with tools.alone(directory, report):
        return _synthesised(design, directory, report)


def _synthesised(design: Design, directory: Path, report: Progress) -> Path:
    stamp = hashlib.sha256((design.verilog + design.script).encode()).hexdigest()[:16]
    netlist = directory / f"{stamp}.json"
    (directory / f"{design.name}.v").write_text(design.verilog)
    (directory / "synth.ys").write_text(design.script)
    if not netlist.exists():
        report(f"synthesising {design.name} with yosys")
        watch = _Passes(lambda stage: report(f"synthesis: {stage}"))
        tools.run("yosys", ["synth.ys"], directory / "yosys.log", watch.line)
        (directory / "netlist.json").rename(netlist)
    return netlist


def placed(
    design: Design, directory: Path, *, seeds: Iterable[int], report: Progress = lambda line: None
) -> list[Run]:
    """Place and route a design once for each seed, as many at once as the machine has cores.

    Other runs in the same folder are waited for.

    Parameters
    ----------
    design : Design
        What is built.
    directory : Path
        Where netlist, logs and results go. What is there already is not made again.
    seeds : iterable of int
        Seeds of the placer.
    report : function of str
        Called with each line of progress.

    Returns
    -------
    list of Run
        The fastest first.

    Raises
    ------
    ToolError
        If a tool is missing or fails, the router for every seed: it may give up on a single one,
        where a block is to take more signals than it has pins for, or be stopped because it
        makes no progress.
    TooLargeError
        If the part has fewer cells than the design wants; no more seeds are tried then.
    """
    with tools.alone(directory, report):
        return _placed(design, directory, tuple(seeds), report)


def _placed(design: Design, directory: Path, seeds: Sequence[int], report: Progress) -> list[Run]:
    netlist = _synthesised(design, directory, report)
    if not seeds:
        return []
    fixed = places.fix(netlist, design.name, design.part, report)
    stamp = f"{fixed.stem}_{_digest(design)}"
    own = aliases(netlist, design.name, design.own_clock)

    def place(seed: int) -> Run:
        return _place(design, fixed, directory / f"{stamp}_{seed}", seed, own, report)

    too_large: list[TooLargeError] = []

    def attempt(seed: int) -> Run | tools.ToolError:
        if too_large:
            return too_large[0]
        try:
            return place(seed)
        except TooLargeError as error:
            too_large.append(error)
            return error
        except tools.ToolError as error:
            report(f"seed {seed}: {error}")
            return error

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        ends = list(pool.map(attempt, seeds))
    runs = sorted(
        (end for end in ends if isinstance(end, Run)), key=lambda run: (-run.fmax, run.seed)
    )
    if not runs:
        raise next(end for end in ends if isinstance(end, tools.ToolError))
    if not runs[0].placed.exists():
        # The best of other seeds was kept then.
        Path(f"{directory / stamp}_{runs[0].seed}.report.json").unlink()
        runs[0] = place(runs[0].seed)
    for run in runs[1:]:
        for path in (run.routed, run.placed, run.delays):
            path.unlink(missing_ok=True)
    return runs


def _digest(design: Design) -> str:
    """Return what distinguishes the runs of nextpnr over one netlist."""
    family = design.part.family
    effort = (family.effort, family.threads)
    text = repr((design.pins, design.part.options, effort, design.megahertz))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _place(
    design: Design, netlist: Path, base: Path, seed: int, own: frozenset[str], report: Progress
) -> Run:
    """Place and route with one seed, or take what an earlier run left.

    ``own``: names of the clock that meets the others in crossings.
    """
    family = design.part.family
    names = {kind: Path(f"{base}.{kind}") for kind in ("report.json", "routed", "placed", "sdf")}
    result = names["report.json"]
    if not result.exists():
        report(f"placing and routing, seed {seed}")
        # Renamed when it is whole: a run that was broken off leaves no result.
        partial = Path(f"{base}.partial.json")
        arguments = ["--json", netlist.name, *design.part.options, "--seed", str(seed)]
        arguments += ["--freq", f"{design.megahertz:g}", "--timing-allow-fail"]
        arguments += ["--report", partial.name, "--sdf", names["sdf"].name, *family.effort]
        arguments += [option for option in family.threads if tools.knows(family.router, option)]
        arguments += _filled(family.routed, file=names["routed"].name)
        if "--write" not in arguments:
            arguments += ["--write", names["placed"].name]
        if design.pins:
            pins = Path(f"{base}.pins")
            pins.write_text(design.pins)
            arguments += _filled(family.constraints, file=pins.name)
        watch = _Stages(family, lambda stage: report(f"seed {seed}: {stage}"))
        tools.run(family.router, arguments, Path(f"{base}.log"), watch.line)
        if watch.left:
            raise tools.ToolError(f"the router ended with {watch.left} wires used twice")
        if "--write" in family.routed:
            names["placed"].write_bytes(names["routed"].read_bytes())
        partial.rename(result)
    record = json.loads(result.read_text())
    used = {
        cell: (count["used"], count["available"])
        for cell, count in record["utilization"].items()
        if count["used"]
    }
    files = (names[kind] for kind in ("routed", "placed", "sdf"))
    fmax = reached(record, design.megahertz, own)
    run = Run(seed, fmax, used, *files, clocks=clocks(record))
    report(f"seed {seed}: {run.fmax:.1f} MHz")
    return run


def _filled(arguments: Iterable[str], **values: str) -> list[str]:
    return [argument.format(**values) for argument in arguments]


class _Passes:
    """Reports each stage of Yosys once, from its output."""

    def __init__(self, report: Progress) -> None:
        self.report = report
        self.known: set[str] = set()

    def line(self, text: str) -> None:
        match = _PASS.match(text)
        stage = _PASSES.get(match[1]) if match else None
        if stage and stage not in self.known:
            self.known.add(stage)
            self.report(stage)


class _Stages:
    """Reports each stage of nextpnr once, from its output, and ends it if it gets nowhere."""

    def __init__(self, family: Family, report: Progress) -> None:
        self.family = family
        self.report = report
        self.stage = ""
        self.lacking: list[str] = []
        self.least = math.inf
        # Wires used twice after the latest round of the router.
        self.left = 0

    def line(self, text: str) -> None:
        count = _COUNT.match(text)
        if count:
            kind, used, there = count[1], int(count[2]), int(count[3])
            # Packers count other cells in other ways.
            if used > there and column_of(self.family, kind):
                self.lacking.append(f"{there:,} {kind}, got {used:,}")
        elif self.lacking:
            raise TooLargeError(f"too large: wanted at most {'; at most '.join(self.lacking)}")
        for start, stage in _STAGES.items():
            if text.startswith(start) and stage != self.stage:
                self.stage = stage
                self.report(stage)
        match = _ROUND.match(text)
        if not match:
            return
        rounds, wires = int(match[1]), int(match[2])
        self.left = wires
        self.least = min(self.least, wires or self.least)
        if match[3] and rounds % _REPORTED == 0:
            self.report(f"round {rounds} of the router, too late: {int(match[3]):,} inputs")
        limit = _ROUNDS + (_TIMED_ROUNDS if match[3] else 0)
        if wires and (rounds >= limit or wires > _RISEN * max(self.least, _FEW)):
            raise tools.ToolError(f"no way for {wires} wires after {rounds} rounds of the router")


def packed(design: Design, run: Run) -> Path:
    """Return the bitstream of a run, made anew.

    Raises
    ------
    ToolError
        If the packer is missing or fails.
    """
    # Names alone: packaged tools do not see every folder by its path.
    bitstream = run.routed.with_suffix(".packed")
    program, *arguments = _filled(
        design.part.family.packer, routed=run.routed.name, bitstream=bitstream.name
    )
    tools.run(program, arguments, run.routed.with_name(f"{program}.log"))
    return bitstream


def speeds(runs: Iterable[Run]) -> tuple[float, float, float]:
    """Return the least, the median and the greatest clock of some runs, at least one, in MHz."""
    clocks = sorted(run.fmax for run in runs)
    return clocks[0], statistics.median(clocks), clocks[-1]
