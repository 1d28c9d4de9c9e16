"""Results written to the accumulators one group each cycle, against one after the other."""

from collections import deque
from typing import Any

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal
from vector_sizes import factor, sizes

from celosia.hw.arch.isa import PRODUCT_MODES, Mode
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY
from celosia.hw.vector.accumulate import AccumulatorWriter
from celosia.hw.vector.pipe import Pipe
from celosia.hw.vector.sums import SumUpdate
from celosia.hw.vector.task import VectorSizes
from celosia.sim.model import quantize

ROWS = 3


class Rows:
    """Accumulators played, and what they should hold in the end.

    Rubbish comes where nothing is read, and where a sum is read as its write is announced. Both are
    looked at later: reads by one cycle, writes by two, when their sums come.
    """

    def __init__(self, rng: np.random.Generator, given: VectorSizes) -> None:
        self.rng = rng
        self.columns = given.columns
        shape = (ROWS, given.columns)
        self.sums = rng.integers(-(2**31), 2**31, shape)
        self.expected = self.sums.copy()
        #: Sums of wrong parity: now, and once all groups so far are written.
        self.wrong = rng.random(shape) < 0.1
        self.expected_wrong = self.wrong.copy()
        #: Where the sums of this cycle and of the next are written; the row read before.
        #: before.
        self.places = deque([(0, np.zeros(given.columns, bool))] * 2, 2)
        self.row: int | None = None
        self.read = deque([self.nothing()] * ACCUMULATOR_LATENCY, ACCUMULATOR_LATENCY)

    def nothing(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sums without a request, which are wrong."""
        sums = self.rng.integers(-(2**31), 2**31, self.columns)
        return sums, self.rng.random(self.columns) < 0.5

    def respond(self, ctx: Any, dut: Any) -> None:
        """Give the sums of a cycle, and which of those of the cycle before were wrong."""
        ctx.set(dut.sums, self.read[1 - ACCUMULATOR_LATENCY][0].tolist())
        wrong = np.flatnonzero(self.read[-ACCUMULATOR_LATENCY][1])
        ctx.set(dut.sums_wrong, sum(1 << int(column) for column in wrong))

    def look(self, ctx: Any, dut: Any) -> None:
        """Do what the ports ask for in a cycle."""
        read, write = ctx.get(dut.accumulator_read), ctx.get(dut.accumulator_write)
        row, mask = self.places[0]
        self.sums[row % ROWS, mask] = np.array(list(write.sums))[mask]
        self.wrong[row % ROWS, mask] = False
        sums, wrong = self.nothing()
        if self.row is not None:
            row, mask = self.places[1]
            known = ~mask | (row != self.row)
            sums[known], wrong[known] = self.sums[self.row, known], self.wrong[self.row, known]
        self.read.append((sums, wrong))
        self.row = read.row if read.enable else None
        mask = np.array([write.mask >> c & 1 for c in range(self.columns)], bool)
        self.places.append((write.row, mask & bool(write.enable)))

    def join(self, group: dict[str, Any], mode: Mode, new: np.ndarray, lanes: int) -> bool:
        """Do what a group should; return whether it uses a sum of wrong parity."""
        lane = np.flatnonzero([group["mask"] >> n & 1 for n in range(lanes)])
        place = group["address"], group["group"] * lanes + lane
        old, new = self.expected[place], new[lane]
        joined = {
            Mode.OVERWRITE: new,
            Mode.ADD: quantize.wrap32(old + new),
            Mode.MAX: np.maximum(old, new),
            Mode.MULTIPLY: factor(old) * factor(new),
            Mode.SQUARED_DIFFERENCE: factor(new - old) ** 2,
        }
        self.expected[place] = joined[mode]
        used = mode is not Mode.OVERWRITE and bool(self.expected_wrong[place].any())
        self.expected_wrong[place] = False
        return used


@pytest.mark.parametrize("name", ["nano", "twelve"])
async def test_groups_of_two_tasks(name: str, rng: np.random.Generator) -> None:
    """Groups of few rows in any order; the last one of an episode cannot be written."""
    given = sizes(name)
    del given["bus_bytes"]
    shape = VectorSizes(**given, parity=True)
    lanes, groups = shape.lanes, shape.column_groups
    dut = AccumulatorWriter(sizes=shape)
    reset = Signal()

    def group(**changes: Any) -> dict[str, Any]:
        return {
            "address": int(rng.integers(ROWS)),
            "mask": (1 << int(rng.integers(1, lanes + 1))) - 1,
            "group": int(rng.integers(groups)),
            "last": int(rng.integers(2)),
            "outside": 0,
            **changes,
        }

    async def episode(ctx: Any, length: int) -> None:
        rows = Rows(rng, shape)
        modes = [Mode(int(mode)) for mode in rng.integers(0, 3, 2)]
        ctx.set(dut.endings, [{"mode": mode} for mode in modes])
        # Of the groups on their way: values, and what the cycle of `scaled` should tell.
        way: deque[Any] = deque([None] * Pipe.SOON)
        writes: Any = None
        # A group whose write is announced is written, whatever stops the unit then.
        stopped = heeds = False
        density = rng.choice([0.3, 0.7, 1.0])
        for cycle in range(length + 12):
            rows.respond(ctx, dut)
            ctx.set(dut.stop, stopped)
            comes, to_sums = (bool(rng.random() < share) for share in (density, 0.9))
            slot = int(rng.integers(2))
            bad = cycle >= length
            cause = int(rng.integers(2))
            place = group(outside=int(bad and cause))
            tag = {"slot": slot, "to_accumulators": to_sums, "fault": int(bad and not cause)}
            ctx.set(dut.soon, {"valid": comes, "tag": tag})
            ctx.set(dut.descriptor, place)
            there = comes and to_sums
            assert ctx.get(dut.pop) == there
            joins = modes[slot] is not Mode.OVERWRITE
            reads = there and joins and not bad and not stopped
            assert ctx.get(dut.accumulator_read.enable) == reads
            told = None
            if there:
                values = rng.integers(-(2**31), 2**31, lanes)
                used = not bad and rows.join(place, modes[slot], values, lanes)
                told = values, slot, bad, used, place["last"]
            way.append(told)
            now = way.popleft()
            values = rng.integers(-(2**31), 2**31, lanes) if now is None else now[0]
            ctx.set(dut.scaled, values.tolist())
            fault = now is not None and now[2] and not heeds
            assert ctx.get(dut.fault) == fault
            assert ctx.get(dut.wrong) == (now is not None and now[3])
            # Its write is announced one cycle before.
            soon = way[0]
            tells = soon is not None and not soon[2] and not stopped
            assert ctx.get(dut.accumulator_write.enable) == tells
            assert ctx.get(dut.finished) == (writes is not None and writes[4])
            rows.look(ctx, dut)
            writes = None if now is None or now[2] or heeds else now
            heeds, stopped = stopped, stopped or fault
            await ctx.tick()
        assert (rows.sums == rows.expected).all()
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)

    ctx = await pysim.simulation(ResetInserter(reset)(dut))
    for length in (1, 4, 5, 40, 80, 120, 120, 120):
        await episode(ctx, length)


@pytest.mark.parametrize("name", ["nano", "twelve"])
async def test_products(name: str, rng: np.random.Generator) -> None:
    """Tasks one after the other, of which some multiply: these are written two cycles later."""
    given = sizes(name, elementwise_products=True)
    del given["bus_bytes"]
    shape = VectorSizes(**given, parity=True)
    lanes, groups = shape.lanes, shape.column_groups
    dut = AccumulatorWriter(sizes=shape)
    rows = Rows(rng, shape)
    ctx = await pysim.simulation(dut)
    # What the coming cycles should show, the next one's first.
    coming: deque[dict[str, Any]] = deque([])

    def then(cycles: int, **shown: Any) -> None:
        while len(coming) <= cycles:
            coming.append({})
        coming[cycles] |= shown

    async def step(**soon: Any) -> None:
        rows.respond(ctx, dut)
        now = coming.popleft() if coming else {}
        ctx.set(dut.soon.valid, bool(soon))
        ctx.set(dut.scaled, now.get("scaled", rng.integers(-(2**31), 2**31, lanes).tolist()))
        shown = {name: ctx.get(getattr(dut, name)) for name in ("finished", "fault", "wrong")}
        shown["enable"] = ctx.get(dut.accumulator_write.enable)
        assert shown == {name: now.get(name, 0) for name in shown}
        rows.look(ctx, dut)
        await ctx.tick()

    for _ in range(30):
        mode = Mode(int(rng.integers(5)))
        late = SumUpdate.LATER if mode in PRODUCT_MODES else 0
        ctx.set(dut.endings, [{"mode": mode}] * 2)
        places = [(row, group) for row in range(ROWS) for group in range(groups)]
        chosen = rng.permutation(len(places))[: int(rng.integers(1, len(places) + 1))]
        for n, (row, number) in enumerate(places[k] for k in chosen):
            while rng.random() < 0.3:
                await step()
            place = {"address": row, "group": number, "mask": (1 << lanes) - 1, "outside": 0}
            last = n == len(chosen) - 1
            ctx.set(dut.descriptor, place | {"last": last})
            ctx.set(dut.soon.tag, {"to_accumulators": 1})
            values = rng.integers(-(2**31), 2**31, lanes)
            wrong = rows.join(place, mode, values, lanes)
            then(Pipe.SOON - 1 + late, enable=1)
            then(Pipe.SOON, scaled=values.tolist(), wrong=wrong)
            then(Pipe.SOON + 1 + late, finished=last)
            await step(valid=1)
        # Until the last sums are written; further apart in the unit.
        for _ in range(Pipe.SOON + SumUpdate.LATER + 2):
            await step()
    assert (rows.sums == rows.expected).all()
    # A group outside the accumulators.
    ctx.set(dut.endings, [{"mode": Mode.MULTIPLY}] * 2)
    ctx.set(dut.descriptor.outside, 1)
    then(Pipe.SOON + SumUpdate.LATER, fault=1)
    await step(valid=1)
    for _ in range(12):
        await step()
