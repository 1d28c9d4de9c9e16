"""Estimated cycles of all sections of a compiled model, and the figures that follow from them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from celosia.sim.check.footprint import Memory, reach
from celosia.sim.timing.costs import COSTS, Costs
from celosia.sim.timing.cycles import Cost, Estimate, estimate
from celosia.sw.compiler import report
from celosia.sw.compiler.compiled import Compiled, bounds
from celosia.sw.compiler.report import Measured, Row, Span


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of one batch of a program."""

    compiled: Compiled  #: The program.
    costs: Costs  #: Constants of the core and its external memory.
    sections: dict[int, Estimate]  #: By address of the section's code.
    clock_hz: float | None = None  #: Clock of the core in Hz.
    measured: Measured | None = None  #: Cycles that the RTL has counted.

    @property
    def per_batch(self) -> list[tuple[Cost, ...]]:
        """Times of the instructions of each section that runs for a batch."""
        program = self.compiled.program
        return [self.sections[section.address].instructions for section in program.per_batch]

    @property
    def setup_cycles(self) -> int:
        """Cycles of the one-time load."""
        program = self.compiled.program
        return sum(self.sections[section.address].total for section in program.once)

    @property
    def again(self) -> int:
        """Cycles of a batch that load constants again."""
        program = self.compiled.program
        mains = {section.address for part in program.parts for section in part.mains}
        addresses = (section.address for section in program.per_batch)
        return sum(self.sections[address].total for address in addresses if address not in mains)

    @cached_property
    def peak(self) -> int:
        """Bytes of the unified buffer that the program uses, up to the last."""
        program = self.compiled.program
        sections = (section for part in program.parts for section in part.mains)
        instructions = [i for section in sections for i in section.instructions]
        return reach(instructions, Memory.UNIFIED, program.config)

    @cached_property
    def rows(self) -> list[Row]:
        """Rows of the report, the total last."""
        finishes = [cost.finish for section in self.per_batch for cost in section]
        program = self.compiled.program
        return report.rows(program, finishes, bounds(self.compiled), self.measured)

    def spans(self) -> Iterator[Span]:
        """Yield the cycles that count for each layer, in order, from the start of the batch."""
        program, offset, number = self.compiled.program, 0, 0
        finishes = [cost.finish for section in self.per_batch for cost in section]
        for span in report.spans(program, finishes):
            while number < span.section:
                offset += self.sections[program.per_batch[number].address].total
                number += 1
            yield span._replace(first=span.first + offset, last=span.last + offset)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures of the report; fields: ``docs/reference/json.md``."""
        return report.as_dict(
            self.compiled.program,
            self.rows,
            self.setup_cycles,
            self.measured,
            peak=self.peak,
            again=self.again,
            clock_hz=self.clock_hz,
        )


def estimates(
    compiled: Compiled,
    *,
    latency: int = COSTS.memory,
    bandwidth: float = COSTS.bandwidth,
    clock_hz: float | None = None,
    measured: Measured | None = None,
) -> Estimates:
    """Return the estimates of a program.

    Parameters
    ----------
    compiled : Compiled
        The program.
    latency : int
        Cycles from a request to external memory to its first beat.
    bandwidth : float
        Beats of external memory per cycle, above 0 up to 2.
    clock_hz : float, optional
        Clock of the core in Hz.
    measured : Measured, optional
        Cycles that the RTL has counted.

    Raises
    ------
    ValueError
        If latency or bandwidth are out of range.
    """
    costs = COSTS._replace(memory=latency, bandwidth=bandwidth)
    program = compiled.program
    sections = {s.address: estimate(s.code, program.config, costs) for _, s in program.sections}
    return Estimates(compiled, costs, sections, clock_hz, measured)
