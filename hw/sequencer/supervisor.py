"""State of the core: start, end, first error, watchdog and soft reset."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.lib.component import Bundle, Component, In, Out
from celosia.hw.lib.counter import HalvedCounter
from celosia.hw.lib.fanout import COPY
from celosia.hw.sequencer.dispatch import EXECUTORS

UNITS = 1 + len(EXECUTORS)

#: Registers that are set while a program runs.
_COPIES = ("running", "granting", "fetching")


class Status(Bundle):
    """State of the core, for the host; the supervisor declares it ``Out``.

    Members
    -------
    busy : Out(1)
        From the cycle after ``begin`` of ``Supervisor`` until ``done``, ``error`` or a soft reset.
    done, error : Out(1)
        End of the last program. ``error`` stays until a soft reset, ``done`` until a start or a
        soft reset.
    draining : Out(1)
        After an error or a request of a reset: transfers are still under way.
    code, unit, index : Out(isa.Error), Out(isa.Unit), Out(INDEX_BITS)
        The first error; ``index`` comes a cycle after ``error``.
    clear : Out(1)
        Reset of every block, the supervisor among them. One cycle.
    """

    def __init__(self) -> None:
        self.busy = Out(1)
        self.done = Out(1)
        self.error = Out(1)
        self.draining = Out(1)
        self.code = Out(isa.Error)
        self.unit = Out(isa.Unit)
        self.index = Out(streams.INDEX_BITS)
        self.clear = Out(1)
        super().__init__()


class Supervisor(Component):
    """Holds the state of the core and the first error.

    Members
    -------
    start : In(1)
        Doorbell. Ignored while a program runs and after an error. Between HALT and ``done`` it is
        kept and takes effect after ``done``.
    reset : In(1)
        Request of a soft reset: sets ``abort``, waits until fetch and units are idle, then gives
        ``clear``.
    watchdog : In(32)
        Cycles without progress that are an error; 0 for no limit.
    codes, fault_valid : In(ArrayLayout(isa.Error, UNITS)), In(UNITS)
        Errors, by unit number. Of several in one cycle the lowest unit counts.
    indices : In(ArrayLayout(INDEX_BITS, UNITS))
        Indices of the instructions of these errors, or of the oldest instruction of each unit.
    named : In(isa.Unit)
        Unit whose index belongs to an error of the sequencer.
    moved : In(1)
        A unit is busy or has finished an instruction.
    stuck_unit : In(isa.Unit)
        Unit that a WATCHDOG error records.
    halted : In(1)
        HALT has ended; one cycle.
    fetch_idle, units_idle : In(1)
        Every requested beat has arrived; every unit is idle.
    begin : Out(1)
        A program starts; one cycle.
    running, granting, fetching : Out(1)
        From the cycle after ``begin`` until HALT or an error. Three equal registers: ``granting``
        is for the semaphores alone, ``fetching`` for the program reader.
    abort : Out(1)
        Stops all units, see "Contract of a unit" in ``docs/design/architecture.md``.
    flush : Out(1)
        Reset of fetch, check and the registers of the units, at the end of a program. One cycle.
    status : Out(Status)
        State of the core.

    Timing
    ------
    ``begin`` comes in the cycle of ``start``; ``running`` falls in the cycle after HALT or a fault.
    """

    def __init__(self) -> None:
        self.start = In(1)
        self.reset = In(1)
        self.watchdog = In(32)
        self.codes = In(data.ArrayLayout(isa.Error, UNITS))
        self.fault_valid = In(UNITS)
        self.indices = In(data.ArrayLayout(streams.INDEX_BITS, UNITS))
        self.named = In(isa.Unit)
        self.moved = In(1)
        self.stuck_unit = In(isa.Unit)
        self.halted = In(1)
        self.fetch_idle = In(1)
        self.units_idle = In(1)
        self.begin = Out(1)
        self.abort = Out(1)
        self.flush = Out(1)
        self.status = Out(Status())
        self.running = Out(1)
        self.granting = Out(1)
        self.fetching = Out(1)
        super().__init__()
        for member in _COPIES:
            setattr(self, member, Signal(name=member, attrs=COPY))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        status = self.status
        running = Cat(getattr(self, name) for name in _COPIES)
        # A soft reset is under way; HALT has ended, but beats are missing; a doorbell meanwhile.
        resetting = Signal()
        ending = Signal()
        rung = Signal()
        # Cycles in which nothing moved, with this one; they have reached the limit.
        m.submodules.quiet = quiet = HalvedCounter(32, start=1)
        hung = Signal()
        # The reset, of the supervisor too, takes effect one cycle after `clear`.
        cleared = Signal()
        m.d.sync += cleared.eq(status.clear)
        failed = self.fault_valid.any() | hung
        m.d.comb += [
            self.begin.eq(
                (self.start | rung) & ~self.running & ~ending & ~status.error & ~resetting
            ),
            status.busy.eq(self.running | ending),
            status.draining.eq(self.abort & ~(self.fetch_idle & self.units_idle)),
            status.clear.eq(resetting & self.fetch_idle & self.units_idle & ~cleared),
            # Words fetched past HALT are dropped before `done`.
            self.flush.eq(ending & self.fetch_idle),
        ]
        m.d.comb += [quiet.clear.eq(self.moved | ~self.running), quiet.enable.eq(1)]
        # The comparison of 32 bits is registered.
        reached = (self.watchdog != 0) & (quiet.count >= self.watchdog)
        m.d.sync += hung.eq(reached & ~quiet.clear)
        with m.If(self.begin):
            m.d.sync += [running.eq(-1), status.done.eq(0), rung.eq(0)]
        with m.Elif(self.start & ending):
            m.d.sync += rung.eq(1)
        with m.If(self.halted & self.running & ~failed):
            m.d.sync += [running.eq(0), ending.eq(1)]
        with m.If(self.flush):
            m.d.sync += [ending.eq(0), status.done.eq(1)]
        with m.If(self.reset):
            m.d.sync += [resetting.eq(1), self.abort.eq(1), running.eq(0), ending.eq(0)]
        unit = Signal(isa.Unit)
        code = Signal(isa.Error)
        m.d.comb += [unit.eq(self.stuck_unit), code.eq(isa.Error.WATCHDOG)]
        for n in reversed(range(UNITS)):
            with m.If(self.fault_valid[n]):
                m.d.comb += [unit.eq(n), code.eq(self.codes[n])]
        # The index is chosen a cycle later: the unit is late enough.
        fails, recorded = Signal(), Signal()
        source = Signal(isa.Unit, reset_less=True)
        indices = Signal.like(self.indices, reset_less=True)
        m.d.comb += fails.eq(self.running & ~status.error & ~resetting & failed)
        m.d.sync += [
            recorded.eq(fails),
            source.eq(Mux(unit == isa.Unit.SEQUENCER, self.named, unit)),
            indices.eq(self.indices),
        ]
        with m.If(fails):
            m.d.sync += [
                status.error.eq(1),
                self.abort.eq(1),
                running.eq(0),
                status.code.eq(code),
                status.unit.eq(unit),
            ]
        with m.If(recorded):
            m.d.sync += status.index.eq(indices[Value.cast(source)])
        return m
