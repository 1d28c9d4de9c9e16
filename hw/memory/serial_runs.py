"""Skips of several lanes, found one lane after the other."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import data_registers
from celosia.hw.memory.runs import SingleRuns


class SerialRuns(Component):
    """Skips of each step, see ``Runs``, with the logic of one lane, in ``lanes`` cycles.

    While the skips of one step are in use, ``SingleRuns`` goes through the taps of the next step.
    After the last step of an instruction that is the first one of the next instruction.

    Parameters
    ----------
    lanes, row_bits, count_bits : int
        As in ``Runs``; ``lanes`` at least 2.

    Members
    -------
    start, run, skip_rows : In(1), In(count_bits), In(row_bits)
        The next instruction. Not before the last step of the instruction before the current one has
        begun.
    valid : Out(1)
        The skips of the next step are there.
    step, closing : In(1), In(1)
        The next step begins, only while ``valid``; it is the last one of its instruction.
    skip : Out(ArrayLayout(unsigned(row_bits), lanes))
        Rows left out before each lane, from the cycle after ``step`` until the next one.

    Timing
    ------
    ``valid`` rises ``lanes`` cycles after ``step``; after ``start``, ``PREPARE`` = lanes + 1 cycles
    later, or lanes + 1 cycles after the last step of the instruction before.
    """

    def __init__(self, *, lanes: int, row_bits: int, count_bits: int) -> None:
        self.lanes = lanes
        self.row_bits = row_bits
        self.count_bits = count_bits
        self.PREPARE = lanes + 1
        self.start = In(1)
        self.run = In(count_bits)
        self.skip_rows = In(row_bits)
        self.valid = Out(1)
        self.step = In(1)
        self.closing = In(1)
        self.skip = Out(data.ArrayLayout(unsigned(row_bits), lanes))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [skip] = data_registers(m, self.skip)
        m.submodules.walker = walker = SingleRuns(
            row_bits=self.row_bits, count_bits=self.count_bits
        )
        # Skips of the lanes before `lane`, that of the lane before in the highest bits.
        skips = Signal(self.row_bits * (self.lanes - 1), reset_less=True)
        lane = Signal(range(self.lanes))
        complete = Signal()
        # An instruction waits for its first step; there is a step to find.
        waits = Signal()
        walks = Signal()
        begins = Signal()
        m.d.comb += [
            complete.eq(lane == self.lanes - 1),
            begins.eq(waits & ~walks),
            walker.start.eq(self.start),
            walker.run.eq(self.run),
            walker.skip_rows.eq(self.skip_rows),
            walker.restart.eq(begins),
            walker.advance.eq(self.step | ~complete),
            self.valid.eq(walks & complete),
        ]
        m.d.sync += [
            waits.eq(self.start | (waits & ~begins)),
            walks.eq(begins | (walks & ~(self.step & self.closing))),
            lane.eq(Mux(begins | self.step, 0, lane + ~complete)),
        ]
        with m.If(~complete):
            m.d.sync += skips.eq(Cat(skips, walker.skip)[self.row_bits :])
        with m.If(self.step):
            m.d.sync += skip.as_value().eq(Cat(skips, walker.skip))
        return m
