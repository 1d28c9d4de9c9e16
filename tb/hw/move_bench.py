"""Common parts of the benches of load unit and store unit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from devices.axi import AxiMemory
from issued import issued_bits
from pysim import put, rest, run

from celosia.hw import streams
from celosia.hw.arch.isa import Error, Instruction, Opcode
from celosia.hw.arch.registers import Activity

MEMORY = 1 << 14

#: Sizes of a unit that moves sixteen bytes a cycle.
WIDE: dict[str, Any] = {"rows": 16, "bus_bytes": 16, "unified_bytes": 8192, "latency": 32}
#: Blocks of 64 rows: their length, pitch outside, and address outside.
BLOCKS = [(112, 112, 0), (112, 200, 5), (16, 16, 0), (3, 32, 1)]


@dataclass
class MoveBench:
    """A unit that moves blocks, a model of external memory, and what was seen of both."""

    rows: int = 4
    unified_bytes: int = 512
    bus_bytes: int = 4
    burst_beats: int = 4
    outstanding: int = 4
    latency: int = 5
    rng: Any = None
    stall: float = 0.0
    refuses: Callable[[int], bool] = lambda address: False
    refusal: int = 2

    cycle: int = 0
    taken: list = field(default_factory=list)
    done: list = field(default_factory=list)
    faults: list = field(default_factory=list)
    activity: list = field(default_factory=list)
    requested: list = field(default_factory=list)
    abort_at: int = 0
    asked_before: int = 0

    def memory_with(self, content: bytearray) -> AxiMemory:
        names = ("latency", "rng", "stall", "refuses", "refusal")
        options = {name: getattr(self, name) for name in names}
        return AxiMemory(
            content, data_bytes=self.bus_bytes, burst_beats=self.burst_beats, **options
        )

    def rests(self) -> bool:
        return self.rng is not None and self.rng.random() < self.stall

    async def issue(self, ctx, unit, instructions):
        shape = unit.instruction.payload.shape()
        for index, instruction in enumerate(instructions):
            await rest(ctx, self.rng, self.stall)
            tag = index % (1 << streams.TAG_BITS)
            bits = tag | issued_bits(instruction) << streams.TAG_BITS
            await put(ctx, unit.instruction, shape.from_bits(bits))
            self.taken.append(self.cycle)

    def note(self, done, fault_valid, fault, activity):
        if done:
            self.done.append(self.cycle)
        if fault_valid:
            self.faults.append((fault.code, fault.tag))
        self.activity.append(Activity(activity))

    def simulate(self, dut, unit, instructions, *background, idle, ends=None, cycles_limit=20_000):
        """Run until ``ends()``, by default until all are done, and then until ``idle(ctx)``."""
        ends = ends or (lambda: len(self.done) == len(instructions) or self.faults)

        async def until_idle(ctx):
            while not ends():
                await ctx.tick()
            while not idle(ctx):
                await ctx.tick()
            await ctx.tick().repeat(3)
            assert ctx.get(unit.idle)

        issue = partial(self.issue, unit=unit, instructions=instructions)
        run(dut, until_idle, background=(issue, *background), cycles_limit=cycles_limit)


def random_move(opcode: Opcode, bench: MoveBench, rng: Any) -> Instruction:
    length = int(rng.integers(1, 40 if rng.random() < 0.7 else 120))
    rows = int(rng.integers(1, 6))
    slack = bench.unified_bytes - length
    pitch = int(rng.integers(0, slack // max(rows - 1, 1) + 1))
    unified = int(rng.integers(0, slack - pitch * (rows - 1) + 1))
    return Instruction(
        opcode,
        external=int(rng.integers(0, MEMORY)),
        external_pitch=int(rng.integers(0, 300)),
        unified=unified,
        unified_pitch=pitch,
        rows=rows,
        length=length,
    )


def block(opcode: Opcode, length: int, pitch: int, external: int) -> Instruction:
    """Return one of ``BLOCKS``."""
    pitches = {"external_pitch": pitch, "unified_pitch": length}
    return Instruction(opcode, external=external, **pitches, rows=64, length=length)


def moves(instructions: Sequence[Instruction]):
    """Yield the addresses outside and inside of each byte that is moved, in order."""
    for one in instructions:
        for row in range(one.rows):
            for i in range(one.length):
                outside = (one.external + row * one.external_pitch + i) % MEMORY
                yield outside, one.unified + row * one.unified_pitch + i


def check_refused(bench: Any, instructions: Sequence[Instruction], error: Error) -> None:
    """Check that the first instruction is done, and that the second one ends in ``error``."""
    bench.run(instructions, ends=lambda: bench.faults)
    assert bench.faults == [(error, 1)]
    assert len(bench.done) == 1
