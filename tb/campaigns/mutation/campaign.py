"""Mutation of a block: makes many changes and counts those noticed; reuses known results."""

import hashlib
import json
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from mutation import processes, trials
from mutation.blocks import Block
from mutation.explained import Key
from mutation.sites import ROOT, Site, draw, sites_of
from mutation.trials import INVALID, KILLED, SAME, UNREACHED, Result, Timing

FOLDER = ROOT / "build" / "mutation"
#: Shares of changes that must be killed, before and after those that are explained.
BEFORE, AFTER = 0.90, 0.95

#: Stages that check a change, one after the other.
STAGES = ("unit", "proof", "parent", "bench", "core")
#: Files that decide a verdict besides the gateware and the tests.
_MODULES = ("changes", "same", "sites", "trials")
_TOOL = (*(f"tb/campaigns/mutation/{name}.py" for name in _MODULES), "tb/conftest.py")


class Stage(NamedTuple):
    """Tests that check a block."""

    name: str
    tests: tuple[str, ...]
    options: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """Result of a change, and the stage that gave it."""

    site: Site
    stage: str
    result: Result


class Score(NamedTuple):
    """Numbers of a block.

    ``killed`` are those of each stage; ``left`` are those that survive and are not explained.
    """

    block: str
    changes: int
    killed: dict[str, int]
    explained: int
    same: int
    left: tuple[Site, ...]
    unreached: frozenset[Site]

    @property
    def before(self) -> float:
        """Share that is killed."""
        return sum(self.killed.values()) / max(self.changes, 1)

    @property
    def after(self) -> float:
        """Share that is killed or explained."""
        return 1 - len(self.left) / max(self.changes, 1)

    @property
    def good(self) -> bool:
        """Both shares are reached; of few changes one may be explained."""
        killed = self.before >= BEFORE or self.explained + len(self.left) <= 1
        return killed and self.after >= AFTER


def stages_of(block: Block) -> list[Stage]:
    """Return the stages of a block, in order."""
    proofs = ("-k", "not broken and not refuted")
    found = [
        Stage("unit", tuple(f"tb/hw/{name}" for name in block.unit)),
        Stage("proof", tuple(f"tb/formal/{name}" for name in block.proofs), proofs),
        Stage("parent", tuple(f"tb/hw/{name}" for name in block.parent)),
        Stage("bench", *_benches(block)),
        Stage("core", ("tb/campaigns/mutation/core_trial.py",) if block.fuzz else ()),
    ]
    return [stage for stage in found if stage.tests]


