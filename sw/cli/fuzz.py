"""``celosia fuzz``: random programs on the simulated core and the machine model."""

import argparse
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from celosia.hw.arch.config import PROTECTIONS, REQUANTIZERS
from celosia.sw.cli.arguments import Commands, add_workers, seeds, whole, workers_of
from celosia.sw.cli.messages import Failure
from celosia.sw.files import directory_of, json_bytes, read_file, writable, write_atomically
from celosia.sw.runtime.session import InputError
from celosia.sw.workers.spread import batches, spread


class Difference(Failure):
    """The core gave a wrong result; the message is one line."""


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("fuzz", "run random programs on the simulated core", run)
    parser.add_argument(
        "--programs", type=whole, default=200, metavar="N", help="how many to run (200)"
    )
    parser.add_argument("--seed", type=seeds, default=0, metavar="S", help="of everything (0)")
    parser.add_argument(
        "--faults", action="store_true", help="something is wrong: the program, the bus or the host"
    )
    parser.add_argument("--kind", metavar="K", help="of all faults, such as bounds (any)")
    parser.add_argument(
        "--configurations", metavar="A,B", help="cores of docs/design/verification.md (all)"
    )
    parser.add_argument(
        "--protection", choices=PROTECTIONS, default="none", help="of those cores' memories (none)"
    )
    parser.add_argument(
        "--requantizer",
        choices=REQUANTIZERS,
        default="pipelined",
        help="of those cores (pipelined)",
    )
    parser.add_argument("--draw", type=whole, metavar="N", help="draw N new cores instead")
    add_workers(parser, os.cpu_count() or 1)
    parser.add_argument(
        "--coverage", type=Path, metavar="FILE", help="also write all counts as JSON"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("build/fuzz"),
        metavar="D",
        help="for programs that fail (build/fuzz)",
    )
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run such a program again")


def run(arguments: argparse.Namespace) -> None:
    """Run random programs, or one that failed before."""
    directory = arguments.directory
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory}: wanted a directory, got a file")
    if arguments.replay:
        _replay(arguments.replay)
    else:
        _campaign(arguments)


def _replay(path: Path) -> None:
    from celosia.sw.fuzz.case import load
    from celosia.sw.fuzz.trial import attempt

    content = read_file(path)
    try:
        case = load(content.decode())
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    trial = attempt(case)
    if trial.problems:
        raise Difference(f"{path}: {'; '.join(map(str, trial.problems))}")
    print(f"{path}: no difference, {trial.outcome.cycles} cycles")


def _campaign(arguments: argparse.Namespace) -> None:
    from celosia.sim.rtl.core import model
    from celosia.sw.fuzz import campaign
    from celosia.sw.fuzz.coverage import Coverage
    from celosia.sw.fuzz.programs.configurations import configurations, variant
    from celosia.sw.fuzz.programs.faulty import KINDS

    writable(arguments.coverage)
    if arguments.draw and arguments.configurations:
        raise InputError("wanted --draw or --configurations, got both")
    if arguments.kind and not (arguments.faults and arguments.kind in KINDS):
        requirement = f"--faults and one of {', '.join(KINDS)}"
        raise InputError(f"--kind: wanted {requirement}, got {arguments.kind!r}")
    configs = configurations(arguments.configurations, arguments.draw or 0, arguments.seed)
    changes = {"protection": arguments.protection, "requantizer": arguments.requantizer}
    configs = [variant(config, **changes) for config in configs]
    plan = campaign.Plan(tuple(configs), arguments.seed, arguments.faults, arguments.kind)
    if not arguments.scheduler:
        # Workers on this machine then find the models built.
        for config in configs:
            model(config)
    coverage, failures, cycles, start = Coverage(), [], 0, time.monotonic()
    with tqdm(total=arguments.programs, unit="program", disable=None) as progress:
        key = repr((plan, arguments.programs)).encode()
        job, shards = partial(campaign.run_batch, plan), batches(arguments.programs)
        for batch in spread(job, shards, workers_of(arguments), key=key):
            coverage.add(batch.coverage)
            failures += batch.discrepancies
            cycles += batch.cycles
            progress.update(batch.programs)
            progress.set_postfix(differences=len(failures))
    seconds = time.monotonic() - start
    if arguments.coverage:
        write_atomically({arguments.coverage: json_bytes(coverage.as_dict())})
    kind = "faulted" if arguments.faults else "legal"
    print(
        f"{arguments.programs} {kind} programs, seed {arguments.seed}, {len(configs)} cores: "
        f"{len(failures)} differences, {cycles} cycles in {seconds:.1f} s\n\n{coverage.as_text()}",
        end="",
    )
    if failures:
        paths = _save(arguments.directory, arguments.seed, failures)
        first = min(failures, key=lambda one: one.number)
        raise Difference(
            f"{len(failures)} of {arguments.programs} programs: {first.problems[0]} "
            f"(celosia fuzz --replay {paths[0]})"
        )


def _save(directory: Path, seed: int, failures: list[Any]) -> list[Path]:
    """Shrink and write the first failing program of each kind; return the files."""
    from celosia.sw.fuzz.case import save
    from celosia.sw.fuzz.shrink import shrunk

    directory_of(directory)
    paths: dict[str, Path] = {}
    for one in sorted(failures, key=lambda one: one.number):
        kind = one.problems[0].kind
        if kind in paths:
            continue
        path = directory / f"{seed}-{one.number}-{kind}.s"
        case, problems = shrunk(one.case)
        remarks = (
            f"celosia fuzz --replay {path}",
            f"program {one.number} of seed {seed}, core {one.case.config.name}",
            *map(str, problems or one.problems),
        )
        write_atomically({path: save(case, remarks).encode()})
        paths[kind] = path
    return list(paths.values())
