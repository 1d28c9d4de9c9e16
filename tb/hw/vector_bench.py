"""Memories around a vector unit in simulation, and its instructions in plain NumPy."""

from collections import deque

import numpy as np
import pysim

from celosia.hw.arch import isa
from celosia.hw.arch.isa import Mode, Opcode, Rounding, Space, Unit, Window
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY
from celosia.hw.vector.task import VectorSizes
from celosia.hw.vector.unit import VectorUnit
from celosia.sim.model import quantize

VISIBLE = 3
READ_LATENCY = 6

SHAPES = {  # rows, columns, lanes, bus_bytes
    "nano": (4, 4, 1, 4),
    "micro": (8, 8, 2, 8),
    "wide": (4, 12, 2, 4),
    "twelve": (4, 12, 4, 4),
    "tall": (16, 4, 4, 16),
    "full": (4, 4, 4, 4),
    "edge": (16, 16, 8, 16),
}


def sizes(name, **changes):
    rows, columns, lanes, bus_bytes = SHAPES[name]
    return {
        "rows": rows,
        "columns": columns,
        "lanes": lanes,
        "unified_bytes": 64 * rows,
        "accumulator_depth": 16,
        "parameter_channels": 8 * lanes,
        "tables": 2,
        "bus_bytes": bus_bytes,
        **changes,
    }


def settings(*, bus_bytes, visible_cycles, **given):
    """Return the arguments of a vector unit."""
    return {
        "sizes": VectorSizes(**given),
        "bus_bytes": bus_bytes,
        "visible_cycles": visible_cycles,
    }


def loops(i, side, axes="xyz"):
    """Offsets of all pixels, or of a window's elements, innermost fastest."""
    counts = [getattr(i, f"{'window_' if side == 'window_' else ''}{a}_count") for a in axes]
    strides = [getattr(i, f"{side}{a}_stride") for a in axes]
    offsets = np.zeros(1, np.int64)
    for count, stride in zip(counts, strides, strict=True):
        offsets = (np.arange(count)[:, None] * stride + offsets[None, :]).reshape(-1)
    return offsets


def spread(i, side, rows):
    """Offset of each channel in the unified buffer."""
    c = np.arange(i.channels)
    return c + c // getattr(i, f"{side}run") * getattr(i, f"{side}skip") * rows


def factor(values):
    """Return the 16 lower bits, signed, of integers."""
    return (values.astype(np.int64) + (1 << 15)) % (1 << 16) - (1 << 15)


class State:
    """All memories that a vector unit sees, with random contents."""

    def __init__(self, rng, sizes):
        self.sizes = sizes
        s = sizes
        self.unified = rng.integers(-128, 128, s["unified_bytes"], np.int8)
        depth = 2 * s["accumulator_depth"]
        wide = rng.integers(-(2**31), 2**31, (depth, s["columns"]))
        shift = rng.integers(0, 31, (depth, s["columns"]))
        self.sums = (wide >> shift).astype(np.int32)
        self.sums[rng.random(self.sums.shape) < 0.1] = -(2**31)
        n = s["parameter_channels"]
        self.bias = rng.integers(-(2**31), 2**31, n) >> rng.integers(0, 31, n)
        self.multiplier = rng.integers(2**30, 2**31, n)
        self.multiplier[rng.random(n) < 0.1] = 0
        self.multiplier[rng.random(n) < 0.1] = 2**31 - 1
        self.left = np.where(rng.random(n) < 0.6, 0, rng.integers(0, 32, n))
        self.right = np.where(rng.random(n) < 0.2, 0, rng.integers(0, 32, n))
        self.tables = rng.integers(-128, 128, (s["tables"], 256), np.int8)
        if s.get("softmax"):
            # Of all magnitudes; bit 31 does not count.
            self.exponentials = rng.integers(0, 1 << 32, 256) >> rng.integers(0, 32, 256)

    def execute(self, i):
        """Run one instruction."""
        rows, lanes = self.sizes["rows"], self.sizes["lanes"]
        if i.opcode is Opcode.SOFTMAX:
            self._softmax(i)
            return
        to = loops(i, "destination_") + i.destination_base
        if i.opcode is Opcode.FILL:
            self.unified[to[:, None] + spread(i, "destination_", rows)] = i.value
            return
        c = np.arange(i.channels)
        p = i.params + (c if i.per_channel else c % lanes)
        parameters = self.bias[p], self.multiplier[p], self.left[p], self.right[p]
        elements = loops(i, "window_", "xy")
        for origin, row in zip(loops(i, "source_") + i.source_base, to, strict=True):
            if i.source == Space.ACCUMULATORS.value:
                x = self.sums[origin + elements, : i.channels].astype(np.int64)
            else:
                at = (origin + elements)[:, None] + spread(i, "source_", rows)
                x = self.unified[at].astype(np.int64)
            x = quantize.wrap32(x.sum(0)) if i.window == Window.SUM.value else x.max(0)
            h = quantize.requantize(x, *parameters, Rounding(i.rounding))
            if i.destination == Space.ACCUMULATORS.value:
                self._accumulate(i, row, h)
                continue
            y = quantize.finish(h, i.zero_point, i.low, i.high)
            if i.use_table:
                y = self.tables[i.table][y.view(np.uint8)]
            self.unified[row + spread(i, "destination_", rows)] = y

    def _softmax(self, i):
        x, y = (
            getattr(i, f"{side}_base")
            + np.arange(i.x_count)[:, None] * getattr(i, f"{side}_x_stride")
            + np.arange(i.channels)
            for side in ("source", "destination")
        )
        results = quantize.softmax(self.unified[x], self.exponentials & ((1 << 31) - 1))
        for at, row in zip(y, results, strict=True):
            self.unified[at] = row

    def _accumulate(self, i, row, h):
        old = self.sums[row, : i.channels]
        new = {
            Mode.OVERWRITE.value: h,
            Mode.ADD.value: quantize.wrap32(old.astype(np.int64) + h),
            Mode.MAX.value: np.maximum(old, h),
            Mode.MULTIPLY.value: factor(old) * factor(h),
            Mode.SQUARED_DIFFERENCE.value: factor(h.astype(np.int64) - old) ** 2,
        }[i.mode]
        self.sums[row, : i.channels] = new


