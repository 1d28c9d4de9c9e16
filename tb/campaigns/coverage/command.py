"""Runs the cores, and reports the lines and bits of their sources that were met."""

import argparse
import time
from pathlib import Path

from command_line import add_draw
from tqdm import tqdm

from celosia.sw.cli.arguments import whole, workers_of
from celosia.sw.cli.messages import Failure
from celosia.sw.files import read_file, write_atomically
from celosia.sw.runtime.session import InputError
from coverage.explained import TABLE, TableError, explanations
from coverage.page import page, table
from coverage.runs import Plan, Result, jobs, run_all
from coverage.summary import Summary, summary

#: Wanted shares in percent of lines in branches, and of bits that changed both ways.
LINES = 98.0
TOGGLES = 90.0

_LEGAL, _FAULTED = 40, 40


def add_arguments(made: argparse.ArgumentParser) -> None:
    """Add the arguments of the campaign."""
    made.add_argument(
        "--programs", type=whole, default=_LEGAL, metavar="N", help=f"legal, a core ({_LEGAL})"
    )
    made.add_argument(
        "--faulted", type=whole, default=_FAULTED, metavar="N", help=f"likewise ({_FAULTED})"
    )
    add_draw(made)
    made.add_argument(
        "--configurations",
        metavar="A,B",
        help="cores of docs/design/verification.md; without directed programs and networks",
    )
    made.add_argument(
        "--explained", type=Path, default=TABLE, metavar="FILE", help="table of reasons"
    )
    made.add_argument("--files", action="store_true", help="also list each file")
    made.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("build/coverage"),
        metavar="DIR",
        help="of index.html (build/coverage)",
    )


def shortfall(found: Summary, lines: float = LINES, toggles: float = TOGGLES) -> str | None:
    """Return the shortfall below the targets, in one line; None if there is none."""
    counts = found.counts
    wrong = []
    for name, met, least in (("lines", counts.lines, lines), ("bits", counts.bits, toggles)):
        if met.percent < least:
            wrong.append(f"{met.percent:.1f} % of {name}, wanted {least:g} %")
        if met.missing:
            wrong.append(f"{met.missing} {name} neither met nor explained")
    if found.stale:
        wrong.append(f"{len(found.stale)} explanations of nothing")
    return "; ".join(wrong) or None


def _plan(arguments: argparse.Namespace) -> Plan:
    from celosia.sw.fuzz.programs.configurations import CONFIGURATIONS, configurations

    cores = tuple(CONFIGURATIONS)
    if arguments.configurations:
        chosen = configurations(arguments.configurations, 0, 0)
        cores = tuple(config.name for config in chosen)
    more = not arguments.configurations
    return Plan(cores, arguments.programs, arguments.faulted, arguments.seed, more)


def _sources(locations: set[str]) -> dict[str, str]:
    """Return the texts of the files of some lines."""
    import celosia.hw

    top = Path(celosia.hw.__file__).parent.parent
    files = {location.rpartition(":")[0] for location in locations}
    return {file: (top / file).read_text() for file in files}


def run(arguments: argparse.Namespace) -> None:
    """Run everything, print the overview, write the page.

    Raises ``InputError`` if arguments or the table are wrong.
    Raises ``SimulatorNotFound``, ``RtlError`` if the simulator is missing, or a build fails.
    Raises ``Failure`` if a core differs from its model, or coverage is below its targets.
    """
    from celosia.sim.rtl.counting import Tally

    plan = _plan(arguments)
    if arguments.output.exists() and not arguments.output.is_dir():
        raise InputError(f"{arguments.output}: wanted a directory, got a file")
    try:
        keys = explanations(read_file(arguments.explained).decode())
    except TableError as error:
        raise InputError(f"{arguments.explained}: {error}") from None
    start, met, results = time.monotonic(), Tally(), []
    with tqdm(total=len(jobs(plan)), unit="run", disable=None) as progress:
        for result in run_all(plan, workers_of(arguments)):
            met.add(result.tally)
            results.append(result)
            progress.update()
            progress.set_postfix_str(str(result.job))
    locations = {*met.lines, *(location for location, _ in met.signals)}
    found = summary(met.lines, met.signals, _sources(locations), keys)
    remarks = _remarks(results, time.monotonic() - start)
    arguments.output.mkdir(parents=True, exist_ok=True)
    target = arguments.output / "index.html"
    costs = ", ".join(f"{result.job} {result.seconds:.0f} s" for result in results)
    write_atomically({target: page(found, [*remarks, costs]).encode()})
    print("\n".join([*remarks, "", table(found, files=arguments.files), "", str(target)]))
    for key in found.stale:
        print(f"explains nothing: {key.text}")
    problems = [f"{result.job}: {text}" for result in results for text in result.problems]
    if problems:
        raise Failure(f"{len(problems)} differences, first {problems[0]}")
    below = shortfall(found)
    if below and plan.more:
        raise Failure(f"coverage: {below}")


def _remarks(results: list[Result], seconds: float) -> list[str]:
    kinds: dict[str, list[Result]] = {}
    for result in results:
        kinds.setdefault(result.job.kind, []).append(result)
    done = [
        f"{len(held)} × {kind} in {sum(result.seconds for result in held):.0f} s"
        for kind, held in kinds.items()
    ]
    slowest = max(results, key=lambda result: result.seconds)
    return [
        f"{', '.join(done)}; {seconds:.0f} s in all",
        f"longest: {slowest.job}, {slowest.seconds:.0f} s",
    ]
