"""Results written to the accumulators one group each cycle, against one after the other."""

from collections import deque
from typing import Any

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal
from vector_bench import sizes

from celosia.hw.arch.isa import Mode
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY
from celosia.hw.vector.accumulate import AccumulatorWriter, SumUpdate
from celosia.hw.vector.pipe import Pipe
from celosia.hw.vector.task import VectorSizes
from celosia.sim import quantize

ROWS = 3


class Rows:
    """Accumulators played, and what they should hold in the end.

    Rubbish comes where nothing is read, and where a sum is read as its write is told. Both are looked
    at later: reads by one cycle, writes by two, when their sums come.
    """

    def __init__(self, rng: np.random.Generator, given: VectorSizes) -> None:
        self.rng = rng
        self.columns = given.columns
        shape = (ROWS, given.columns)
        self.sums = rng.integers(-(2**31), 2**31, shape)
        self.expected = self.sums.copy()
        #: Sums of wrong parity: as they are, and as they are once all groups so far are written.
        self.wrong = rng.random(shape) < 0.1
        self.expected_wrong = self.wrong.copy()
        #: Where the sums of this cycle are written, and of the next; the row read in the one before.
        self.places = deque([(0, np.zeros(given.columns, bool))] * 2, 2)
        self.row: int | None = None
        self.read = deque([self.nothing()] * ACCUMULATOR_LATENCY, ACCUMULATOR_LATENCY)

    def nothing(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sums that nobody asked for, and which are wrong."""
        sums = self.rng.integers(-(2**31), 2**31, self.columns)
        return sums, self.rng.random(self.columns) < 0.5

    def answer(self, ctx: Any, dut: Any) -> None:
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
        # A group whose write is told is written, whatever stops the unit then.
        stopped = heeds = False
        density = rng.choice([0.3, 0.7, 1.0])
        for cycle in range(length + 12):
            rows.answer(ctx, dut)
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
            # Its write is told one cycle before.
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


def wrapped(value: int) -> int:
    """Return a number as 32 bits keep it."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize("lanes", [1, 4])
async def test_sums_against_the_reference(rng: np.random.Generator, lanes: int) -> None:
    """Corners first; each lane may take its own sum of the cycle before."""
    dut = SumUpdate(lanes=lanes)
    ctx = await pysim.simulation(dut)
    corners = [-(1 << 31), -1, 0, 1, (1 << 31) - 1]
    pairs = [(new, old) for new in corners for old in corners]
    sums = [0] * lanes
    for n in range(300):
        random = [[int(v) for v in rng.integers(-(1 << 31), 1 << 31, lanes)] for _ in range(2)]
        given = [[value] * lanes for value in pairs[n // 2]] if n < 2 * len(pairs) else random
        greatest = n % 2 if n < 2 * len(pairs) else int(rng.integers(2))
        again = int(rng.integers(1 << lanes)) if n >= 2 * len(pairs) else 0
        ctx.set(dut.new, given[0])
        ctx.set(dut.old, given[1])
        ctx.set(dut.again, again)
        ctx.set(dut.greatest, greatest)
        await ctx.tick()
        olds = [sums[lane] if again >> lane & 1 else given[1][lane] for lane in range(lanes)]
        results = zip(given[0], olds, strict=True)
        sums = [max(new, old) if greatest else wrapped(new + old) for new, old in results]
        assert list(ctx.get(dut.sums)) == sums


def test_no_lanes_are_refused() -> None:
    with pytest.raises(ValueError, match="lanes: wanted at least 1, got 0"):
        SumUpdate(lanes=0)
