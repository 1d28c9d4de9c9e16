"""Estimate of a program's cycles, without the RTL."""

from dataclasses import dataclass

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import EXECUTING, Unit
from celosia.hw.notebook import html_table
from celosia.sim.check.schedule import Program, listing, schedule
from celosia.sim.timing.costs import COSTS, Costs, work
from celosia.sim.timing.timeline import Timeline


@dataclass(frozen=True)
class Cost:
    """Times of one instruction, in cycles from the start of the program.

    ``index``: index in the program; ``unit``: unit that ran it; ``start``, ``finish``: cycle in
    which its unit took it, and that of its last effect; ``work``: cycles for which it keeps its
    unit, see ``work``.
    """

    index: int
    unit: Unit
    start: int
    finish: int
    work: int

    @property
    def cycles(self) -> int:
        """Cycles from its start to its last effect."""
        return self.finish - self.start


@dataclass(frozen=True)
class Estimate:
    """Estimated cycles of a program.

    ``total``: cycles from the start of the program to HALT; ``instructions``: in program order;
    ``busy``: cycles of work of each executing unit, without latencies.
    """

    total: int
    instructions: tuple[Cost, ...]
    busy: dict[Unit, int]

    def __repr__(self) -> str:
        return f"<Estimate: {self.total:,} cycles, {len(self.instructions)} instructions>"

    def _repr_html_(self) -> str:
        rows = [
            (unit.name.lower(), cycles, f"{cycles / self.total:.1%}")
            for unit, cycles in self.busy.items()
        ]
        return html_table(f"{self.total:,} cycles, estimated", rows, ("unit", "busy", "share"))


def estimate(program: Program, config: Config, costs: Costs = COSTS) -> Estimate:
    """Return the estimated cycles of a program.

    ``program``: program that ``check_hazards`` accepts; ``config``: sizes of the core; ``costs``:
    constants, for instance with another latency of the memory.
    Raises ``MachineError`` if the program cannot run to its HALT.
    Raises ``ValueError`` if latency or bandwidth are out of range.
    """
    if costs.memory < 1:
        raise ValueError(f"latency: wanted at least 1 cycle, got {costs.memory}")
    if not 1 / 1024 <= costs.bandwidth <= 2:
        requirement = "1/1024 to 2 beats per cycle"
        raise ValueError(f"bandwidth: wanted {requirement}, got {costs.bandwidth}")
    listed = listing(program, config)
    result = schedule(listed, config.queue_depth)
    if result.failure:
        raise result.failure
    times = Timeline(listed.instructions, config, costs).run()
    instructions = tuple(
        Cost(index, i.unit, *times[index], work(i, config))
        for index, i in enumerate(listed.instructions)
    )
    busy = {
        unit: sum(cost.work for cost in instructions if cost.unit is unit) for unit in EXECUTING
    }
    return Estimate(instructions[-1].finish, instructions, busy)
