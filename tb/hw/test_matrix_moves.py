"""MOVE_WEIGHTS in the matrix unit: tiles filled from the unified buffer, between MATMULs."""

from itertools import product
from typing import Any

import numpy as np
import pysim
import pytest
from amaranth.hdl import Module, Signal
from matrix_bench import Bench, issued

from celosia.hw.arch import isa
from celosia.hw.arch.isa import Opcode
from celosia.hw.matrix.moves import MoveOrder, RowWrites
from celosia.hw.memory.weight_buffer import WeightBuffer, rows_payload

#: rows, columns, weight_rows: with fewer, as many and more columns than rows.
SIZES = [(4, 4, 1), (4, 10, 4), (8, 3, 2), (4, 1, 2), (8, 16, 1), (16, 16, 1)]
#: Without what a unit may be built without.
LEAST = {"skid": False, "forwards": False}
#: Stall and form of each size; large arrays take long.
QUICK = {(8, 16, 1): [(0.4, {})], (16, 16, 1): []}


def randomly() -> list[Any]:
    """Return all sizes with all stalls and forms, half of them and most of large arrays slow."""
    found = []
    for size, stall, form in product(SIZES, (0.0, 0.4), ({}, LEAST)):
        slow = (stall, form) not in QUICK.get(size, [(0.0, LEAST), (0.4, {})])
        found.append(pytest.param(*size, stall, form, marks=[pytest.mark.slow] * slow))
    return found


MOVE = Opcode.MOVE_WEIGHTS


def draw(rng, rows, columns, tiles, depth):
    """Return the fields of a random instruction of the matrix unit."""
    counts = rng.choice([[1, 1, 1], [3, 1, 1], [2, 2, 2], [1, rows, 1], [rows, 1, 2]]).tolist()
    fields = dict(zip(("x_count", "y_count", "z_count"), counts, strict=True))
    fields |= {f"{axis}_stride": int(rng.integers(0, rows)) for axis in "xyz"}
    fields |= {"run": int(rng.integers(1, 9)), "skip": int(rng.integers(0, 2))}
    fields["unified"] = int(rng.integers(0, 10))
    if rng.random() < 0.5:
        taps = int(rng.choice([columns, rng.integers(1, columns + 1)]))
        return {"opcode": MOVE, "taps": taps, "tile": int(rng.integers(tiles - 2)), **fields}
    return {
        "taps": int(rng.integers(1, 3 * rows)),
        "tile": int(rng.integers(tiles - 2)),
        "accumulator": int(rng.choice([0, 3, depth])),
        "accumulate": int(rng.random() < 0.7),
        **fields,
    }


@pytest.mark.parametrize(("rows", "columns", "weight_rows", "stall", "form"), randomly())
def test_random_programs(rows, columns, weight_rows, stall, form, seed):
    depth, tiles = 64, 5
    bench = Bench(
        rows=rows,
        columns=columns,
        weight_rows=weight_rows,
        depth=depth,
        tiles=tiles,
        stall=stall,
        seed=seed,
        activation_weights=True,
        **form,
    )
    rng = np.random.default_rng(seed)
    clean = [{"x_count": depth, "accumulator": half} for half in (0, depth)]
    bench.run([*clean, *(draw(rng, rows, columns, tiles, depth) for _ in range(24))])


def spaced(rows, columns, moved):
    """Return the cycles of requests: two passes of 4 pixels, MOVE_WEIGHTS, a pass of 2 pixels."""
    bench = Bench(rows=rows, columns=columns, depth=32, activation_weights=True)
    first = {"taps": 2 * rows, "x_count": 4, "x_stride": 1}
    move = {"opcode": MOVE, "taps": min(rows, columns), "x_count": moved, "x_stride": 1}
    last = {"taps": rows, "x_count": 2, "x_stride": 1, "accumulator": 32}
    bench.run([first, move, last])
    return np.split(bench.fired, [8, 8 + moved])


@pytest.mark.parametrize(
    ("rows", "moved", "wait"),
    [
        *((4, 4, 5), (4, 8, 5), (4, 5, 8), (8, 3, 6), (8, 8, 2)),
        *(pytest.param(16, *rest, marks=pytest.mark.slow) for rest in ((16, 2), (3, 6))),
    ],
)
def test_a_tile_starts_as_soon_as_its_last_row_will_be_there(rows, moved, wait):
    """``wait``: 1 for the pass after the tile's start, and ROW_LATENCY + 6 less the row."""
    _, rows_moved, after = spaced(rows, rows, moved)
    assert np.diff(rows_moved).tolist() == [1] * (moved - 1)
    assert after[0] - rows_moved[-1] == wait


