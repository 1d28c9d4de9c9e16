"""Vector units whose requantiser takes a digit a cycle: same results, at the pace of costs."""

from typing import Any

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal
from vector_bench import SHAPES, Bench, run, sizes, span
from vector_programs import Programs

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import PRODUCT_MODES, Instruction, Mode, Opcode, Space
from celosia.hw.vector.pace import Pace
from celosia.hw.vector.sequential import SequentialRequantizer
from celosia.sim.timing import costs

EACH = SequentialRequantizer.INTERVAL
SEQUENTIAL: dict[str, Any] = {"requantizer": "sequential"}


@pytest.mark.parametrize("each", [1, 2, 3])
async def test_pace(rng: np.random.Generator, each: int) -> None:
    """Windows as soon as they may begin, and later; cycles that do not count."""
    dut = Pace(groups=4, group_cycles=each)
    ctx = await pysim.simulation(dut)
    # Cycles to come of the window, this one left out.
    left = 0
    for _ in range(400):
        hold, groups = int(rng.random() < 0.3), int(rng.integers(4))
        start = not left and rng.random() < 0.5
        ctx.set(dut.hold, hold)
        ctx.set(dut.start, start)
        ctx.set(dut.groups_last, groups)
        assert ctx.get(dut.in_use) == (left > 0)
        assert ctx.get(dut.moves) == (left > 0 and left % each == 0 and not hold)
        await ctx.tick()
        if start:
            left = each * (groups + 1) - 1
        elif not hold:
            left = max(0, left - 1)


def test_refuses() -> None:
    with pytest.raises(ValueError, match="group_cycles: wanted at least 1, got 0"):
        Pace(groups=2, group_cycles=0)
    with pytest.raises(ValueError, match="requantizer: wanted one of pipelined, .*, got 'slow'"):
        Bench(np.random.default_rng(1), **sizes("nano", requantizer="slow"))


@pytest.mark.parametrize("name", ["nano", "micro", "full"])
async def test_random_programs(rng: np.random.Generator, name: str) -> None:
    bench = Bench(rng, **sizes(name, tables=1, **SEQUENTIAL))
    programs = Programs(rng, bench.sizes)
    count = 8
    ctx = await pysim.simulation(bench.dut, background=[bench.memories], cycles_limit=60000)
    await bench.load_parameters(ctx, pysim.put)
    for index in range(count):
        bench.stall = 0.0 if index < count // 2 else 0.6
        instruction = programs.any()
        bench.state.execute(instruction)
        await bench.issue(ctx, instruction, index)
    await bench.settle(ctx)
    bench.compare()
    assert len(bench.done) == count
    assert not bench.faults


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("nano", {"source": Space.ACCUMULATORS, "source_x_stride": 1, "channels": 4}),
        ("nano", {"source": Space.ACCUMULATORS, "channels": 3, "window_x_count": 100}),
        ("nano", {"channels": 9, "source_x_stride": 9}),
        ("nano", {"destination": Space.ACCUMULATORS, "channels": 4}),
        ("micro", {"channels": 5, "source_skip": 1, "source_run": 3}),
        ("full", {"channels": 4}),
    ],
)
def test_pace_of_vector(rng: np.random.Generator, name: str, fields: dict[str, Any]) -> None:
    to = {} if "destination" in fields else {"destination_base": 128, "destination_x_stride": 10}
    instruction = Instruction(Opcode.VECTOR, x_count=4, **to, **fields)
    bench, _ = run(rng, name, [instruction], tables=1, **SEQUENTIAL)
    config = Config(weight_tiles=2, **bench.sizes)
    groups = costs.reads(instruction, config)
    assert span(bench.reads) == costs.elements(instruction, config)
    window = costs.window(instruction)
    starts = np.cumsum([0, *[max(window, EACH * count) for count in 4 * groups]])[:-1]
    offsets = [
        start + EACH * n
        for start, count in zip(starts, 4 * groups, strict=True)
        for n in range(count)
    ]
    assert [write - bench.writes[0] for write in bench.writes] == offsets


