"""MOVE_WEIGHTS: order of tiles and rows, and their writes among those of the load unit."""

import numpy as np
import pysim
import pytest
from amaranth.hdl import Module, Signal

from celosia.hw.matrix.moves import MoveOrder, RowWrites
from celosia.hw.memory.weight_buffer import WeightBuffer, rows_payload


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
        pysim.drive(ctx, dut, begin=begin, fired=fired, final=final, row=row, start=start)
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
        pysim.drive(ctx, dut.beats, valid=valid, payload=beat)
        pysim.drive(ctx, dut, enable=enable, row=row, block=block, data=lanes.tolist())
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