@pytest.mark.parametrize(("columns", "wait"), [(4, 1), (14, 1), (15, 2), (16, 3), (24, 11)])
def test_rows_do_not_overtake_the_tile_before(columns, wait):
    """The second tile starts with the first request, and its pass ends 7 cycles later."""
    before, moved, _ = spaced(4, columns, 4)
    assert before[-1] - before[0] == 7
    assert moved[0] - before[-1] == wait


@pytest.mark.parametrize("size", [(4, 4, 6), (4, 16, 6), (16, 16, 6), (4, 9, 2), (8, 3, 9)])
async def test_order_by_cycle(size, rng):
    """Random events, and the rules in terms of the cycles in which the weight buffer reads."""
    rows, columns, latency = size
    dut = MoveOrder(rows=rows, columns=columns, read_latency=latency)
    ctx = await pysim.simulation(dut)
    begun, blocked, free = 0, -1, -1
    for cycle in range(600):
        begin = begun < dut.MOST and rng.random() < 0.2
        fired = begun > 0 and rng.random() < 0.6
        final = bool(rng.random() < 0.4)
        row = int(rng.integers(rows))
        may_start = begun == 0 and cycle > blocked
        assert ctx.get(dut.hold) == (not may_start)
        assert ctx.get(dut.settled) == (cycle >= free)
        start = may_start and rng.random() < 0.5
        values = {"begin": begin, "fired": fired, "final": final, "row": row, "start": start}
        for name, value in values.items():
            ctx.set(getattr(dut, name), value)
        if fired:
            # The last cycle in which a tile that starts does not have this row yet.
            blocked = max(blocked, cycle + latency + WeightBuffer.ROW_LATENCY - row - 1)
        if start:
            free = cycle + columns - latency
        begun += begin - (fired and final)
        await ctx.tick()


