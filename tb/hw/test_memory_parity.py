"""Parity of the memories: flipped bits are seen where they are read, and nothing else is."""

from typing import Any

import numpy as np
import pysim
import pytest
from amaranth.hdl import Elaboratable, Module, ResetInserter, Signal, unsigned
from memory_bench import flip, recorded

from celosia.hw import streams
from celosia.hw.matrix.verdict import TileVerdict
from celosia.hw.memory import (
    accumulators,
    parameter_memory,
    parity,
    table_memory,
    unified_buffer,
    weight_buffer,
)
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY, Accumulators
from celosia.hw.memory.parameter_memory import ParameterMemory, ParameterStore
from celosia.hw.memory.table_memory import TableMemory
from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.hw.memory.weight_buffer import WeightBuffer


class Tiles(Elaboratable):
    """A weight buffer, and the verdict on its tiles."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        names = ("rows", "columns", "weight_tiles", "weight_rows", "bus_bytes")
        shape = dict(zip(names, sizes, strict=True))
        self.buffer = buffer = WeightBuffer(**shape, parity=True)
        self.verdict = TileVerdict(**{name: shape[name] for name in (*names[:2], names[3])})
        self.write, self.start, self.tile = buffer.write, buffer.start, buffer.tile
        self.ready, self.wrong = buffer.ready, self.verdict.wrong

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        m.submodules.verdict = verdict = self.verdict
        m.d.comb += [
            verdict.start.eq(buffer.start),
            verdict.ready.eq(buffer.ready),
            verdict.banks.eq(buffer.wrong),
        ]
        return m


MODULES = (accumulators, parameter_memory, table_memory, unified_buffer, weight_buffer)


@pytest.fixture
def memories(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Memories in the order in which a component makes them."""
    return recorded(monkeypatch, *MODULES)


