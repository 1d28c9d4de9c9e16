"""A word of wrong parity is reported for the instruction that used it, and only if used."""

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal
from vector_sizes import vector_sizes

from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY
from celosia.hw.memory.parameter_memory import ParameterMemory
from celosia.hw.vector.task import VectorSizes
from celosia.hw.vector.watch import Watch


class Task(NamedTuple):
    """A task as ``Watch`` sees it: channels of a pixel, whether it reads sums, or nothing."""

    channels: int = 0
    rows: bool = False
    constant: bool = False
    slot: int = 0


class Account:
    """Random events at a ``Watch``, and the results by its contract."""

    def __init__(self, rng: np.random.Generator, sizes: VectorSizes) -> None:
        self.rng = rng
        self.sizes = sizes
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        # In force in the cycle before, and now.
        self.tasks = deque([Task(), Task()], maxlen=2)
        self.place = 0
        # What was read and is checked later, the next cycle first: channels, and whose they are.
        self.rows: deque = deque([(0, 0)] * (ACCUMULATOR_LATENCY + 1))
        self.groups: deque = deque([(0, 0)] * (ParameterMemory.LATENCY + 1))
        self.lookups: deque = deque([(0, 0)])

    def _mask(self, width: int) -> int:
        return int(self.rng.integers(1 << width)) if self.rng.random() < 0.4 else 0

    def _happens(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _launched(self) -> Task:
        lanes = self.sizes.lanes
        rows = self._happens(0.5)
        channels = self.rng.integers(1, 1 + (self.sizes.columns if rows else 3 * lanes))
        return Task(int(channels), rows, not rows and self._happens(0.3), self._happens(0.5))

    def _group(self, task: Task) -> int:
        """Return the lanes of the next group of a pixel that are channels."""
        lanes = self.sizes.lanes
        left = task.channels - self.place * lanes
        self.place = 0 if left <= lanes else self.place + 1
        return 0 if task.constant else (1 << min(left, lanes)) - 1

    def step(self, ctx: Any, dut: Any) -> tuple[bool, int]:
        """Set all inputs of a cycle; return whether a word is wrong, and whose."""
        rng, lanes, columns = self.rng, self.sizes.lanes, self.sizes.columns
        before, task = self.tasks
        rows = task.rows and self._happens(0.5)
        group = task.channels > 0 and self._happens(0.6)
        read_wrong = before.channels > 0 and self._happens(0.15)
        added_wrong, oldest = self._happens(0.1), int(rng.integers(2))
        sums_wrong, channels_wrong = self._mask(columns), self._mask(lanes)
        values_wrong = self._mask(lanes)
        tag = {"slot": int(rng.integers(2)), "to_accumulators": int(rng.integers(2))}
        uses = [int(rng.integers(2)) for _ in range(2)]
        result = self._happens(0.5)

        self.rows.append(((1 << task.channels) - 1, task.slot) if rows else (0, 0))
        self.groups.append((self._group(task), task.slot) if group else (0, 0))
        found = result and not tag["to_accumulators"] and uses[tag["slot"]]
        self.lookups.append((-1 if found else 0, tag["slot"]))
        causes = [
            (added_wrong, oldest),
            *(
                (bool(mask & wrong), slot)
                for (mask, slot), wrong in (
                    (self.lookups.popleft(), values_wrong),
                    (self.groups.popleft(), channels_wrong),
                    (self.rows.popleft(), sums_wrong),
                )
            ),
            (read_wrong, before.slot),
        ]

        new = self._launched() if self._happens(0.1) else None
        self.tasks.append(new or task)
        ctx.set(dut.launch.valid, new is not None)
        if new is not None:
            self.place = 0
            last = new.channels - 1
            pysim.drive(ctx, dut.launch.task, group_last=last // lanes, lane_last=last % lanes)
            ctx.set(dut.launch.task.constant, new.constant)
            ctx.set(dut.launch.slot, new.slot)
        else:
            ctx.set(dut.launch.task.group_last, int(rng.integers(4)))
            ctx.set(dut.launch.task.lane_last, int(rng.integers(lanes)))
            ctx.set(dut.launch.slot, int(rng.integers(2)))
        words = {"sums_wrong": sums_wrong, "channels_wrong": channels_wrong}
        words |= {"values_wrong": values_wrong, "read_wrong": read_wrong}
        pysim.drive(
            ctx, dut, rows=rows, group=group, added_wrong=added_wrong, oldest=oldest, **words
        )
        ctx.set(dut.result, {"valid": result, "tag": tag})
        ctx.set(dut.endings, [{"use_table": use} for use in uses])
        slots = [slot for wrong, slot in causes if wrong]
        return bool(slots), slots[0] if slots else 0


@pytest.mark.parametrize("name", ["nano", "twelve", "full"])
async def test_blames_the_task_that_used_the_word(name: str, rng: np.random.Generator) -> None:
    """Any events at once, resets between them; words that are no channels are always wrong."""
    account = Account(rng, vector_sizes(name, parity=True))
    dut = Watch(sizes=account.sizes)
    reset = Signal()
    seen = {False: 0, True: 0}
    ctx = await pysim.simulation(ResetInserter(reset)(dut))
    for cycle in range(1000):
        wrong, slot = account.step(ctx, dut)
        resets = cycle % 100 == 99
        ctx.set(reset, resets)
        await ctx.tick()
        if resets:
            account.forget()
            wrong = False
        assert ctx.get(dut.wrong) == wrong, cycle
        assert not wrong or ctx.get(dut.wrong_slot) == slot, cycle
        seen[wrong] += 1
    assert min(seen.values()) > 150
