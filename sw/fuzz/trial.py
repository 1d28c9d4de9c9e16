"""Trial of a case: runs it on the core and on the machine model, and reports differences."""

import random
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Error, Unit
from celosia.sim.model.machine import Machine
from celosia.sw.fuzz import stage
from celosia.sw.fuzz.activity import misplaced
from celosia.sw.fuzz.case import Case
from celosia.sw.fuzz.device import LIMIT, PATIENCE, FuzzDevice, Outcome
from celosia.sw.fuzz.expectation import Expected, Failure, expect, holders, named
from celosia.sw.fuzz.programs.legal import legal

_READ_BY_FETCH = 0
#: Random instructions of the legal program after a wrong one.
_FOLLOWING = 4


class Problem(NamedTuple):
    """Problem found by a trial; ``kind`` is one word that distinguishes it from others."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Trial(NamedTuple):
    """Result of a case."""

    outcome: Outcome
    expected: Expected
    problems: list[Problem]


def attempt(case: Case, *, patience: int = LIMIT, netlist: Path | None = None) -> Trial:
    """Run a case; after an illegal or faulty one, run a legal program on the same core.

    ``case``: the case; ``patience``: most cycles of a program whose end is known; ``netlist``:
    netlist that runs instead of the core's own Verilog, see ``RtlDevice``.
    Raises ``RtlError``, ``SimulatorNotFound`` if the core cannot be built, or does not respond.
    """
    with closing(FuzzDevice(case, netlist)) as device:
        trial = _play(device, case, patience)
        if trial.problems or (trial.expected.exact and not case.fault):
            return trial
        follow = _play(device, following(case), patience)
    problems = [Problem(p.kind, f"in the next program: {p.text}") for p in follow.problems]
    return trial._replace(problems=problems)


def following(case: Case) -> Case:
    """Return the legal case that runs after another one."""
    return legal(case.config, random.Random(f"after {case.seed}"), _FOLLOWING)


def _play(device: FuzzDevice, case: Case, patience: int) -> Trial:
    numbers, first = np.random.default_rng(case.seed), case.bounds[0]
    before = numbers.integers(0, 256, first, np.uint8)
    content = stage.content(case.config, numbers, device.content.size - first)
    image = np.concatenate([before, content])
    code = np.frombuffer(case.code, np.uint8)
    image[case.address : case.address + code.size] = code
    device.content[:] = image
    expected = _with_fault(case, expect(case))
    outcome = device.play(case, patience=PATIENCE if expected.ends is None else patience)
    if outcome.refused:
        expected = Expected(False, _refusals(case, outcome))
    problems = [*_ending(case, expected, outcome, patience), *_bus(outcome)]
    problems += _counters(case.config, outcome)
    if expected.exact and outcome.finished and outcome.error is None:
        machine = Machine(case.config, memory_bytes=image.size)
        machine.bounds = case.bounds
        machine.memory[:] = image
        for _ in range(outcome.runs):
            machine.run(case.code)
        problems += _same(device.content, machine.memory, "memory")
        if outcome.counters is not None:
            wrong = misplaced(outcome.counters, case.code, case.config, outcome.runs)
            problems += [Problem("classes", text) for text in wrong]
    elif expected.bounded:
        may = named(case)
        changed = np.where(may[: image.size], image, device.content)
        problems += _same(changed, image, "damage")
    return Trial(outcome, expected, problems)


def _with_fault(case: Case, expected: Expected) -> Expected:
    fault = case.fault
    if fault and fault.kind == "beyond":
        return Expected(False, frozenset([(Error.BUS, Unit.SEQUENCER, case.words)]))
    return expected


def _refusals(case: Case, outcome: Outcome) -> "frozenset[Failure | None]":
    """Return the errors that match the transfer refused by the bus."""
    refused = outcome.refused
    assert refused is not None
    if refused.write:
        numbers = holders(case, refused.address, write=True)
        return frozenset((Error.BUS, Unit.STORE, index) for index in numbers)
    if refused.id == _READ_BY_FETCH:
        if refused.address >= case.address + len(case.code):
            return frozenset([None])
        return frozenset([(Error.BUS, Unit.SEQUENCER, case.index_at(refused.address))])
    numbers = holders(case, refused.address, write=False)
    return frozenset((Error.BUS, Unit.LOAD, index) for index in numbers)


def _ending(case: Case, expected: Expected, outcome: Outcome, patience: int) -> list[Problem]:
    problems = []
    stopped = case.fault is not None and case.fault.kind == "reset"
    if not outcome.finished and expected.ends is not None and not stopped:
        problems.append(Problem("hang", f"no end within {patience} cycles"))
    elif not (stopped and not outcome.finished) and not expected.allows(outcome.error):
        endings = " or ".join(sorted(map(_text, expected.ends or ())))
        problems.append(Problem("error", f"wanted {endings}, got {_text(outcome.error)}"))
    if outcome.error and not 0 <= outcome.error[2] <= case.count:
        problems.append(Problem("error", f"no instruction of this index: {_text(outcome.error)}"))
    if not outcome.idle:
        problems.append(Problem("reset", "not idle after a soft reset"))
    return problems


def _text(error: Failure | None) -> str:
    return f"{error[0].name} of {error[1].name} at {error[2]}" if error else "no error"


def _bus(outcome: Outcome) -> list[Problem]:
    problems = []
    if not outcome.quiet:
        problems.append(Problem("quiet", "something moves on the bus, or interrupts, at the end"))
    if outcome.broken:
        problems.append(Problem("axi", f"rules broken, as bits: {outcome.broken:#x}"))
    return problems


def _counters(config: Config, outcome: Outcome) -> list[Problem]:
    if outcome.counters is None or not config.counts:
        lost = (outcome.counters is None) == config.counts and outcome.cycles
        return [Problem("counters", f"wanted counters={config.counters}")] if lost else []
    sums = {unit: sum(counts.values()) for unit, counts in outcome.counters.items()}
    wrong = {unit: total for unit, total in sums.items() if total != outcome.cycles}
    return [Problem("counters", f"{wrong} of {outcome.cycles} cycles")] if wrong else []


def _same(got: np.ndarray, expected: np.ndarray, kind: str) -> list[Problem]:
    wrong = np.flatnonzero(got != expected)
    if not wrong.size:
        return []
    first = int(wrong[0])
    text = f"{wrong.size} bytes, first at {first:#x}: wanted {expected[first]}, got {got[first]}"
    return [Problem(kind, text)]
