"""Dispatch: puts each word into the queue of its unit, in order."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import stream

from celosia.hw.arch import isa
from celosia.hw.arch.commands import CODE_BITS
from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.arch.registers import Activity
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY
from celosia.hw.sequencer.activity import UnitActivity
from celosia.hw.sequencer.check import CHECKED
from celosia.hw.sequencer.command import QUEUED

#: Units with a queue, in the order of their numbers, and the opcodes that they execute.
EXECUTORS: dict[isa.Unit, tuple[isa.Opcode, ...]] = {
    unit: tuple(opcode for opcode, owner in isa.UNITS.items() if owner is unit)
    for unit in isa.Unit
    if unit is not isa.Unit.SEQUENCER
}


#: Cycles from NOP, FENCE or HALT to the request of its semaphores.
HOLD = 1

#: Cycles from the post of NOP, FENCE or HALT until that instruction has ended.
SETTLE = 3


class Dispatch(Component):
    """Pushes checked words into the queues; executes NOP, FENCE and HALT itself.

    Members
    -------
    i : In(stream of CHECKED)
        Words without an error.
    push_<unit> : Out(stream of QUEUED)
        To each unit's queue.
    quiet : In(1)
        In the cycle before, every unit was idle and every queue empty.
    requesting, want, granted, lacking : Out(1), Out(SEMAPHORES), In(1), In(SEMAPHORES)
        See ``Semaphores``; ``requesting`` and ``granted`` are the bits of this unit.
    post : Out(SEMAPHORES)
        Semaphores that get a count in this cycle.
    halted : Out(1)
        HALT took effect, one cycle, ``SETTLE`` cycles after its post.
    activity : Out(Activity)
        One cycle late. BUSY: a word leaves; MEMORY: there is no word; SEMAPHORE + n: NOP, FENCE or
        HALT waits for semaphore n; DRAIN: a queue is full, or FENCE or HALT waits for the units.

    Timing
    ------
    One word a cycle into queues with space. NOP, FENCE and HALT request their semaphores ``HOLD``
    cycles after they came, and take ``SETTLE`` cycles after their post.
    """

    def __init__(self) -> None:
        self.i = In(stream.Signature(CHECKED))
        self.quiet = In(1)
        self.requesting = Out(1)
        self.want = Out(SEMAPHORES)
        self.granted = In(1)
        self.lacking = In(SEMAPHORES)
        self.post = Out(SEMAPHORES)
        self.halted = Out(1)
        self.activity = Out(Activity)
        for unit in EXECUTORS:
            setattr(self, f"push_{unit.name.lower()}", Out(stream.Signature(QUEUED)))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # NOP, FENCE or HALT in registers: the wires of a word reach all queues.
        own = Signal()
        word = Signal.like(self.i.payload.bits, reset_less=True, attrs=COPY)
        value = word[CODE_BITS:]
        halts, waits = Signal(reset_less=True), Signal(reset_less=True)
        acquired = Signal()
        settled = Signal()
        # A word of the sequencer leaves once it has settled.
        ready: list[Value] = [settled]
        for unit in EXECUTORS:
            push = getattr(self, f"push_{unit.name.lower()}")
            mine = self.i.payload.units[unit.value]
            m.d.comb += [
                push.valid.eq(self.i.valid & mine),
                *(push.payload[name].eq(self.i.payload[name]) for name, _ in QUEUED),
            ]
            ready.append(mine & push.ready)
        mine = self.i.payload.units[isa.Unit.SEQUENCER.value]
        code = self.i.payload.bits[:CODE_BITS]
        m.d.sync += [
            own.eq(self.i.valid & mine & ~settled),
            word.eq(self.i.payload.bits),
            halts.eq(code == isa.Opcode.HALT.value),
            waits.eq(code != isa.Opcode.NOP.value),
        ]
        m.d.comb += [
            self.i.ready.eq(Cat(ready).any()),
            self.want.eq(value),
            self.requesting.eq(own & ~acquired),
        ]
        with m.If(own & self.granted):
            m.d.sync += acquired.eq(1)
        # An overflow by this post is reported before the instruction leaves.
        settling = Signal(range(SETTLE + 1))
        finished = Signal()
        m.d.comb += finished.eq(own & acquired & (self.quiet | ~waits))
        m.d.comb += settled.eq(settling == SETTLE)
        with m.If(settled):
            m.d.comb += self.halted.eq(own & halts)
            m.d.sync += [acquired.eq(0), settling.eq(0)]
        with m.Elif(settling != 0):
            m.d.sync += settling.eq(settling + 1)
        with m.Elif(finished):
            m.d.comb += self.post.eq(value[SEMAPHORES:])
            m.d.sync += settling.eq(1)

        m.submodules.classes = classes = UnitActivity()
        m.d.comb += [
            classes.held.eq(self.requesting),
            classes.want.eq(self.want),
            classes.lacking.eq(self.lacking),
            classes.unit_activity.eq(Activity.MEMORY),
            self.activity.eq(classes.activity),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.comb += classes.unit_activity.eq(Activity.BUSY)
        with m.Elif(self.i.valid):
            m.d.comb += classes.unit_activity.eq(Activity.DRAIN)
        return m
