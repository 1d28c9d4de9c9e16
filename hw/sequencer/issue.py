"""Issue of instructions to a unit: queue, registers, semaphores before and after."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.commands import CODE_BITS, REGISTERS
from celosia.hw.arch.config import SEMAPHORES, Config
from celosia.hw.arch.registers import Activity
from celosia.hw.lib import race
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.lib.queue import RegisteredFIFO
from celosia.hw.sequencer.activity import UnitActivity
from celosia.hw.sequencer.command import QUEUED, Command, groups


class InFlight(Component):
    """Post masks and indices of the instructions of a unit, from their push until their post.

    Two memories hold them under the tags of the instructions.

    Members
    -------
    pushed, mask, push_index : In(1), In(SEMAPHORES), In(INDEX_BITS)
        An instruction is pushed into the queue: semaphores that it posts, and its index.
    done : In(1)
        The oldest instruction is done.
    overflow, fault_valid, fault : In(1), In(1), In(FAULT)
        As in ``Issue``.
    oldest, ended : Out(TAG_BITS), Out(1)
        Tag of the oldest instruction that is not done, one cycle late; ``done`` of the cycle
        before, with which ``oldest`` counts in the next cycle.
    post, index : Out(SEMAPHORES), Out(INDEX_BITS)
        As in ``Issue``.

    Timing
    ------
    ``post`` follows ``done`` by two cycles.
    """

    def __init__(self) -> None:
        self.pushed = In(1)
        self.mask = In(SEMAPHORES)
        self.push_index = In(streams.INDEX_BITS)
        self.done = In(1)
        self.overflow = In(1)
        self.fault_valid = In(1)
        self.fault = In(streams.FAULT)
        self.oldest = Out(streams.TAG_BITS)
        self.ended = Out(1)
        self.post = Out(SEMAPHORES)
        self.index = Out(streams.INDEX_BITS)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        masks, indices = (
            Memory(shape=bits, depth=1 << streams.TAG_BITS, init=[], attrs=race.UNDEFINED)
            for bits in (SEMAPHORES, streams.INDEX_BITS)
        )
        m.submodules.masks = masks
        m.submodules.indices = indices
        mask, named = masks.read_port(), indices.read_port()
        mask_data = Signal(SEMAPHORES)
        # Tag of the next instruction to be pushed.
        next_tag = Signal(streams.TAG_BITS)
        # One cycle after `done`, so that the post mask of the oldest instruction is there.
        ended = self.ended
        # `oldest` of three cycles before, as late as `overflow`.
        since = delayed(m, ended, 3, name="ended", reset_less=True)[1:]
        posted = (self.oldest - since[0] - since[1] - since[2])[: streams.TAG_BITS]
        m.d.sync += [
            ended.eq(self.done),
            next_tag.eq(next_tag + self.pushed),
            self.oldest.eq(self.oldest + ended),
            self.post.eq(Mux(ended, mask_data, 0)),
        ]
        for memory, value in ((masks, self.mask), (indices, self.push_index)):
            write = memory.write_port()
            m.d.comb += [write.en.eq(self.pushed), write.addr.eq(next_tag), write.data.eq(value)]
        at_fault = Mux(self.fault_valid, self.fault.tag, self.oldest)
        m.d.comb += [
            mask_data.eq(mask.data),
            mask.addr.eq(self.oldest + ended),
            named.addr.eq(Mux(self.overflow, posted, at_fault)),
            self.index.eq(named.data),
        ]
        return m


class Issue(Component):
    """Queue of a unit: offers each instruction once it has its semaphores, and posts after it.

    Parameters
    ----------
    config : Config
        Sizes; the queue holds the words of ``queue_depth`` instructions.
    unit : Unit
        The unit.
    in_flight : int, optional
        Instructions that the unit may have taken and not finished; by default that of ``config``.

    Members
    -------
    push : In(stream of QUEUED)
        From the dispatcher.
    flush : In(1)
        Gives the registers of the instructions their defaults, one cycle later.
    instruction : Out(stream of ``streams.issued(*opcodes)``)
        To the unit, without ``post``. ``valid`` is low in the cycle after one was taken.
    done : In(1)
        From the unit: its oldest instruction is done.
    unit_activity : In(Activity)
        Class of the cycle, from the unit.
    activity : Out(Activity)
        The same, one cycle later, with what the unit waits for, see ``UnitActivity``.
    requesting, want, granted, lacking : Out(1), Out(SEMAPHORES), In(1), In(SEMAPHORES)
        See ``Semaphores``; ``requesting`` and ``granted`` are the bits of this unit.
    post : Out(SEMAPHORES)
        Semaphores that get a count in this cycle.
    overflow : In(1)
        As in ``Semaphores``, two cycles after a post of this unit.
    fault_valid, fault : In(1), In(FAULT)
        From the unit.
    waiting, index : Out(1), Out(INDEX_BITS)
        There is an instruction that is not done, or whose post is not over. Index of an
        instruction, one cycle late: with ``overflow`` that of the post two cycles before, else with
        ``fault_valid`` that of the fault, else that of the oldest instruction that is not done.

    Timing
    ------
    An instruction is offered five cycles after its GO was pushed into an empty queue, if its
    semaphores have counts. A post follows ``done`` by two cycles.
    """

    def __init__(self, *, config: Config, unit: isa.Unit, in_flight: int | None = None) -> None:
        self.config = config
        self.unit = unit
        self.in_flight = config.in_flight if in_flight is None else in_flight
        opcodes = [opcode for opcode, owner in isa.UNITS.items() if owner is unit]
        self.header = opcodes[0].name.lower()
        self.push = In(stream.Signature(QUEUED))
        self.flush = In(1)
        self.instruction = Out(stream.Signature(streams.issued(*opcodes)))
        self.done = In(1)
        self.unit_activity = In(Activity)
        self.activity = Out(Activity)
        self.requesting = Out(1)
        self.want = Out(SEMAPHORES)
        self.granted = In(1)
        self.lacking = In(SEMAPHORES)
        self.post = Out(SEMAPHORES)
        self.overflow = In(1)
        self.fault_valid = In(1)
        self.fault = In(streams.FAULT)
        self.waiting = Out(1)
        self.index = Out(streams.INDEX_BITS)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = self.config.queue_depth
        # Never full: an instruction has one SET for each register and GO, and the last may lack GO.
        most = (depth + 1) * (len(REGISTERS[self.unit]) + 1)
        word = self.push.payload.bits
        m.submodules.queue = queue = RegisteredFIFO(
            width=len(word), depth=most, copies=groups(self.unit), shared=CODE_BITS
        )
        command = Command(config=self.config, unit=self.unit)
        # The first word of the next program comes later than the defaults.
        m.submodules.command = command
        m.submodules.in_flight = in_flight = InFlight()
        m.submodules.classes = classes = UnitActivity()
        acquired = Signal()
        # The instruction leaves one cycle after it was taken, and waits until one cycle after its
        # grant: `ready` and `granted` come late in a cycle.
        leaving = Signal()
        admitted = Signal()
        count = Signal(range(depth + 1))
        full = Signal()
        goes = self.push.payload.go
        pushed = self.push.valid & self.push.ready & goes
        # Tag of the instruction on offer.
        offered = Signal(streams.TAG_BITS)
        # Instructions that the unit has taken and not finished: in this cycle, and in the next. Two
        # registers tell whether they are the most there may be, and whether there are any.
        taken = Signal(streams.TAG_BITS)
        under_way = Signal(streams.TAG_BITS)
        leaves = Signal()
        occupied = Signal()
        m.d.sync += [
            leaving.eq(leaves),
            admitted.eq(self.granted),
            count.eq(count + pushed - admitted),
            full.eq((full | (pushed & (count == depth - 1))) & ~admitted),
            offered.eq(offered + leaving),
            taken.eq(under_way),
            self.instruction.valid.eq(
                (acquired | self.granted) & ~leaving & (under_way != self.in_flight) & ~leaves
            ),
            occupied.eq(under_way != 0),
            acquired.eq((acquired | self.granted) & ~leaving),
        ]
        m.d.comb += [
            queue.w_en.eq(self.push.valid & self.push.ready),
            queue.w_data.eq(word),
            self.push.ready.eq(~(goes & full)),
            command.restore.eq(self.flush),
            command.i.valid.eq(queue.r_rdy),
            command.i.payload.eq(queue.r_data),
            command.heads.eq(queue.heads),
            queue.r_en.eq(command.i.ready),
            self.instruction.payload.eq(command.o.payload),
            self.instruction.payload.tag.eq(offered),
            self.want.eq(command.o.payload.fields[self.header].wait),
            self.requesting.eq(command.o.valid & ~acquired),
            under_way.eq(taken + leaving - in_flight.ended),
            leaves.eq(self.instruction.valid & self.instruction.ready),
            command.o.ready.eq(leaving),
            self.waiting.eq((count != 0) | acquired | occupied | self.post.any()),
        ]
        posts = word[CODE_BITS + SEMAPHORES :][:SEMAPHORES]
        m.d.comb += [
            in_flight.done.eq(self.done),
            in_flight.overflow.eq(self.overflow),
            in_flight.fault_valid.eq(self.fault_valid),
            in_flight.fault.eq(self.fault),
            self.post.eq(in_flight.post),
            self.index.eq(in_flight.index),
            classes.unit_activity.eq(self.unit_activity),
            classes.want.eq(self.want),
            classes.lacking.eq(self.lacking),
            classes.waiting.eq(self.waiting),
            self.activity.eq(classes.activity),
            in_flight.pushed.eq(pushed),
            in_flight.mask.eq(posts),
            in_flight.push_index.eq(self.push.payload.index),
            classes.held.eq(self.requesting),
        ]
        return m
