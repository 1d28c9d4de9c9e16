"""Reduction of failing cases: fewer instructions, simpler fields, a simpler bus."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from celosia.hw.arch import isa
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sim.footprint import OutOfRange
from celosia.sim.fuzz.case import Bus, Case, decoded
from celosia.sim.fuzz.programs.legal import assembled
from celosia.sim.fuzz.trial import Problem, Trial, attempt
from celosia.sim.rtl import RtlError

__all__ = ["shrink", "shrunk"]

#: Most cases tried, and most cycles of each.
_BUDGET = 600
_PATIENCE = 1 << 18

Words = tuple[bytes, ...]


class _Search:
    """Search for smaller cases that fail in the same way."""

    def __init__(self, case: Case, trial: Trial, try_case: Callable[[Case], Trial]) -> None:
        self.best = case
        self.kinds = {problem.kind for problem in trial.problems}
        self.legal = trial.expected.exact
        self.try_case = try_case
        self.left = _BUDGET

    def accepts(self, case: Case) -> bool:
        """Keep a case if it fails in the same way and is as legal as the first."""
        if self.left <= 0:
            return False
        self.left -= 1
        try:
            trial = self.try_case(case)
        except (ValueError, OutOfRange, RtlError):
            return False
        if self.legal and not trial.expected.exact:
            return False
        if not self.kinds & {problem.kind for problem in trial.problems}:
            return False
        self.best = case
        return True

    def plainer_bus(self) -> None:
        """Remove the fault and the pauses of the bus, all at once or channel by channel."""
        self.accepts(replace(self.best, fault=None))
        if self.accepts(replace(self.best, bus=Bus())):
            return
        for n in range(len(self.best.bus.pauses)):
            pauses = list(self.best.bus.pauses)
            if pauses[n]:
                pauses[n] = 0.0
                self.accepts(replace(self.best, bus=self.best.bus._replace(pauses=tuple(pauses))))

    def fewer(self, build: Callable[[Sequence[bytes]], Words], words: Words) -> Words:
        """Remove words, in halves, quarters and so on down to single ones; return the rest."""
        size = max(1, len(words) // 2)
        while True:
            index = 0
            while index < len(words):
                rest = words[:index] + words[index + size :]
                if rest and self._builds(build, rest):
                    words = rest
                else:
                    index += size
            if size == 1:
                return words
            size //= 2

    def _builds(self, build: Callable[[Sequence[bytes]], Words], words: Words) -> bool:
        try:
            case = replace(self.best, words=build(words))
        except (ValueError, OutOfRange):
            return False
        return self.accepts(case)

    def plainer(self, build: Callable[[Sequence[bytes]], Words], words: Words) -> Words:
        """Set fields to their default, or move them half-way towards it as often as that works."""
        for index, word in enumerate(words):
            i = decoded(word)
            if i is None:
                continue
            defaults = Instruction(i.opcode).fields
            for name, default in defaults.items():
                value = default
                while i.fields[name] != value:
                    changed = Instruction(i.opcode, **(i.fields | {name: value}))
                    rest = (*words[:index], isa.encode(changed), *words[index + 1 :])
                    if self._builds(build, rest):
                        i, words = changed, rest
                        value = default
                    elif abs(i.fields[name] - value) <= 1:
                        break
                    else:
                        value = (i.fields[name] + value + (value < i.fields[name])) // 2
        return words


def _ordered(case: Case) -> Callable[[Sequence[bytes]], Words]:
    return lambda words: assembled([isa.decode(word) for word in words], case.config)


def _bare(words: Words) -> Words:
    """Return the words without semaphores and HALT."""
    found = [isa.decode(word) for word in words]
    return tuple(
        isa.encode(Instruction(i.opcode, **(i.fields | {"wait": 0, "post": 0})))
        for i in found
        if i.opcode is not Opcode.HALT
    )


def shrink(case: Case, trial: Trial, try_case: Callable[[Case], Trial] | None = None) -> Case:
    """Return a smaller case that fails in the same way.

    A legal program remains legal: its semaphores are computed again after each removal.

    Parameters
    ----------
    case : Case
        Failing case.
    trial : Trial
        Its result, with problems.
    try_case : callable, optional
        Runs a case; ``attempt`` unless given.
    """
    search = _Search(case, trial, try_case or (lambda c: attempt(c, patience=_PATIENCE)))
    search.plainer_bus()
    build: Callable[[Sequence[bytes]], Words] = tuple
    words = search.best.words
    if search.legal:
        bare = _bare(words)
        ordered = _ordered(case)
        if search.accepts(replace(search.best, words=ordered(bare))):
            build, words = ordered, bare
    words = search.fewer(build, words)
    words = search.plainer(build, words)
    search.fewer(build, words)
    search.plainer_bus()
    return search.best


def shrunk(case: Case) -> tuple[Case, list[Problem]]:
    """Return a smaller case that fails as ``case`` does, and its problems.

    If the case does not fail here, or the core does not respond: the case itself and no problems.
    """
    try:
        trial = attempt(case)
        if not trial.problems:
            return case, []
        small = shrink(case, trial)
        return small, attempt(small).problems
    except RtlError:
        return case, []
