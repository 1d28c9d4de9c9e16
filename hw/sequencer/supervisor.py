"""Running, stopping and starting again: errors, watchdog, soft reset."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.fanout import COPY
from celosia.hw.sequencer.dispatch import EXECUTORS

UNITS = 1 + len(EXECUTORS)


class Supervisor(wiring.Component):
    """Holds the state of the core and the first error.

    Members
    -------
    start : In(1)
        Doorbell; without effect while a program runs or an error stands. Between HALT and ``done``
        it is kept.
    reset : In(1)
        Soft reset asked for: stops everything, waits until it is idle, then ``clear``.
    watchdog : In(32)
        Cycles without progress, 0 for none.
    faults, fault_valid : In(ArrayLayout(FAULT, UNITS)), In(UNITS)
        Errors by unit number.
    moved : In(1)
        Some unit is busy or finished something.
    stuck_unit, stuck_index : In
        What to name when nothing moves.
    halted : In(1)
        HALT took effect.
    fetch_idle, units_idle : In(1)
        Nothing under way there.
    begin : Out(1)
        A program starts, one cycle.
    running, granting : Out(1)
        From the cycle after ``begin`` until HALT or an error: twice, since who is granted something
        is known late in a cycle.
    abort : Out(1)
        Stops all units, see ``docs/design/architecture.md``.
    flush, clear : Out(1)
        Resets fetch and check; resets every room. One cycle.
    done, error : Out(1)
        How the last program ended; ``error`` stands until a soft reset, ``done`` until a start
        or a soft reset.
    draining : Out(1)
        Transfers are under way on the bus or in a unit after an error or a reset.
    code, unit, index : Out
        The first error.

    Timing
    ------
    ``begin`` comes in the cycle of ``start``; ``running`` falls in the cycle after HALT or a fault.
    """

    start: Signal
    reset: Signal
    watchdog: Signal
    faults: data.View
    fault_valid: Signal
    moved: Signal
    stuck_unit: Signal
    stuck_index: Signal
    halted: Signal
    fetch_idle: Signal
    units_idle: Signal
    begin: Signal
    running: Signal
    granting: Signal
    abort: Signal
    flush: Signal
    clear: Signal
    done: Signal
    error: Signal
    draining: Signal
    code: Signal
    unit: Signal
    index: Signal

    def __init__(self) -> None:
        super().__init__(
            {
                "start": In(1),
                "reset": In(1),
                "watchdog": In(32),
                "faults": In(data.ArrayLayout(streams.FAULT, UNITS)),
                "fault_valid": In(UNITS),
                "moved": In(1),
                "stuck_unit": In(isa.Unit),
                "stuck_index": In(streams.INDEX_BITS),
                "halted": In(1),
                "fetch_idle": In(1),
                "units_idle": In(1),
                "begin": Out(1),
                "running": Out(1),
                "granting": Out(1),
                "abort": Out(1),
                "flush": Out(1),
                "clear": Out(1),
                "done": Out(1),
                "error": Out(1),
                "draining": Out(1),
                "code": Out(isa.Error),
                "unit": Out(isa.Unit),
                "index": Out(streams.INDEX_BITS),
            }
        )
        for member in ("running", "granting"):
            setattr(self, member, Signal(name=member, attrs=COPY))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        running = Cat(self.running, self.granting)
        resetting = Signal()
        ending = Signal()
        rung = Signal()
        quiet_cycles = Signal(32)
        hung = Signal()
        # The reset itself comes a cycle after `clear`; until then nothing may start.
        cleared = Signal()
        m.d.sync += cleared.eq(self.clear)
        m.d.comb += [
            self.begin.eq((self.start | rung) & ~self.running & ~ending & ~self.error & ~resetting),
            self.draining.eq(self.abort & ~(self.fetch_idle & self.units_idle)),
            self.clear.eq(resetting & self.fetch_idle & self.units_idle & ~cleared),
            # What was fetched behind HALT is dropped before the program counts as done.
            self.flush.eq(ending & self.fetch_idle),
        ]
        # As soon as the cycles are that many, out of a register: they are long to compare.
        more = quiet_cycles + 1
        with m.If(self.moved | ~self.running):
            m.d.sync += [quiet_cycles.eq(0), hung.eq(0)]
        with m.Else():
            m.d.sync += [
                quiet_cycles.eq(more),
                hung.eq((self.watchdog != 0) & (more >= self.watchdog)),
            ]
        with m.If(self.begin):
            m.d.sync += [running.eq(3), self.done.eq(0), rung.eq(0)]
        with m.Elif(self.start & ending):
            m.d.sync += rung.eq(1)
        with m.If(self.halted & self.running & ~self.fault_valid.any()):
            m.d.sync += [running.eq(0), ending.eq(1)]
        with m.If(self.flush):
            m.d.sync += [ending.eq(0), self.done.eq(1)]
        with m.If(self.reset):
            m.d.sync += [resetting.eq(1), self.abort.eq(1), running.eq(0)]
        with m.Elif(cleared):
            m.d.sync += [resetting.eq(0), self.abort.eq(self.error)]
        with m.If(self.running & ~self.error & ~resetting):
            with m.If(self.fault_valid.any()):
                m.d.sync += [self.error.eq(1), self.abort.eq(1), running.eq(0)]
                for n in reversed(range(UNITS)):
                    with m.If(self.fault_valid[n]):
                        m.d.sync += [
                            self.code.eq(self.faults[n].code),
                            self.unit.eq(n),
                            self.index.eq(self.faults[n].index),
                        ]
            with m.Elif(hung):
                m.d.sync += [
                    self.error.eq(1),
                    self.abort.eq(1),
                    running.eq(0),
                    self.code.eq(isa.Error.WATCHDOG),
                    self.unit.eq(self.stuck_unit),
                    self.index.eq(self.stuck_index),
                ]
        return m