class Bench:
    """A vector unit, memories that behave as its ports ask, and an account of what happened.

    ``make``: makes the unit, of its class and sizes.
    """

    def __init__(self, rng, *, stall=0.0, make=pysim.made, **sizes):
        self.rng = rng
        self.stall = stall
        self.sizes = sizes
        self.dut = make(VectorUnit, **settings(**sizes, visible_cycles=VISIBLE))
        self.state = State(rng, sizes)
        self.activity = []
        self.done = []
        self.faults = []
        self.reads = []
        self.writes = []
        self.touched = []
        self.cycle = 0
        self.fields = {}

    async def load_parameters(self, ctx, put, *, tables=True):
        """Write parameters, and tables, through the stream of the load unit."""
        state, size = self.state, self.sizes["bus_bytes"]
        n = self.sizes["parameter_channels"]
        raw = np.zeros((n, 16), np.uint8)
        raw[:, :4] = state.bias.astype("<i4").view(np.uint8).reshape(n, 4)
        raw[:, 4:8] = state.multiplier.astype("<u4").view(np.uint8).reshape(n, 4)
        raw[:, 8], raw[:, 9] = state.left, state.right
        table_bytes = state.tables.reshape(-1).view(np.uint8)
        if self.sizes.get("softmax"):
            table_bytes = np.append(table_bytes, state.exponentials.astype("<u4").view(np.uint8))
        if not tables:
            table_bytes = table_bytes[:0]
        for kind, content in ((0, raw.reshape(-1)), (1, table_bytes)):
            for at in range(0, len(content), size):
                beat = {
                    "kind": isa.Kind(kind),
                    "offset": at,
                    "data": content[at : at + size].tolist(),
                }
                await put(ctx, self.dut.parameters, beat)

    def _places(self, payload):
        rows, size = self.sizes["rows"], self.sizes["unified_bytes"]
        lanes = np.arange(rows)
        at = payload.address + lanes + np.array(list(payload.skip)) * rows
        mask = (payload.mask >> lanes & 1).astype(bool)
        return at, mask, bool((mask & (at >= size)).any())

    async def memories(self, ctx):
        """Play both buffers, for ever."""
        dut, rng, state = self.dut, self.rng, self.state
        columns = self.sizes["columns"]
        unified, sums = state.unified.copy(), state.sums.copy()
        self.unified_seen, self.sums_seen = unified, sums
        responses: deque = deque([None] * (READ_LATENCY - 1))
        pending: deque = deque([None] * (VISIBLE - 1))
        rows: deque = deque([[0] * columns] * (ACCUMULATOR_LATENCY - 2))
        # Rows to read of the cycle before; places to write of it and of the one before it.
        requested = None
        places: deque = deque([None, None])
        read_ready, write_ready = 1, 1
        read, write = dut.reads.request, dut.unified_write
        garbage = rng.integers(-(2**31), 2**31, (8, columns)).tolist()
        while True:
            ctx.set(read.ready, read_ready)
            ctx.set(write.ready, write_ready)
            (requests, request, writes, item, from_row, to_row, activity, done, bad, fault) = (
                await ctx.tick().sample(
                    read.valid,
                    read.payload,
                    write.valid,
                    write.payload,
                    dut.accumulator_port.read,
                    dut.accumulator_port.write,
                    dut.activity,
                    dut.done,
                    dut.fault_valid,
                    dut.fault,
                )
            )[2:]
            self.activity.append(activity)
            if done:
                self.done.append(self.cycle)
            if bad:
                self.faults.append((fault.code, fault.tag, self.cycle))
            # Responses to this cycle's requests come READ_LATENCY cycles after it.
            response = None
            if requests and read_ready:
                self.reads.append(self.cycle)
                at, mask, outside = self._places(request)
                inside = mask & (at < len(unified))
                self.touched += at[mask].tolist()
                found = np.where(inside, unified[np.minimum(at, len(unified) - 1)], 0)
                response = (found.astype(np.int8).view(np.uint8), outside)
            responses.append(response)
            response = responses.popleft()
            ctx.set(dut.reads.valid, response is not None)
            ctx.set(dut.reads.fault, bool(rng.integers(2)) if response is None else response[1])
            if response is not None:
                ctx.set(dut.reads.data, response[0].tolist())
            change = None
            if writes and write_ready:
                self.writes.append(self.cycle)
                at, mask, outside = self._places(item)
                inside = mask & (at < len(unified))
                values = np.array(list(item.data), np.uint8).view(np.int8)
                change = (at[inside], values[inside], outside)
            pending.append(change)
            change = pending.popleft()
            if change is not None:
                unified[change[0]] = change[1]
            ctx.set(dut.write_fault, change is not None and change[2])
            # The sums of a write come two cycles later, and then all reads after it see them.
            place = places.popleft()
            if place is not None:
                row, mask = place
                sums[row, mask] = np.array(list(to_row.sums))[mask]
                self.writes.append(self.cycle)
            # Rubbish comes at all other times, and for what is written in the cycle of its read.
            found = np.array(garbage[self.cycle % 8])
            if requested is not None:
                known = np.ones(columns, bool)
                if places[0] is not None and places[0][0] == requested:
                    known = ~places[0][1]
                found[known] = sums[requested, known]
                self.reads.append(self.cycle)
            rows.append(found.tolist())
            requested = from_row.row if from_row.enable else None
            place = None
            if to_row.enable:
                place = to_row.row, (to_row.mask >> np.arange(columns) & 1).astype(bool)
            places.append(place)
            ctx.set(dut.accumulator_port.sums, rows.popleft())
            read_ready = int(rng.random() >= self.stall)
            write_ready = int(rng.random() >= self.stall)
            self.cycle += 1

    async def issue(self, ctx, instruction, index):
        """Offer one instruction, and return the cycle in which it was taken."""
        port = self.dut.instruction
        ctx.set(port.payload.tag, index)
        # As in a core, other fields keep the values of instructions before.
        self.fields |= {"opcode": instruction.opcode, **instruction.fields}
        held = isa.UNIT_LAYOUTS[Unit.VECTOR].const(self.fields)
        ctx.set(port.payload.fields.as_value(), held.as_bits())
        ctx.set(port.valid, 1)
        while not ctx.get(port.ready):
            await ctx.tick()
        taken = self.cycle
        await ctx.tick()
        ctx.set(port.valid, 0)
        return taken

    async def settle(self, ctx):
        """Wait until the unit is idle."""
        while not ctx.get(self.dut.idle):
            await ctx.tick()
        for _ in range(VISIBLE + 1):
            await ctx.tick()

    async def play(self, ctx, rng, instructions):
        """Run instructions, stalled from the middle on, and compare all memories now and then."""
        for index, instruction in enumerate(instructions):
            self.stall = 0.0 if index < len(instructions) // 2 else 0.6
            self.state.execute(instruction)
            await pysim.rest(ctx, rng, self.stall)
            await self.issue(ctx, instruction, index)
            if rng.random() < 0.2:
                await self.settle(ctx)
                self.compare()
        await self.settle(ctx)
        self.compare()
        assert len(self.done) == len(instructions)
        assert not self.faults

    def compare(self):
        """Assert that the memories played hold what the plain model holds."""
        assert (self.sums_seen == self.state.sums).all()
        assert (self.unified_seen == self.state.unified).all()


def run(rng, name, instructions, *, stall=0.0, visit=None, limit=20_000, **changes):
    """Run ``instructions`` on random memories, compare; return the bench and the cycles."""
    bench = Bench(rng, stall=stall, **sizes(name, **changes))
    taken = []

    async def program(ctx):
        await bench.load_parameters(ctx, pysim.put, tables=False)
        for index, instruction in enumerate(instructions):
            bench.state.execute(instruction)
            taken.append(await bench.issue(ctx, instruction, index))
        if visit is not None:
            await visit(ctx, bench)
        await bench.settle(ctx)
        bench.compare()
        assert len(bench.done) == len(instructions)

    pysim.run(bench.dut, program, background=[bench.memories], cycles_limit=limit)
    return bench, taken


def span(cycles):
    return cycles[-1] - cycles[0] + 1
