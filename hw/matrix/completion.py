"""End of the instructions of the matrix unit: done, idle, the first fault."""

from amaranth.hdl import Module, Signal, Value

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import DelayLine


class Completion(Component):
    """Reporter of instructions that are done, and of the first fault.

    Parameters
    ----------
    read_latency, results_latency
        See ``MatrixControl``.

    Members
    -------
    fired, final, tag : In(1), In(1), In(TAG_BITS)
        A request is taken: the last one of its instruction; tag of the request that waits or is
        taken.
    outside : In(1)
        The request that waits is outside a memory.
    tile_outside, tile_tag : In(1), In(TAG_BITS)
        The next tile is outside the weight buffer; tag of its instruction.
    read_fault, wrong : In(1), In(1)
        As in ``MatrixControl``.
    pending, abort : In(1), In(1)
        Requests are left; no more of them will be taken.
    done, fault_valid, fault, idle : Out
        As in a unit.
    stopped : Out(1)
        There was a fault.

    Timing
    ------
    ``done`` comes ``results_latency`` cycles after the last request, ``idle`` one cycle after the
    last ``done``. A fault of a request or a tile comes at once, a ``read_fault`` one cycle later:
    always before ``done``.
    """

    def __init__(self, *, read_latency: int, results_latency: int) -> None:
        self.read_latency = read_latency
        self.results_latency = results_latency
        self.fired = In(1)
        self.final = In(1)
        self.tag = In(streams.TAG_BITS)
        self.outside = In(1)
        self.tile_outside = In(1)
        self.tile_tag = In(streams.TAG_BITS)
        self.read_fault = In(1)
        self.pending = In(1)
        self.abort = In(1)
        self.done = Out(1)
        self.fault_valid = Out(1)
        self.fault = Out(streams.FAULT)
        self.idle = Out(1)
        self.stopped = Out(1)
        self.wrong = In(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        finals = Signal(self.results_latency)
        draining = Signal(range(self.results_latency + 1))
        m.d.sync += finals.eq((finals << 1) | (self.fired & self.final))
        with m.If(self.fired):
            m.d.sync += draining.eq(self.results_latency)
        with m.Elif(draining != 0):
            m.d.sync += draining.eq(draining - 1)
        done: Value = finals[-1] & ~self.stopped
        m.d.comb += [
            self.done.eq(done & ~self.wrong),
            self.idle.eq((draining == 0) & (self.abort | self.stopped | ~self.pending)),
        ]
        refused = Signal()
        m.d.sync += refused.eq(self.read_fault)
        m.submodules.tags = tags = DelayLine(streams.TAG_BITS, self.read_latency + 1)
        m.d.comb += tags.i.eq(self.tag)
        m.d.comb += self.fault.code.eq(isa.Error.RANGE)
        with m.If(refused):
            m.d.comb += self.fault.tag.eq(tags.o)
        with m.Elif(self.outside):
            m.d.comb += self.fault.tag.eq(self.tag)
        with m.Else():
            m.d.comb += self.fault.tag.eq(self.tile_tag)
        faults: Value = refused | self.outside | self.tile_outside | self.wrong
        # A wrong word belongs to the oldest instruction that is not done.
        oldest = Signal(streams.TAG_BITS)
        m.d.sync += oldest.eq(oldest + finals[-1])
        with m.If(self.wrong):
            m.d.comb += [self.fault.code.eq(isa.Error.MEMORY), self.fault.tag.eq(oldest)]
        m.d.comb += self.fault_valid.eq(~self.stopped & faults)
        with m.If(self.fault_valid):
            m.d.sync += self.stopped.eq(1)
        return m
