"""Blocks of SOFTMAX that see one row, or one sum, at a time, against plain arithmetic."""

from typing import Any

import numpy as np
import pysim
import pytest
from amaranth.hdl import Mux, ResetInserter, Signal, signed, unsigned
from softmax_bench import CORNERS, exponentials, mark, requantiser, sums

from celosia.hw.arch.config import EXPONENTIAL_TABLES, SOFTMAX_ROWS, TABLE_BYTES
from celosia.hw.softmax.exponentials import BITS, ExponentialMemory
from celosia.hw.softmax.reciprocals import Normalizer, Reciprocals
from celosia.hw.softmax.reduction import SUM_BITS, ExponentialSums, Greatest, Reduction
from celosia.hw.vector.requantize import Requantizer
from celosia.hw.vector.softmax_stage import Choice
from celosia.hw.vector.task import Step
from celosia.sim.model import quantize

#: Shape of elements, shape of the result, combination in hardware and in plain arithmetic.
KINDS: dict[str, Any] = {
    "maximum": (signed(8), signed(8), lambda a, b: Mux(a > b, a, b), max),
    "sum": (unsigned(20), unsigned(SUM_BITS), lambda a, b: a + b, sum),
}


@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("idle", [0.0, 0.5])
async def test_reduction(kind: str, lanes: int, idle: float, rng: np.random.Generator) -> None:
    shape, total, combine, plain = KINDS[kind]
    dut = Reduction(lanes=lanes, shape=shape, total=total, combine=combine)
    assert dut.latency == (lanes - 1).bit_length() + 1
    ctx = await pysim.simulation(dut)
    low, high = (-128, 128) if kind == "maximum" else (0, 1 << 20)
    wanted: dict[int, tuple[dict[str, int], int]] = {}
    cycle = 0

    async def step(values: list[int], **fields: int) -> None:
        nonlocal cycle
        pysim.drive(ctx, dut, mark=mark(rng, **fields), values=values)
        done = ctx.get(dut.done)
        assert done.valid == (cycle in wanted)
        if done.valid:
            marked, result = wanted.pop(cycle)
            assert {name: done[name] for name in marked} == marked
            assert ctx.get(dut.total) == result
        await ctx.tick()
        cycle += 1

    def group() -> list[int]:
        # Of few values, too, so that the greatest comes more than once.
        least = int(rng.choice([low, high - 2]))
        return rng.integers(least, high, lanes).tolist()

    for row in range(40):
        groups = [group() for _ in range(int(rng.choice([1, 1, 2, 5])))]
        for n, values in enumerate(groups):
            while rng.random() < idle:
                await step(group())
            fields = {
                "valid": 1,
                "row": row % SOFTMAX_ROWS,
                "first": int(n == 0),
                "last": int(n == len(groups) - 1),
                "ends": int(rng.integers(2)),
            }
            if fields["last"]:
                elements = [element for one in groups for element in one]
                wanted[cycle + dut.latency] = fields, plain(elements)
            await step(values, **fields)
    for _ in range(dut.latency + 1):
        await step(group())
    assert not wanted


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("tables", [1, 2, 5])
async def test_exponentials(lanes: int, tables: int, rng: np.random.Generator) -> None:
    first, end = tables * TABLE_BYTES, (tables + EXPONENTIAL_TABLES) * TABLE_BYTES
    bits = (end + TABLE_BYTES - 1).bit_length()
    dut = ExponentialMemory(lanes=lanes, tables=tables, offset_bits=bits)
    ctx = await pysim.simulation(dut)

    async def write(offset: int, content: bytes) -> None:
        for at, byte in enumerate(content):
            while rng.random() < 0.2:
                # Stands there and is not valid.
                pysim.drive(ctx, dut, enable=0, offset=int(rng.integers(1 << bits)) | 3)
                ctx.set(dut.byte, int(rng.integers(256)))
                await ctx.tick()
            pysim.drive(ctx, dut, enable=1, offset=offset + at, byte=byte)
            await ctx.tick()
        ctx.set(dut.enable, 0)

    async def look_up(rows: np.ndarray) -> np.ndarray:
        found = []
        for row in rows:
            ctx.set(dut.entries, row.tolist())
            await ctx.tick()
            found.append([ctx.get(dut.values[lane]) for lane in range(lanes)])
        return np.array(found)

    table = exponentials(rng)
    known = table & ((1 << BITS) - 1)
    assert (table != known).any()
    await write(first, table.astype("<u4").tobytes())
    order = rng.permutation(np.arange(256).repeat(lanes)).reshape(-1, lanes)
    assert (await look_up(order) == known[order]).all()
    # Bytes before the exponentials, and after them.
    for offset in {0, first - TABLE_BYTES, first - 8, end, end + 8}:
        await write(offset, rng.bytes(8))
    assert (await look_up(order) == known[order]).all()
    # A byte written can be read in the next cycle, and only the last one of four changes anything.
    for entry in (0, 77, 255):
        value = int(rng.integers(1 << 32))
        content = value.to_bytes(4, "little")
        await write(first + 4 * entry, content[:3])
        entries = np.full((1, lanes), entry)
        assert (await look_up(entries) == known[entry]).all()
        await write(first + 4 * entry + 3, content[3:])
        known[entry] = value & ((1 << BITS) - 1)
        assert (await look_up(entries) == known[entry]).all()
    assert (await look_up(order) == known[order]).all()


