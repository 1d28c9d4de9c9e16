"""Reduction of failing cases: fewer instructions, simpler fields, a simpler bus."""

from collections.abc import Callable
from dataclasses import replace

from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sim.check.footprint import OutOfRange
from celosia.sim.rtl.core import RtlError
from celosia.sw.fuzz.case import Bus, Case
from celosia.sw.fuzz.programs.ordering import ordered
from celosia.sw.fuzz.trial import Problem, Trial, attempt

#: Most cases tried, and most cycles of each.
_BUDGET = 600
_PATIENCE = 1 << 18

Items = tuple[Instruction | bytes, ...]


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

    def fewer(self, build: Callable[[Items], Items], items: Items) -> Items:
        """Remove items, in halves, quarters and so on down to single ones; return the rest."""
        size = max(1, len(items) // 2)
        while True:
            index = 0
            while index < len(items):
                remaining = items[:index] + items[index + size :]
                if remaining and self._builds(build, remaining):
                    items = remaining
                else:
                    index += size
            if size == 1:
                return items
            size //= 2

    def _builds(self, build: Callable[[Items], Items], items: Items) -> bool:
        try:
            case = replace(self.best, items=build(items))
        except (ValueError, OutOfRange):
            return False
        return self.accepts(case)

    def plainer(self, build: Callable[[Items], Items], items: Items) -> Items:
        """Set fields to their default, or move them half-way towards it as often as that works."""
        for index, item in enumerate(items):
            if isinstance(item, bytes):
                continue
            i = item
            defaults = Instruction(i.opcode).fields
            for name, default in defaults.items():
                value = default
                while i.fields[name] != value:
                    changed = Instruction(i.opcode, **(i.fields | {name: value}))
                    candidate = (*items[:index], changed, *items[index + 1 :])
                    if self._builds(build, candidate):
                        i, items = changed, candidate
                        value = default
                    elif abs(i.fields[name] - value) <= 1:
                        break
                    else:
                        value = (i.fields[name] + value + (value < i.fields[name])) // 2
        return items


def _ordered(case: Case) -> Callable[[Items], Items]:
    return lambda items: tuple(
        ordered([item for item in items if isinstance(item, Instruction)], case.config)
    )


def _bare(items: Items) -> Items:
    """Return the instructions without semaphores and HALT."""
    return tuple(
        i.but(wait=0, post=0)
        for i in items
        if isinstance(i, Instruction) and i.opcode is not Opcode.HALT
    )


def shrink(case: Case, trial: Trial, try_case: Callable[[Case], Trial] | None = None) -> Case:
    """Return a smaller case that fails in the same way.

    A legal program remains legal: its semaphores are computed again after each removal.

    ``case``: failing case; ``trial``: its result, with problems; ``try_case``: runs a case;
    ``attempt`` unless given.
    """
    search = _Search(case, trial, try_case or (lambda c: attempt(c, patience=_PATIENCE)))
    search.plainer_bus()
    build: Callable[[Items], Items] = tuple
    items = search.best.items
    if search.legal:
        bare = _bare(items)
        ordered = _ordered(case)
        if search.accepts(replace(search.best, items=ordered(bare))):
            build, items = ordered, bare
    items = search.fewer(build, items)
    items = search.plainer(build, items)
    search.fewer(build, items)
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
