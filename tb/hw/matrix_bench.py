"""The matrix unit between a unified buffer and a vector unit in Python, with NumPy beside."""

from typing import Any

import numpy as np
import pysim
from issued import issued_bits

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.matrix.sizes import MatrixSizes
from celosia.hw.matrix.unit import MatrixUnit
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY

READ_LATENCY = 6
#: Fields of a MATMUL that has no others.
MATMUL = isa.Instruction(isa.Opcode.MATMUL).fields


def issued(index, instruction):
    """Return the payload of an instruction stream."""
    opcode = instruction.opcode
    fields = isa.LAYOUTS[opcode].from_bits(issued_bits(instruction))
    return {
        "tag": index % (1 << streams.TAG_BITS),
        "fields": {opcode.name.lower(): fields},
    }


def matmul(index, fields):
    """Return the payload of a MATMUL with some fields."""
    return issued(index, isa.Instruction(isa.Opcode.MATMUL, **fields))


def sizes(*, rows, blocks=0, **given):
    """Return sizes of a matrix unit; ``blocks``: passes of the longest MOVE_WEIGHTS, or 0."""
    standard = {
        "columns": max(1, blocks) * rows,
        "unified_bytes": 64 * rows,
        "weight_tiles": 8,
        "accumulator_depth": 16,
        "bus_bytes": 4,
        "activation_weights": blocks > 0,
    }
    return MatrixSizes(rows=rows, **(standard | given))


