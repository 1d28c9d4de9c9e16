"""Issue of instructions to a unit: queue, registers, semaphores before and after."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.commands import CODE_BITS, REGISTERS
from celosia.hw.arch.config import SEMAPHORES, Config
from celosia.hw.arch.registers import Activity
from celosia.hw.lib.fanout import reset_less
from celosia.hw.lib.queue import EagerFIFO
from celosia.hw.sequencer.command import QUEUED, Command


class Issue(wiring.Component):
    """Queue of a unit: offers each instruction once it has its semaphores, and posts after it.

    Parameters
    ----------
    config : Config
        Sizes; the queue holds the words of ``queue_depth`` instructions.
    unit : Unit
        The unit.
    in_flight : int
        Instructions that the unit may have taken and not finished.

    Members
    -------
    push : In(stream of QUEUED)
        From the dispatcher.
    flush : In(1)
        Gives the registers of the instructions their defaults.
    instruction : Out(stream of ``streams.issued(*opcodes)``)
        To the unit. ``valid`` is low in the cycle after one was taken.
    done : In(1)
        From the unit: its oldest instruction is done.
    unit_activity : In(Activity)
        Class of the cycle, from the unit.
    activity : Out(Activity)
        The same, one cycle later. IDLE becomes SEMAPHORE + n while the next instruction lacks
        semaphore n, DRAIN while an instruction is not done, else EMPTY. DRAIN becomes SEMAPHORE + n
        likewise.
    asking, want, granted, lacking : Out(1), Out(SEMAPHORES), In(1), In(SEMAPHORES)
        See ``Semaphores``; ``asking`` and ``granted`` are the bits of this unit.
    post : Out(SEMAPHORES)
        Semaphores that get a count in this cycle.
    post_index : Out(INDEX_BITS)
        Index of the instruction of the post two cycles before, in step with
        ``Semaphores.overflow``.
    waiting, index : Out(1), Out(INDEX_BITS)
        There is an instruction that is not done; index of the oldest.

    Timing
    ------
    An instruction is offered four cycles after its GO was pushed into an empty queue, if its
    semaphores have counts. A post follows ``done`` by two cycles.
    """

    push: stream.Interface
    flush: Signal
    instruction: stream.Interface
    done: Signal
    unit_activity: Signal
    activity: Signal
    asking: Signal
    want: Signal
    granted: Signal
    lacking: Signal
    post: Signal
    post_index: Signal
    waiting: Signal
    index: Signal

    def __init__(self, *, config: Config, unit: isa.Unit, in_flight: int = 16) -> None:
        self.config = config
        self.unit = unit
        self.in_flight = in_flight
        opcodes = [opcode for opcode, owner in isa.UNITS.items() if owner is unit]
        self.header = opcodes[0].name.lower()
        super().__init__(
            {
                "push": In(stream.Signature(QUEUED)),
                "flush": In(1),
                "instruction": Out(stream.Signature(streams.issued(*opcodes))),
                "done": In(1),
                "unit_activity": In(Activity),
                "activity": Out(Activity),
                "asking": Out(1),
                "want": Out(SEMAPHORES),
                "granted": In(1),
                "lacking": In(SEMAPHORES),
                "post": Out(SEMAPHORES),
                "post_index": Out(streams.INDEX_BITS),
                "waiting": Out(1),
                "index": Out(streams.INDEX_BITS),
            }
        )
        reset_less(self, "post_index")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        record = data.StructLayout({"post": SEMAPHORES, "index": unsigned(streams.INDEX_BITS)})
        # Never full: an instruction has one SET for each register and GO, and the last may lack GO.
        depth = self.config.queue_depth
        most = (depth + 1) * (len(REGISTERS[self.unit]) + 1)
        m.submodules.queue = queue = EagerFIFO(width=QUEUED.size, depth=most)
        command = Command(config=self.config, unit=self.unit)
        m.submodules.command = ResetInserter(self.flush)(command)
        m.submodules.taken = taken = SyncFIFOBuffered(width=record.size, depth=self.in_flight)
        head = self.instruction.payload
        header = head.fields[self.header]
        oldest = record(taken.r_data)
        acquired = Signal()
        # The instruction leaves one cycle after it was taken: `ready` comes late in a cycle.
        leaving = Signal()
        m.d.sync += leaving.eq(self.instruction.valid & self.instruction.ready)
        starts = self.push.payload.bits[:CODE_BITS] < REGISTERS[self.unit][0].code
        pushed = self.push.valid & self.push.ready & starts
        count = Signal(range(depth + 1))
        full = Signal()
        m.d.comb += full.eq(count == depth)
        m.d.sync += count.eq(count + pushed - leaving)
        m.d.comb += [
            queue.w_en.eq(self.push.valid & self.push.ready),
            queue.w_data.eq(self.push.payload),
            self.push.ready.eq(queue.w_rdy & ~(starts & full)),
            command.i.valid.eq(queue.r_rdy),
            command.i.payload.eq(queue.r_data),
            queue.r_en.eq(command.i.ready),
            head.eq(command.o.payload),
            self.want.eq(header.wait),
            self.asking.eq(command.o.valid & ~acquired),
            # `acquired` implies that `command.o` is valid.
            self.instruction.valid.eq(acquired & taken.w_rdy & ~leaving),
            command.o.ready.eq(leaving),
            taken.w_en.eq(leaving),
            taken.w_data.eq(Cat(header.post, head.index)),
        ]
        with m.If(leaving):
            m.d.sync += acquired.eq(0)
        with m.Elif(self.granted):
            m.d.sync += acquired.eq(1)

        # `done` may come before the record has left its queue: count the posts that are due.
        owed = Signal(range(self.in_flight + 1))
        m.d.comb += taken.r_en.eq(owed != 0)
        posted = taken.r_en & taken.r_rdy
        m.d.sync += [
            owed.eq(owed + self.done - posted),
            self.post.eq(Mux(posted, oldest.post, 0)),
        ]
        # As late as ``Semaphores.overflow``.
        latest = Signal.like(self.post_index, reset_less=True)
        before = Signal.like(self.post_index, reset_less=True)
        m.d.sync += [before.eq(latest), self.post_index.eq(before)]
        with m.If(posted):
            m.d.sync += latest.eq(oldest.index)
        # The record of the instruction taken last is not yet at the output of its queue.
        handed = Signal.like(self.index, reset_less=True)
        with m.If(leaving):
            m.d.sync += handed.eq(head.index)
        in_flight = Signal(range(self.in_flight + 1))
        m.d.sync += in_flight.eq(in_flight + leaving - posted)
        m.d.comb += [
            self.waiting.eq((count != 0) | (in_flight != 0) | self.post.any()),
            self.index.eq(Mux(taken.r_rdy, oldest.index, Mux(in_flight != 0, handed, head.index))),
        ]
        self._classify(m, self.asking)
        return m

    def _classify(self, m: Module, held: Value) -> None:
        # All inputs pass a register; the class is one cycle late.
        unit = Signal(Activity)
        missing = Signal(SEMAPHORES)
        waiting = Signal()
        m.d.sync += [
            unit.eq(self.unit_activity),
            missing.eq(Mux(held, self.want & self.lacking, 0)),
            waiting.eq(self.waiting),
        ]
        m.d.comb += self.activity.eq(unit)
        idle = unit == Activity.IDLE
        with m.If((idle | (unit == Activity.DRAIN)) & missing.any()):
            for semaphore in reversed(range(SEMAPHORES)):
                with m.If(missing[semaphore]):
                    m.d.comb += self.activity.eq(Activity.SEMAPHORE.value + semaphore)
        with m.Elif(idle):
            m.d.comb += self.activity.eq(Mux(waiting, Activity.DRAIN, Activity.EMPTY))