@pytest.mark.parametrize("size", [(4, 4, 4), (4, 10, 4), (8, 20, 4), (8, 3, 8), (16, 16, 8)])
async def test_writes_of_rows_and_beats(size, rng):
    rows, columns, bus_bytes = size
    tiles, blocks = 5, -(-columns // bus_bytes)
    dut = RowWrites(rows=rows, columns=columns, weight_tiles=tiles, bus_bytes=bus_bytes)
    clocked = Module()
    clocked.submodules.dut = dut
    clocked.d.sync += Signal().eq(1)
    sizes = {"rows": rows, "columns": columns, "weight_tiles": tiles, "bus_bytes": bus_bytes}
    assert dut.o.payload.shape() == rows_payload(**sizes)
    assert dut.blocks == -(-columns // rows)
    ctx = await pysim.simulation(clocked)
    at = np.arange(columns)
    for _ in range(200):
        valid, enable = rng.integers(0, 2, 2).tolist()
        beat = {"tile": 3, "row": 1, "block": int(rng.integers(blocks))}
        beat["data"] = rng.integers(0, 256, bus_bytes).tolist()
        lanes, block = rng.integers(0, 256, rows), int(rng.integers(dut.blocks))
        row = int(rng.integers(tiles * rows))
        ctx.set(dut.beats.valid, valid)
        ctx.set(dut.beats.payload, beat)
        for name, value in {"enable": enable, "row": row, "block": block}.items():
            ctx.set(getattr(dut, name), value)
        ctx.set(dut.data, lanes.tolist())
        await ctx.tick()
        out = ctx.get(dut.o.payload)
        assert ctx.get(dut.o.valid) == (valid or enable)
        assert ctx.get(dut.beats.ready) == (not enable)
        written = out.mask >> at // bus_bytes & 1
        found = np.array([out.data[column] for column in range(columns)])
        if enable:
            assert (out.tile, out.row) == divmod(row, rows)
            assert np.array_equal(written, at >= block * rows)
            wanted = np.where(at // rows == block, lanes[at % rows], 0)
        else:
            assert (out.tile, out.row) == (3, 1)
            assert np.array_equal(written, at // bus_bytes == beat["block"])
            wanted = np.array(beat["data"])[at % bus_bytes]
        assert np.array_equal(found[written == 1], wanted[written == 1])


async def test_beats_of_the_load_unit_wait_for_rows(rng):
    """While rows move into tile 0, beats are offered for tile 1, and none is lost."""
    bench = Bench(rows=4, columns=4, depth=16, tiles=4, activation_weights=True)
    dut = bench.dut
    waited = 0
    given = []

    async def feed(ctx):
        while True:
            await ctx.tick()
            if given:
                await pysim.put(ctx, dut.instruction, given.pop())

    ctx = await pysim.simulation(dut, background=[bench.memory, feed])
    await bench.write_tiles(ctx)
    move = bench.move(taps=4, x_count=4, x_stride=1)
    bench.tiles[1:] = rng.integers(-128, 128, (3, 4, 4))
    given.append(issued(0, move))
    await ctx.tick().until(dut.control.prefetcher.arrives)
    beats = [
        {
            "tile": tile,
            "row": row,
            "block": 0,
            "data": [int(v) & 255 for v in bench.tiles[tile, row]],
        }
        for tile in (1, 2, 3)
        for row in range(4)
    ]
    for beat in beats:
        ctx.set(dut.weights.payload, beat)
        ctx.set(dut.weights.valid, 1)
        while not ctx.get(dut.weights.ready):
            waited += 1
            await ctx.tick()
        await ctx.tick()
    ctx.set(dut.weights.valid, 0)
    assert waited == 4
    product = bench.matmul(taps=16, x_count=4, x_stride=2)
    given.append(issued(1, product))
    for _ in range(2):
        await ctx.tick().until(dut.done)
    for row in range(4):
        assert np.array_equal(await bench.read_row(ctx, row), bench.sums[row])


@pytest.mark.parametrize("refused", range(6))
async def test_what_was_read_outside_is_no_weight(refused, rng):
    """Nor what was read after it, also by the next instruction."""
    bench = Bench(rows=4, columns=4, depth=16, tiles=4, activation_weights=True)
    bench.refused = refused
    dut = bench.dut
    written = []
    ctx = await pysim.simulation(dut, background=[bench.memory])
    await bench.write_tiles(ctx)
    for index, tile in enumerate((0, 1)):
        i = isa.Instruction(MOVE, taps=4, x_count=3, x_stride=1, tile=tile)
        await pysim.put(ctx, dut.instruction, issued(index, i))
    sampled = ctx.tick().sample(dut.buffer.write.valid, dut.fault_valid, dut.fault, dut.idle)
    faults = []
    async for _, _, valid, wrong, fault, idle in sampled:
        written += [valid] * valid
        if wrong:
            faults.append((fault.code, fault.tag))
        if idle and faults:
            break
    assert faults == [(isa.Error.RANGE, refused // 3)]
    assert len(written) == refused


@pytest.mark.parametrize(
    ("fields", "requests"),
    [
        ({"tile": 3, "x_count": 5}, 4),
        ({"unified": 64 * 4 - 2, "x_count": 3, "x_stride": 1, "taps": 1}, 2),
        ({"z_count": 32}, 0),
        ({"y_count": 0x8001}, 0),
    ],
)
async def test_ends_of_memories(fields, requests):
    bench = Bench(rows=4, columns=4, depth=16, tiles=4, activation_weights=True)
    dut = bench.dut

    async def feed(ctx):
        await pysim.put(ctx, dut.instruction, issued(5, isa.Instruction(MOVE, **fields)))

    ctx = await pysim.simulation(dut, background=[bench.memory, feed])
    *_, fault = await ctx.tick().sample(dut.fault).until(dut.fault_valid)
    assert (fault.code, fault.tag) == (isa.Error.RANGE, 5)
    await ctx.tick().repeat(30)
    assert len(bench.fired) == requests


async def test_an_abort_writes_nothing_more():
    bench = Bench(rows=4, columns=4, depth=16, tiles=8, activation_weights=True)
    dut = bench.dut
    ctx = await pysim.simulation(dut, background=[bench.memory])
    i = isa.Instruction(MOVE, taps=4, x_count=20)
    await pysim.put(ctx, dut.instruction, issued(0, i))
    await ctx.tick().until(dut.buffer.write.valid)
    ctx.set(dut.abort, 1)
    await ctx.tick().repeat(2)
    while not ctx.get(dut.idle):
        assert not ctx.get(dut.buffer.write.valid) and not ctx.get(dut.reads.request.valid)
        await ctx.tick()
