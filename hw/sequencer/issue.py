"""The queue in front of a unit: semaphores before, posts after."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.arch.registers import Activity
from celosia.hw.bus.queue import EagerFIFO
from celosia.hw.fanout import reset_less
from celosia.hw.sequencer.pieces import PIECE, Join, piece_count


class Issue(wiring.Component):
    """Hands a unit its instructions, each once its semaphores are there.

    Parameters
    ----------
    opcodes : tuple of Opcode
        What the unit executes.
    depth : int
        Instructions that may wait.
    in_flight : int
        Instructions that the unit may have taken and not finished.

    Members
    -------
    push : In(stream of PIECE)
        From the dispatcher.
    instruction : Out(stream of ``streams.issued(*opcodes)``)
        To the unit; offered no more in the cycle after one was taken.
    done : In(1)
        From the unit, see ``docs/design/architecture.md``.
    unit_activity, activity : In, Out(Activity)
        The unit's own, and a cycle later the same with idle cycles told apart; while the next
        instruction lacks a semaphore, DRAIN too becomes the wait for it.
    asking, want, granted, lacking
        A taker's side of ``Semaphores``.
    post, post_index : Out
        Mask to add in this cycle, and the instruction that it belongs to, two cycles later.
    waiting : Out(1)
        There is an instruction that the unit has not finished; ``index`` is the oldest.
    index : Out

    Timing
    ------
    An instruction with its semaphores there is offered four cycles after its last piece came.
    """

    push: stream.Interface
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

    def __init__(self, *, opcodes: tuple[isa.Opcode, ...], depth: int, in_flight: int = 16) -> None:
        self.opcodes = opcodes
        self.header = opcodes[0].name.lower()
        self.depth = depth
        self.in_flight = in_flight
        super().__init__(
            {
                "push": In(stream.Signature(PIECE)),
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
        # One instruction waits in the register that is behind the queue.
        depth = (self.depth - 1) * piece_count(*self.opcodes)
        m.submodules.queue = queue = EagerFIFO(width=PIECE.size, depth=depth)
        m.submodules.join = join = Join(opcodes=self.opcodes)
        m.submodules.taken = taken = SyncFIFOBuffered(width=record.size, depth=self.in_flight)
        head = self.instruction.payload
        header = head.fields[self.header]
        oldest = record(taken.r_data)
        acquired = Signal()
        # Who takes an instruction is known late in a cycle: it leaves in the next.
        leaving = Signal()
        m.d.sync += leaving.eq(self.instruction.valid & self.instruction.ready)
        m.d.comb += [
            queue.w_en.eq(self.push.valid),
            queue.w_data.eq(self.push.payload),
            self.push.ready.eq(queue.w_rdy),
            join.i.valid.eq(queue.r_rdy),
            join.i.payload.eq(queue.r_data),
            queue.r_en.eq(join.i.ready),
            head.eq(join.o.payload),
            self.want.eq(header.wait),
            self.asking.eq(join.o.valid & ~acquired),
            # Who has acquired is there.
            self.instruction.valid.eq(acquired & taken.w_rdy & ~leaving),
            join.o.ready.eq(leaving),
            taken.w_en.eq(leaving),
            taken.w_data.eq(Cat(header.post, head.index)),
        ]
        with m.If(leaving):
            m.d.sync += acquired.eq(0)
        with m.Elif(self.granted):
            m.d.sync += acquired.eq(1)

        # A unit may finish before its record has come out of the queue: it is owed the post.
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
        # The record of an instruction just handed over has not come out of its queue yet.
        handed = Signal.like(self.index, reset_less=True)
        with m.If(leaving):
            m.d.sync += handed.eq(head.index)
        in_flight = Signal(range(self.in_flight + 1))
        m.d.sync += in_flight.eq(in_flight + leaving - posted)
        m.d.comb += [
            self.waiting.eq((queue.r_level != 0) | ~join.idle | (in_flight != 0) | self.post.any()),
            self.index.eq(Mux(taken.r_rdy, oldest.index, Mux(in_flight != 0, handed, head.index))),
        ]
        self._classify(m, self.asking)
        return m

    def _classify(self, m: Module, held: Value) -> None:
        # Known late in a cycle, and what the unit does far away: told in the next.
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