async def test_normalizer(rng: np.random.Generator) -> None:
    dut = Normalizer()
    ctx = await pysim.simulation(dut)
    totals = [*CORNERS, *(1 << n for n in range(SUM_BITS)), *sums(rng, 300)]
    late: list[Any] = [None] * dut.LATENCY
    for total in totals + [0] * dut.LATENCY:
        fields = mark(rng, valid=int(rng.random() < 0.7))
        pysim.drive(ctx, dut, mark=fields, total=total)
        late.append((fields, total))
        if (now := late.pop(0)) is not None:
            marked, before = now
            done = ctx.get(dut.done)
            assert {name: done[name] for name in marked} == marked
            moved = SUM_BITS - before.bit_length() if before else 31
            assert ctx.get(dut.right) == 31 - moved
            # The sum at the upper end of 31 bits, its highest bit set.
            half = before << 3 + moved if before else 1 << 30
            assert ctx.get(dut.half) == half
        await ctx.tick()


@pytest.mark.parametrize("latency", [1, Requantizer.LATENCY])
async def test_reciprocals(latency: int, rng: np.random.Generator) -> None:
    """Several SOFTMAX, one after the other; and one that a reset interrupts."""
    dut = Reciprocals(latency=latency)
    clear = Signal()

    def product(ctx: Any) -> int | None:
        operands = ctx.get(dut.product)
        return operands.a * operands.b if operands.valid else None

    lane = requantiser(latency + 1, product, dut.scaled, rng)
    ctx = await pysim.simulation(ResetInserter(clear)(dut), background=[lane])

    async def idle() -> None:
        pysim.drive(ctx, dut, mark=mark(rng), total=int(rng.integers(1 << SUM_BITS)))
        ctx.set(dut.row, int(rng.integers(SOFTMAX_ROWS)))
        assert not ctx.get(dut.finished)
        await ctx.tick()

    async def put(totals: list[int], pause: float) -> None:
        for row, total in enumerate(totals):
            while rng.random() < pause:
                await idle()
            ends = int(row == len(totals) - 1)
            pysim.drive(ctx, dut, mark=mark(rng, valid=1, row=row, ends=ends), total=total)
            assert not ctx.get(dut.finished)
            await ctx.tick()

    async def shares(totals: list[int]) -> None:
        multipliers, rights = quantize.shares(np.array(totals))
        for row in rng.permutation(len(totals)).tolist():
            ctx.set(dut.row, row)
            await ctx.tick()
            share = ctx.get(dut.share)
            assert (share.multiplier, share.right) == (multipliers[row], rights[row])

    runs = [CORNERS, [1], [0], [1 << 19], sums(rng, SOFTMAX_ROWS), sums(rng, 7), sums(rng, 1)]
    for totals in runs:
        await put(totals, float(rng.choice([0.0, 0.4])))
        # ``put`` has taken the first of these cycles.
        cycles = Normalizer.LATENCY + 1 + 7 * (len(totals) + latency + 3)
        for _ in range(cycles - 1):
            await idle()
        ctx.set(dut.mark, mark(rng))
        assert ctx.get(dut.finished)
        await shares(totals)
        await idle()
        # A reset in the middle of another run.
        await put(sums(rng, 3), 0.0)
        for _ in range(int(rng.integers(7 * (3 + latency + 3)))):
            await idle()
        await pysim.pulse(ctx, clear)


