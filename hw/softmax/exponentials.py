"""Table of exponentials, one copy for each lane."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data
from amaranth.lib.memory import Memory

from celosia.hw.arch.config import EXPONENTIAL_TABLES, TABLE_BYTES
from celosia.hw.lib import race
from celosia.hw.lib.component import Component, In, Out

#: Width of an exponential: a number from 0 to below 1.
BITS = 31


class ExponentialMemory(Component):
    """Look-up of one exponential for each lane.

    Parameters
    ----------
    lanes : int
        Exponentials looked up at once.
    tables : int
        Tables of 256 bytes before the exponentials, which take the next ``EXPONENTIAL_TABLES``.
    offset_bits : int
        Width of ``offset``.

    Members
    -------
    enable, offset, byte : In(1), In(unsigned(offset_bits)), In(8)
        Write of a byte, at an offset from table 0. The four bytes of an exponential come in order,
        lowest first; its bit 31 is dropped. Other tables are not written.
    entries : In(ArrayLayout(unsigned(8), lanes))
        Number of an exponential, for each lane.
    values : Out(ArrayLayout(unsigned(BITS), lanes))
        These exponentials.

    Timing
    ------
    ``values`` follow ``entries`` by one cycle. A byte written can be read in the next cycle.
    """

    def __init__(self, *, lanes: int, tables: int, offset_bits: int) -> None:
        self.lanes = lanes
        self.tables = tables
        self.enable = In(1)
        self.offset = In(offset_bits)
        self.byte = In(8)
        self.entries = In(data.ArrayLayout(unsigned(8), lanes))
        self.values = Out(data.ArrayLayout(unsigned(BITS), lanes))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        earlier = Signal(24, reset_less=True)
        with m.If(self.enable):
            m.d.sync += earlier.eq(Cat(earlier[8:], self.byte))
        table = Signal(range(self.tables + EXPONENTIAL_TABLES))
        ours = Signal(range(EXPONENTIAL_TABLES))
        completes = Signal()
        m.d.comb += [
            table.eq(self.offset[8:]),
            ours.eq(table - self.tables),
            completes.eq(
                self.enable
                & self.offset[:2].all()
                & (self.offset >= self.tables * TABLE_BYTES)
                & (self.offset < (self.tables + EXPONENTIAL_TABLES) * TABLE_BYTES)
            ),
        ]
        for lane in range(self.lanes):
            m.submodules[f"lane_{lane}"] = memory = Memory(
                shape=unsigned(BITS),
                depth=EXPONENTIAL_TABLES * TABLE_BYTES // 4,
                init=[],
                attrs=race.UNDEFINED,
            )
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [
                write.en.eq(completes),
                write.addr.eq(Cat(self.offset[2:8], ours)),
                write.data.eq(Cat(earlier, self.byte)),
                read.addr.eq(self.entries[lane]),
                self.values[lane].eq(read.data),
            ]
        return m