def _benches(block: Block) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files with the benches of a block, and the options that choose those."""
    units = [name for name in block.benches if name != "core"]
    files = ["tb/units/test_units.py"] * bool(units)
    files += ["tb/core/test_core.py"] * ("core" in block.benches)
    chosen = [f"icarus-{name}-" for name in units] + ["test_core"] * ("core" in block.benches)
    return tuple(files), ("--long", "-k", f"icarus and ({' or '.join(chosen)})")


@cache
def _digest(paths: tuple[str, ...]) -> str:
    digest = hashlib.sha256(version("amaranth").encode())
    for path in paths:
        digest.update(path.encode() + b"\0" + (ROOT / path).read_bytes())
    return digest.hexdigest()[:20]


@cache
def _shared_digest() -> str:
    """Return a digest of the gateware, the models and the code shared by tests."""
    paths = [*(ROOT / "hw").rglob("*.py"), *(ROOT / "sim").rglob("*.py")]
    paths += [path for path in (ROOT / "tb").rglob("*.py") if path.name[:5] != "test_"]
    found = {str(path.relative_to(ROOT)) for path in paths if "campaigns" not in path.parts}
    return _digest((*sorted(found), *_TOOL))


class Memory:
    """Results of the changes of a block in one stage, stored in a file.

    A kill is valid while the test that killed is unchanged; other results while all tests are.
    """

    def __init__(self, block: Block, stage: Stage) -> None:
        self._tests = stage.tests
        word = block.name.replace(", ", "_").replace(" ", "_")
        self._path = FOLDER / f"{word}-{stage.name}.json"
        text = self._path.read_text() if self._path.is_file() else "{}"
        self._known: dict[str, Any] = json.loads(text)

    def _key(self, result: Result) -> str:
        test = result.by.partition("::")[0]
        tests = (test,) if test in self._tests else self._tests
        return f"{_shared_digest()} {_digest(tests)}"

    def known(self, site: Site) -> Result | None:
        """Return an earlier result that is still valid, or None."""
        key, *found = self._known.get(site.identity, ("", "", "", 0.0))
        result = Result(*found)
        return result if key and key == self._key(result) else None

    @property
    def hints(self) -> dict[str, str]:
        """Tests that killed before, by the identity of a site."""
        return {site: found[2] for site, found in self._known.items()}

    def note(self, site: Site, result: Result) -> None:
        """Store a result."""
        self._known[site.identity] = (self._key(result), *result)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self._known, indent=0))
        part.replace(self._path)


class Timings:
    """Times of tests, stored in a file; valid while their file and the gateware are unchanged."""

    def __init__(self, stage: Stage) -> None:
        self._path = FOLDER / f"timings-{stage.name}.json"
        text = self._path.read_text() if self._path.is_file() else "{}"
        self._all: dict[str, Any] = json.loads(text)
        tests = {test: f"{_shared_digest()} {_digest((test,))}" for test in stage.tests}
        self._keys = tests
        self.known = {
            name: Timing(seconds, tuple(modules))
            for name, (key, seconds, modules) in self._all.items()
            if tests.get(name.partition("::")[0]) == key
        }

    def save(self) -> None:
        """Store the known times."""
        for name, timing in self.known.items():
            self._all[name] = (self._keys[name.partition("::")[0]], *timing)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self._all, indent=0))
        part.replace(self._path)


def _stage(
    block: Block,
    stage: Stage,
    sites: list[Site],
    number: int,
    workers: int,
    report: Callable[[str, Site, Result], None],
    *,
    first: bool,
) -> dict[Site, Result]:
    """Run one stage in a separate process, so that no test module is imported twice.

    The ``first`` compares survivors with the original circuits.
    """
    memory = Memory(block, stage)
    results: dict[Site, Result] = {}

    def record(site: Site, result: Result) -> None:
        results[site] = result
        memory.note(site, result)
        report(stage.name, site, result)

    if _all_known(memory, sites, number, record):
        return results
    receive, process = processes.start(_work, stage, sites, number, workers, memory, first)
    while (reported := processes.received(receive)) is not None:
        record(*reported)
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{block.name}, {stage.name}: stopped by signal {-process.exitcode}")
    return results


def _work(
    report: processes.Report,
    stage: Stage,
    sites: list[Site],
    number: int,
    workers: int,
    memory: Memory,
    first: bool,
) -> None:
    timings = Timings(stage)
    plugin = trials.Trials(
        sites,
        number,
        workers=workers,
        known=memory.known,
        timings=timings.known,
        hints=memory.hints,
        report=lambda site, result: report((site, result)),
        compare=first,
        timed=timings.save,
    )
    with tempfile.TemporaryDirectory() as folder:
        trials.run(list(stage.tests), list(stage.options), plugin, Path(folder))


def _all_known(
    memory: Memory, sites: list[Site], number: int, record: Callable[[Site, Result], None]
) -> bool:
    """Report known results and return True, if no test has to run."""
    found: list[tuple[Site, Result]] = []
    counted = 0
    for site in sites:
        result = memory.known(site)
        if counted == number or result is None:
            break
        found.append((site, result))
        counted += trials.counts(result)
    if counted < number and len(found) < len(sites):
        return False
    for site, result in found:
        record(site, result)
    return True


def check(
    block: Block,
    *,
    number: int,
    seed: int,
    workers: int,
    reasons: dict[Key, str],
    report: Callable[[str, Site, Result], None],
    stages: tuple[str, ...] = STAGES,
) -> Score:
    """Break a block and count.

    ``block``: the block; ``number``: changes that count; ``seed``: seed of the draw; ``workers``:
    processes; ``reasons``: see ``explained.read``; ``report``: called with each stage's result of a
    change; ``stages``: stages to run; the first one of the block if it has none of them.
    Raises ``RuntimeError`` if a test fails without a change.
    """
    sites = draw(block.files, sum(len(sites_of(file)) for file in block.files), seed)
    known = stages_of(block)
    chosen = [stage for stage in known if stage.name in stages] or known[:1]
    results = _stage(block, chosen[0], sites, number, workers, report, first=True)
    left = [site for site in sites if site in results and _survived(results[site])]
    killed = {chosen[0].name: sum(result.verdict == KILLED for result in results.values())}
    unreached = {site for site in left if results[site].verdict == UNREACHED}
    for stage in chosen[1:]:
        again = {}
        if left:
            again = _stage(block, stage, left, len(left), workers, report, first=False)
        unreached -= {site for site, result in again.items() if result.verdict != UNREACHED}
        left = [site for site in left if _survived(again[site])]
        killed[stage.name] = len(again) - len(left)
    return Score(
        block=block.name,
        changes=sum(map(trials.counts, results.values())),
        killed=killed,
        explained=sum(site.key in reasons for site in left),
        same=sum(result.verdict == SAME for result in results.values()),
        left=tuple(site for site in left if site.key not in reasons),
        unreached=frozenset(unreached),
    )


def _survived(result: Result) -> bool:
    return result.verdict not in (KILLED, INVALID, SAME)