async def rows_of(ctx: Any, dut: Any, rng: np.random.Generator, values: np.ndarray) -> list[Any]:
    """Give rows of masked groups, one group a cycle; return the cycle and the mark of each end."""
    lanes, ends = dut.lanes, []
    groups = list(enumerate(values.reshape(len(values), -1, lanes)))
    marks = [
        {"valid": 1, "row": row, "first": int(n == 0), "last": int(n == len(groups_) - 1)}
        for row, groups_ in groups
        for n in range(len(groups_))
    ]
    given = values.reshape(-1, lanes)
    for cycle in range(len(given) + 10):
        valid = cycle < len(given)
        ctx.set(dut.mark, {**marks[cycle], "ends": 1} if valid else mark(rng))
        # The last lane is no element, but in the last group of all.
        ctx.set(dut.mask, (1 << lanes) - 1 - (cycle != len(given) - 1) * (1 << lanes - 1))
        ctx.set(dut.values, given[cycle % len(given)].tolist())
        if ctx.get(dut.done.valid):
            total = ctx.get(dut.total) if hasattr(dut, "total") else None
            ends.append((cycle, ctx.get(dut.done.row), total))
        await ctx.tick()
    return ends


@pytest.mark.parametrize("lanes", [2, 4])
async def test_greatest_of_rows(lanes: int, rng: np.random.Generator) -> None:
    dut = Greatest(lanes=lanes)
    ctx = await pysim.simulation(dut)
    values = rng.integers(-128, 128, (5, 3 * lanes))
    values[:, lanes - 1] = 127
    latency = (lanes - 1).bit_length() + 1
    ends = await rows_of(ctx, dut, rng, values)
    assert ends == [(2 + 3 * row + latency, row, None) for row in range(5)]
    elements = np.delete(values, [lanes - 1, 2 * lanes - 1, 3 * lanes - 1], axis=1)
    for row in rng.permutation(5).tolist():
        ctx.set(dut.row, row)
        await ctx.tick()
        ctx.set(dut.row, (row + 1) % 5)
        wanted = elements[row].max()
        assert ctx.get(dut.greatest) == (max(wanted, values[4, -1]) if row == 4 else wanted)


@pytest.mark.parametrize("lanes", [2, 4])
async def test_sums_of_rounded_exponentials(lanes: int, rng: np.random.Generator) -> None:
    dut = ExponentialSums(lanes=lanes)
    ctx = await pysim.simulation(dut)
    values = rng.integers(0, 1 << BITS, (4, 2 * lanes))
    values[0, 0], values[1, 0] = (1 << BITS) - 1, 2047
    rounded = (values + 2048) >> 12
    rounded[:, lanes - 1] = 0
    rounded[:-1, -1] = 0
    latency = (lanes - 1).bit_length() + 2
    ends = await rows_of(ctx, dut, rng, values)
    sums_ = rounded.sum(axis=1).tolist()
    assert ends == [(1 + 2 * row + latency, row, sums_[row]) for row in range(4)]


@pytest.mark.parametrize("step", Step)
async def test_choice_of_operands(step: Step, rng: np.random.Generator) -> None:
    dut = Choice(lanes=2)
    ctx = await pysim.simulation(dut)
    share = {"multiplier": 12345, "right": 7}
    reduces, shares = step in (Step.MAXIMUM, Step.SUM), step is Step.SHARE
    elements = rng.integers(-(1 << 31), 1 << 31, 2).tolist()
    exponentials_ = rng.integers(0, 1 << BITS, 2).tolist()
    pysim.drive(ctx, dut, elements=elements, exponentials=exponentials_, share=share, step=step)
    for valid, fault in ((1, 0), (1, 1), (0, 1)):
        pysim.drive(ctx, dut, valid=valid, fault=fault)
        given = ctx.get(dut.override)
        assert given.valid == (shares and valid)
        assert not given.valid or (given.multiplier, given.right) == (12345, 7)
        await ctx.tick()
        group = ctx.get(dut.late_group)
        assert (group.valid, ctx.get(dut.used)) == (valid and not reduces, valid and reduces)
        assert ctx.get(dut.fault_used) == (valid and fault and reduces)
        if group.valid:
            assert group.fault == fault
            assert list(group["values"]) == (exponentials_ if shares else elements)
    ctx.set(dut.product, {"valid": 1, "a": -5, "b": 99})
    given = ctx.get(dut.override)
    assert (given.valid, given.multiplier, given.right) == (1, 99, 0)
    await ctx.tick()
    assert ctx.get(dut.late_group["values"][0]) == -5 and not ctx.get(dut.late_group.valid)
