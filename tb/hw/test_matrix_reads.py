"""Reads of instructions, one after the other, against nested loops."""

from itertools import pairwise

import pytest
from amaranth.hdl import Module, Signal
from matrix_passes import MATMUL, pixels, sizes
from pysim import get_all, pulse, rest, run

from celosia.hw.arch import isa
from celosia.hw.matrix.reads import PassReads

SIZES = {"unified_bytes": 1024, "weight_tiles": 8, "accumulator_depth": 16}


def drawn(rng, rows, *, blocks):
    """Return the fields of a random instruction inside all memories."""
    move = blocks and rng.random() < 0.4
    fields = {
        "unified": int(rng.integers(128)),
        "taps": int(rng.integers(1, min(blocks or 5, 5) * rows + 1)),
        "run": int(rng.choice([1, 3, rows, 40, 4097, 65535])),
        "skip": int(rng.integers(4)),
        **{f"{axis}_count": int(rng.integers(1, 4)) for axis in "xy"},
        **{f"{axis}_stride": int(rng.integers(1, 20)) for axis in "xyz"},
    }
    if move:
        return fields | {"opcode": isa.Opcode.MOVE_WEIGHTS, "x_count": 1, "y_count": rows // 2}
    return fields | {"accumulator": int(rng.integers(4)), "accumulate": int(rng.integers(2))}


def reference(dut, tag, fields):
    """Yield the reads of an instruction; the jumps of lanes without a tap are 0."""
    f = MATMUL | fields
    step = -1
    for wanted in pixels(dut.addresses, fields):
        step += wanted["first"]
        taps = [step * dut.sizes.rows + lane for lane in range(dut.sizes.rows)]
        jumps = [tap // f["run"] * f["skip"] if tap < f["taps"] else 0 for tap in taps]
        yield wanted | {"tag": tag, "skip": jumps}


def seen(read, wanted):
    """Return the fields of a read that the reference has, too."""
    request = read.request
    found = {
        name: getattr(read, name) for name in wanted if name not in ("address", "mask", "skip")
    }
    lanes = range(len(wanted["skip"]))
    jumps = [request.skip[lane] if request.mask >> lane & 1 else 0 for lane in lanes]
    return found | {"address": request.address, "mask": request.mask, "skip": jumps}


@pytest.mark.parametrize(("rows", "blocks"), [(4, 0), (8, 0), (4, 3)])
@pytest.mark.parametrize("skid", [False, True])
@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize(("idle", "stall"), [(0.0, 0.0), (0.8, 0.0), (0.0, 0.6), (0.5, 0.5)])
def test_reads_against_the_reference(rng, rows, blocks, skid, serial, idle, stall):
    dut = PassReads(sizes=sizes(rows=rows, blocks=blocks, skid=skid, serial_skips=serial, **SIZES))
    programs = [drawn(rng, rows, blocks=blocks) for _ in range(12)]
    wanted = [read for tag, fields in enumerate(programs) for read in reference(dut, tag, fields)]
    m = Module()
    m.submodules.dut = dut
    waits = Signal()
    m.d.comb += dut.begin.eq(waits & dut.ready)

    async def issue(ctx):
        for tag, fields in enumerate(programs):
            await rest(ctx, rng, idle)
            given = MATMUL | {"opcode": isa.Opcode.MATMUL} | fields
            # The fields that prepare and those that begin are taken at different times.
            ctx.set(dut.instruction, given)
            await pulse(ctx, dut.prepare)
            ctx.set(dut.instruction, dict.fromkeys(MATMUL, 0))
            await rest(ctx, rng, idle)
            ctx.set(dut.instruction, given)
            ctx.set(dut.tag, tag)
            ctx.set(waits, 1)
            await ctx.tick().until(dut.ready)
            ctx.set(waits, 0)

    async def take(ctx):
        reads = await get_all(ctx, dut.o, len(wanted), rng=rng, stall=stall)
        assert [seen(*pair) for pair in zip(reads, wanted, strict=True)] == wanted
        assert not ctx.get(dut.running) and not ctx.get(dut.o.valid)

    run(m, issue, take)


async def begin(ctx, dut, **fields):
    """Begin an instruction as soon as it is prepared; its reads are taken at once."""
    ctx.set(dut.instruction, MATMUL | {"opcode": isa.Opcode.MATMUL} | fields)
    await pulse(ctx, dut.prepare)
    await ctx.tick().until(dut.ready)
    ctx.set(dut.o.ready, 1)
    await pulse(ctx, dut.begin)


@pytest.mark.parametrize(("serial", "first"), [(False, 2), (True, 4)])
@pytest.mark.parametrize("skid", [False, True])
def test_a_read_each_cycle(skid, serial, first):
    dut = PassReads(sizes=sizes(rows=4, skid=skid, serial_skips=serial, **SIZES))
    taken = []

    async def bench(ctx):
        await begin(ctx, dut, x_count=6, taps=8, run=65535)
        for cycle in range(1, 20):
            if ctx.get(dut.o.valid):
                taken.append(cycle)
            await ctx.tick()

    run(dut, bench)
    assert taken == list(range(first, first + 12))


@pytest.mark.parametrize(("serial", "apart"), [(False, 1), (True, 4)])
def test_cycles_between_passes_of_one_pixel(serial: bool, apart: int):
    dut = PassReads(sizes=sizes(rows=4, skid=True, serial_skips=serial, **SIZES))
    taken = []

    async def bench(ctx):
        await begin(ctx, dut, x_count=1, taps=20, run=3)
        # The second instruction is prepared during the passes of the first one.
        await pulse(ctx, dut.prepare)
        for cycle in range(2, 60):
            if ctx.get(dut.o.valid):
                taken.append(cycle)
            ctx.set(dut.begin, ctx.get(dut.ready) and len(taken) < 8)
            await ctx.tick()

    run(dut, bench)
    gaps = [after - before for before, after in pairwise(taken)]
    assert len(taken) == 10 and gaps[:4] == gaps[5:] == [apart] * 4
