"""Campaign of files with random changes: each must give the right result or one clear line."""

import argparse
import time
from collections import Counter
from functools import partial
from pathlib import Path

from command_line import add_draw
from tqdm import tqdm

from celosia.sw.cli.arguments import whole, workers_of
from celosia.sw.cli.messages import Failure
from celosia.sw.files import read_file, write_atomically
from celosia.sw.runtime.session import InputError
from celosia.sw.workers.spread import batches, spread
from malformed.campaign import KINDS, Batch, Found, Plan, run_batch, shrunk
from malformed.verdict import verdict


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the campaign."""
    parser.add_argument(
        "kind", nargs="?", choices=KINDS, default="models", help="of files (models)"
    )
    parser.add_argument("--files", type=whole, default=200, metavar="N", help="how many (200)")
    add_draw(parser)
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("build/malformed"),
        metavar="D",
        help="for files that fail (build/malformed)",
    )
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run such a file again")


def run(options: argparse.Namespace) -> None:
    """Run many changed files, or one that failed before.

    Raises ``Failure`` if one did not end as it must.
    Raises ``InputError`` if a path is wrong.
    """
    if options.directory.exists() and not options.directory.is_dir():
        raise InputError(f"{options.directory}: wanted a directory, got a file")
    if options.replay:
        _replay(options.replay)
    else:
        _campaign(options)


def _replay(path: Path) -> None:
    result = verdict(read_file(path))
    if result.problem:
        raise Failure(f"{path}: {result.problem}")
    print(f"{path}: {result.end}" + (f" ({result.text})" if result.text else ""))


def _campaign(options: argparse.Namespace) -> None:
    plan = Plan(options.kind, options.seed)
    ended: list[Batch] = []
    start, count = time.monotonic(), options.files
    with tqdm(total=count, unit="file", disable=None) as progress:
        job, key = partial(run_batch, plan), repr((plan, count)).encode()
        for batch in spread(job, batches(count), workers_of(options), key=key):
            ended.append(batch)
            progress.update(batch.files)
            progress.set_postfix(wrong=sum(len(batch.found) for batch in ended))
    found = [one for batch in ended for one in batch.found]
    print(_summary(plan, ended, time.monotonic() - start))
    if found:
        paths = _save(options.directory, plan, found)
        first = min(found, key=lambda one: one.number)
        raise Failure(
            f"{len(found)} of {count} {plan.kind}: {first.problem} "
            f"(python tb/campaigns malformed --replay {paths[0]})"
        )


def _summary(plan: Plan, batches: list[Batch], seconds: float) -> str:
    ends: Counter[str] = sum((batch.ends for batch in batches), Counter[str]())
    wrong = sum(len(batch.found) for batch in batches)
    peak = max(batch.peak for batch in batches) >> 20
    slowest = max(batch.slowest for batch in batches)
    lines = [
        f"{ends.total()} {plan.kind}, seed {plan.seed}: {wrong} wrong, {seconds:.1f} s; "
        f"at most {peak} MiB and {slowest:.1f} s for one",
        "",
        *(f"{count:8} {end}" for end, count in sorted(ends.items(), key=lambda one: -one[1])),
    ]
    return "\n".join(lines)


def _save(directory: Path, plan: Plan, found: list[Found]) -> list[Path]:
    """Make the first failing file of each kind of failure small and write it; return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    paths: dict[str, Path] = {}
    for one in sorted(found, key=lambda one: one.number):
        kind = one.problem.kind
        if kind not in paths:
            ending = KINDS[plan.kind][1]
            paths[kind] = directory / f"{plan.seed}-{one.number}-{kind}.{ending}"
            write_atomically({paths[kind]: shrunk(one.content, kind)})
    return list(paths.values())
