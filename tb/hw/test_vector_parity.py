"""Flipped bits around and in a vector unit: reported where an instruction uses them only."""

from collections import deque
from typing import Any

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal
from vector_bench import READ_LATENCY, Bench, loops, sizes, spread
from vector_programs import Programs

from celosia.hw.arch.isa import Error, Mode, Opcode, Space
from celosia.hw.memory import parameter_memory, table_memory
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY

#: Of instructions.
SHORT = {"y_count": 1, "z_count": 1, "window_y_count": 1}


@pytest.fixture
def memories(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Parameters' and tables' memories of a unit, one a lane."""
    made: dict[str, list[Any]] = {}
    for module, name in ((parameter_memory, "parameters"), (table_memory, "tables")):
        kept = made[name] = []

        class Recorded(module.Memory):
            def __init__(self, *arguments: Any, kept: list[Any] = kept, **options: Any) -> None:
                super().__init__(*arguments, **options)
                kept.append(self)

        monkeypatch.setattr(module, "Memory", Recorded)
    return made


class Flips:
    """Bits that are flipped in the memories around a unit and in it: one place at a time.

    A place is a kind and, for ``unified``, an address; for ``sums``, a row and a column; for
    ``parameters``, a channel; for ``tables``, a table.
    """

    def __init__(self, bench: Bench, memories: dict[str, list[Any]]) -> None:
        self.bench = bench
        self.memories = memories
        self.place: tuple = ("none",)
        self.bit = 0

    def used(self, i: Any) -> dict[str, set[tuple]]:
        """Return the places that an instruction reads."""
        lanes, tables = self.bench.sizes["lanes"], i.use_table
        c = np.arange(i.channels)
        origins = loops(i, "source_") + i.source_base
        elements = (origins[:, None] + loops(i, "window_", "xy")).reshape(-1)
        rows = elements if i.source == Space.ACCUMULATORS.value else []
        if i.destination == Space.ACCUMULATORS.value:
            tables = 0
            joined = i.mode != Mode.OVERWRITE.value
            rows = [*rows, *(loops(i, "destination_") + i.destination_base if joined else [])]
        bytes_ = []
        if i.source == Space.UNIFIED.value:
            bytes_ = (elements[:, None] + spread(i, "source_", self.bench.sizes["rows"])).flat
        return {
            "unified": {(int(at),) for at in bytes_},
            "sums": {(int(row), column) for row in rows for column in range(i.channels)},
            "parameters": {(int(p),) for p in i.params + (c if i.per_channel else c % lanes)},
            "tables": {(i.table,)} if tables else set(),
        }

    def written(self, i: Any) -> dict[str, set[tuple]]:
        """Return the places that an instruction writes."""
        to = loops(i, "destination_") + i.destination_base
        if i.opcode is Opcode.VECTOR and i.destination == Space.ACCUMULATORS.value:
            return {"sums": {(int(row), column) for row in to for column in range(i.channels)}}
        at = to[:, None] + spread(i, "destination_", self.bench.sizes["rows"])
        return {"unified": {(int(place),) for place in at.flat}}

    def blamed(self, program: list[Any]) -> int | None:
        """Return the first instruction that uses the place before it is written."""
        kind, *rest = self.place
        for index, i in enumerate(program):
            # What a FILL reads is nothing.
            if i.opcode is Opcode.VECTOR and tuple(rest) in self.used(i).get(kind, ()):
                return index
            if tuple(rest) in self.written(i).get(kind, ()):
                return None
        return None

    def choose(self, program: list[Any], rng: np.random.Generator) -> None:
        """Choose a place: more often than not one that the last instruction uses."""
        s = self.bench.sizes
        bounds = {
            "unified": (s["unified_bytes"],),
            "sums": (2 * s["accumulator_depth"], s["columns"]),
            "parameters": (s["parameter_channels"],),
            "tables": (s["tables"],),
        }
        last = program[-1]
        used = self.used(last) if last.opcode is Opcode.VECTOR else {}
        near = sorted(kind for kind, places in used.items() if places)
        kind = str(rng.choice(near or list(bounds)))
        self.bit = int(rng.integers(9))
        self.place = kind, *(int(rng.integers(bound)) for bound in bounds[kind])
        if near and rng.random() < 0.6:
            places = sorted(used[kind])
            self.place = kind, *places[int(rng.integers(len(places)))]

    def turn(self, ctx: Any) -> None:
        """Flip the place if it lies in a memory of the unit; all of a table, in one lane."""
        kind, *rest = self.place
        lanes = self.memories.get(kind, [])
        if not lanes:
            return
        lane = rest[0] % len(lanes)
        words = [rest[0] // len(lanes)]
        if kind == "tables":
            lane, words = 0, list(range(256 * rest[0], 256 * rest[0] + 256))
        for word in words:
            ctx.set(lanes[lane].data[word], ctx.get(lanes[lane].data[word]) ^ 1 << self.bit)

    async def verdicts(self, ctx: Any) -> None:
        """Tell the unit of wrong words that it reads in the memories around it, for ever."""
        bench, dut = self.bench, self.bench.dut
        columns = bench.sizes["columns"]
        responses = deque([False] * READ_LATENCY)
        rows: deque = deque([None] * ACCUMULATOR_LATENCY)
        while True:
            read, write = dut.reads.request, dut.unified_write
            requests, request, writes, item, from_row, to_row = (
                await ctx.tick().sample(
                    read.valid & read.ready,
                    read.payload,
                    write.valid & write.ready,
                    write.payload,
                    dut.accumulator_port.read,
                    dut.accumulator_port.write,
                )
            )[2:]
            kind, *rest = self.place
            wrong = {False: set(), True: set()}
            for happens, payload in ((requests, request), (writes, item)):
                if happens and kind == "unified":
                    at, mask, _ = bench._places(payload)
                    wrong[payload is item] = set(at[mask].tolist()) & {rest[0]}
            responses.append(bool(wrong[False]))
            ctx.set(dut.reads.wrong, responses.popleft())
            row = None
            if from_row.enable:
                row = 1 << rest[1] if kind == "sums" and from_row.row == rest[0] else 0
            rows.append(row)
            row = rows.popleft()
            # Bytes without a request may be wrong.
            anything = int(bench.rng.integers(1 << columns))
            ctx.set(dut.accumulator_port.wrong, anything if row is None else row)
            healed = kind == "sums" and to_row.enable and to_row.row == rest[0]
            if wrong[True] or (healed and to_row.mask >> rest[1] & 1):
                self.place = ("none",)


@pytest.mark.parametrize(
    ("name", "requantizer"),
    [("nano", "pipelined"), ("twelve", "pipelined"), ("full", "sequential")],
)
def test_flips_around_and_in_a_unit(
    name: str, requantizer: str, rng: np.random.Generator, memories: dict[str, list[Any]]
) -> None:
    """A wrong word stops the unit with the instruction that used it, and only if one did."""
    made = sizes(name, tables=1, parity=True, requantizer=requantizer)
    # Its memories are recorded when it makes them.
    bench = Bench(rng, make=pysim.anew, **made)
    flips = Flips(bench, memories)
    programs = Programs(rng, bench.sizes)
    dut = bench.dut
    reset = Signal()
    seen: dict[Any, int] = {}

    async def attempt(ctx: Any) -> None:
        program = [programs.any() for _ in range(int(rng.integers(1, 4)))]
        flips.choose(program, rng)
        kind, blamed = flips.place[0], flips.blamed(program)
        flips.turn(ctx)
        bench.done.clear()
        bench.faults.clear()
        for index, instruction in enumerate(program):
            bench.state.execute(instruction)
            port = dut.instruction
            while not ctx.get(port.ready) and not bench.faults:
                await ctx.tick()
            if not bench.faults:
                await bench.issue(ctx, instruction, 10 + index)
        await bench.settle(ctx)
        seen[kind, blamed is not None] = seen.get((kind, blamed is not None), 0) + 1
        if blamed is None:
            assert not bench.faults, (flips.place, program)
            assert len(bench.done) == len(program)
            bench.compare()
        else:
            assert [fault[:2] for fault in bench.faults] == [(Error.MEMORY, 10 + blamed)]
            assert len(bench.done) <= blamed
            bench.state.unified[:], bench.state.sums[:] = bench.unified_seen, bench.sums_seen
        if kind in memories:
            flips.turn(ctx)
        flips.place = ("none",)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)

    async def program(ctx: Any) -> None:
        await bench.load_parameters(ctx, pysim.put)
        for _ in range(12):
            await attempt(ctx)

    backgrounds = [bench.memories, flips.verdicts]
    pysim.run(ResetInserter(reset)(dut), program, background=backgrounds, cycles_limit=60_000)
    assert {wrong for _, wrong in seen} == {False, True}, seen
