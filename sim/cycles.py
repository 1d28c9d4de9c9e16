"""Estimate of the cycles a program takes, by the rules of the units and of what they wait for."""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from celosia.hw.arch.config import INSTRUCTION_BYTES, PARAMETER_BYTES, TABLE_BYTES, Config
from celosia.hw.arch.isa import Instruction, Kind, Opcode, Space, Unit
from celosia.sim import footprint
from celosia.sim.schedule import EXECUTING, Program, bits, listing, schedule


class Costs(NamedTuple):
    """Constants of the estimate, in cycles.

    All but ``memory`` are fitted to counters of the RTL at ``edge``, running the shipped MLP.
    """

    #: From a read request on the bus to its first beat.
    memory: int = 32
    #: From one instruction that the sequencer passes on to the next.
    dispatch: int = 2
    #: From a semaphore's post, or a dispatch, to the start of an instruction.
    start: int = 3
    #: Of the load unit besides memory: request on its way out, last beat on its way in.
    load: int = 16
    #: Of the store unit besides memory: data on its way out, acknowledgement on its way in.
    store: int = 24
    #: From the last vector that enters the array to the last sum, besides rows and columns.
    matrix: int = 12
    #: From one step of several pixels to the next: sums have to be there to be added to.
    step: int = 4
    #: From the last element read by the vector unit to its write.
    vector: int = 9


COSTS = Costs()


@dataclass(frozen=True)
class Cost:
    """One instruction: when it ran, in cycles from the start of the program."""

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
    """What a program is expected to take.

    Attributes
    ----------
    total : int
        Cycles from the start of the program to HALT.
    instructions : tuple of Cost
        In program order.
    busy : dict of Unit to int
        Cycles in which each executing unit has work under way, latencies left out.
    """

    total: int
    instructions: tuple[Cost, ...]
    busy: dict[Unit, int]


def _beats(i: Instruction, config: Config) -> int:
    """Return the beats of a block whose rows start anywhere in a beat."""
    width = config.bus_bytes
    starts = (i.external + np.arange(i.rows) * i.external_pitch) % width
    return int(np.sum(-(-(starts + i.length) // width)))


def work(i: Instruction, config: Config, costs: Costs = COSTS) -> tuple[int, int]:
    """Return how long an instruction keeps its unit, and the latency until its last effect.

    Parameters
    ----------
    i : Instruction
        Any instruction.
    config : Config
        Sizes of the core.
    costs : Costs
        Constants.

    Returns
    -------
    tuple of int
        Cycles until the next instruction of the unit can start, and cycles from there to the end.
    """
    pixels = footprint.pixels(i) if "x_count" in i.fields else 0
    match i.opcode:
        case Opcode.LOAD:
            return _beats(i, config), costs.memory + costs.load
        case Opcode.STORE:
            return _beats(i, config), costs.memory + costs.store
        case Opcode.LOAD_WEIGHTS:
            return i.tiles * config.tile_bytes // config.bus_bytes, costs.memory + costs.load
        case Opcode.LOAD_PARAMS:
            width = PARAMETER_BYTES if i.kind == Kind.CHANNELS.value else TABLE_BYTES
            return -(-i.count * width // config.bus_bytes), costs.memory + costs.load
        case Opcode.MATMUL:
            least = costs.step if pixels > 1 else 1
            load = config.rows // config.weight_rows
            each = max(pixels, load, least)
            return footprint.steps(i, config) * each, load + config.rows + config.columns + (
                costs.matrix
            )
        case Opcode.VECTOR:
            groups = -(-i.channels // config.lanes)
            window = i.window_x_count * i.window_y_count
            one_row = i.source == Space.ACCUMULATORS.value
            each = max(window, groups) if one_row else window * groups
            return pixels * each, costs.vector
        case Opcode.FILL:
            return pixels * -(-i.channels // config.lanes), costs.vector
    return 1, 0


class _Clock:
    """Times of a program under estimation."""

    def __init__(self, config: Config, costs: Costs) -> None:
        self.config = config
        self.costs = costs
        self.dispatched = costs.memory
        self.free = dict.fromkeys(EXECUTING, 0)
        self.last = dict.fromkeys(EXECUTING, 0)
        self.starts: dict[Unit, deque[int]] = {
            unit: deque([0] * config.queue_depth, config.queue_depth) for unit in EXECUTING
        }
        self.posts: dict[int, list[int]] = {}
        fetch = -(-INSTRUCTION_BYTES // config.bus_bytes)
        self.interval = max(fetch, costs.dispatch)

    def arrival(self, i: Instruction) -> int:
        """Return when the sequencer can pass an instruction on."""
        self.dispatched += self.interval
        if i.unit in self.starts:
            self.dispatched = max(self.dispatched, self.starts[i.unit][0])
        return self.dispatched

    def take(self, i: Instruction) -> int:
        """Return when the last count that an instruction needs is there, and take them."""
        latest = 0
        for s in bits(i.wait):
            posts = self.posts[s]
            posts.sort()
            latest = max(latest, posts.pop(0))
        return latest

    def run(self, index: int, i: Instruction, arrival: int) -> Cost:
        """Place an instruction behind everything that it waits for."""
        ready = max(arrival, self.take(i)) + self.costs.start
        busy, latency = work(i, self.config, self.costs)
        if i.unit is Unit.SEQUENCER:
            if i.opcode is not Opcode.NOP:
                ready = max(ready, *self.last.values())
            finish = ready + busy
            self.dispatched = max(self.dispatched, finish)
        else:
            ready = max(ready, self.free[i.unit])
            self.free[i.unit] = ready + busy
            finish = ready + busy + latency
            self.last[i.unit] = max(self.last[i.unit], finish)
            self.starts[i.unit].append(ready)
        for s in bits(i.post):
            self.posts.setdefault(s, []).append(finish)
        return Cost(index, i.unit, ready, finish, busy)


def estimate(program: Program, config: Config, costs: Costs = COSTS) -> Estimate:
    """Return the cycles that a program is expected to take.

    The four units run their instructions in order, side by side, held back by semaphores, by the
    sequencer, and by the depth of the queues.

    Parameters
    ----------
    program : sequence of Instruction, or bytes
        A program that the judge accepts.
    config : Config
        Sizes of the core.
    costs : Costs
        Constants, for a memory of another latency for instance.

    Raises
    ------
    MachineError
        If the program cannot run to its HALT.
    """
    listed = listing(program, config)
    found = schedule(listed, config.queue_depth)
    if found.failure:
        raise found.failure
    clock = _Clock(config, costs)
    arrivals: list[int] = []
    placed: dict[int, Cost] = {}
    for index in found.order:
        while len(arrivals) <= index:
            arrivals.append(clock.arrival(listed.instructions[len(arrivals)]))
        placed[index] = clock.run(index, listed.instructions[index], arrivals[index])
    instructions = tuple(placed[index] for index in sorted(placed))
    busy = {
        unit: sum(cost.work for cost in instructions if cost.unit is unit) for unit in EXECUTING
    }
    return Estimate(max(cost.finish for cost in instructions), instructions, busy)
