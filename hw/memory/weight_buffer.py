"""Weight buffer: memory of weight tiles, which are read in step with the array."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.lib.fanout import COPY, data_registers
from celosia.hw.memory import parity as guard
from celosia.hw.memory.bank import bank_of

#: Banks that share a register of the write address.
_BLOCK = 4


def weights_payload(
    *, rows: int, columns: int, weight_tiles: int, bus_bytes: int
) -> data.StructLayout:
    """Return the payload of a write to the weight buffer, one beat of the bus.

    Members
    -------
    tile, row : unsigned
        Tile, and row of the tile.
    block : unsigned
        The beat has the columns from ``block * bus_bytes`` on; those past the last are dropped.
    data : ArrayLayout(unsigned(8), bus_bytes)
        The weights.
    """
    return data.StructLayout(
        {
            "tile": unsigned(max(1, (weight_tiles - 1).bit_length())),
            "row": unsigned(max(1, (rows - 1).bit_length())),
            "block": unsigned(max(1, (-(-columns // bus_bytes) - 1).bit_length())),
            "data": data.ArrayLayout(unsigned(8), bus_bytes),
        }
    )


def rows_payload(
    *, rows: int, columns: int, weight_tiles: int, bus_bytes: int
) -> data.StructLayout:
    """Return the payload of a write of columns of one row of a tile.

    Members
    -------
    tile, row : unsigned
        Tile, and row of the tile.
    mask : unsigned
        Bit ``b``: columns from ``b * bus_bytes`` on, ``bus_bytes`` of them, are written.
    data : ArrayLayout(unsigned(8), columns)
        The weights.
    """
    beat = weights_payload(
        rows=rows, columns=columns, weight_tiles=weight_tiles, bus_bytes=bus_bytes
    )
    return data.StructLayout(
        {
            "tile": beat["tile"].shape,
            "row": beat["row"].shape,
            "mask": unsigned(-(-columns // bus_bytes)),
            "data": data.ArrayLayout(unsigned(8), columns),
        }
    )


class WeightBuffer(Component):
    """Memory of weight tiles that loads ``weight_rows`` rows into the array per cycle.

    The rows are split into ``weight_rows`` segments of consecutive rows; each segment has one bank
    for each column. Row ``r``, column ``j`` leaves ``r + j`` cycles after row 0,
    column 0, in step with the switch of the array. So a tile can follow another after rows /
    weight_rows cycles.

    Parameters
    ----------
    rows, columns, weight_tiles, weight_rows, bus_bytes : int
        See ``Config``.
    parity : bool
        Every byte has a parity bit.
    whole_rows : bool
        A write has all columns of a row.

    Members
    -------
    write : In(stream of ``weights_payload``, with ``whole_rows`` of ``rows_payload``)
        Writes, always taken.
    start, tile : In(1), In(range(weight_tiles))
        Loads tile ``tile`` into the array. Ignored while ``ready`` is low.
    ready : Out(1)
        A tile may start in this cycle. ``TilePrefetcher`` counts the same cycles and does not read
        it.
    weights, load : Out(ArrayLayout(ArrayLayout(signed(8), columns), weight_rows)), Out(rows)
        As in ``SystolicArray``: weights one cycle before their load.
    wrong : Out(ArrayLayout(columns, weight_rows))
        With ``parity``: one cycle after each of ``weights``, that it had wrong parity.

    Timing
    ------
    Row 0 loads ``LATENCY`` cycles after ``start``: three for the memory, one for a register in the
    array, and one so that the next tile may start in the cycle of the first read of a pass. A tile
    that starts ``WRITE_LATENCY`` cycles after a write, or later, has it. More exactly, it has a
    write of row ``r`` if it starts ``ROW_LATENCY`` - r cycles after it, or later; and it does not
    have one that comes r + columns cycles after its start, or later.
    """

    LATENCY = 5
    WRITE_LATENCY = 3
    ROW_LATENCY = 1

    def __init__(
        self,
        *,
        rows: int,
        columns: int,
        weight_tiles: int,
        weight_rows: int,
        bus_bytes: int,
        parity: bool = False,
        whole_rows: bool = False,
    ) -> None:
        self.whole_rows = whole_rows
        self.rows = rows
        self.columns = columns
        self.weight_tiles = weight_tiles
        self.weight_rows = weight_rows
        self.bus_bytes = bus_bytes
        self.parity = parity
        self.segment_rows = rows // weight_rows
        payload = (rows_payload if whole_rows else weights_payload)(
            rows=rows, columns=columns, weight_tiles=weight_tiles, bus_bytes=bus_bytes
        )
        buses = data.ArrayLayout(signed(8), columns)
        self.write = In(stream.Signature(payload))
        self.start = In(1)
        self.tile = In(payload["tile"].shape)
        self.ready = Out(1)
        self.weights = Out(data.ArrayLayout(buses, weight_rows))
        self.load = Out(rows)
        self.wrong = Out(data.ArrayLayout(columns, weight_rows))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        weights, wrong = data_registers(m, self.weights, self.wrong)
        depth = self.weight_tiles * self.segment_rows
        left = Signal(range(self.segment_rows))
        address = Signal(range(depth), reset_less=True)
        starts = self.start & self.ready
        m.d.comb += self.ready.eq(left == 0)
        with m.If(starts):
            m.d.sync += left.eq(self.segment_rows - 1)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        # `start` comes late: a tile that may start is read whether it does or not.
        first = self.tile * self.segment_rows
        m.d.sync += address.eq(Mux(self.ready, first, address + 1))

        strobes = delayed(m, starts, self.rows + self.LATENCY - 1, name="start")
        m.d.comb += self.load.eq(Cat(strobes[self.LATENCY :]))

        ahead = self.LATENCY - 4
        farthest = ahead + (self.weight_rows - 1) * self.segment_rows + self.columns - 1
        addresses = delayed(m, address, farthest, name="address", reset_less=True)
        # A copy of the beat for this memory.
        beat = Signal.like(self.write.payload, reset_less=True, attrs=COPY)
        taken = Signal()
        m.d.comb += self.write.ready.eq(1)
        m.d.sync += [taken.eq(self.write.valid), beat.eq(self.write.payload)]
        row_bits = (self.segment_rows - 1).bit_length()
        for segment in range(self.weight_rows):
            hit = taken & (beat.row[row_bits:] == segment) if self.weight_rows > 1 else taken
            # A copy of the write address for each `_BLOCK` banks, and of the enable for each.
            targets = [
                Signal(range(depth), name=f"target_{segment}_{j}", reset_less=True, attrs=COPY)
                for j in range(0, self.columns, _BLOCK)
            ]
            m.d.sync += [target.eq(Cat(beat.row[:row_bits], beat.tile)) for target in targets]
            for j in range(self.columns):
                value = Signal(8, name=f"value_{segment}_{j}", reset_less=True)
                writes = Signal(name=f"writes_{segment}_{j}", attrs=COPY)
                block, lane = divmod(j, self.bus_bytes)
                position = ahead + segment * self.segment_rows + j
                covers = beat.mask[block] if self.whole_rows else beat.block == block
                byte = beat.data[j if self.whole_rows else lane]
                m.d.sync += [value.eq(byte), writes.eq(hit & covers)]
                shape = guard.stored_shape(unsigned(8), self.parity)
                bank = bank_of(shape, depth=depth)
                m.submodules[f"bank_{segment}_{j}"] = bank
                write = bank.write_port()
                read = bank.read_port()
                m.d.comb += [
                    write.en.eq(writes),
                    write.addr.eq(targets[j // _BLOCK]),
                    write.data.eq(guard.stored(value)),
                    read.addr.eq(addresses[position]),
                ]
                bad = guard.checked(m, weights[segment][j], read.data, name=f"parity_{segment}_{j}")
                m.d.sync += wrong[segment][j].eq(bad)
        return m
