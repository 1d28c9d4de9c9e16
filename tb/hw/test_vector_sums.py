"""Products, sums and maxima, and sums that earlier groups are still writing."""

from collections import deque
from typing import Any

import numpy as np
import pysim
import pytest
from vector_sizes import factor, sizes

from celosia.hw.vector.sums import AGES, Forwarding, SumUpdate
from celosia.hw.vector.task import VectorSizes


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
        subtracts = n % 2 if n < 2 * len(pairs) else int(rng.integers(2))
        again = int(rng.integers(1 << lanes)) if n >= 2 * len(pairs) else 0
        ctx.set(dut.new, given[0])
        ctx.set(dut.old, given[1])
        ctx.set(dut.again, again)
        ctx.set(dut.subtracts, subtracts)
        await ctx.tick()
        olds = [sums[lane] if again >> lane & 1 else given[1][lane] for lane in range(lanes)]
        results = zip(given[0], olds, strict=True)
        sums = [max(new, old) if subtracts else wrapped(new + old) for new, old in results]
        assert list(ctx.get(dut.sums)) == sums


def test_no_lanes_are_refused() -> None:
    with pytest.raises(ValueError, match="lanes: wanted at least 1, got 0"):
        SumUpdate(lanes=0)


@pytest.mark.parametrize("primitive", ["portable", "logic"])
async def test_products_against_the_reference(primitive: str, rng: np.random.Generator) -> None:
    """Products and squared differences in any order; of each factor 16 bits count."""
    dut = SumUpdate(lanes=2, products=True, primitive=primitive)
    ctx = await pysim.simulation(dut)
    ends = np.array([-(2**15), 2**15 - 1, 1 - 2**15, 0, 1, -1, 2**15, 2**31 - 1, -(2**31)])
    pairs = np.array(np.meshgrid(ends, ends)).reshape(2, -1).repeat(4, axis=1)
    pairs = np.hstack([pairs, rng.integers(-(2**31), 2**31, (2, 100))]).reshape(2, -1, 2)
    # The product of this cycle is taken `LATER` cycles after it, and seen one cycle after that.
    wanted: deque[Any] = deque([None] * SumUpdate.LATER)
    for n, (old, new) in enumerate(zip(*pairs, strict=True)):
        squared = n % 2
        ctx.set(dut.old, old.tolist())
        ctx.set(dut.new, new.tolist())
        ctx.set(dut.squared, squared)
        ctx.set(dut.subtracts, squared)
        wanted.append((factor(new - old) ** 2 if squared else factor(old) * factor(new)).tolist())
        due = wanted.popleft()
        ctx.set(dut.multiplied, due is not None)
        await ctx.tick()
        assert due is None or list(ctx.get(dut.sums)) == due


class Way:
    """Groups on their way, the youngest first, and the results of the cycles so far."""

    def __init__(self, rng: np.random.Generator, shape: VectorSizes) -> None:
        self.rng = rng
        self.shape = shape
        nothing = {"row": 0, "group": 0, "mask": 0, "valid": False}
        self.groups: deque[dict[str, Any]] = deque([nothing] * 9, 9)
        self.written: deque[np.ndarray] = deque([np.zeros(shape.lanes, np.int64)] * 3, 3)

    def numbers(self, count: int) -> np.ndarray:
        """Return random numbers of 32 bits."""
        return self.rng.integers(-(2**31), 2**31, count)

    def step(self) -> None:
        """Add a group, which may be none, and the result of this cycle."""
        self.groups.appendleft(
            {
                "row": int(self.rng.integers(2)),
                "group": int(self.rng.integers(self.shape.column_groups)),
                "mask": int(self.rng.integers(1 << self.shape.lanes)),
                "valid": bool(self.rng.random() < 0.7),
            }
        )
        self.written.appendleft(self.numbers(self.shape.lanes))

    def latest(self, lane: int) -> int | None:
        """Return how many cycles before the group of age 4 another one wrote its sum of a lane."""
        group = self.groups[4]
        for distance in range(1, 5):
            other = self.groups[4 + distance]
            alike = other["row"] == group["row"] and other["group"] == group["group"]
            if other["valid"] and alike and other["mask"] >> lane & 1:
                return distance
        return None


@pytest.mark.parametrize(
    ("name", "options"), [("nano", {}), ("twelve", {}), ("twelve", {"requantizer": "sequential"})]
)
async def test_forwarding(name: str, options: dict[str, Any], rng: np.random.Generator) -> None:
    """The latest of four earlier groups counts; none of them with the sequential requantiser."""
    given = sizes(name, **options)
    del given["bus_bytes"]
    shape = VectorSizes(**given)
    dut = Forwarding(sizes=shape)
    ctx = await pysim.simulation(dut)
    way = Way(rng, shape)
    for _ in range(400):
        way.step()
        sums, joins = way.numbers(shape.columns), bool(rng.random() < 0.8)
        seen = list(way.groups)[:AGES]
        ctx.set(
            dut.groups, [{key: group[key] for key in ("row", "group", "mask")} for group in seen]
        )
        ctx.set(dut.valid, sum(group["valid"] << age for age, group in enumerate(seen)))
        ctx.set(dut.joins, joins)
        ctx.set(dut.sums, sums.tolist())
        ctx.set(dut.written, way.written[0].tolist())
        old, used, again = [0] * shape.lanes, 0, 0
        for lane in range(shape.lanes if joins else 0):
            column = way.groups[4]["group"] * shape.lanes + lane
            distance = None if options else way.latest(lane)
            again |= (distance == 1) << lane
            value = way.written[distance - 2][lane] if distance else sums[column]
            old[lane] = int(value)
            used |= (distance is None and way.groups[4]["mask"] >> lane & 1) << column
        assert ctx.get(dut.used) == used
        await ctx.tick()
        assert ctx.get(dut.again) == again
        found = list(ctx.get(dut.old))
        kept = [lane for lane in range(shape.lanes) if not again >> lane & 1]
        assert [found[lane] for lane in kept] == [old[lane] for lane in kept]
