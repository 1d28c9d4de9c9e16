"""Faults of all units, for the supervisor."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.sequencer.dispatch import EXECUTORS
from celosia.hw.sequencer.supervisor import UNITS


class Faults(Component):
    """Faults of the units and of the program, and the indices of their instructions.

    Entries of arrays have the number of their unit.

    Members
    -------
    running : In(1)
        As in ``Supervisor``.
    fault, code, index : In(1), In(isa.Error), In(INDEX_BITS)
        Fault of the program, and index of its word, as in ``ProgramReader``.
    overflow : In(UNITS)
        As in ``Semaphores``.
    of_unit, units : In(UNITS), In(ArrayLayout(FAULT, UNITS))
        ``fault_valid`` and ``fault`` of each unit.
    waiting, issued : In(UNITS), In(ArrayLayout(INDEX_BITS, UNITS))
        ``waiting`` and ``index`` of each ``Issue``.
    fault_valid, codes, indices, named, stuck_unit : Out
        To ``Supervisor``.

    Timing
    ------
    ``fault_valid``, ``codes``, ``named``, ``stuck_unit`` and the index of the sequencer follow one
    cycle later. That is early enough: HALT takes effect later (``SETTLE``), and a stuck unit stays
    so. ``issued`` is one cycle late already, and passes unchanged.
    """

    def __init__(self) -> None:
        self.running = In(1)
        self.fault = In(1)
        self.code = In(isa.Error)
        self.index = In(streams.INDEX_BITS)
        self.overflow = In(UNITS)
        self.of_unit = In(UNITS)
        self.units = In(data.ArrayLayout(streams.FAULT, UNITS))
        self.waiting = In(UNITS)
        self.issued = In(data.ArrayLayout(streams.INDEX_BITS, UNITS))
        self.fault_valid = Out(UNITS)
        self.codes = Out(data.ArrayLayout(isa.Error, UNITS))
        self.indices = Out(data.ArrayLayout(streams.INDEX_BITS, UNITS))
        self.named = Out(isa.Unit)
        self.stuck_unit = Out(isa.Unit)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        own = isa.Unit.SEQUENCER.value
        # Index of the program's own word, and units whose post was one too many.
        index = Signal(streams.INDEX_BITS, reset_less=True)
        overflow = Signal.like(self.overflow)
        excess = self.overflow.any()
        m.d.comb += [self.indices[own].eq(index), self.named.eq(own)]
        m.d.sync += [
            index.eq(self.index),
            overflow.eq(self.overflow),
            self.fault_valid[own].eq((self.fault | excess) & self.running),
            self.codes[own].eq(Mux(excess, isa.Error.SEMAPHORE, self.code)),
            self.stuck_unit.eq(own),
        ]
        for unit in reversed(EXECUTORS):
            n = unit.value
            m.d.comb += self.indices[n].eq(self.issued[n])
            m.d.sync += [
                self.fault_valid[n].eq(self.of_unit[n]),
                self.codes[n].eq(self.units[n].code),
            ]
            with m.If(self.waiting[n]):
                m.d.sync += self.stuck_unit.eq(unit)
        for unit in EXECUTORS:
            with m.If(overflow[unit.value]):
                m.d.comb += self.named.eq(unit)
        return m