@pytest.mark.parametrize("mode", [Mode.ADD, Mode.MAX])
def test_all_pixels_into_one_row(rng: np.random.Generator, mode: Mode) -> None:
    """Each group finds what the one before has written, although nothing is forwarded."""
    instruction = Instruction(
        Opcode.VECTOR,
        destination=Space.ACCUMULATORS,
        x_count=6,
        source_x_stride=3,
        channels=2,
        destination_base=5,
        mode=mode,
    )
    run(rng, "micro", [instruction], tables=1, **SEQUENTIAL)


@pytest.mark.parametrize("mode", PRODUCT_MODES)
def test_products(rng: np.random.Generator, mode: Mode) -> None:
    """Each sum is multiplied once, and read at once."""
    columns = SHAPES["micro"][1]
    inside = {"x_count": 3, "channels": columns, "destination_x_stride": 2}
    multiply = {"destination": Space.ACCUMULATORS, "mode": mode, "source_x_stride": 3}
    read = {"source": Space.ACCUMULATORS, "source_x_stride": 1}
    program = [
        Instruction(Opcode.VECTOR, **inside, **fields) for fields in (multiply, read, multiply)
    ]
    run(rng, "micro", program, tables=1, elementwise_products=True, **SEQUENTIAL)


def test_pace_of_fill(rng: np.random.Generator) -> None:
    instruction = Instruction(Opcode.FILL, x_count=6, channels=4, destination_x_stride=7, value=-3)
    bench, _ = run(rng, "micro", [instruction], tables=1, **SEQUENTIAL)
    assert np.diff(bench.writes).tolist() == [EACH] * 11


@pytest.mark.parametrize("stall", [0.0, 0.98])
def test_instructions_follow_one_another(rng: np.random.Generator, stall: float) -> None:
    """Other parameters, rounding and source; also where writes wait so long that queues fill."""
    instructions = [
        Instruction(
            Opcode.VECTOR,
            source=n % 2,
            x_count=5,
            channels=4,
            source_x_stride=1,
            destination_base=128 + 30 * n,
            destination_x_stride=5,
            params=n,
            per_channel=1,
            rounding=n % 2,
            zero_point=n,
        )
        for n in range(3)
    ]
    fill = Instruction(Opcode.FILL, x_count=3, channels=2, destination_base=250, value=5)
    program = [*instructions[:2], fill, *instructions[2:]]
    bench, _ = run(rng, "nano", program, stall=stall, tables=1, **SEQUENTIAL)
    if not stall:
        assert span(bench.writes) <= (5 * 4 * 3 + 6) * EACH + 3 * 20


async def test_abort(rng: np.random.Generator) -> None:
    """Elements under way run out unseen, and the unit works again after a reset."""
    bench = Bench(rng, **sizes("nano", tables=1, **SEQUENTIAL))
    dut, reset = bench.dut, Signal()
    fields: dict[str, Any] = {"source": Space.ACCUMULATORS, "channels": 4, "x_count": 3}
    to = {"destination_base": 64, "destination_x_stride": 4}
    vector = Instruction(Opcode.VECTOR, **fields, **to, source_x_stride=1)
    ctx = await pysim.simulation(ResetInserter(reset)(dut), background=[bench.memories])
    await bench.load_parameters(ctx, pysim.put, tables=False)
    for wait in (12, 40, 75):
        await bench.issue(ctx, vector, 0)
        await ctx.tick().repeat(wait)
        ctx.set(dut.abort, 1)
        await ctx.tick()
        writes = len(bench.writes)
        while not ctx.get(dut.idle):
            await ctx.tick()
        assert len(bench.writes) == writes
        ctx.set(dut.abort, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
    bench.state.unified[:] = bench.unified_seen
    bench.state.execute(vector)
    await bench.issue(ctx, vector, 1)
    await bench.settle(ctx)
    bench.compare()
