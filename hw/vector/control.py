"""Control of the vector unit: starts tasks in order, two of them in flight."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, enum, wiring

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.registers import Activity
from celosia.hw.lib.component import Component, In, Out, array
from celosia.hw.lib.fanout import COPY, data_registers
from celosia.hw.lib.skid_buffer import FAR
from celosia.hw.vector.task import Launch, Step, VectorSizes


class State(enum.Enum, shape=2):
    """State of the task that was taken last."""

    FREE = 0
    PREPARING = 1
    RUNNING = 2


class Slots(Component):
    """Records of the two tasks in flight.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    launch : In(Launch)
        A task starts in a slot that is not used.
    finished : In(1)
        The oldest task is done.
    used, to_sums : Out(2), Out(2)
        For each slot: its task is not done; that task writes accumulators.
    tags, endings : Out(ArrayLayout(TAG_BITS, 2)), Out(ArrayLayout(VectorSizes.ending, 2))
        Tag and ending of the task in each slot.
    oldest, oldest_writes : Out(1), Out(1)
        Slot of the oldest task that is not done; an equal register for the writers.

    Timing
    ------
    Outputs change in the cycle after ``launch`` or ``finished``.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.launch = In(Launch(sizes))
        self.finished = In(1)
        self.used = Out(2)
        self.to_sums = Out(2)
        self.tags = Out(data.ArrayLayout(streams.TAG_BITS, 2))
        self.endings = Out(data.ArrayLayout(sizes.ending, 2))
        self.oldest = Out(1)
        self.oldest_writes = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        oldest, oldest_writes = (Signal(name=n, attrs=COPY) for n in ("oldest", "oldest_writes"))
        m.d.comb += [self.oldest.eq(oldest), self.oldest_writes.eq(oldest_writes)]
        tags, endings = data_registers(m, self.tags, self.endings)
        with m.If(self.finished):
            m.d.sync += [oldest.eq(~oldest), oldest_writes.eq(~oldest)]
        for slot in range(2):
            with m.If(self.launch.valid & (self.launch.slot == slot)):
                m.d.sync += [
                    self.used[slot].eq(1),
                    self.to_sums[slot].eq(self.launch.task.destination == isa.Space.ACCUMULATORS),
                    tags[slot].eq(self.launch.task.tag),
                    endings[slot].eq(self.launch.task.ending),
                ]
            with m.Elif(self.finished & (self.oldest == slot)):
                m.d.sync += self.used[slot].eq(0)
        return m


class VectorActivity(Component):
    """Class of each cycle of the vector unit, and whether the unit is idle.

    Parameters
    ----------
    settle_cycles : int
        As in ``VectorControl``.

    Members
    -------
    stop, awaited, settling, issues, reads_wait, writes_wait, running : In(1)
        As in ``VectorControl``.
    used : In(2)
        As in ``Slots``.
    waits : In(1)
        A task is on offer, or was taken and has not finished its loops.
    idle, activity : Out(1), Out(Activity)
        See "Contract of a unit" in ``docs/design/architecture.md``.

    Timing
    ------
    Combinational. After ``stop``, ``idle`` comes ``settle_cycles`` cycles after the last response
    or write is through.
    """

    def __init__(self, *, settle_cycles: int) -> None:
        self.settle_cycles = settle_cycles
        self.stop = In(1)
        self.awaited = In(1)
        self.settling = In(1)
        self.issues = In(1)
        self.reads_wait = In(1)
        self.writes_wait = In(1)
        self.running = In(1)
        self.waits = In(1)
        self.used = In(2)
        self.idle = Out(1)
        self.activity = Out(Activity)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # After a stop the pipe empties; nothing of it is written.
        settles = Signal(range(self.settle_cycles + 1), init=self.settle_cycles)
        with m.If(~self.stop | self.awaited | self.settling):
            m.d.sync += settles.eq(self.settle_cycles)
        with m.Elif(settles != 0):
            m.d.sync += settles.eq(settles - 1)
        m.d.comb += self.idle.eq(Mux(self.stop, settles == 0, ~self.used.any() & ~self.waits))
        activity = streams.activity_of(
            (self.idle, Activity.IDLE),
            (self.stop, Activity.DRAIN),
            (self.reads_wait, Activity.MEMORY),
            (self.issues, Activity.BUSY),
            (self.writes_wait, Activity.MEMORY),
            (self.used.any() & ~self.running, Activity.DRAIN),
            (self.waits, Activity.BUSY),
        )
        m.d.comb += self.activity.eq(activity)
        return m


