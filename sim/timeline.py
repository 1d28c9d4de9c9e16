"""Times of the instructions of a program: the parts of a core, and how they wait for one another.

Each part is a generator. It yields the cycle in which it goes on, or the name of what it waits for,
which another part announces. So time passes from event to event, not from cycle to cycle: an
instruction is handed on or taken, a burst is requested or complete.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple

from celosia.hw.arch.config import INSTRUCTION_BYTES, Config
from celosia.hw.arch.isa import Error, Instruction, Opcode, Space, Unit
from celosia.sim import footprint
from celosia.sim.costs import PIECES, Costs, bursts, elements, reads, spacing, window
from celosia.sim.schedule import EXECUTING, MachineError, bits, describe
from celosia.sim.traffic import Blocks, Burst, Port

__all__ = ["Timeline", "Times"]

#: What parts wait for: an instruction that enters a queue, has left the sequencer, leaves its queue,
#: is taken by its unit, finished by it; counts posted; a burst requested, come; room in a unit for
#: another instruction.
Event = Literal["queued", "passed", "read", "taken", "finished", "posted", "asked", "come", "room"]

#: A part of the core.
Part = Generator[int | Event, None, None]


class Times(NamedTuple):
    """Cycles in which a unit took an instruction, and in which its last effect was there."""

    start: int
    finish: int


class Timeline:
    """A core that runs a program.

    Parameters
    ----------
    code : sequence of Instruction
        A program that runs to its HALT, which is the last.
    config : Config
        Sizes of the core.
    costs : Costs
        Constants.

    Attributes
    ----------
    times : dict of int to Times
        Of each instruction, by index.
    """

    def __init__(self, code: Sequence[Instruction], config: Config, costs: Costs) -> None:
        self.code = code
        self.config = config
        self.costs = costs
        self.beats = -(-INSTRUCTION_BYTES // config.bus_bytes)
        # Cycles of a beat.
        self.beat = max(1.0, 1 / costs.bandwidth)
        self.times: dict[int, Times] = {}
        self.now = 0
        self.due: list[tuple[int, int, Part]] = []
        self.waiting: dict[Event, list[tuple[int, Part]]] = {}
        # Last beat of each instruction fetched, and when the last piece of each was passed on.
        self.fetched: list[int] = []
        self.passed: list[int] = []
        # Instructions that have entered a queue, and when their first pieces came out of it.
        self.queues: dict[Unit, deque[tuple[int, int]]] = {unit: deque() for unit in EXECUTING}
        self.read: dict[Unit, list[int]] = {unit: [] for unit in EXECUTING}
        self.queued = self.finished = self.latest = 0
        self.posts: dict[int, list[int]] = {}
        # From when on each unit can take an instruction.
        self.free: dict[Unit, int] = {unit: 0 for unit in EXECUTING}
        self.address = 0
        self.channel: deque[Burst] = deque()
        self.blocks = {unit: Blocks(costs) for unit in (Unit.LOAD, Unit.STORE)}
        # What a unit has taken and does not know the end of yet, and when it was taken.
        self.tasks: dict[Unit, deque[tuple[int, int]]] = {
            unit: deque() for unit in (Unit.MATRIX, Unit.VECTOR)
        }
        # The vector unit's pipe is empty; ends of its last two instructions; whether the last one
        # wrote sums.
        self.emptied, self.written = 0, (0, 0, False)
        # Reads of the store unit, reads of that and the vector unit, writes of the vector unit.
        self.store_reads, self.buffer_reads, self.buffer_writes = Port(), Port(), Port()
        self.bus = Port()
        self.read_from = 0.0

    def run(self) -> dict[int, Times]:
        """Return the times of all instructions.

        Raises
        ------
        MachineError
            If units take one another's counts, which the judge refuses.
        """
        units = [self._unit(unit) for unit in EXECUTING]
        inner = [self._load(), self._store(), self._read(), self._array(), self._vector()]
        parts = [self._fetch(), self._dispatch(), *units, *inner]
        self.due = [(0, number, part) for number, part in enumerate(parts)]
        while len(self.times) < len(self.code):
            if not self.due:
                index = next(n for n in range(len(self.code)) if n not in self.times)
                where = describe(index, self.code[index])
                why = f"{where} waits for counts that another unit took first"
                raise MachineError(Error.WATCHDOG, self.code[index].unit, index, why)
            self.now, number, part = heapq.heappop(self.due)
            wanted = next(part, None)
            if isinstance(wanted, int):
                heapq.heappush(self.due, (max(wanted, self.now), number, part))
            elif wanted is not None:
                self.waiting.setdefault(wanted, []).append((number, part))
        return self.times

    def _announce(self, event: Event) -> None:
        """Let the parts that wait for something look again."""
        for number, part in self.waiting.pop(event, ()):
            heapq.heappush(self.due, (self.now, number, part))

    def _fetch(self) -> Part:
        """Ask for instructions, some ahead of those that are passed on."""
        yield 1
        for index in range(len(self.code)):
            while index >= len(self.passed) + self.costs.ahead:
                yield "passed"
            if index >= self.costs.ahead:
                yield self.passed[index - self.costs.ahead] + 1
            while self.now < self.address:
                yield self.address
            self._ask(self.beats, self.bus, self.fetched.append)

    def _dispatch(self) -> Part:
        """Put beats together, check them, and hand the pieces to the queues, in order."""
        for index, i in enumerate(self.code):
            while len(self.fetched) <= index:
                yield "come"
            gathered = self.passed[-1] + self.beats + self.costs.check if self.passed else 0
            yield max(self.fetched[index] + self.costs.fetch, gathered)
            if i.unit is Unit.SEQUENCER:
                yield from self._own(index, i)
            else:
                yield from self._push(index, i.unit)
            self.passed.append(self.now)
            self._announce("passed")

    def _push(self, index: int, unit: Unit) -> Part:
        """Hand an instruction to a queue: it has room for one less, and one is after it."""
        queue, read = self.queues[unit], self.read[unit]
        before = len(read) + len(queue) - (self.config.queue_depth - 1)
        if before >= 0:
            while len(read) <= before:
                yield "read"
            yield read[before] + 1
        queue.append((index, self.now))
        self.queued += 1
        self._announce("queued")
        yield self.now + PIECES[unit] - 1

    def _own(self, index: int, i: Instruction) -> Part:
        """Execute NOP, FENCE or HALT."""
        start = self.now
        while (granted := self._grant(i)) is None:
            yield "posted"
        yield granted + 1
        if i.opcode is not Opcode.NOP:
            while self.finished < self.queued:
                yield "finished"
            yield self.latest + self.costs.idle
        self._post(i, self.now + 1)
        yield self.now + self.costs.settle
        self.times[index] = Times(start, self.now)

    def _grant(self, i: Instruction) -> int | None:
        """Return when the counts that an instruction waits for are there, and take them."""
        if not all(self.posts.get(s) for s in bits(i.wait)):
            return None
        return max([self.now, *(heapq.heappop(self.posts[s]) for s in bits(i.wait))])

    def _post(self, i: Instruction, at: int) -> None:
        for s in bits(i.post):
            heapq.heappush(self.posts.setdefault(s, []), at)
        self._announce("posted")

    def _finish(self, index: int, start: int, at: int) -> None:
        """Note the last effect of an instruction of a unit, which may lie ahead."""
        self.times[index] = Times(start, at)
        self.finished += 1
        self.latest = max(self.latest, at)
        self._announce("finished")
        self._post(self.code[index], at + self.costs.post)

    def _unit(self, unit: Unit) -> Part:
        """Take the instructions of a queue, each once its semaphores are there."""
        queue, read = self.queues[unit], self.read[unit]
        while True:
            while not queue:
                yield "queued"
            index, queued = queue.popleft()
            read.append(max(self.now + 1, queued + self.costs.queue))
            self._announce("read")
            yield read[-1] + PIECES[unit]
            while (granted := self._grant(self.code[index])) is None:
                yield "posted"
            yield granted + 1
            while not self._room(unit):
                yield "room"
            if unit is not Unit.VECTOR:
                yield self.free[unit]
            if unit in self.tasks:
                self.tasks[unit].append((index, self.now))
            else:
                self.blocks[unit].take(index, self.now, bursts(self.code[index], self.config))
                apart = self.costs.load if unit is Unit.LOAD else self.costs.store
                self.free[unit] = self.now + apart
            self._announce("taken")
            yield self.now + 1

    def _room(self, unit: Unit) -> bool:
        """Return whether a unit has got so far with earlier instructions that it takes another."""
        return self.blocks[unit].room if unit in self.blocks else not self.tasks[unit]

    def _ask(self, beats: int, port: Port, complete: Callable[[int], None]) -> None:
        """Put a burst on the address channel."""
        self.address = self.now + 1
        self.channel.append(Burst(self.now + 1 + self.costs.memory, beats, port, complete))
        self._announce("asked")

    def _read(self) -> Part:
        """Bring the beats of bursts, in the order they were requested."""
        free = 0.0
        while True:
            while not self.channel:
                yield "asked"
            burst = self.channel[0]
            self.read_from = start = max(burst.ready, free)
            free = 0.0
            # Who comes first may turn up while the burst is under way.
            ways = (self.bus, burst.beats * self.beat), (burst.port, burst.beats)
            while (end := max(port.end(start, count) for port, count in ways)) > free:
                free = end
                yield math.ceil(end - self.beat)
            self.channel.popleft()
            burst.complete(self.now)
            self._announce("come")

    def _load(self) -> Part:
        """Ask for the bursts of loads."""
        blocks, most = self.blocks[Unit.LOAD], self.config.outstanding
        while True:
            while not blocks.jobs:
                yield "taken"
            index, taken, rows = blocks.jobs.popleft()
            port = self.buffer_writes if self.code[index].opcode is Opcode.LOAD else self.bus
            complete = partial(self._loaded, index, taken, [sum(map(len, rows))])
            yield taken + self.costs.request
            for beats in chain.from_iterable(rows):
                if blocks.under_way == most:
                    while blocks.under_way == most:
                        yield "come"
                    yield self.now + 1
                while self.now < self.address:
                    yield self.address
                blocks.under_way += 1
                blocks.asked += 1
                self._ask(beats, port, complete)
                self._announce("room")

    def _loaded(self, index: int, taken: int, left: list[int], at: int) -> None:
        """Count a burst of a load; ``left`` holds how many are to come."""
        self.blocks[Unit.LOAD].under_way -= 1
        left[0] -= 1
        if not left[0]:
            self._finish(index, taken, at + self.costs.arrival)

    def _store(self) -> Part:
        """Gather and send the bursts of stores."""
        blocks = self.blocks[Unit.STORE]
        # Where there is bandwidth for one beat only, reads and writes take turns.
        share = 1 - max(self.costs.bandwidth, 1.0) / 2
        answers = deque([0] * self.costs.answers, self.costs.answers)
        sent = 0.0
        while True:
            while not blocks.jobs:
                yield "taken"
            index, taken, rows = blocks.jobs.popleft()
            yield taken + self.costs.request
            for beats in chain.from_iterable(rows):
                yield answers[0] + 1
                start = max(self.now + self.costs.gather, sent)
                sent = start + beats * self.beat
                sent += min(beats * self.beat, self._reads(start, sent)) * 2 * share
                self.bus.take(start, sent, share)
                for port in (self.store_reads, self.buffer_reads):
                    port.take(self.now + 1, self.now + 1 + beats, 1.0)
                answers.append(math.ceil(sent - self.beat) + self.costs.memory)
                blocks.asked += 1
                self._announce("room")
                yield max(self.now + beats, math.ceil(sent - self.costs.room * self.beat))
            self._finish(index, taken, answers[-1] + self.costs.written)

    def _reads(self, start: float, end: float) -> float:
        """Return for how many cycles from ``start`` on reads, those ready by ``end``, go on."""
        first = at = self.read_from
        for burst in self.channel:
            if burst.ready < end:
                first = first if at >= burst.ready else burst.ready
                at = max(at, burst.ready) + burst.beats * self.beat
        return max(0.0, at - max(start, first))

    def _array(self) -> Part:
        """Run the passes of MATMULs; the tiles of one follow those of the one before."""
        config, costs = self.config, self.costs
        load = config.rows // config.weight_rows
        prepare = (config.rows - 1).bit_length() + costs.prepare
        # Of the last pass so far: start of its tile, first and last vector.
        tile, first, last = -load, 0, 0
        passes = self.tasks[Unit.MATRIX]
        while True:
            while not passes:
                yield "taken"
            index, taken = passes[0]
            i = self.code[index]
            steps, pixels = footprint.steps(i, config), footprint.pixels(i)
            yield max(taken + prepare, last)
            tile = max(taken + 1, first, tile + load)
            begin = max(self.now, tile, last + costs.add - 1 if i.accumulate else 0) + 1
            first = begin
            if steps > 1:
                second, space = max(tile + load, begin), spacing(i, costs)
                tile = max(second + (steps - 2) * load, begin + (steps - 2) * space)
                first = max(begin + (steps - 1) * space, second + (steps - 2) * load + 1)
            self.free[Unit.MATRIX] = max(self.now, tile) + 1
            passes.popleft()
            self._announce("room")
            last = first + pixels - 1
            share = pixels * steps / (last + 1 - begin)
            late = 0
            while last + late > self.now:
                yield last + late
                end = self.buffer_reads.end(begin, last + 1 - begin, share)
                late = math.ceil(end - last - 1)
            first, last = first + late, last + late
            self._finish(index, taken, last + config.rows + config.columns + costs.matrix)

    def _vector(self) -> Part:
        """Run VECTORs and FILLs, each until its last element is requested; one waits meanwhile."""
        tasks = self.tasks[Unit.VECTOR]
        while True:
            while not tasks:
                yield "taken"
            yield self.free[Unit.VECTOR]
            index, taken = tasks.popleft()
            self._announce("room")
            yield from self._walk(index, taken)

    def _walk(self, index: int, taken: int) -> Part:
        """Run VECTOR or FILL until its last element has been requested."""
        i, config, costs = self.code[index], self.config, self.costs
        groups = reads(i, config)
        fill = i.opcode is Opcode.FILL
        from_sums = not fill and i.source == Space.ACCUMULATORS.value
        to_sums = not fill and i.destination == Space.ACCUMULATORS.value
        prepare = (config.lanes - 1).bit_length() + costs.prepare
        before, latest, wrote_sums = self.written
        launch = max(self.now + prepare, self.emptied, before + 1)
        if (not fill and from_sums == wrote_sums) or (to_sums and not wrote_sums):
            # It may read what the one before writes, or be done before it.
            launch = max(launch, latest + 1)
        answer = costs.nothing if fill else costs.sums if from_sums else costs.bytes
        each = config.group_cycles
        behind = (groups[-1] - 1) * each
        late = answer + (costs.to_sums if to_sums else costs.to_bytes)
        late += costs.sequential if each > 1 else 0
        write = late - costs.visible
        count = elements(i, config)
        results = footprint.pixels(i) * sum(groups)
        launch += costs.walk
        last = launch + count
        if not to_sums:
            share = min(1.0, results / count)
            self.buffer_writes.take(launch + write, last + behind + write, share)
        if not fill and not from_sums:
            share = footprint.pixels(i) * len(groups) * window(i) / count
            self.buffer_reads.take(launch + 1, last + 1, share)
            while last > self.now:
                yield last
                last = math.ceil(self.store_reads.end(launch + 1, count)) - 1
        self.emptied = last + answer + 2 + behind + max(0, each - 2)
        self.free[Unit.VECTOR] = max(last, launch + results) + 1
        finish = max(last + late + behind, latest)
        self.written = latest, finish, to_sums
        self._finish(index, taken, finish)
