"""Synthesis, placement and routing of a core with open tools."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from celosia.hw.arch.config import Config
from celosia.hw.build import TOP, convert
from celosia.hw.core import Core
from celosia.hw.folded import Folded


class Synthesis(NamedTuple):
    """What the tools made of a core.

    ``used`` holds the cells of each kind and how many the part has; ``fmax`` the clock in MHz
    reached with each seed.
    """

    used: dict[str, tuple[int, int]]
    fmax: dict[int, float]


class ToolError(RuntimeError):
    """A tool of the flow failed; its words are in the log that is named."""


def _tool(name: str, arguments: list[str], log: Path) -> None:
    """Run a tool: the system's where there is one, else the one that PyPI has."""
    beside = str(Path(sys.executable).parent)
    packaged = f"yowasp-{name}"
    command = shutil.which(name) or shutil.which(packaged) or shutil.which(packaged, path=beside)
    if command is None:
        raise ToolError(
            f"{name}: wanted {name} or {packaged} on PATH, found none (pip install 'celosia[synth]')"
        )
    with log.open("w") as words:
        result = subprocess.run(
            [command, *arguments], cwd=log.parent, stdout=words, stderr=words, check=False
        )
    if result.returncode:
        raise ToolError(f"{name}: exit code {result.returncode}; its words are in {log}")


#: Router 1 and the serial refinement take hours on a part that is four fifths full.
_EFFORT = ("--router", "router2", "--parallel-refine")
#: LFE5U-85F, the largest package, speed grade 6.
_PART = ("--85k", "--package", "CABGA756", "--speed", "6")


def synthesise(
    config: Config,
    *,
    seeds: Iterable[int],
    directory: Path,
    report: Callable[[str], None] = lambda line: None,
) -> Synthesis:
    """Synthesise, place and route the core alone for an LFE5U-85F, speed grade 6.

    Inputs and outputs are folded into registers, see ``Folded``. The netlist is kept in
    ``directory`` and made anew only when the Verilog changed; so is the result of each seed. As many
    seeds run at once as the machine has cores.

    Parameters
    ----------
    config : Config
        Sizes of the core.
    seeds : iterable of int
        Seeds of the placer; one run each.
    directory : Path
        Where Verilog, netlist, logs and reports go.
    report : function of str
        Told what is going on.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    """
    directory.mkdir(parents=True, exist_ok=True)
    text = convert(Folded(Core(config=config)))
    stamp = hashlib.sha256((text + _SCRIPT).encode()).hexdigest()[:16]
    netlist = directory / f"{stamp}.json"
    if not netlist.exists():
        report(f"synthesising {config.name} with yosys")
        (directory / "celosia.v").write_text(text)
        (directory / "synth.ys").write_text(_SCRIPT)
        _tool("yosys", ["-q", "-l", "yosys.log", "synth.ys"], directory / "yosys.out")
        (directory / "netlist.json").rename(netlist)

    def place(seed: int) -> dict[str, Any]:
        result = directory / f"{stamp}_{seed}.report.json"
        if not result.exists():
            report(f"placing and routing, seed {seed}")
            # Renamed when it is whole: a run that was broken off leaves no result.
            partial = directory / f"{stamp}_{seed}.partial.json"
            arguments = ["--json", netlist.name, *_PART, "--seed", str(seed), "--freq", "120"]
            arguments += ["--timing-allow-fail", "--report", partial.name, *_EFFORT]
            _tool("nextpnr-ecp5", arguments, directory / f"{stamp}_{seed}.log")
            partial.rename(result)
        said = json.loads(result.read_text())
        report(f"seed {seed}: {_clock(said):.1f} MHz")
        return said

    chosen = list(seeds)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        reports = dict(zip(chosen, pool.map(place, chosen), strict=True))
    used = {
        cell: (count["used"], count["available"])
        for said in reports.values()
        for cell, count in said["utilization"].items()
        if count["used"]
    }
    return Synthesis(used, {seed: _clock(said) for seed, said in reports.items()})


def _clock(said: dict[str, Any]) -> float:
    """Return the clock in MHz that a report of nextpnr says was reached."""
    return min(clock["achieved"] for clock in said["fmax"].values())


# ``hierarchy; proc; opt_clean -purge`` in front of synthesis and ``check -assert`` behind it: abc9
# can take the bits of an array port for aliases of one another (YosysHQ/yosys#4349). Registers of
# signals to be kept are kept themselves, else equal ones become one again. The last step of
# ``synth_ecp5`` is said here, without its ``autoname``, which takes longer than all the others.
_SCRIPT = f"""\
read_verilog celosia.v
hierarchy -top {TOP}
proc
opt_clean -purge
setattr -set keep 1 a:keep %ci1:+[Q] t:$dff %i
synth_ecp5 -top {TOP} -run begin:check
hierarchy -check
check -assert
stat
blackbox =A:whitebox
write_json netlist.json
"""
