"""``celosia fuzz --files``: changed files, counted and reported; one of them again."""

import argparse
import time
from collections import Counter
from functools import partial
from pathlib import Path

from tqdm import tqdm

from celosia.sw.files import write_atomically
from celosia.sw.fuzz import Difference
from celosia.sw.hostile.campaign import KINDS, Batch, Found, Plan, run_batch, shrunk
from celosia.sw.hostile.verdict import verdict
from celosia.sw.runtime.session import InputError

__all__ = ["is_file", "replay", "run_files"]

#: What has no meaning for files.
_OTHERS = ("faults", "configurations", "draw", "coverage")


def is_file(path: Path) -> bool:
    """Return whether a file that failed is a model or a program, not the text of one."""
    return path.suffix in {f".{ending}" for _, ending in KINDS.values()}


def replay(path: Path) -> None:
    """Run a file that failed again.

    Raises
    ------
    Difference
        If it does so again.
    InputError
        If it cannot be read.
    """
    try:
        came = verdict(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if came.problem:
        raise Difference(f"{path}: {came.problem}")
    print(f"{path}: {came.end}" + (f" ({came.text})" if came.text else ""))


def run_files(arguments: argparse.Namespace) -> None:
    """Run many changed files.

    Raises
    ------
    Difference
        If one did not end as it must.
    InputError
        If arguments do not go together.
    """
    from celosia.sim.fuzz import workers

    for name in _OTHERS:
        if getattr(arguments, name):
            raise InputError(f"wanted --files or --{name}, got both")
    plan = Plan(arguments.files, arguments.seed)
    batches: list[Batch] = []
    start, count = time.monotonic(), arguments.programs
    with tqdm(total=count, unit="file", disable=None) as progress:
        for batch in workers.run(
            partial(run_batch, plan),
            count,
            workers=arguments.workers,
            scheduler=arguments.scheduler,
        ):
            batches.append(batch)
            progress.update(batch.files)
            progress.set_postfix(wrong=sum(len(batch.found) for batch in batches))
    found = [one for batch in batches for one in batch.found]
    print(_summary(plan, batches, time.monotonic() - start))
    if found:
        paths = _save(arguments.directory, plan, found)
        first = min(found, key=lambda one: one.number)
        raise Difference(
            f"{len(found)} of {count} {plan.kind}: {first.problem} "
            f"(celosia fuzz --replay {paths[0]})"
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
