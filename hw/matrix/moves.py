"""MOVE_WEIGHTS in the matrix unit: order with the tiles of MATMULs, and writes of rows."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.memory.weight_buffer import WeightBuffer, rows_payload, weights_payload


class MoveOrder(Component):
    """Order of the rows that MOVE_WEIGHTS writes and the tiles that MATMULs start.

    The weight buffer reads row ``r`` of a tile ``r`` cycles after row 0, and MOVE_WEIGHTS writes
    rows in that order, too. So a tile may start while the last rows before it are under way, and
    rows may be written while the tile before is being read, see ``WeightBuffer``.

    Parameters
    ----------
    rows, columns : int
        See ``Config``.
    read_latency : int
        Cycles from a request of MOVE_WEIGHTS taken to its write.

    Members
    -------
    begin : In(1)
        A MOVE_WEIGHTS begins.
    fired, final, row : In(1), In(1), In(range(rows))
        A request of MOVE_WEIGHTS is taken: the last one of its instruction; row of its tile.
    start : In(1)
        A tile starts.
    hold : Out(1)
        No tile may start: rows are not there yet.
    settled : Out(1)
        The first request of a MOVE_WEIGHTS may be taken: it overtakes no tile that has started.

    Timing
    ------
    ``hold`` rises one cycle after ``begin``. After ``final`` it falls ``read_latency`` +
    ``WeightBuffer.ROW_LATENCY`` - row cycles later, but not in the cycle of ``final``. ``settled``
    rises columns - ``read_latency`` cycles after ``start``, if it falls at all.
    """

    #: Instructions that have begun, but whose last request is not taken: one in the address
    #: generator, two in the skid buffer after it.
    MOST = 3

    def __init__(self, *, rows: int, columns: int, read_latency: int) -> None:
        self.rows = rows
        self.columns = columns
        self.read_latency = read_latency
        self.begin = In(1)
        self.fired = In(1)
        self.final = In(1)
        self.row = In(range(rows))
        self.start = In(1)
        self.hold = Out(1)
        self.settled = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        begun = Signal(range(self.MOST + 1))
        # Bit c: no tile may start in c cycles.
        landing = Signal(self.read_latency + WeightBuffer.ROW_LATENCY - 1)
        blocked = Cat(self.row < len(landing) - c for c in range(len(landing)))
        m.d.sync += [
            begun.eq(begun + self.begin - (self.fired & self.final)),
            landing.eq(landing[1:] | Mux(self.fired, blocked, 0)),
        ]
        m.d.comb += self.hold.eq((begun != 0) | landing[0])
        cycles = self.columns - self.read_latency
        if cycles <= 1:
            m.d.comb += self.settled.eq(1)
            return m
        left = Signal(range(cycles))
        m.d.comb += self.settled.eq(left == 0)
        with m.If(self.start):
            m.d.sync += left.eq(cycles - 1)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return m


class RowWrites(Component):
    """Writes of the weight buffer: rows of MOVE_WEIGHTS, and beats of the load unit.

    Parameters
    ----------
    rows, columns, weight_tiles, bus_bytes : int
        See ``Config``.

    Members
    -------
    beats : In(stream of ``weights_payload``)
        Beats of the load unit; they wait for rows.
    enable : In(1)
        There is a row in this cycle.
    row : In(range(weight_tiles * rows))
        Row of the weight buffer.
    block : In(unsigned)
        Number of the pass. Columns ``block * rows`` and following are written: the first ``rows``
        of them with the lanes, the others with zero, until their pass writes them.
    data : In(ArrayLayout(8, rows))
        The lanes.
    o : Out(stream of ``rows_payload``)
        Writes, to ``WeightBuffer``, which always takes them.

    Timing
    ------
    Combinational.
    """

    def __init__(self, *, rows: int, columns: int, weight_tiles: int, bus_bytes: int) -> None:
        self.rows = rows
        self.columns = columns
        self.bus_bytes = bus_bytes
        #: Passes of the longest MOVE_WEIGHTS.
        self.blocks = -(-columns // rows)
        sizes = {
            "rows": rows,
            "columns": columns,
            "weight_tiles": weight_tiles,
            "bus_bytes": bus_bytes,
        }
        self.beats = In(stream.Signature(weights_payload(**sizes)))
        self.enable = In(1)
        self.row = In(range(weight_tiles * rows))
        self.block = In(range(max(2, self.blocks)))
        self.data = In(data.ArrayLayout(unsigned(8), rows))
        self.o = Out(stream.Signature(rows_payload(**sizes)))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beat, out = self.beats.payload, self.o.payload
        row_bits = (self.rows - 1).bit_length()
        m.d.comb += [
            self.beats.ready.eq(~self.enable),
            self.o.valid.eq(self.enable | self.beats.valid),
            out.row.eq(Mux(self.enable, self.row[:row_bits], beat.row)),
            out.tile.eq(Mux(self.enable, self.row[row_bits:], beat.tile)),
        ]
        for b in range(len(out.mask)):
            of_row = self.block <= b * self.bus_bytes // self.rows
            m.d.comb += out.mask[b].eq(Mux(self.enable, of_row, beat.block == b))
        for j in range(self.columns):
            of_row = Mux(self.block == j // self.rows, self.data[j % self.rows], 0)
            m.d.comb += out.data[j].eq(Mux(self.enable, of_row, beat.data[j % self.bus_bytes]))
        return m
