"""Tables of 256 bytes, one copy for each lane."""

from amaranth.hdl import Cat, Module, Signal, signed, unsigned
from amaranth.lib import data
from amaranth.lib.memory import Memory

from celosia.hw.arch.config import TABLE_BYTES
from celosia.hw.lib import race
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import data_registers
from celosia.hw.memory import parity as guard


def written_layout(offset_bits: int) -> data.StructLayout:
    """Return the layout of a byte that is written: its offset from table 0, and its value."""
    return data.StructLayout({"valid": 1, "offset": offset_bits, "byte": 8})


class TableMemory(Component):
    """Look-up of one byte for each lane, in one of several tables.

    Parameters
    ----------
    lanes : int
        Bytes looked up at once.
    tables : int
        Tables of 256 bytes, at least 1.
    bus_bytes : int
        Bytes of a beat, a power of two.
    offset_bits : int
        Width of ``offset``.
    parity : bool
        Every byte has a parity bit.

    Members
    -------
    enable, offset, data : In(1), In(unsigned(offset_bits)), In(ArrayLayout(unsigned(8), bus_bytes))
        Write of one beat; constant until ``last``. Bytes past the last table are not written.
    last : Out(1)
        Byte that ``enable`` writes is the last one of its beat.
    table : In(unsigned)
        Number of the table.
    entries : In(ArrayLayout(unsigned(8), lanes))
        Number of an entry, for each lane.
    values : Out(ArrayLayout(signed(8), lanes))
        Values of these entries.
    written : Out({valid, offset, byte})
        Byte that is being written, also past the last table.
    wrong : Out(lanes)
        With ``parity``, one cycle after ``values``: lanes of wrong parity.

    Timing
    ------
    ``values`` follow ``table`` and ``entries`` by ``LATENCY`` cycles, one look-up each cycle. A
    beat takes ``bus_bytes`` cycles; its last byte can be read two cycles after ``last``.

    Raises
    ------
    ValueError
        If a size is not as described above.
    """

    LATENCY = 2

    def __init__(
        self, *, lanes: int, tables: int, bus_bytes: int, offset_bits: int, parity: bool = False
    ) -> None:
        if lanes < 1:
            raise ValueError(f"lanes: wanted at least 1, got {lanes}")
        if tables < 1:
            raise ValueError(f"tables: wanted at least 1, got {tables}")
        if bus_bytes < 2 or bus_bytes & (bus_bytes - 1):
            raise ValueError(f"bus_bytes: wanted a power of two, at least 2, got {bus_bytes}")
        self.lanes = lanes
        self.tables = tables
        self.bus_bytes = bus_bytes
        self.parity = parity
        self.enable = In(1)
        self.offset = In(offset_bits)
        self.data = In(data.ArrayLayout(unsigned(8), bus_bytes))
        self.last = Out(1)
        self.table = In(max(1, (tables - 1).bit_length()))
        self.entries = In(data.ArrayLayout(unsigned(8), lanes))
        self.values = Out(data.ArrayLayout(signed(8), lanes))
        self.written = Out(written_layout(offset_bits))
        self.wrong = Out(lanes)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [values] = data_registers(m, self.values)
        index = Signal(range(self.bus_bytes))
        address = Signal(len(self.offset), reset_less=True)
        value = Signal(8, reset_less=True)
        writes = Signal()
        # A register, because the next beat depends on it.
        last = Signal(init=self.bus_bytes == 1)
        m.d.comb += self.last.eq(last)
        with m.If(self.enable):
            m.d.sync += [
                index.eq(index + 1),
                last.eq(index == (self.bus_bytes - 2) % self.bus_bytes),
            ]
        m.d.sync += [
            address.eq(self.offset + index),
            value.eq(self.data[index]),
            writes.eq(self.enable),
        ]
        m.d.comb += [
            self.written.valid.eq(writes),
            self.written.offset.eq(address),
            self.written.byte.eq(value),
        ]
        for lane in range(self.lanes):
            m.submodules[f"lane_{lane}"] = memory = Memory(
                shape=guard.stored_shape(unsigned(8), self.parity),
                depth=self.tables * TABLE_BYTES,
                init=[],
                attrs=race.UNDEFINED,
            )
            write = memory.write_port()
            read = memory.read_port()
            m.d.comb += [
                write.en.eq(writes & (address < self.tables * TABLE_BYTES)),
                write.addr.eq(address),
                write.data.eq(guard.stored(value)),
                read.addr.eq(Cat(self.entries[lane], self.table)),
            ]
            wrong = guard.checked(m, values[lane], read.data, name=f"parity_{lane}")
            m.d.sync += self.wrong[lane].eq(wrong)
        return m
