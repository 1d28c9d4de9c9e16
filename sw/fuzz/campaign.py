"""Campaigns of random cases: each is drawn from its number, so that results are reproducible."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from celosia.hw.arch.config import Config
from celosia.sim.rtl import core as rtl
from celosia.sim.rtl.core import RtlError
from celosia.sw.fuzz.case import Case
from celosia.sw.fuzz.coverage import Coverage
from celosia.sw.fuzz.programs.faulty import faulty
from celosia.sw.fuzz.programs.legal import legal
from celosia.sw.fuzz.trial import Problem, attempt


class Plan(NamedTuple):
    """Plan of a campaign: cores, seed, True for cases with faults, and the kind of all of them.

    ``kind`` is one of ``KINDS``, or None for any.
    """

    configs: tuple[Config, ...]
    seed: int
    faults: bool
    kind: str | None = None


class Discrepancy(NamedTuple):
    """Case with problems."""

    number: int
    case: Case
    problems: tuple[Problem, ...]


class CaseBatch(NamedTuple):
    """Results of a batch of cases."""

    programs: int
    cycles: int
    coverage: Coverage
    discrepancies: tuple[Discrepancy, ...]


def case_of(plan: Plan, number: int) -> tuple[str, Case]:
    """Return the kind of the case with a number, and the case."""
    rng = random.Random(f"{plan.seed} {plan.faults} {number}")
    config = rng.choice(plan.configs)
    return faulty(config, rng, plan.kind) if plan.faults else ("legal", legal(config, rng))


def run_batch(plan: Plan, numbers: Sequence[int]) -> CaseBatch:
    """Run the cases of these numbers.

    Raises ``SimulatorNotFound``, ``RtlError`` if the simulator is missing, or the model of a core
    cannot be built.
    """
    coverage, discrepancies, cycles = Coverage(), [], 0
    for config in plan.configs:
        rtl.model(config)
    for number in numbers:
        kind, case = case_of(plan, number)
        try:
            trial = attempt(case)
        except RtlError as error:
            discrepancies.append(Discrepancy(number, case, (Problem("register", str(error)),)))
            continue
        problems = trial.problems
        if kind == "legal" and not trial.expected.exact:
            problems = [Problem("check", "a program drawn as legal is none"), *problems]
        if problems:
            discrepancies.append(Discrepancy(number, case, tuple(problems)))
        cycles += trial.outcome.cycles
        coverage.note(kind, case, trial)
    return CaseBatch(len(numbers), cycles, coverage, tuple(discrepancies))
