"""The tile prefetcher: which tiles it sends, and when."""

import numpy as np
import pysim
import pytest
from matrix_passes import MATMUL, matmul, sizes

from celosia.hw.matrix.prefetcher import TilePrefetcher
from celosia.hw.streams import TAG_BITS


class Prefetcher:
    """A tile prefetcher; the passes after it begin and switch whenever they like."""

    def __init__(self, programs, *, rows=8, weight_tiles=12, weight_rows=2, rng=None, stall=0.0):
        self.dut = TilePrefetcher(
            sizes=sizes(
                rows=rows, weight_tiles=weight_tiles, weight_rows=weight_rows, accumulator_depth=64
            )
        )
        self.programs = programs
        self.rng, self.stall = rng, stall
        self.started = []
        self.arrivals = []
        self.switches = []
        self.cycle = 0

    def steps(self, fields):
        return -(-(MATMUL | fields)["taps"] // self.dut.sizes.rows)

    async def feed(self, ctx):
        for index, fields in enumerate(self.programs):
            await pysim.rest(ctx, self.rng, self.stall)
            await pysim.put(ctx, self.dut.instruction, matmul(index, fields))

    async def passes(self, ctx):
        """Begin each instruction, then take each of its tiles some time after it is there."""
        dut = self.dut
        for index, fields in enumerate(self.programs):
            while not ctx.get(dut.waiting):
                await ctx.tick()
            await pysim.rest(ctx, self.rng, self.stall)
            assert (
                ctx.get(dut.instruction.payload.tag) == ctx.get(dut.tag) == index % (1 << TAG_BITS)
            )
            await pysim.pulse(ctx, dut.begin)
            for _ in range(self.steps(fields)):
                while not ctx.get(dut.loaded):
                    await ctx.tick()
                await pysim.rest(ctx, self.rng, self.stall)
                await pysim.pulse(ctx, dut.switched)

    async def watch(self, ctx):
        dut = self.dut
        names = ("arrives", "start", "tile", "enable", "loaded", "switched")
        loaded = 0
        while True:
            values = await ctx.tick().sample(*(getattr(dut, name) for name in names))
            now = dict(zip(names, values[2:], strict=True))
            # `loaded` follows `start` by one cycle and ends with `switched`.
            assert now["loaded"] == loaded
            if now["arrives"]:
                assert not self.arrivals or len(self.started) == self.ends[len(self.arrivals) - 1]
                self.arrivals.append(self.cycle)
            if now["switched"]:
                self.switches.append(self.cycle)
            if now["start"]:
                assert now["enable"] and (not loaded or now["switched"])
                self.started.append((self.cycle, now["tile"]))
            loaded = 1 if now["start"] else 0 if now["switched"] else loaded
            self.cycle += 1

    def run(self):
        self.ends = np.cumsum([self.steps(fields) for fields in self.programs])

        async def main(ctx):
            ctx.set(self.dut.enable, 1)
            await self.feed(ctx)

        pysim.run(self.dut, main, self.passes, background=[self.watch])
        wanted = [
            (MATMUL | fields)["tile"] + step
            for fields in self.programs
            for step in range(self.steps(fields))
        ]
        assert [tile for _, tile in self.started] == wanted
        return np.array([cycle for cycle, _ in self.started])


@pytest.mark.parametrize("stall", [0.0, 0.6])
@pytest.mark.parametrize(("rows", "weight_rows"), [(8, 1), (8, 2), (8, 8), (4, 1)])
def test_tiles_are_sent_in_order_and_not_too_close(rows, weight_rows, stall, rng):
    programs = [
        {"tile": int(rng.integers(0, 9)), "taps": int(rng.integers(1, 3 * rows))} for _ in range(20)
    ]
    bench = Prefetcher(programs, rows=rows, weight_rows=weight_rows, rng=rng, stall=stall)
    started = bench.run()
    assert np.diff(started).min() >= rows // weight_rows
    # Each tile but the first waits for the switch that makes room, or comes in the same cycle.
    assert all(started[1:] >= np.array(bench.switches[:-1]))


@pytest.mark.parametrize("weight_rows", [1, 2, 8])
def test_the_next_tile_starts_in_the_cycle_of_the_switch(weight_rows):
    bench = Prefetcher([{"taps": 64}], weight_rows=weight_rows)
    started = bench.run()
    assert np.diff(started).tolist() == [8 // weight_rows] * 7
    if weight_rows == 8:
        assert started[1:].tolist() == bench.switches[:-1]


async def offer(ctx, dut, payload):
    """Offer an instruction; return in the cycle after it has arrived."""
    pysim.drive(ctx, dut.instruction, payload=payload, valid=1)
    assert ctx.get(dut.arrives)
    await ctx.tick()
    assert ctx.get(dut.waiting)


async def test_enable_holds_instructions_and_tiles():
    dut = TilePrefetcher(sizes=sizes(rows=4, weight_tiles=4, weight_rows=1, accumulator_depth=4))
    ctx = await pysim.simulation(dut)
    pysim.drive(ctx, dut.instruction, payload=matmul(5, {"taps": 8}), valid=1)
    await ctx.tick().repeat(3)
    assert not ctx.get(dut.arrives) and not ctx.get(dut.waiting)
    ctx.set(dut.enable, 1)
    assert ctx.get(dut.arrives)
    await ctx.tick()
    assert ctx.get(dut.waiting) and ctx.get(dut.start)
    # It is taken when its passes begin; the next one arrives when both tiles are sent.
    assert not ctx.get(dut.instruction.ready) and not ctx.get(dut.arrives)
    ctx.set(dut.enable, 0)
    assert not ctx.get(dut.start)
    await ctx.tick().repeat(6)
    ctx.set(dut.enable, 1)
    assert ctx.get(dut.start) and ctx.get(dut.tile) == 0
    ctx.set(dut.begin, 1)
    assert ctx.get(dut.instruction.ready)
    await ctx.tick()
    ctx.set(dut.begin, 0)
    ctx.set(dut.instruction.payload, matmul(6, {"taps": 4}))
    assert not ctx.get(dut.instruction.ready) and not ctx.get(dut.waiting)
    ctx.set(dut.switched, 1)
    assert not ctx.get(dut.start)
    await ctx.tick()
    ctx.set(dut.switched, 0)
    await ctx.tick().repeat(2)
    assert ctx.get(dut.start) and ctx.get(dut.tile) == 1
    assert not ctx.get(dut.arrives) and ctx.get(dut.tag) == 5
    await ctx.tick()
    assert ctx.get(dut.arrives)
    await ctx.tick()
    assert ctx.get(dut.tag) == 6


@pytest.mark.parametrize("weight_tiles", [4, 5, 7])
@pytest.mark.parametrize("before", [0, 1, 2])
async def test_a_tile_outside_is_reported_and_not_sent(weight_tiles, before):
    dut = TilePrefetcher(
        sizes=sizes(rows=4, weight_tiles=weight_tiles, weight_rows=4, accumulator_depth=4)
    )
    starts = []
    ctx = await pysim.simulation(dut)
    ctx.set(dut.enable, 1)
    fields = {"tile": weight_tiles - before, "taps": 4 * before + 4}
    await offer(ctx, dut, matmul(0, fields))
    ctx.set(dut.switched, 1)
    for _ in range(before + 4):
        starts.append(ctx.get(dut.start))
        assert ctx.get(dut.outside) == (sum(starts) == before and not starts[-1])
        await ctx.tick()
    assert sum(starts) == before


@pytest.mark.parametrize(
    "fields",
    [
        {"taps": 32},
        {"taps": 1 << 19},
        *({f"{axis}_count": count} for axis in "xyz" for count in (8, 1 << 15)),
    ],
)
async def test_counts_that_fit_no_core_are_refused_before_the_first_tile(fields):
    dut = TilePrefetcher(sizes=sizes(rows=4, weight_tiles=5, weight_rows=4, accumulator_depth=4))
    ctx = await pysim.simulation(dut)
    ctx.set(dut.enable, 1)
    await offer(ctx, dut, matmul(0, fields))
    assert ctx.get(dut.outside) and not ctx.get(dut.start)
