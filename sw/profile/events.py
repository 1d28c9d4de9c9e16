"""Work of the instructions of one batch over estimated cycles, unit by unit."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from celosia.hw.arch.isa import Instruction, Opcode, Unit
from celosia.sim.timing.cycles import Cost
from celosia.sw.profile.estimates import Estimates

#: Lanes of the timeline: the four units with a queue. The load unit has two, by kind of load.
LANES = ("load", "weights", "matrix", "vector", "store")

_LANES = {
    Unit.LOAD: "load",
    Unit.MATRIX: "matrix",
    Unit.VECTOR: "vector",
    Unit.STORE: "store",
    Unit.SEQUENCER: "sequencer",
}


class Event(NamedTuple):
    """One instruction of a batch; cycles are from the start of the batch."""

    #: Index of its section in ``Program.per_batch``, and its own in the section.
    section: int
    number: int
    instruction: Instruction  #: The instruction.
    lane: str  #: One of ``LANES``, or ``sequencer``.
    layer: int  #: Number of the layer that it works for, -1 for none.
    taken: int  #: Cycle in which its unit takes it.
    #: Its work: ``end`` is its last effect, ``begin`` is earlier by the cycles that its unit needs.
    #: The work of two instructions of a unit does not overlap.
    begin: int
    end: int

    @property
    def cycles(self) -> int:
        """Cycles of its work."""
        return self.end - self.begin


def lane(i: Instruction) -> str:
    """Return the lane of an instruction."""
    weights = i.opcode in (Opcode.LOAD_WEIGHTS, Opcode.LOAD_PARAMS)
    return "weights" if weights else _LANES[i.unit]


def events(run: Estimates) -> list[Event]:
    """Return the instructions of one batch, section after section, in program order."""
    result: list[Event] = []
    program, offset = run.compiled.program, 0
    for number, (section, costs) in enumerate(zip(program.per_batch, run.per_batch, strict=True)):
        instructions = section.instructions
        begins = _begins(costs, run.costs.bandwidth)
        for cost, i, begin in zip(costs, instructions, begins, strict=True):
            times = (offset + cost.start, offset + begin, offset + cost.finish)
            layer = section.layers[cost.index]
            result.append(Event(number, cost.index, i, lane(i), layer, *times))
        offset += run.sections[section.address].total
    return result


def _begins(costs: Sequence[Cost], bandwidth: float) -> list[int]:
    """Return the cycle in which the work of each instruction begins.

    The units are pipelines that finish in order: work ends with its last effect.
    """
    begins, before = [0] * len(costs), dict.fromkeys(Unit, 0)
    for cost in costs:
        work = cost.work
        if cost.unit in (Unit.LOAD, Unit.STORE):
            work = math.ceil(work / min(1.0, bandwidth))
        if cost.unit is Unit.SEQUENCER:
            work = cost.cycles
        begins[cost.index] = min(
            cost.finish, max(cost.start, before[cost.unit], cost.finish - work)
        )
        before[cost.unit] = max(before[cost.unit], cost.finish)
    return begins


def shares(
    starts: np.ndarray, ends: np.ndarray, edges: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return for each interval between ``edges`` the weighted share of it that events cover.

    - ``starts``, ``ends``: cycles, [events], float64.
    - ``edges``: ascending cycles, [bins + 1], float64.
    - ``weights``: weight of each event while it lasts, [events].

    Returns [bins], float64.
    """

    # The integral of the events up to each edge, from sorted starts and ends.
    def up_to(times: np.ndarray) -> np.ndarray:
        order = np.argsort(times, kind="stable")
        times, ordered = times[order], weights[order]
        count = np.searchsorted(times, edges, side="right")
        total = np.concatenate([[0.0], np.cumsum(ordered)])[count]
        moment = np.concatenate([[0.0], np.cumsum(ordered * times)])[count]
        return total * edges - moment

    return np.diff(up_to(starts) - up_to(ends)) / np.diff(edges)
