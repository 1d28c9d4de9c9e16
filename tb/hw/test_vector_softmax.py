"""SOFTMAX in the vector unit, among other instructions, against ``sim.model.quantize``."""

from typing import Any

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal
from memory_bench import recorded
from vector_bench import SHAPES, Bench, settings, sizes
from vector_programs import Programs

from celosia.hw.arch.config import SOFTMAX_ROWS
from celosia.hw.arch.isa import Error, Instruction, Mode, Opcode, Rounding, Space
from celosia.hw.softmax import exponentials

#: Units whose exponentials come through ``parameters``. That takes 1024 cycles.
WRITTEN = ("nano",)


@pytest.fixture
def memories(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The memories of exponentials."""
    return recorded(monkeypatch, exponentials)


async def load(ctx: Any, bench: Bench, memories: list[Any]) -> None:
    """Write the parameters, and the exponentials where ``parameters`` would write them.

    Other tables hold zeros.
    """
    bench.state.tables[:] = 0
    await bench.load_parameters(ctx, pysim.put, tables=False)
    assert len(memories) == bench.sizes["lanes"]
    mask = (1 << exponentials.BITS) - 1
    for memory in memories:
        for number, value in enumerate(bench.state.exponentials.tolist()):
            ctx.set(memory.data[number], value & mask)


@pytest.mark.parametrize("name", SHAPES)
async def test_random_programs(name: str, rng: np.random.Generator, memories: list[Any]) -> None:
    bench = Bench(
        rng, make=pysim.anew, **sizes(name, tables=2 if name == "micro" else 1, softmax=True)
    )
    programs = Programs(rng, bench.sizes)
    ctx = await pysim.simulation(bench.dut, background=[bench.memories], cycles_limit=60000)
    if name in WRITTEN:
        await bench.load_parameters(ctx, pysim.put)
    else:
        await load(ctx, bench, memories)
    # SOFTMAX comes first, last, and in between.
    between = [programs.any() for _ in range(4)]
    await bench.play(ctx, rng, [programs.softmax(), *between, programs.softmax()])


def short(n: int, lanes: int) -> Instruction:
    """Return an instruction of one group, unlike its neighbours in rounding and destination."""
    if n % 3 == 2:
        return Instruction(Opcode.FILL, channels=1, destination_base=8 + n, value=n)
    space = Space.ACCUMULATORS if n % 3 else Space.UNIFIED
    return Instruction(
        Opcode.VECTOR,
        source=Space.ACCUMULATORS if n % 2 else Space.UNIFIED,
        source_base=n,
        destination=space,
        destination_base=16 + n,
        rounding=Rounding.SINGLE if n % 4 else Rounding.DOUBLE,
        params=n % 8 * lanes,
    )


@pytest.mark.parametrize("name", ["nano", "full"])
async def test_short_instructions_in_a_row(
    name: str, rng: np.random.Generator, memories: list[Any]
) -> None:
    """The next task must not change what the stage passes on late."""
    bench = Bench(rng, make=pysim.anew, **sizes(name, tables=1, softmax=True))
    ctx = await pysim.simulation(bench.dut, background=[bench.memories])
    await load(ctx, bench, memories)
    code = []
    for n in range(12):
        code.append(short(n, bench.sizes["lanes"]))
        if n % 5 == 3:
            code.append(Instruction(Opcode.SOFTMAX, source_base=3, destination_base=40))
    for index, instruction in enumerate(code):
        bench.state.execute(instruction)
        await bench.issue(ctx, instruction, index)
    await bench.settle(ctx)
    bench.compare()
    assert len(bench.done) == len(code)


async def test_sums_are_added_after_a_softmax(
    rng: np.random.Generator, memories: list[Any]
) -> None:
    """A SOFTMAX waits for the instruction before, whose sums it does not read."""
    bench = Bench(rng, make=pysim.anew, **sizes("micro", tables=1, softmax=True))
    ctx = await pysim.simulation(bench.dut, background=[bench.memories], cycles_limit=20000)
    await load(ctx, bench, memories)
    to_sums = {"destination": Space.ACCUMULATORS, "x_count": 9, "channels": 8, "mode": Mode.ADD}
    rows = {"x_count": 5, "channels": 9, "source_x_stride": 9, "destination_x_stride": 9}
    code = [
        Instruction(Opcode.VECTOR, source_base=100, **to_sums),
        Instruction(Opcode.SOFTMAX, **rows, destination_base=128),
        Instruction(Opcode.VECTOR, source_base=128, **to_sums),
        Instruction(Opcode.SOFTMAX, **rows, source_base=128),
        Instruction(Opcode.SOFTMAX, **rows, destination_base=200),
    ]
    for index, instruction in enumerate(code):
        bench.state.execute(instruction)
        await bench.issue(ctx, instruction, index)
    await bench.settle(ctx)
    bench.compare()
    assert len(bench.done) == len(code)


#: Fields of SOFTMAX on a unit of 256 bytes: a source outside of it, a destination outside of it.
OUTSIDE: list[dict[str, Any]] = [
    {"source_base": 255, "channels": 2},
    {"source_base": 250, "source_x_stride": 200, "x_count": 2},
    {"source_base": 0, "source_x_stride": 63, "x_count": 5, "channels": 5},
    {"source_base": 100, "source_x_stride": 255, "x_count": SOFTMAX_ROWS},
    {"destination_base": 255, "channels": 2},
    {"destination_base": 200, "destination_x_stride": 57, "x_count": 2},
    {"destination_base": 253, "x_count": 3, "channels": 9},
]


@pytest.mark.parametrize("name", ["nano", "full"])
async def test_range_and_reset(name: str, rng: np.random.Generator, memories: list[Any]) -> None:
    bench = Bench(rng, make=pysim.anew, **sizes(name, tables=1, softmax=True))
    size = bench.sizes["unified_bytes"]
    assert size == 256
    dut, reset = bench.dut, Signal()
    before = Instruction(Opcode.FILL, channels=3, destination_base=9, value=1)

    async def attempt(ctx: Any, fields: dict[str, Any]) -> None:
        bench.done.clear()
        bench.faults.clear()
        bad = Instruction(Opcode.SOFTMAX, **{"destination_base": 100, "x_count": 2} | fields)
        bench.state.execute(before)
        await bench.issue(ctx, before, 10)
        # It may stop before it is taken: its fault can come with its first step.
        port = dut.instruction
        ctx.set(port.payload.tag, 11)
        ctx.set(port.payload.fields.vector, {"opcode": bad.opcode, **bad.fields})
        ctx.set(port.valid, 1)
        for _ in range(2000):
            if bench.faults:
                break
            if ctx.get(port.ready):
                await ctx.tick()
                ctx.set(port.valid, 0)
            else:
                await ctx.tick()
        ctx.set(port.valid, 0)
        await ctx.tick().repeat(60)
        assert [fault[:2] for fault in bench.faults] == [(Error.RANGE, 11)]
        assert len(bench.done) == 1
        assert max(bench.writes) <= bench.faults[0][2] + 1
        assert ctx.get(dut.idle)
        wrote = np.flatnonzero(bench.unified_seen != bench.state.unified)
        if "destination_base" not in fields:
            # The steps that read all of the source come before the first write.
            assert not len(wrote)
        bench.state.unified[:] = bench.unified_seen
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)

    ctx = await pysim.simulation(ResetInserter(reset)(dut), background=[bench.memories])
    await load(ctx, bench, memories)
    for fields in OUTSIDE:
        await attempt(ctx, fields)
    # And it runs again.
    good = Programs(rng, bench.sizes).softmax()
    bench.state.execute(good)
    await bench.issue(ctx, good, 23)
    await bench.settle(ctx)
    bench.compare()


async def test_abort_and_reset(rng: np.random.Generator, memories: list[Any]) -> None:
    """An abort in any step, with a SOFTMAX that has not been taken."""
    bench = Bench(rng, make=pysim.anew, stall=0.3, **sizes("micro", tables=1, softmax=True))
    dut, reset = bench.dut, Signal()
    ctx = await pysim.simulation(
        ResetInserter(reset)(dut), background=[bench.memories], cycles_limit=20000
    )
    await load(ctx, bench, memories)
    wide = Instruction(Opcode.SOFTMAX, x_count=3, channels=11, source_x_stride=11)
    for wait in (1, 9, 30, 60, 120, 200, 240, 270):
        port = dut.instruction
        ctx.set(port.payload.fields.vector, {"opcode": wide.opcode, **wide.fields})
        ctx.set(port.valid, 1)
        for _ in range(wait):
            taken = ctx.get(port.ready)
            await ctx.tick()
            if taken:
                ctx.set(port.valid, 0)
        ctx.set(dut.abort, 1)
        await ctx.tick()
        ctx.set(port.valid, 0)
        for _ in range(60):
            if ctx.get(dut.idle):
                break
            await ctx.tick()
        writes, done = len(bench.writes), len(bench.done)
        for _ in range(40):
            assert ctx.get(dut.idle) and not ctx.get(port.ready)
            await ctx.tick()
        assert (len(bench.writes), len(bench.done)) == (writes, done)
        ctx.set(dut.abort, 0)
        await pysim.pulse(ctx, reset)
    bench.state.unified[:] = bench.unified_seen
    bench.state.execute(wide)
    await bench.issue(ctx, wide, 0)
    await bench.settle(ctx)
    bench.compare()


def test_refuses_a_sequential_requantizer() -> None:
    message = "requantizer: wanted pipelined, for softmax, got sequential"
    with pytest.raises(ValueError, match=message):
        settings(**sizes("micro", softmax=True, requantizer="sequential"), visible_cycles=3)