class VectorControl(streams.Unit):
    """Control of the vector unit: starts tasks, reports their end, stops the unit.

    A task starts when all elements of the task before have entered the pipe. In three cases it
    waits until the task before is done: it reads the memory that the task before writes; it writes
    accumulators, and the task before writes the unified buffer, which may still report a fault; it
    is a step of SOFTMAX.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.
    settle_cycles : int
        Cycles in which the pipe empties after the last response.

    Members
    -------
    instruction : In(stream of VectorSizes.decoded)
        Tasks, from ``Decoder``.
    done, fault_valid, fault, abort, idle, activity
        See "Contract of a unit" in ``docs/design/architecture.md``.
    prepare : Out(2)
        Source and destination prepare ``Runs`` for the task on offer. Two equal bits.
    prepared : In(1)
        Both are prepared.
    launch, launches : Out(Launch), Out(Launch).array(3)
        Start of a task; the same from other registers, for source, destination and datapath.
    running : In(1)
        Source or destination has not finished its loops.
    issues, reads_wait : In(1)
        The source requests an element in this cycle; the unified buffer refuses a read.
    writes_wait : In(1)
        The unified buffer refuses a write.
    busy : In(1)
        Elements have not entered the pipe yet.
    awaited, settling : In(1)
        Responses to reads are missing; writes are not visible yet.
    endings : Out(ArrayLayout(VectorSizes.ending, 2))
        Ending of the task in each slot.
    oldest, oldest_writes : Out(1), Out(1)
        As in ``Slots``.
    bytes_finished, bytes_fault : In(1)
        From ``UnifiedWriter``: the oldest task is done; it has failed.
    sums_finished, sums_fault : In(1)
        From ``AccumulatorWriter``: the oldest task is done; it has failed.
    rows_finished, rows_fault : In(1)
        With SOFTMAX: a step that writes nothing is done; it has failed.
    wrong, wrong_slot : In(1)
        With parity: a task has used a word of wrong parity, and its slot.
    stop, stop_writes : Out(1), Out(1)
        From a fault or ``abort`` on: no requests and no writes; an equal register for the writers.

    Timing
    ------
    ``launch`` comes one cycle after ``prepared`` at the earliest. The next task is taken while the
    one before is in flight.
    """

    def __init__(self, *, sizes: VectorSizes, settle_cycles: int) -> None:
        self.sizes = sizes
        self.settle_cycles = settle_cycles
        self.softmax = sizes.softmax
        self.launch = Out(Launch(sizes))
        self.launches = array(Out(Launch(sizes)), 3)
        self.oldest = Out(1)
        self.oldest_writes = Out(1)
        self.stop = Out(1)
        self.stop_writes = Out(1)
        self.prepared = In(1)
        self.running = In(1)
        self.issues = In(1)
        self.reads_wait = In(1)
        self.writes_wait = In(1)
        self.busy = In(1)
        self.awaited = In(1)
        self.settling = In(1)
        self.bytes_finished = In(1)
        self.bytes_fault = In(1)
        self.sums_finished = In(1)
        self.sums_fault = In(1)
        self.rows_finished = In(1)
        self.rows_fault = In(1)
        self.wrong = In(1)
        self.wrong_slot = In(1)
        self.prepare = Out(2)
        self.endings = Out(data.ArrayLayout(sizes.ending, 2))
        super().__init__(sizes.decoded)

    def _launch(self, m: Module, state: Any, slots: Slots) -> None:
        """Take the next task, and start it when the tasks in flight permit."""
        reads_sums = self.launch.task.source == isa.Space.ACCUMULATORS
        writes_sums = self.launch.task.destination == isa.Space.ACCUMULATORS
        other_writes_sums = Mux(self.launch.slot, slots.to_sums[0], slots.to_sums[1])
        reads_results = ~self.launch.task.constant & (reads_sums == other_writes_sums)
        if self.softmax:
            reads_results |= self.launch.task.step != Step.NONE
        overtakes = writes_sums & ~other_writes_sums
        other_used = Mux(self.launch.slot, slots.used[0], slots.used[1])
        own_used = Mux(self.launch.slot, slots.used[1], slots.used[0])
        taken = Signal()
        ends = Signal()
        m.d.comb += [
            self.instruction.ready.eq((state == State.FREE) & ~self.stop),
            taken.eq(self.instruction.valid & self.instruction.ready),
            ends.eq((state == State.RUNNING) & ~self.running),
        ]
        launches = [self.launch, *self.launches]
        starts = [Signal(name=f"starts_{n}", attrs=COPY) for n in range(len(launches))]
        # What is taken without `valid` is not used.
        [task] = data_registers(m, self.launch.task)
        new, held = Value.cast(self.instruction.payload.task), Value.cast(task)
        parts = range(0, len(held), FAR)
        # Copies of the state: for the source, for the destination, and for each part of the task.
        free = [
            Signal(name=f"free_{n}", init=1, attrs=COPY)
            for n in range(len(self.prepare) + len(parts))
        ]
        m.d.sync += [copy.eq((copy & ~taken) | ends) for copy in free]
        for n in range(len(self.prepare)):
            m.d.comb += self.prepare[n].eq(self.instruction.valid & free[n] & ~self.stop)
        for part, copy in zip(parts, free[len(self.prepare) :], strict=True):
            with m.If(copy):
                m.d.sync += held[part : part + FAR].eq(new[part : part + FAR])
        # Registered: a condition that holds stays true until the task starts, except `stop`.
        may_launch = (
            (state == State.PREPARING)
            & self.prepared
            & ~self.busy
            & ~own_used
            & ~(other_used & (reads_results | overtakes))
            & ~self.launch.valid
            & ~(self.stop | self.fault_valid | self.abort)
        )
        m.d.sync += [start.eq(may_launch) for start in starts]
        for launch, start in zip(launches, starts, strict=True):
            m.d.comb += launch.valid.eq(start)
        for launch in self.launches:
            m.d.comb += [launch.task.eq(self.launch.task), launch.slot.eq(self.launch.slot)]
        with m.If(taken):
            m.d.sync += state.eq(State.PREPARING)
        with m.Elif(self.launch.valid):
            m.d.sync += state.eq(State.RUNNING)
        with m.Elif(ends):
            m.d.sync += [state.eq(State.FREE), self.launch.slot.eq(~self.launch.slot)]

    def _finish(self, m: Module, slots: Slots) -> None:
        """Report the end of tasks in order, and faults."""
        sums_finished = Signal()
        m.d.sync += sums_finished.eq(self.sums_finished)
        of_sums = Mux(self.oldest, slots.to_sums[1], slots.to_sums[0])
        faults = self.sums_fault | self.bytes_fault | self.rows_fault | self.wrong
        ends = Mux(of_sums, sums_finished, self.bytes_finished) | self.rows_finished
        m.d.comb += [
            slots.finished.eq(~self.stop & ends),
            # After MAXIMUM and SUM, whose end is that of rows, the instruction is not done.
            self.done.eq(slots.finished & ~self.rows_finished),
            self.fault.code.eq(isa.Error.RANGE),
            self.fault.tag.eq(Mux(self.oldest, slots.tags[1], slots.tags[0])),
        ]
        with m.If(self.wrong):
            m.d.comb += [
                self.fault.code.eq(isa.Error.MEMORY),
                self.fault.tag.eq(Mux(self.wrong_slot, slots.tags[1], slots.tags[0])),
            ]
        m.d.comb += self.fault_valid.eq(~self.stop & faults)
        stop, stop_writes = (Signal(name=n, attrs=COPY) for n in ("stop", "stop_writes"))
        m.d.comb += [self.stop.eq(stop), self.stop_writes.eq(stop_writes)]
        with m.If(self.fault_valid | self.abort):
            m.d.sync += [stop.eq(1), stop_writes.eq(1)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        state = Signal(State)
        m.submodules.slots = slots = Slots(sizes=self.sizes)
        m.submodules.classes = classes = VectorActivity(settle_cycles=self.settle_cycles)
        self._launch(m, state, slots)
        self._finish(m, slots)
        wiring.connect(m, self.launch, slots.launch)
        m.d.comb += [
            self.endings.eq(slots.endings),
            self.oldest.eq(slots.oldest),
            self.oldest_writes.eq(slots.oldest_writes),
            classes.stop.eq(self.stop),
            classes.awaited.eq(self.awaited),
            classes.settling.eq(self.settling),
            classes.issues.eq(self.issues),
            classes.reads_wait.eq(self.reads_wait),
            classes.writes_wait.eq(self.writes_wait),
            classes.running.eq(self.running),
            classes.used.eq(slots.used),
            self.idle.eq(classes.idle),
            self.activity.eq(classes.activity),
        ]
        m.d.comb += classes.waits.eq((state != State.FREE) | self.instruction.valid)
        return m
