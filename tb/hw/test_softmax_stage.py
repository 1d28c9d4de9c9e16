"""Stage of SOFTMAX before the pipe, with a lane of the requantiser, against ``sim.model``."""

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import pysim
import pytest
from softmax_bench import exponentials, requantiser
from vector_sizes import vector_sizes

from celosia.hw.arch.config import SOFTMAX_ELEMENTS, SOFTMAX_ROWS, TABLE_BYTES
from celosia.hw.memory.parameter_memory import parameters_payload
from celosia.hw.softmax.exponentials import BITS
from celosia.hw.vector.requantize import Requantizer
from celosia.hw.vector.softmax_stage import Rows, SoftmaxStage
from celosia.hw.vector.task import Step
from celosia.sim.model import quantize

NAMES = ("nano", "micro", "edge")


def task_fields(rng: np.random.Generator, lanes: int, step: Step, shape: tuple[int, int]) -> Any:
    """Return the fields of a task with rows of this shape; those not used are rubbish."""
    rows, elements = shape
    return {
        "step": step,
        "pixels": [rows, *rng.integers(1, 100, 2).tolist()],
        "group_last": (elements - 1) // lanes,
        "lane_last": (elements - 1) % lanes,
        "params": int(rng.integers(8)),
    }


@pytest.mark.parametrize("name", NAMES)
async def test_rows(name: str, rng: np.random.Generator) -> None:
    sizes = vector_sizes(name, softmax=True)
    lanes = sizes.lanes
    dut = Rows(sizes=sizes)
    ctx = await pysim.simulation(dut)
    current: dict[str, Any] = {}

    async def cycle(launched: Any = None, wanted: Any = None, mask: int = 0) -> None:
        """Launch a task, or none; in the same cycle comes a group with this mark, or none."""
        ctx.set(dut.launch.valid, launched is not None)
        rubbish = task_fields(rng, lanes, Step(int(rng.integers(4))), (3, 5))
        ctx.set(dut.launch.task, launched or rubbish)
        ctx.set(dut.valid, wanted is not None)
        got = ctx.get(dut.mark)
        assert got.valid == (wanted is not None)
        if wanted is not None:
            assert {name: got[name] for name in wanted} == wanted
            assert ctx.get(dut.mask) == mask
            assert ctx.get(dut.step) == current["step"]
        await ctx.tick()

    shapes = [(1, 1), (2, lanes), (SOFTMAX_ROWS, 1), (3, 2 * lanes + 1), (4, 3 * lanes - 1)]
    order = rng.permutation(shapes).tolist()
    tasks = [task_fields(rng, lanes, Step(int(rng.integers(4))), shape) for shape in order]
    await cycle(launched=tasks[0])
    for n, (rows, elements) in enumerate(order):
        current = tasks[n]
        groups = -(-elements // lanes)
        share = float(rng.choice([0.0, 0.4]))
        starts = False
        for at in range(rows * groups):
            while rng.random() < share:
                await cycle()
            row, group = divmod(at, groups)
            wanted = {
                "row": row,
                "first": int(group == 0),
                "last": int(group == groups - 1),
                "ends": int(row == rows - 1),
            }
            mask = (1 << min(lanes, elements - group * lanes)) - 1
            # The next task may start with the last group of this one.
            starts = at == rows * groups - 1 and n + 1 < len(tasks) and rng.random() < 0.5
            await cycle(tasks[n + 1] if starts else None, wanted, mask)
        if n + 1 < len(tasks) and not starts:
            await cycle(launched=tasks[n + 1])


class Due(NamedTuple):
    """A group: what enters the stage, and what leaves it.

    ``step``, ``fault``, ``values``: its step, fault and lanes; ``results``: of lanes that are
    elements; ``share``: multiplier and shift of its row, for SHARE.
    """

    step: Step
    fault: int
    values: list[int]
    results: list[int]
    share: tuple[int, int] | None = None

    @property
    def reduced(self) -> bool:
        """True if the group does not leave the stage."""
        return self.step in (Step.MAXIMUM, Step.SUM)


class Stage:
    """A stage, and what it must give in later cycles."""

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        self.rng = rng
        self.sizes = sizes = vector_sizes(name, softmax=True)
        payload = parameters_payload(bus_bytes=4, parameter_channels=8, tables=sizes.table_slots)
        self.dut = SoftmaxStage(sizes=sizes, offset_bits=payload["offset"].width)
        self.table = exponentials(rng)
        self.late: deque[Any] = deque([((0, 0, 0), None)] * self.dut.LATENCY)
        self.task: Any = {}
        self.given: Any = None
        self.finished = 0

    def product(self, ctx: Any) -> int | None:
        """Return the exact product of the operands that are in the requantiser."""
        given, self.given = self.given, ctx.get(self.dut.override)
        if given is None or not given.valid:
            return None
        assert self.dut.OVERRIDE == 1
        return ctx.get(self.dut.late_group["values"][0]) * given.multiplier

    async def write(self, ctx: Any) -> None:
        """Write the exponentials, and bytes of the table before them."""
        first = self.sizes.tables * TABLE_BYTES
        content = self.rng.bytes(4) + self.table.astype("<u4").tobytes()
        for at, byte in enumerate(content):
            ctx.set(self.dut.written, {"valid": 1, "offset": first - 4 + at, "byte": byte})
            await ctx.tick()
        ctx.set(self.dut.written, {"valid": 0, "offset": first + 3})

    async def step(self, ctx: Any, launched: Any = None, due: Due | None = None) -> None:
        """Run one cycle: launch a task, or none, and give a group, or none."""
        dut, rng = self.dut, self.rng
        self.task = launched or self.task
        inputs = int(launched is not None), int(rng.integers(2)), int(rng.integers(2))
        ports = (dut.launch.valid, dut.launch.slot, dut.next)
        for port, value in zip(ports, inputs, strict=True):
            ctx.set(port, value)
        ctx.set(dut.launch.task, self.task)
        rubbish = rng.integers(-(1 << 31), 1 << 31, self.sizes.lanes).tolist()
        group = due or Due(Step.NONE, int(rng.integers(2)), rubbish, [])
        fields = {"valid": int(due is not None), "fault": group.fault, "values": group.values}
        ctx.set(dut.group, fields)
        self.late.append((inputs, due))
        self._compare(ctx, *self.late.popleft())
        await ctx.tick()

    def _compare(self, ctx: Any, inputs: tuple[int, int, int], due: Due | None) -> None:
        dut = self.dut
        ports = (dut.late_launch.valid, dut.late_launch.slot, dut.late_next)
        assert tuple(ctx.get(port) for port in ports) == inputs
        group = ctx.get(dut.late_group)
        reduced = due is not None and due.reduced
        assert group.valid == (due is not None and not reduced)
        assert ctx.get(dut.used) == reduced
        assert ctx.get(dut.fault) == (due is not None and reduced and due.fault)
        self.finished += ctx.get(dut.finished)
        if due is not None and not reduced:
            assert group.fault == due.fault
            assert list(group["values"])[: len(due.results)] == due.results
        # A sum's reciprocal uses the requantiser, too.
        _, soon = self.late[dut.OVERRIDE - 1]
        given = ctx.get(dut.override)
        if self.task.get("step") is Step.SUM:
            assert not (given.valid and given.right)
        else:
            share = soon.share if soon is not None else None
            assert given.valid == (share is not None)
            assert share is None or (given.multiplier, given.right) == share

    def _groups(self, step: Step, rows: np.ndarray, fault: float) -> list[Due]:
        """Return the groups of rows; lanes after the last element are rubbish."""
        rng, lanes = self.rng, self.sizes.lanes
        known = self.table & ((1 << BITS) - 1)
        found = known[rows.max(axis=1, keepdims=True) - rows]
        totals = ((found + (1 << 11)) >> 12).sum(axis=1)
        shares = list(zip(*(part.tolist() for part in quantize.shares(totals)), strict=True))
        groups = []
        for row, exponential, share in zip(rows, found, shares, strict=True):
            for at in range(0, len(row), lanes):
                some = row[at : at + lanes].tolist()
                rest = rng.integers(-(1 << 31), 1 << 31, lanes - len(some)).tolist()
                results = exponential[at : at + lanes].tolist() if step is Step.SHARE else some
                mine = share if step is Step.SHARE else None
                groups.append(Due(step, int(rng.random() < fault), some + rest, results, mine))
        return groups

    async def task_of(self, ctx: Any, step: Step, rows: np.ndarray, fault: float = 0.0) -> None:
        """Run a task whose elements are ``rows``; without NONE and SHARE, until it is finished."""
        rng = self.rng
        pause = float(rng.choice([0.0, 0.3]))
        await self.step(ctx, task_fields(rng, self.sizes.lanes, step, rows.shape))
        groups = self._groups(step, rows, fault)
        for due in groups:
            while rng.random() < pause:
                await self.step(ctx)
            assert not self.finished
            await self.step(ctx, due=due)
        if not groups[0].reduced:
            return
        for _ in range(800):
            if self.finished:
                break
            await self.step(ctx)
        assert self.finished == 1
        self.finished = 0


def rows_of(rng: np.random.Generator, lanes: int) -> np.ndarray:
    """Return random rows of int8: few or many, long or short, narrow or wide."""
    shapes = [(1, 1), (SOFTMAX_ROWS, 1), (3, 2 * lanes + 1), (5, max(1, lanes - 1)), (2, 4 * lanes)]
    shape = shapes[int(rng.integers(len(shapes)))]
    least, most = [(-128, 127), (100, 127), (126, 127), (-128, -101)][int(rng.integers(4))]
    return rng.integers(least, most, shape, endpoint=True)


@pytest.mark.parametrize("name", NAMES)
async def test_tasks_in_turn(name: str, rng: np.random.Generator) -> None:
    """SOFTMAX with faults and pauses, other tasks right before and after."""
    stage = Stage(name, rng)
    lane = requantiser(Requantizer.LATENCY, stage.product, stage.dut.scaled, rng)
    ctx = await pysim.simulation(stage.dut, background=[lane])
    await stage.write(ctx)
    for _ in range(5):
        rows = rows_of(rng, stage.sizes.lanes)
        fault = float(rng.choice([0.0, 0.3]))
        for step in (Step.MAXIMUM, Step.SUM, Step.SHARE):
            await stage.task_of(ctx, step, rows, fault)
        for _ in range(int(rng.integers(3))):
            await stage.task_of(ctx, Step.NONE, rows_of(rng, stage.sizes.lanes), 0.3)
    for _ in range(stage.dut.LATENCY):
        await stage.step(ctx)
    assert not stage.finished


async def test_the_greatest_sum(rng: np.random.Generator) -> None:
    """As many elements as a row may have, and greatest exponentials."""
    stage = Stage("edge", rng)
    stage.table[:] = (1 << BITS) - 1
    lane = requantiser(Requantizer.LATENCY, stage.product, stage.dut.scaled, rng)
    ctx = await pysim.simulation(stage.dut, background=[lane])
    await stage.write(ctx)
    rows = rng.integers(-128, 128, (2, SOFTMAX_ELEMENTS))
    for step in (Step.MAXIMUM, Step.SUM, Step.SHARE):
        await stage.task_of(ctx, step, rows)
    for _ in range(stage.dut.LATENCY):
        await stage.step(ctx)


async def test_wide_elements_pass(rng: np.random.Generator) -> None:
    """All 32 bits of elements of other tasks."""
    stage = Stage("micro", rng)
    ctx = await pysim.simulation(stage.dut)
    await stage.step(ctx, task_fields(rng, stage.sizes.lanes, Step.NONE, (9, 9)))
    for _ in range(100):
        values = rng.integers(-(1 << 31), 1 << 31, stage.sizes.lanes).tolist()
        due = Due(Step.NONE, int(rng.integers(2)), values, values)
        await stage.step(ctx, due=due if rng.random() < 0.7 else None)
