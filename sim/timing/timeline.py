"""Times of the instructions of a program: event-driven simulation of a core.

Each unit or stage of the core is a process, a generator. It yields the cycle in which it continues,
or the event that it waits for, which another process announces. So time passes from event to event,
not from cycle to cycle.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import PROGRAM_BYTES, Config
from celosia.hw.arch.isa import (
    EXECUTING,
    PRODUCT_MODES,
    Error,
    Instruction,
    Mode,
    Opcode,
    Space,
    Unit,
)
from celosia.sim.check import footprint
from celosia.sim.check.schedule import MachineError, bits, describe
from celosia.sim.timing.array import Array
from celosia.sim.timing.costs import Costs, bursts, elements, pace, reads, steps, window, words
from celosia.sim.timing.process import Event, Process, Times
from celosia.sim.timing.traffic import Blocks, Burst, Port, joint_end, read_cycles


class Timeline:
    """Simulation of a core that runs a program.

    ``code``: a program that runs to its last instruction, HALT; ``config``, ``costs``: sizes of the
    core, constants.
    """

    def __init__(self, code: Sequence[Instruction], config: Config, costs: Costs) -> None:
        self.code = code
        self.config = config
        self.costs = costs
        self.words = words(code)
        # Beats of a block of the program, and words of a beat.
        self.beats = max(1, PROGRAM_BYTES // config.bus_bytes)
        self.beat_words = PROGRAM_BYTES // WORD_BYTES // self.beats
        self.beat = max(1.0, 1 / costs.bandwidth)  # In cycles.
        self.times: dict[int, Times] = {}  #: By index.
        self.now = 0
        self.due: list[tuple[int, int, Process]] = []
        self.waiting: dict[Event, list[tuple[int, Process]]] = {}
        # Cycles of each beat fetched, and of the last word of each block passed on.
        self.fetched: list[int] = []
        self.passed: list[int] = []
        # Instructions that entered a queue, their number, the cycles in which they left it, and
        # those of their last effects.
        self.queues: dict[Unit, deque[tuple[int, int]]] = {unit: deque() for unit in EXECUTING}
        self.pushed: dict[Unit, int] = dict.fromkeys(EXECUTING, 0)
        self.left: dict[Unit, list[int]] = {unit: [] for unit in EXECUTING}
        self.ended: dict[Unit, list[int]] = {unit: [] for unit in EXECUTING}
        self.queued = self.finished = self.latest = 0
        self.posts: dict[int, list[int]] = {}
        # First cycle in which a unit can take an instruction.
        self.free = {Unit.MATRIX: 0, Unit.VECTOR: 0}
        # Nothing delays writes of constants; MOVE_WEIGHTS delays those of tiles.
        self.bus, self.constants, self.tile_writes = Port(), Port(), Port()
        self.requests: dict[Unit, tuple[int, int, Port, Callable[[int], None]]] = {}
        self.channel: deque[Burst] = deque()
        self.blocks = {unit: Blocks() for unit in (Unit.LOAD, Unit.STORE)}
        # Instructions taken whose end is not known yet, and the cycles in which they were taken.
        self.tasks: dict[Unit, deque[tuple[int, int]]] = {
            unit: deque() for unit in (Unit.MATRIX, Unit.VECTOR)
        }
        # The vector unit's pipeline is empty; ends of its last two tasks; the last one wrote sums.
        self.emptied, self.written = 0, (0, 0, False)
        # Reads of the store unit; reads of the store and vector units; writes of the vector unit.
        self.store_reads, self.buffer_reads, self.buffer_writes = Port(), Port(), Port()
        self.read_from = 0.0

    def run(self) -> dict[int, Times]:
        """Return the times of all instructions.

        Raises ``MachineError`` if units take one another's counts; ``check_hazards`` refuses such
        programs.
        """
        units = [self._unit(unit) for unit in EXECUTING]
        inner = [self._load(), self._store(), self._read(), Array(self).run(), self._vector()]
        # The last: it chooses among all requests of a cycle.
        processes = [self._fetch(), self._dispatch(), *units, *inner, self._addresses()]
        self.due = [(0, number, process) for number, process in enumerate(processes)]
        while len(self.times) < len(self.code):
            if not self.due:
                index = next(n for n in range(len(self.code)) if n not in self.times)
                name = describe(index, self.code[index])
                why = f"{name} waits for counts that another unit took first"
                raise MachineError(Error.WATCHDOG, self.code[index].unit, index, why)
            self.now, number, process = heapq.heappop(self.due)
            condition = next(process, None)
            if isinstance(condition, int):
                heapq.heappush(self.due, (max(condition, self.now), number, process))
            elif condition is not None:
                self.waiting.setdefault(condition, []).append((number, process))
        return self.times

    def _announce(self, event: Event) -> None:
        """Resume the processes that wait for an event."""
        for number, process in self.waiting.pop(event, ()):
            heapq.heappush(self.due, (self.now, number, process))

    def _fetch(self) -> Process:
        """Request blocks of the program, some ahead of those that are passed on."""
        yield 2
        ahead = self.config.program_blocks
        for block in range(-(-sum(self.words) // (self.beats * self.beat_words))):
            while block >= len(self.passed) + ahead:
                yield "passed"
            if block >= ahead:
                yield self.passed[block - ahead] + 2
            yield from self._request(Unit.SEQUENCER, self.beats, 0, self.bus, self.fetched.append)

    def _dispatch(self) -> Process:
        """Check words, one a cycle, and push them into the queues."""
        block = self.beats * self.beat_words
        end = 0
        for index, i in enumerate(self.code):
            first, end = end, end + self.words[index]
            for word in range(first, end):
                if (word + self.costs.passing) % block == 0:
                    self.passed.append(self.now)
                    self._announce("passed")
                while len(self.fetched) <= word // self.beat_words:
                    yield "complete"
                yield max(self.now + 1, self.fetched[word // self.beat_words] + self.costs.fetch)
            if i.unit is Unit.SEQUENCER:
                yield from self._own(index, i)
            else:
                yield from self._push(index, i.unit)

    def _push(self, index: int, unit: Unit) -> Process:
        """Push the last word of an instruction into a queue that holds ``queue_depth`` of them."""
        queue, left = self.queues[unit], self.left[unit]
        before = self.pushed[unit] - self.config.queue_depth
        if before >= 0:
            while len(left) <= before:
                yield "granted"
            yield left[before] + 1
        queue.append((index, self.now))
        self.pushed[unit] += 1
        self.queued += 1
        self._announce("queued")

    def _own(self, index: int, i: Instruction) -> Process:
        """Execute NOP, FENCE or HALT."""
        start = self.now
        yield start + self.costs.hold
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
        """Take the counts that an instruction waits for; return the cycle, or None if not there."""
        if not all(self.posts.get(s) for s in bits(i.wait)):
            return None
        return max([self.now, *(heapq.heappop(self.posts[s]) for s in bits(i.wait))])

    def _post(self, i: Instruction, at: int) -> None:
        for s in bits(i.post):
            heapq.heappush(self.posts.setdefault(s, []), at)
        self._announce("posted")

    def _finish(self, index: int, start: int, at: int) -> None:
        """Record the last effect of an instruction of a unit, which may lie ahead."""
        self.times[index] = Times(start, at)
        self.finished += 1
        self.latest = max(self.latest, at)
        self.ended[self.code[index].unit].append(at)
        self._announce("finished")
        self._post(self.code[index], at + self.costs.post)

    def _unit(self, unit: Unit) -> Process:
        """Take the instructions of a queue, each after its semaphores have counts."""
        queue, left, ended = self.queues[unit], self.left[unit], self.ended[unit]
        while True:
            # Its words set registers as soon as the instruction before has left them.
            free = self.now
            while not queue:
                yield "queued"
            index, queued = queue.popleft()
            yield max(free + self.words[index] + 2, queued + self.costs.queue)
            while (granted := self._grant(self.code[index])) is None:
                yield "posted"
            left.append(granted)
            self._announce("granted")
            yield granted + 1
            earlier = len(left) - 1 - self.config.in_flight
            while len(ended) <= earlier:
                yield "finished"
            if earlier >= 0:
                yield ended[earlier] + self.costs.post - 1
            while not self._ready(unit):
                yield "ready"
            if unit in self.tasks:
                yield self.free[unit]
                self.tasks[unit].append((index, self.now))
            else:
                self.blocks[unit].take(index, self.now, bursts(self.code[index], self.config))
            self._announce("taken")
            if unit is Unit.MATRIX:
                # The unit has no copy: the registers keep the instruction until its passes begin.
                while self.tasks[unit]:
                    yield "ready"
            else:
                yield self.now + 1

    def _ready(self, unit: Unit) -> bool:
        """Return True if a unit can take another instruction besides the earlier ones."""
        return self.blocks[unit].ready if unit in self.blocks else not self.tasks[unit]

    def _request(
        self, unit: Unit, beats: int, spacing: int, port: Port, complete: Callable[[int], None]
    ) -> Process:
        """Request a burst, until it is on the address channel."""
        self.requests[unit] = beats, spacing, port, complete
        self._announce("requested")
        while unit in self.requests:
            yield "issued"

    def _addresses(self) -> Process:
        """Put bursts on the address channel, one each cycle; sequencer and load unit take turns."""
        first, second = Unit.SEQUENCER, Unit.LOAD
        while True:
            while not self.requests:
                yield "requested"
            if first not in self.requests:
                first, second = second, first
            beats, spacing, port, complete = self.requests.pop(first)
            # Words of a program are passed on as their beats arrive.
            limit, ready = 1 if first is Unit.SEQUENCER else beats, self.now + 1 + self.costs.memory
            self.channel += [Burst(ready, limit, spacing, port, complete)] * (beats // limit)
            first, second = second, first
            self._announce("issued")
            yield self.now + 1

    def _read(self) -> Process:
        """Deliver the beats of bursts, in the order of their requests."""
        free = written = 0.0
        while True:
            while not self.channel:
                yield "issued"
            burst = self.channel[0]
            # The sequencer's beats do not wait for the last one of the load unit.
            self.read_from = start = max(burst.ready, free, written if burst.spacing else 0.0)
            end, last = 0.0, max(self.beat, burst.spacing)
            # Users of higher priority may appear while the burst is under way.
            bus = self.bus, burst.beats * self.beat
            memory = burst.port, burst.beats * burst.spacing
            while (now := joint_end(start, bus, memory)) > end:
                end = now
                yield math.ceil(end - last)
            written, free = end if burst.spacing else written, end - last + self.beat
            self.channel.popleft()
            burst.complete(self.now + max(burst.spacing - 1, 0))
            self._announce("complete")

    def _load(self) -> Process:
        """Request the bursts of loads."""
        blocks, limit = self.blocks[Unit.LOAD], self.config.outstanding
        while True:
            while not blocks.jobs:
                yield "taken"
            index, taken, rows = blocks.jobs.popleft()
            i = self.code[index]
            ports = {Opcode.LOAD: self.buffer_writes, Opcode.LOAD_WEIGHTS: self.tile_writes}
            port = ports.get(i.opcode, self.constants)
            complete = partial(self._loaded, index, taken, [sum(map(len, rows))])
            yield taken + self.costs.request
            for beats in chain.from_iterable(rows):
                if blocks.under_way == limit:
                    while blocks.under_way == limit:
                        yield "complete"
                    yield self.now + 1
                yield from self._request(Unit.LOAD, beats, pace(i, self.config), port, complete)
                blocks.under_way += 1
                blocks.issued += 1
                self._announce("ready")

    def _loaded(self, index: int, taken: int, left: list[int], at: int) -> None:
        """Count a complete burst of a load; ``left`` holds the number of the others."""
        self.blocks[Unit.LOAD].under_way -= 1
        left[0] -= 1
        if not left[0]:
            self._finish(index, taken, at + self.costs.arrival)

    def _store(self) -> Process:
        """Gather and send the bursts of stores."""
        blocks = self.blocks[Unit.STORE]
        # With a bandwidth of at most one beat, reads and writes take turns.
        share = 1 - max(self.costs.bandwidth, 1.0) / 2
        responses = deque([0] * self.costs.responses, self.costs.responses)
        sent = 0.0
        while True:
            while not blocks.jobs:
                yield "taken"
            index, taken, rows = blocks.jobs.popleft()
            yield taken + self.costs.request
            for beats in chain.from_iterable(rows):
                yield responses[0] + 1
                start = max(self.now + self.costs.gather, sent)
                sent = start + beats * self.beat
                sent += (
                    min(
                        beats * self.beat,
                        read_cycles(self.channel, self.bus, self.read_from, self.beat, start, sent),
                    )
                    * 2
                    * share
                )
                self.bus.take(start, sent, share)
                for port in (self.store_reads, self.buffer_reads):
                    port.take(self.now + 1, self.now + 1 + beats, 1.0)
                responses.append(math.ceil(sent - self.beat) + self.costs.memory)
                blocks.issued += 1
                self._announce("ready")
                yield max(self.now + beats, math.ceil(sent - self.costs.read_ahead * self.beat))
            self._finish(index, taken, responses[-1] + self.costs.written)

    def _vector(self) -> Process:
        """Run VECTORs and FILLs, each until its last request; the next one waits meanwhile."""
        tasks = self.tasks[Unit.VECTOR]
        while True:
            while not tasks:
                yield "taken"
            yield from self._elements(*tasks[0])
            tasks.popleft()
            self._announce("ready")

    def _elements(self, index: int, taken: int) -> Process:
        """Run one instruction until its last request of an element."""
        for i, reduction in steps(self.code[index], self.config, self.costs):
            yield from self._task(i, reduction)
        _, finish, _ = self.written
        self._finish(index, taken, finish)

    def _task(self, i: Instruction, reduction: int | None) -> Process:
        """Run a VECTOR or FILL, or a step of SOFTMAX that writes nothing.

        ``reduction``: cycles from an element to the end of such a step, else None.
        """
        config, costs = self.config, self.costs
        groups = reads(i, config)
        fill = i.opcode is Opcode.FILL
        from_sums = not fill and i.source == Space.ACCUMULATORS.value
        to_sums = not fill and i.destination == Space.ACCUMULATORS.value
        prepare = (config.lanes - 1).bit_length() + costs.prepare_vector
        before, latest, wrote_sums = self.written
        launch = max(self.now + prepare, self.emptied, before + 1)
        alone = reduction is not None
        if alone or (not fill and from_sums == wrote_sums) or (to_sums and not wrote_sums):
            # It may read results of the instruction before, or overtake it.
            launch = max(launch, latest + 1)
        response = costs.nothing if fill else costs.sums if from_sums else costs.bytes
        interval = config.group_cycles
        later_groups = (groups[-1] - 1) * interval
        latency = response + (costs.to_sums if to_sums else costs.to_bytes)
        latency += costs.multiply if to_sums and Mode(i.mode) in PRODUCT_MODES else 0
        latency += costs.sequential if interval > 1 else 0
        latency += costs.softmax if config.softmax else 0
        latency = latency if reduction is None else response + reduction
        write = latency - costs.visible
        count = elements(i, config)
        results = 0 if alone else footprint.pixels(i) * sum(groups)
        launch += costs.first_request
        last = launch + count
        if not (to_sums or alone):
            share = min(1.0, results / count)
            self.buffer_writes.take(launch + write, last + later_groups + write, share)
        if not fill and not from_sums:
            share = footprint.pixels(i) * len(groups) * window(i) / count
            self.buffer_reads.take(launch + 1, last + 1, share)
            while last > self.now:
                yield last
                last = math.ceil(self.store_reads.end(launch + 1, count)) - 1
        self.emptied = last + response + 2 + later_groups + max(0, interval - 2)
        self.free[Unit.VECTOR] = max(last, launch + results) + 2
        finish = max(last + latency + later_groups, latest)
        self.written = latest, finish, to_sums
