"""The weight buffer: tiles written by beats, sent as a wave."""

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal

from celosia.hw.memory.weight_buffer import WeightBuffer, weights_payload

#: rows, columns, weight_tiles, weight_rows, bus_bytes
SIZES = [
    (4, 4, 4, 1, 4),
    (4, 6, 5, 4, 4),
    (8, 3, 3, 2, 8),
    (8, 16, 2, 8, 4),
    (4, 1, 6, 2, 4),
    (8, 9, 7, 4, 8),
]


def build(sizes):
    names = ("rows", "columns", "weight_tiles", "weight_rows", "bus_bytes")
    return WeightBuffer(**dict(zip(names, sizes, strict=True)))


def beats(dut, tile, weights):
    """Yield the beats of one tile; lanes past the last column carry noise."""
    for row, values in enumerate(weights):
        for block in range(-(-dut.columns // dut.bus_bytes)):
            part = values[block * dut.bus_bytes : (block + 1) * dut.bus_bytes]
            lanes = [int(v) & 255 for v in part] + [0xA5] * (dut.bus_bytes - len(part))
            yield {"tile": tile, "row": row, "block": block, "data": lanes}


class Player:
    """Writes, starts and resets by cycle; compares ``weights`` and ``load`` in every cycle."""

    def __init__(self, sizes, cycles):
        self.dut = build(sizes)
        self.cycles = cycles
        self.writes = {}
        self.starts = {}
        self.ignored = {}
        self.resets = set()
        shape = (self.dut.weight_tiles, self.dut.rows, self.dut.columns)
        self.tiles = np.zeros(shape, np.int64)

    def expected(self):
        """Return by cycle the rows that load, and (row, column) to weight of what appears."""
        dut = self.dut
        loads = np.zeros(self.cycles, np.int64)
        appears = {}
        for start, (_, weights) in self.starts.items():
            for row in range(dut.rows):
                cycle = start + dut.LATENCY + row
                if cycle < self.cycles:
                    loads[cycle] |= 1 << row
                for column in range(dut.columns):
                    before = appears.setdefault(cycle - 1 + column, {})
                    before[row, column] = weights[row, column]
        return loads, appears

    def run(self):
        dut = self.dut
        loads, appears = self.expected()
        segment_rows = dut.rows // dut.weight_rows
        compared = 0
        clear = Signal()
        # Stands at the port in all cycles without a beat.
        nothing = {"tile": 0, "row": 0, "block": 0, "data": [0x5A] * dut.bus_bytes}

        async def bench(ctx):
            nonlocal compared
            for cycle in range(self.cycles):
                ctx.set(dut.write.valid, cycle in self.writes)
                ctx.set(dut.write.payload, self.writes.get(cycle, nothing))
                ctx.set(clear, cycle in self.resets)
                tile = self.starts.get(cycle, (self.ignored.get(cycle, 0),))[0]
                ctx.set(dut.start, cycle in self.starts or cycle in self.ignored)
                ctx.set(dut.tile, tile)
                assert ctx.get(dut.write.ready)
                since = min((cycle - s for s in self.starts if s < cycle), default=99)
                assert ctx.get(dut.ready) == (since >= segment_rows)
                assert ctx.get(dut.load) == loads[cycle], f"cycle {cycle}"
                for (row, column), weight in appears.get(cycle, {}).items():
                    got = ctx.get(dut.weights[row // segment_rows][column])
                    assert got == weight, f"cycle {cycle}, row {row}, column {column}"
                    compared += 1
                await ctx.tick()

        pysim.run(ResetInserter(clear)(dut), bench)
        assert compared


def tile_of(rng, dut):
    values = rng.choice([-128, 127, *rng.integers(-128, 128, 6)], (dut.rows, dut.columns))
    return np.array(values, np.int64)


@pytest.mark.parametrize("sizes", SIZES)
def test_construction(sizes):
    dut = build(sizes)
    rows, columns, weight_tiles, weight_rows, bus_bytes = sizes
    assert (dut.rows, dut.columns, dut.weight_tiles) == (rows, columns, weight_tiles)
    assert (dut.weight_rows, dut.bus_bytes, dut.segment_rows) == (
        weight_rows,
        bus_bytes,
        rows // weight_rows,
    )
    assert (dut.LATENCY, dut.WRITE_LATENCY) == (5, 3)
    payload = weights_payload(
        rows=rows, columns=columns, weight_tiles=weight_tiles, bus_bytes=bus_bytes
    )
    assert payload == dut.write.payload.shape()
    for name, last in (
        ("tile", weight_tiles - 1),
        ("row", rows - 1),
        ("block", -(-columns // bus_bytes) - 1),
    ):
        assert last < 1 << payload[name].width


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("pause", [0, 3])
def test_tiles_leave_as_waves(sizes, pause, rng):
    """All tiles, written with gaps, sent again and again, also as close as they may be."""
    player = Player(sizes, 0)
    dut = player.dut
    cycle = 0
    for tile in range(dut.weight_tiles):
        player.tiles[tile] = tile_of(rng, dut)
        for beat in beats(dut, tile, player.tiles[tile]):
            cycle += int(rng.integers(0, pause + 1))
            player.writes[cycle] = beat
            cycle += 1
    cycle += dut.WRITE_LATENCY
    for tile in [*range(dut.weight_tiles), *rng.integers(0, dut.weight_tiles, 12)]:
        player.starts[cycle] = int(tile), player.tiles[int(tile)]
        cycle += dut.segment_rows + int(rng.integers(0, pause + 1))
    player.cycles = cycle + dut.LATENCY + dut.rows + dut.columns
    player.run()


@pytest.mark.parametrize("sizes", [(4, 6, 5, 1, 4), (8, 3, 3, 2, 8)])
def test_start_is_ignored_while_not_ready(sizes, rng):
    player = Player(sizes, 100)
    dut = player.dut
    for tile in range(2):
        player.tiles[tile] = tile_of(rng, dut)
    written = [b for tile in range(2) for b in beats(dut, tile, player.tiles[tile])]
    player.writes = dict(enumerate(written))
    begin = len(written) + dut.WRITE_LATENCY
    player.starts = {begin: (0, player.tiles[0])}
    player.ignored = dict.fromkeys(range(begin + 1, begin + dut.segment_rows), 1)
    player.starts[begin + dut.segment_rows] = 1, player.tiles[1]
    player.run()


@pytest.mark.parametrize("sizes", [(4, 4, 2, 1, 4), (4, 4, 2, 4, 4)])
def test_a_beat_is_seen_by_tiles_started_two_cycles_later(sizes, rng):
    player = Player(sizes, 60)
    dut = player.dut
    first, second = tile_of(rng, dut), tile_of(rng, dut)
    written = list(beats(dut, 1, first))
    changed = {"tile": 1, "row": 0, "block": 0, "data": [int(v) & 255 for v in second[0]]}
    player.writes = dict(enumerate([*written, changed]))
    late = first.copy()
    late[0] = second[0]
    player.starts[len(written) + dut.WRITE_LATENCY] = 1, late
    player.run()


@pytest.mark.parametrize(
    "sizes", [(4, 4, 2, 1, 4), (8, 3, 3, 2, 8), (8, 8, 2, 1, 8), (4, 1, 6, 4, 4)]
)
@pytest.mark.parametrize("late", [True, False])
def test_rows_are_written_while_their_tile_leaves(sizes, late, rng):
    """As late as a tile still has them, and as early as the tile before is not disturbed."""
    player = Player(sizes, 60)
    dut = player.dut
    before, after = tile_of(rng, dut), tile_of(rng, dut)
    player.writes = dict(enumerate(beats(dut, 1, before)))
    start = len(player.writes) + dut.rows + dut.WRITE_LATENCY
    moved = -dut.ROW_LATENCY if late else dut.columns
    for row, beat in enumerate(beats(dut, 1, after)):
        player.writes[start + row + moved] = beat
    player.starts[start] = 1, after if late else before
    player.run()


@pytest.mark.parametrize("sizes", [(4, 4, 2, 1, 4), (8, 3, 3, 2, 8), (4, 6, 5, 4, 4)])
async def test_whole_rows_write_the_columns_of_their_mask(sizes, rng):
    rows, columns, weight_tiles, weight_rows, bus_bytes = sizes
    dut = WeightBuffer(
        rows=rows,
        columns=columns,
        weight_tiles=weight_tiles,
        weight_rows=weight_rows,
        bus_bytes=bus_bytes,
        whole_rows=True,
    )
    blocks = -(-columns // bus_bytes)
    wanted = np.zeros((rows, columns), np.int64)
    ctx = await pysim.simulation(dut)
    for mask in [(1 << blocks) - 1, *rng.integers(0, 1 << blocks, 6)]:
        for row in range(rows):
            values = rng.integers(-128, 128, columns)
            chosen = (int(mask) >> np.arange(columns) // bus_bytes & 1).astype(bool)
            wanted[row, chosen] = values[chosen]
            data = [int(v) & 255 for v in values]
            await pysim.put(
                ctx, dut.write, {"tile": 1, "row": row, "mask": int(mask), "data": data}
            )
    await ctx.tick().repeat(dut.WRITE_LATENCY)
    ctx.set(dut.tile, 1)
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    seen = np.zeros_like(wanted)
    for cycle in range(1, dut.LATENCY + rows + columns):
        for row in range(rows):
            column = cycle + 1 - dut.LATENCY - row
            if 0 <= column < columns:
                seen[row, column] = ctx.get(dut.weights[row // dut.segment_rows][column])
        await ctx.tick()
    assert np.array_equal(seen, wanted)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_reset_writes_nothing(sizes, rng):
    player = Player(sizes, 60)
    dut = player.dut
    weights = tile_of(rng, dut)
    player.writes = dict(enumerate(beats(dut, 0, weights)))
    end = len(player.writes) + dut.WRITE_LATENCY
    player.resets = {end}
    player.starts[end + 1 + dut.WRITE_LATENCY] = 0, weights
    player.run()


def test_beats_go_on_while_tiles_leave(rng):
    """Other tiles are rewritten while one leaves: as streamed weights do."""
    player = Player((8, 6, 3, 2, 4), 400)
    dut = player.dut
    cycle = 0
    ready = {}
    for n in range(12):
        weights = tile_of(rng, dut)
        for beat in beats(dut, n % 3, weights):
            player.writes[cycle] = beat
            cycle += 1
        ready[n] = cycle, weights
    for n, (cycle, weights) in ready.items():
        player.starts[cycle - 1 + dut.WRITE_LATENCY] = n % 3, weights
    player.run()
