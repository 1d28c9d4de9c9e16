"""Windows combined and cut into groups, against plain arithmetic."""

from typing import Any

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal

from celosia.hw.arch.isa import Window
from celosia.hw.vector.window import WindowUnit
from celosia.sim.model import quantize


@pytest.mark.parametrize(
    ("columns", "lanes", "group_cycles"),
    [(4, 1, 1), (12, 4, 1), (4, 4, 1), (36, 2, 1), (4, 1, 5), (12, 4, 2), (4, 4, 3)],
)
def test_windows(columns: int, lanes: int, group_cycles: int, rng: np.random.Generator) -> None:
    """Elements with and without pauses, windows as close as they may be, rubbish in between."""
    dut = WindowUnit(columns=columns, lanes=lanes, group_cycles=group_cycles)
    reset = Signal()

    def element(**fields: Any) -> dict[str, Any]:
        sums = rng.integers(-(2**31), 2**31, columns) >> int(rng.integers(31))
        ends = rng.choice([-(2**31), 2**31 - 1], columns)
        sums = np.where(rng.random(columns) < 0.1, ends, sums)
        rubbish = {name: int(rng.integers(2)) for name in ("first", "last", "fault")}
        groups = int(rng.integers(columns // lanes))
        return {"values": sums, "groups_last": groups, **rubbish, "valid": 0, **fields}

    async def bench(ctx: Any) -> None:
        # Groups to come, one for each cycle they stay, the next cycle's first: values, fault, and
        # whether the group is new.
        groups: list[tuple[list[int], bool, bool]] = []
        # Of the element that the unit has taken in: the groups that it ends with, if there is one.
        entered: list[tuple[list[int], bool, bool]] | None = None

        async def step(
            now: dict[str, Any], launched: Window | None = None, ending: Any = ()
        ) -> None:
            nonlocal entered
            ctx.set(dut.element, {**now, "values": now["values"].tolist()})
            ctx.set(dut.launch, launched is not None)
            ctx.set(dut.window, Window(int(rng.integers(2))) if launched is None else launched)
            stays = len(groups) > (group_cycles > 1)
            assert ctx.get(dut.busy) == (stays or entered is not None)
            assert ctx.get(dut.group.valid) == (bool(groups) and groups[0][2])
            if groups:
                values, fault, _ = groups.pop(0)
                assert list(ctx.get(dut.group["values"])) == values
                assert ctx.get(dut.group.fault) == fault
            groups.extend(entered or ())
            entered = list(ending) if now["valid"] else None
            await ctx.tick()

        async def rest(share: float) -> None:
            while rng.random() < share:
                await step(element())

        for _ in range(12):
            window = Window(int(rng.integers(2)))
            await rest(0.3)
            while groups or entered is not None:
                await step(element())
            await step(element(), window)
            share = float(rng.choice([0.0, 0.5]))
            for _ in range(4):
                count, last = int(rng.integers(1, 5)), int(rng.integers(columns // lanes))
                taken = []
                for n in range(count):
                    await rest(share)
                    # The window before has left by when this one ends.
                    while n == count - 1 and len(groups[1:]) + len(entered or ()) > 1:
                        await step(element())
                    fields = {"first": n == 0, "fault": int(rng.random() < 0.1), "valid": 1}
                    taken.append(element(**fields, last=n == count - 1))
                    if n < count - 1:
                        await step(taken[-1])
                taken[-1]["groups_last"] = last
                values = np.array([one["values"] for one in taken])
                whole = quantize.wrap32(values.sum(0)) if window is Window.SUM else values.max(0)
                fault = any(one["fault"] for one in taken)
                cut = whole.reshape(-1, lanes)[: last + 1]
                stay = [cycle == 0 for cycle in range(group_cycles)]
                ending = [(row.tolist(), fault, new) for row in cut for new in stay]
                await step(taken[-1], ending=ending)
            if rng.random() < 0.3:
                await pysim.pulse(ctx, reset)
                groups.clear()
                entered = None
        while groups or entered:
            await step(element())

    pysim.run(ResetInserter(reset)(dut), bench)