@pytest.mark.parametrize("width", [1, 8, 32, 33, 73])
async def test_every_flip_of_one_bit_is_seen(width: int, rng: np.random.Generator) -> None:
    word = Signal(width)
    total = parity.stored_shape(width, True)
    changed, made, wrong = Signal(total), Signal(total), Signal()
    dut = Module()
    dut.d.comb += [
        made.eq(parity.stored(word)),
        wrong.eq(parity.is_wrong(changed[:width], changed[width:])),
    ]
    assert len(made) == width + -(-width // parity.SPAN)
    assert parity.stored_shape(8, False) == unsigned(8)
    dut.d.sync += Signal().eq(0)
    ctx = await pysim.simulation(dut)
    ctx.set(changed, 0)
    assert not ctx.get(wrong)
    for _ in range(20):
        ctx.set(word, int.from_bytes(rng.bytes(10), "little") % (1 << width))
        good = ctx.get(made)
        ctx.set(changed, good)
        assert not ctx.get(wrong)
        for bit in range(len(made)):
            ctx.set(changed, good ^ 1 << bit)
            assert ctx.get(wrong), bit


@pytest.mark.parametrize(("rows", "size"), [(4, 64), (8, 256)])
async def test_unified_buffer(
    rows: int, size: int, memories: list[Any], rng: np.random.Generator
) -> None:
    """Reads and writes at random, masked, two readers; words flipped while they go on."""
    dut: Any = UnifiedBuffer(rows=rows, unified_bytes=size, readers=2, writers=1, parity=True)
    latency = dut.READ_LATENCY + 1
    seen = {False: 0, True: 0}
    ctx = await pysim.simulation(dut)
    flipped: set[int] = set()
    expected: list[list[bool]] = []
    for cycle in range(1500):
        if cycle % 16 == 0:
            # Nothing is under way.
            ctx.set(dut.reads[0].request.valid, 0)
            ctx.set(dut.reads[1].request.valid, 0)
            ctx.set(dut.writes[0].valid, 0)
            for _ in range(latency):
                await ctx.tick()
                if expected:
                    assert [ctx.get(port.wrong) for port in dut.reads] == expected.pop(0)
                else:
                    assert not any(ctx.get(port.wrong) for port in dut.reads)
            place = int(rng.integers(size))
            flip(ctx, memories[place % rows], place // rows, int(rng.integers(9)))
            flipped ^= {place}
        address, mask = int(rng.integers(size - rows)), int(rng.integers(1 << rows))
        reader = int(rng.integers(2))
        access = {"address": address, "skip": [0] * rows, "mask": mask}
        for n in range(2):
            pysim.drive(ctx, dut.reads[n].request, valid=n == reader, payload=access)
        used = {address + lane for lane in range(rows) if mask >> lane & 1}
        wrong = bool(used & flipped)
        seen[wrong] += 1
        expected.append([wrong and n == reader for n in range(2)])
        # A write elsewhere; what it covers is right again.
        place = (address + int(rng.integers(rows, size - rows))) % size
        lanes = int(rng.integers(1 << rows)) if cycle % 3 == 0 else 0
        if place <= size - rows and not used & set(range(place, place + rows)):
            ctx.set(dut.writes[0].valid, 1)
            ctx.set(
                dut.writes[0].payload,
                {
                    "address": place,
                    "skip": [0] * rows,
                    "mask": lanes,
                    "data": [int(v) for v in rng.integers(0, 256, rows)],
                },
            )
            flipped -= {place + lane for lane in range(rows) if lanes >> lane & 1}
        else:
            ctx.set(dut.writes[0].valid, 0)
        await ctx.tick()
        if len(expected) >= latency:
            assert [ctx.get(port.wrong) for port in dut.reads] == expected.pop(0), cycle
    assert min(seen.values()) > 100


@pytest.mark.parametrize(
    "sizes", [(4, 4, 4, 1, 4), (8, 3, 3, 2, 8), (4, 6, 5, 4, 4), (8, 9, 4, 4, 4), (4, 1, 3, 2, 4)]
)
def test_weight_buffer(
    sizes: tuple[int, ...], memories: list[Any], rng: np.random.Generator
) -> None:
    """Tiles as close as they may be: each is checked by its own bytes, those never written too."""
    dut: Any = Tiles(sizes)
    rows, columns, tiles, _, bus_bytes = sizes
    blocks = -(-columns // bus_bytes)
    seen = {False: 0, True: 0}

    async def bench(ctx: Any) -> None:
        for _ in range(6):
            # Tile 0 is never written.
            for tile in range(1, tiles):
                for place in range(rows * blocks):
                    data = [int(v) for v in rng.integers(0, 256, bus_bytes)]
                    beat = {"tile": tile, "row": place // blocks, "block": place % blocks}
                    pysim.drive(ctx, dut.write, valid=1, payload=beat | {"data": data})
                    await ctx.tick()
            ctx.set(dut.write.valid, 0)
            for _ in range(dut.buffer.WRITE_LATENCY):
                await ctx.tick()
            bad = int(rng.integers(tiles))
            row, column, bit = (int(rng.integers(n)) for n in (rows, columns, 9))
            bank = memories[row // dut.buffer.segment_rows * columns + column]
            word = bad * dut.buffer.segment_rows + row % dut.buffer.segment_rows
            flip(ctx, bank, word, bit)
            order = [int(tile) for tile in rng.integers(0, tiles, 12)] + [bad]
            verdicts: dict[int, bool] = {}
            cycle = 0
            while order or any(when >= cycle for when in verdicts):
                starts = bool(order) and bool(ctx.get(dut.ready)) and rng.random() < 0.8
                ctx.set(dut.start, starts)
                if starts:
                    tile = order.pop(0)
                    ctx.set(dut.tile, tile)
                    verdicts[cycle + dut.verdict.latency] = tile == bad
                    seen[tile == bad] += 1
                assert ctx.get(dut.wrong) == verdicts.get(cycle, False), (cycle, row, column)
                await ctx.tick()
                cycle += 1
            flip(ctx, bank, word, bit)

    pysim.run(dut, bench)
    assert min(seen.values()) >= 6


@pytest.mark.parametrize("sizes", [(4, 4, 3, 1, 4), (8, 3, 3, 2, 8)])
async def test_weight_buffer_forgets_at_a_reset(
    sizes: tuple[int, ...], memories: list[Any]
) -> None:
    """Words read before do not change the check of a tile started right after."""
    dut: Any = Tiles(sizes)
    clear = Signal()

    async def verdicts(ctx: Any, tile: int) -> list[int]:
        """Reset, start a tile at once; return the cycles after it that say wrong."""
        await pysim.pulse(ctx, clear)
        pysim.drive(ctx, dut, tile=tile, start=1)
        found = []
        for cycle in range(2 * dut.verdict.latency):
            found.extend([cycle] * ctx.get(dut.wrong))
            await ctx.tick()
            ctx.set(dut.start, 0)
        return found

    ctx = await pysim.simulation(ResetInserter(clear)(dut))
    # The last row of tile 1, at which the address stays, then the first of tile 2.
    flip(ctx, memories[0], 2 * dut.buffer.segment_rows - 1, 3)
    assert await verdicts(ctx, 1) == [dut.verdict.latency]
    assert await verdicts(ctx, 2) == []
    flip(ctx, memories[0], 2 * dut.buffer.segment_rows, 3)
    assert await verdicts(ctx, 2) == [dut.verdict.latency]


@pytest.mark.parametrize("columns", [1, 3])
async def test_accumulators(columns: int, memories: list[Any], rng: np.random.Generator) -> None:
    """Sums that are added to, forwarded, overwritten, read and written by the vector unit."""
    dut: Any = Accumulators(columns=columns, depth=4, sum_bits=18, parity=True)
    rows = 8
    seen = {"wrong": 0, "right": 0, "forwarded": 0}

    async def quiet(ctx: Any, cycles: int) -> None:
        ctx.set(dut.enable, 0)
        ctx.set(dut.port.write.enable, 0)
        for _ in range(cycles):
            await ctx.tick()

    ctx = await pysim.simulation(dut, cycles_limit=20000)
    flipped: set[tuple[int, int]] = set()
    for round_ in range(150):
        row, column = int(rng.integers(rows)), int(rng.integers(columns))
        flip(ctx, memories[2 * column + row // 4], row % 4, int(rng.integers(33)))
        flipped ^= {(row, column)}
        # The matrix unit: a run of operations on one row, the first of them adding or not.
        row = int(rng.integers(rows)) if round_ % 2 else row
        first, count = int(rng.integers(2)), int(rng.integers(1, 4))
        verdicts = []
        for n in range(count):
            pysim.drive(ctx, dut, enable=1, row=row, accumulate=first if n == 0 else 1)
            for j in range(columns):
                ctx.set(dut.sums[j], int(rng.integers(-1000, 1000)))
            bad = n == 0 and first and any((row, j) in flipped for j in range(columns))
            seen["forwarded"] += n > 0 and any((row, j) in flipped for j in range(columns))
            seen["wrong" if bad else "right"] += 1
            verdicts.append(bool(bad))
            assert not ctx.get(dut.wrong)
            await ctx.tick()
        ctx.set(dut.enable, 0)
        for cycle in range(count, count + dut.latency):
            place = cycle - dut.latency
            wanted = verdicts[place] if 0 <= place < count else False
            assert ctx.get(dut.wrong) == wanted, (round_, cycle)
            await ctx.tick()
        flipped = {place for place in flipped if place[0] != row}
        await quiet(ctx, columns + 4)
        # The vector unit reads a row, and writes some columns of another.
        row = int(rng.integers(rows))
        ctx.set(dut.port.read.row, row)
        for _ in range(ACCUMULATOR_LATENCY + 1):
            await ctx.tick()
        wanted = sum(1 << j for r, j in flipped if r == row)
        assert ctx.get(dut.port.wrong) == wanted
        row, mask = int(rng.integers(rows)), int(rng.integers(1 << columns))
        sums = [int(v) for v in rng.integers(-(1 << 31), 1 << 31, columns)]
        ctx.set(dut.port.write, {"enable": 1, "row": row, "mask": mask, "sums": sums})
        await ctx.tick()
        flipped = {(r, j) for r, j in flipped if r != row or not mask >> j & 1}
        await quiet(ctx, 2)
    assert min(seen.values()) > 5


async def test_parameters_and_tables(memories: list[Any], rng: np.random.Generator) -> None:
    lanes, channels, bus_bytes = 2, 8, 8
    dut: Any = ParameterStore(
        lanes=lanes, parameter_channels=channels, tables=2, bus_bytes=bus_bytes, parity=True
    )
    width = streams.CHANNEL.size
    total = width + -(-width // parity.SPAN)

    async def write(ctx: Any, kind: int, count: int) -> None:
        for offset in range(0, count, bus_bytes):
            data = [int(v) for v in rng.integers(0, 256, bus_bytes)]
            ctx.set(dut.parameters.payload, {"kind": kind, "offset": offset, "data": data})
            ctx.set(dut.parameters.valid, 1)
            await ctx.tick().until(dut.parameters.ready)
        ctx.set(dut.parameters.valid, 0)
        await ctx.tick().repeat(4)

    async def all_right(ctx: Any, but: dict[tuple[str, int], int]) -> None:
        """Look up everything; ``but`` gives the lanes that are wrong, by kind and place."""
        for group in range(channels // lanes):
            ctx.set(dut.group, group)
            await ctx.tick().repeat(ParameterMemory.LATENCY + 1)
            assert ctx.get(dut.channels_wrong) == but.get(("channel", group), 0), group
        for entry in range(512):
            pysim.drive(ctx, dut, table=entry >> 8, entries=[entry & 255] * lanes)
            await ctx.tick().repeat(TableMemory.LATENCY + 1)
            assert ctx.get(dut.values_wrong) == but.get(("entry", entry), 0), entry

    ctx = await pysim.simulation(dut, cycles_limit=20000)
    await all_right(ctx, {})
    await write(ctx, 0, 16 * (channels - 2))
    await write(ctx, 1, 512)
    await all_right(ctx, {})
    for bit in [*range(0, total, 7), total - 1]:
        group, lane = int(rng.integers(channels // lanes)), int(rng.integers(lanes))
        flip(ctx, memories[lane], group, bit)
        entry, other = int(rng.integers(512)), int(rng.integers(lanes))
        flip(ctx, memories[lanes + other], entry, bit % 9)
        pysim.drive(ctx, dut, group=group, table=entry >> 8, entries=[entry & 255] * lanes)
        await ctx.tick().repeat(4)
        assert ctx.get(dut.channels_wrong) == 1 << lane, bit
        assert ctx.get(dut.values_wrong) == 1 << other, bit
        flip(ctx, memories[lane], group, bit)
        flip(ctx, memories[lanes + other], entry, bit % 9)
    flip(ctx, memories[1], 1, 3)
    flip(ctx, memories[lanes], 300, 8)
    await all_right(ctx, {("channel", 1): 2, ("entry", 300): 1})
    await write(ctx, 0, 16 * channels)
    await write(ctx, 1, 512)
    await all_right(ctx, {})