def pixels(dut, fields):
    """Yield the outputs of a ``PassAddresses`` for each pixel of each pass, as MATMUL defines."""
    f, of = MATMUL | fields, dut.sizes
    move = fields.get("opcode") is isa.Opcode.MOVE_WEIGHTS
    base = f["tile"] * of.rows if move else f["accumulator"]
    # MATMUL stays in its half of the accumulators, MOVE_WEIGHTS in the weight buffer.
    room = dut.weight_rows if move else of.accumulator_depth
    steps = -(-f["taps"] // of.rows)
    count = f["x_count"] * f["y_count"] * f["z_count"]
    for step in range(steps):
        pixel = 0
        for z in range(f["z_count"]):
            for y in range(f["y_count"]):
                for x in range(f["x_count"]):
                    origin = x * f["x_stride"] + y * f["y_stride"] + z * f["z_stride"]
                    address = f["unified"] + origin + step * of.rows
                    row = base + pixel
                    lanes = np.arange(of.rows) + step * of.rows < f["taps"]
                    yield {
                        "address": address,
                        "row": row,
                        "accumulate": int(not move and (step > 0 or f["accumulate"])),
                        "mask": int(lanes @ (1 << np.arange(of.rows))),
                        "first": int(pixel == 0),
                        "last": int(pixel == count - 1),
                        "final": int(step == steps - 1 and pixel == count - 1),
                        "outside": int(address >= of.unified_bytes or row // room != base // room),
                        **({"move": int(move)} if of.blocks else {}),
                        **({"block": step} if move else {}),
                    }
                    pixel += 1


class Bench:
    """A matrix unit, and a unified buffer and a vector unit made of Python."""

    def __init__(
        self,
        *,
        rows,
        columns,
        weight_rows=1,
        depth=16,
        tiles=8,
        stall=0.0,
        seed=0,
        read_latency=READ_LATENCY,
        parity=False,
        **form,
    ):
        self.read_latency, self.parity = read_latency, parity
        # The request whose response has bytes of wrong parity, the one that is refused.
        self.wrong: int | None = None
        self.refused: int | None = None
        self.rows, self.columns, self.depth = rows, columns, depth
        self.unified_bytes = 64 * rows
        self.rng = np.random.default_rng(seed)
        self.stall = stall
        self.bus_bytes = 4
        self.dut = pysim.made(
            MatrixUnit,
            sizes=sizes(
                rows=rows,
                columns=columns,
                weight_tiles=tiles,
                weight_rows=weight_rows,
                accumulator_depth=depth,
                dsp_columns=columns // 2,
                parity=parity,
                **form,
            ),
            read_latency=read_latency,
        )
        self.unified = self.rng.integers(-128, 128, self.unified_bytes)
        self.tiles = self.rng.integers(-128, 128, (tiles, rows, columns))
        self.sums = np.zeros((2 * depth, columns), np.int64)
        self.fired = []
        self.cycle = self.elapsed = 0

    def matmul(self, **fields):
        """Run the instruction on NumPy and return it."""
        i = isa.Instruction(isa.Opcode.MATMUL, **fields)
        steps = -(-i.taps // self.rows)
        weights = self.tiles[i.tile : i.tile + steps].reshape(-1, self.columns)[: i.taps]
        for p, vector in enumerate(self.vectors(i)):
            result = vector @ weights
            row = i.accumulator + p
            old = self.sums[row] if i.accumulate else 0
            self.sums[row] = (result + old + 2**31) % 2**32 - 2**31
        return i

    def vectors(self, i):
        """Return the bytes of each pixel of an instruction."""
        origins = [
            x * i.x_stride + y * i.y_stride + z * i.z_stride
            for z in range(i.z_count)
            for y in range(i.y_count)
            for x in range(i.x_count)
        ]
        k = np.arange(i.taps)
        taps = i.unified + k + k // i.run * i.skip * self.rows
        return [self.unified[taps + origin] for origin in origins]

    def move(self, **fields):
        """Run a MOVE_WEIGHTS on NumPy and return it."""
        i = isa.Instruction(isa.Opcode.MOVE_WEIGHTS, **fields)
        rows = self.tiles.reshape(-1, self.columns)
        for n, vector in enumerate(self.vectors(i)):
            row = rows[i.tile * self.rows + n]
            row[:] = 0
            row[: i.taps] = vector
        return i

    def execute(self, opcode=isa.Opcode.MATMUL, **fields):
        """Run an instruction on NumPy and return it."""
        return (self.matmul if opcode is isa.Opcode.MATMUL else self.move)(**fields)

    async def memory(self, ctx):
        """Respond to requests after ``read_latency`` cycles; run in the background."""
        pending: list[Any] = [([0] * self.rows, None)] * (self.read_latency - 1)
        number = None
        while True:
            ctx.set(self.dut.reads.request.ready, int(self.rng.random() >= self.stall))
            valid, ready, request = (
                ctx.get(self.dut.reads.request.valid),
                ctx.get(self.dut.reads.request.ready),
                ctx.get(self.dut.reads.request.payload),
            )
            taken = valid and ready
            response = [0] * self.rows
            pending.append((response, len(self.fired) if taken else None))
            if taken:
                self.fired.append(self.cycle)
                for lane in range(self.rows):
                    address = request.address + lane + request.skip[lane] * self.rows
                    if request.mask >> lane & 1:
                        response[lane] = int(self.unified[address]) & 255
            await ctx.tick()
            self.cycle += 1
            if self.parity:
                # One cycle after the response.
                ctx.set(self.dut.reads.wrong, number is not None and number == self.wrong)
            due, number = pending.pop(0)
            ctx.set(self.dut.reads.data, due)
            ctx.set(self.dut.reads.fault, number is not None and number == self.refused)

    async def write_tiles(self, ctx, tiles=None):
        stream = self.dut.weights
        for tile, rows in enumerate(self.tiles if tiles is None else tiles):
            for row, weights in enumerate(rows):
                for block in range(-(-self.columns // self.bus_bytes)):
                    beat = [int(w) & 255 for w in weights[block * 4 : block * 4 + 4]]
                    beat += [0] * (4 - len(beat))
                    await pysim.put(
                        ctx, stream, {"tile": tile, "row": row, "block": block, "data": beat}
                    )
        for _ in range(3):
            await ctx.tick()

    async def read_row(self, ctx, row):
        ctx.set(self.dut.accumulator_port.read.row, row)
        await ctx.tick().repeat(ACCUMULATOR_LATENCY)
        return np.array([ctx.get(self.dut.accumulator_port.sums[j]) for j in range(self.columns)])

    def run(self, programs):
        """Run lists of field sets and compare the accumulators at the end; return the cycles."""
        loaded = self.tiles.copy()
        instructions = [self.execute(**fields) for fields in programs]
        done = []

        async def feed(ctx):
            await self.write_tiles(ctx, loaded)
            start = self.cycle
            for index, instruction in enumerate(instructions):
                await pysim.put(ctx, self.dut.instruction, issued(index, instruction))
            while len(done) < len(instructions):
                await ctx.tick()
            self.elapsed = self.cycle - start
            assert ctx.get(self.dut.idle)
            for row in range(2 * self.depth):
                got = await self.read_row(ctx, row)
                assert np.array_equal(got, self.sums[row]), f"row {row}"

        async def count(ctx):
            async for _, _, finished in ctx.tick().sample(self.dut.done):
                if finished:
                    done.append(self.cycle)

        pysim.run(self.dut, feed, background=[self.memory, count], cycles_limit=50_000)
        return self.elapsed
