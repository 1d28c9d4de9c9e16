"""Accumulators: two halves of int32 sums after the columns of the array."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data

from celosia.hw.lib.component import Bundle, Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.lib.fanout import COPY, data_registers
from celosia.hw.memory import parity as guard
from celosia.hw.memory.bank import bank_of

#: Cycles from ``Accumulators.read`` to ``Accumulators.read_sums``.
ACCUMULATOR_LATENCY = 4

#: Columns that share a register of the vector unit's row numbers.
_BLOCK = 4


def read_layout(*, depth: int) -> data.StructLayout:
    """Return the layout of a read: ``enable``, and ``row``, which counts over both halves."""
    return data.StructLayout({"enable": 1, "row": unsigned(depth.bit_length())})


def write_layout(*, depth: int, columns: int) -> data.StructLayout:
    """Return the layout of a write: ``enable``, ``row``, and for each column ``mask`` and ``sums``.

    ``sums`` come two cycles after the rest.
    """
    return data.StructLayout(
        {
            "enable": 1,
            "row": unsigned(depth.bit_length()),
            "mask": unsigned(columns),
            "sums": data.ArrayLayout(signed(32), columns),
        }
    )


class AccumulatorPort(Bundle):
    """Port of the accumulators for the vector unit, which declares it ``Out``; for all columns.

    Parameters
    ----------
    columns, depth : int
        See ``Accumulators``.

    Members
    -------
    read, sums, write : Out(read_layout), In(ArrayLayout(signed(32))), Out(write_layout)
        ``sums`` follow ``read`` by ``ACCUMULATOR_LATENCY`` cycles. Memories are accessed two cycles
        after ``read`` and ``write``; the matrix unit must have no operation on that half then. A
        read of a row in the cycle of its write is undefined, see ``race``.
    wrong : In(columns)
        One cycle after ``sums``: those of wrong parity.
    """

    def __init__(self, *, columns: int, depth: int) -> None:
        self.read = Out(read_layout(depth=depth))
        self.sums = In(data.ArrayLayout(signed(32), columns))
        self.write = Out(write_layout(depth=depth, columns=columns))
        self.wrong = In(columns)
        super().__init__()


class AccumulatorColumn(Component):
    """Sums of one column: two memories (halves), an adder, and the ports of the vector unit.

    Parameters
    ----------
    depth : int
        Rows of each half, a power of two.
    sum_bits : int
        Width of ``sum``.
    parity : bool
        Every sum has a parity bit.
    forwards : bool
        Has ``forward``.

    Members
    -------
    enable, row, accumulate : In(1), In(row_bits), In(1)
        Operation of the matrix unit: stores ``sum`` in ``row``, or adds it there.
    forward : In(1)
        With ``forwards``: adds it to the result of the previous operation instead, which is not in
        memory yet.
    write_enable, write_row : In(1), In(row_bits)
        ``enable`` and ``row``, delayed by ``Accumulators.WRITE_LATENCY`` cycles.
    sum : In(signed(sum_bits))
        Sum of the array, ``Accumulators.SUM_LATENCY`` cycles after ``enable``.
    read_row, read_sum : In(row_bits), Out(signed(32))
        Read of the vector unit; ``read_sum`` follows by ``ACCUMULATOR_LATENCY`` - 2 cycles.
    vector_enable, vector_row, vector_sum : In(1), In(row_bits), In(signed(32))
        Write of the vector unit.
    wrong : Out(1)
        With ``parity``, ``Accumulators.SUM_LATENCY`` cycles after ``enable``: the operation adds to
        a sum of wrong parity.
    read_wrong : Out(1)
        With ``parity``, one cycle after ``read_sum``: it had wrong parity.

    Timing
    ------
    One operation of the matrix unit and one access of the vector unit each cycle; a sum is written
    ``Accumulators.WRITE_LATENCY`` cycles after ``enable``.
    """

    def __init__(
        self,
        *,
        depth: int,
        sum_bits: int,
        parity: bool = False,
        forwards: bool = True,
    ) -> None:
        self.depth = depth
        self.parity = parity
        self.forwards = forwards
        row_bits = depth.bit_length()
        self.enable = In(1)
        self.row = In(row_bits)
        self.accumulate = In(1)
        if forwards:
            self.forward = In(1)
        self.write_enable = In(1)
        self.write_row = In(row_bits)
        self.sum = In(signed(sum_bits))
        self.read_row = In(row_bits)
        self.read_sum = Out(signed(32))
        self.vector_enable = In(1)
        self.vector_row = In(row_bits)
        self.vector_sum = In(signed(32))
        self.wrong = Out(1)
        self.read_wrong = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [read_sum] = data_registers(m, self.read_sum)
        result = Signal(signed(32), reset_less=True)
        reads = []
        for half in range(2):
            shape = guard.stored_shape(signed(32), self.parity)
            memory = bank_of(shape, depth=self.depth)
            m.submodules[f"half_{half}"] = memory
            read = memory.read_port()
            write = memory.write_port()
            matrix_reads = self.enable & (self.row[-1] == half)
            matrix_writes = self.write_enable & (self.write_row[-1] == half)
            vector_writes = self.vector_enable & (self.vector_row[-1] == half)
            m.d.comb += [
                read.addr.eq(Mux(matrix_reads, self.row[:-1], self.read_row[:-1])),
                write.en.eq(matrix_writes | vector_writes),
                write.addr.eq(Mux(matrix_writes, self.write_row[:-1], self.vector_row[:-1])),
                write.data.eq(guard.stored(Mux(matrix_writes, result, self.vector_sum))),
            ]
            reads.append(read.data)

        matrix_half = Signal(reset_less=True)
        read_half = Signal(reset_less=True)
        # Sum in memory that is added to, or zero.
        old = Signal(signed(32), reset_less=True)
        accumulate = Signal(reset_less=True)
        stored = Mux(accumulate, Mux(matrix_half, reads[1], reads[0]), 0)
        m.d.sync += [
            matrix_half.eq(self.row[-1]),
            read_half.eq(self.read_row[-1]),
            accumulate.eq(self.accumulate),
        ]
        before: Value = old
        forwarded: Value = Const(0)
        if self.forwards:
            forward = Signal(2, reset_less=True)
            m.d.sync += forward.eq(Cat(self.forward, forward))
            forwarded = forward[1]
            before = Mux(forwarded, result, old)
        valid = Signal(2, reset_less=True)
        m.d.sync += valid.eq(Cat(self.enable, valid))
        with m.If(valid[1]):
            m.d.sync += result.eq(before + self.sum)
        old_wrong = guard.checked(m, old, stored, name="old_parity")
        m.d.comb += self.wrong.eq(valid[1] & ~forwarded & old_wrong)
        word = Mux(read_half, reads[1], reads[0])
        m.d.sync += self.read_wrong.eq(guard.checked(m, read_sum, word, name="read_parity"))
        return m


class Accumulators(Component):
    """Accumulators of all columns: the array fills one half, the vector unit uses the other.

    Parameters
    ----------
    columns, sum_bits : int
        Columns of the array and the width of its sums.
    depth : int
        Rows of each half, a power of two.
    parity : bool
        Every sum has a parity bit.
    forwards : bool
        A sum is added to one that is not in memory yet, see ``Config.forwards``.

    Members
    -------
    enable, row, accumulate : In(1), In(row_bits), In(1)
        Operation of the matrix unit on a row: stores the sums, or adds them. It reaches column
        ``j`` after ``j`` cycles. Two additions to one row must be at least 4 cycles apart, or with
        ``forwards`` have no operation on another row between them.
    sums : In(ArrayLayout(signed(sum_bits), columns))
        Sums of the array: column ``j`` comes ``SUM_LATENCY`` + ``j`` cycles after ``enable``.
    port : In(AccumulatorPort)
        Port of the vector unit.
    wrong : Out(1)
        With ``parity``, ``latency`` cycles after ``enable``: the operation has added to a sum of
        wrong parity, in some column.

    Timing
    ------
    The last sum of a row is written ``latency`` = WRITE_LATENCY + columns - 1 cycles after
    ``enable``. A read or write of that row may come one cycle before that, or later.
    """

    SUM_LATENCY = 2
    WRITE_LATENCY = 3

    def __init__(
        self,
        *,
        columns: int,
        depth: int,
        sum_bits: int,
        parity: bool = False,
        forwards: bool = True,
    ) -> None:
        if depth < 4 or depth & (depth - 1):
            raise ValueError(f"depth: wanted a power of two, at least 4, got {depth}")
        self.columns = columns
        self.depth = depth
        self.sum_bits = sum_bits
        self.parity = parity
        self.forwards = forwards
        self.latency = self.WRITE_LATENCY + columns - 1
        self.enable = In(1)
        self.row = In(depth.bit_length())
        self.accumulate = In(1)
        self.sums = In(data.ArrayLayout(signed(sum_bits), columns))
        self.port = In(AccumulatorPort(columns=columns, depth=depth))
        self.wrong = Out(1)
        super().__init__()

    def _forward(self, m: Module) -> Signal:
        """Return True if the operation adds to the sum of one that is not in memory yet."""
        forward = Signal()
        previous = Signal.like(self.row, reset_less=True)
        age = Signal(self.WRITE_LATENCY)
        m.d.sync += age.eq(Cat(self.enable, age))
        with m.If(self.enable):
            m.d.sync += previous.eq(self.row)
        m.d.comb += forward.eq(self.accumulate & age.any() & (previous == self.row))
        return forward

    def elaborate(self, platform: object) -> Module:
        m = Module()
        operation = data.StructLayout(
            {
                "row": self.row.shape(),
                "accumulate": 1,
                **({"forward": 1} if self.forwards else {}),
            }
        )
        now = Signal(operation)
        m.d.comb += [now.row.eq(self.row), now.accumulate.eq(self.accumulate)]
        if self.forwards:
            m.d.comb += now.forward.eq(self._forward(m))
        length = self.columns + self.WRITE_LATENCY - 1
        enables = delayed(m, self.enable, length, name="enable")
        chain = delayed(m, now, length, name="operation", reset_less=True)
        # The parity error of an operation moves along the columns with it.
        wrong: Value = Const(0, 1)
        read_row = delayed(m, self.port.read.row, 1, name="read_row", reset_less=True)[-1]
        write_row = delayed(m, self.port.write.row, 1, name="write_row", reset_less=True)[-1]
        mask = Mux(self.port.write.enable, self.port.write.mask, 0)
        writes = delayed(m, mask, 2, name="writes")[-1]
        rows: list[Signal] = []
        for j in range(self.columns):
            if j % _BLOCK == 0:
                rows = [
                    Signal.like(read_row, name=f"{name}_{j}", reset_less=True, attrs=COPY)
                    for name in ("read_row", "write_row")
                ]
                m.d.sync += [rows[0].eq(read_row), rows[1].eq(write_row)]
            column = AccumulatorColumn(
                depth=self.depth,
                sum_bits=self.sum_bits,
                parity=self.parity,
                forwards=self.forwards,
            )
            m.submodules[f"column_{j}"] = column
            m.d.comb += [
                column.row.eq(chain[j].row),
                column.accumulate.eq(chain[j].accumulate),
                column.enable.eq(enables[j]),
                column.write_enable.eq(enables[j + self.WRITE_LATENCY]),
                column.write_row.eq(chain[j + self.WRITE_LATENCY].row),
                column.sum.eq(self.sums[j]),
                column.read_row.eq(rows[0]),
                self.port.sums[j].eq(column.read_sum),
                self.port.wrong[j].eq(column.read_wrong),
                column.vector_enable.eq(writes[j]),
                column.vector_row.eq(rows[1]),
                column.vector_sum.eq(self.port.write.sums[j]),
            ]
            if self.forwards:
                m.d.comb += column.forward.eq(chain[j].forward)
            later = Signal(name=f"wrong_{j}")
            m.d.sync += later.eq(wrong | column.wrong)
            wrong = later
        m.d.comb += self.wrong.eq(wrong)
        return m
