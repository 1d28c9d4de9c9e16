"""Examples of docs/design/units.md, simulated: each mark stands in the cycle of its signal."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pysim
import pytest
from issued import issued_bits

from celosia.hw.arch import commands
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode, Space, Unit
from celosia.hw.arch.presets import PRESETS
from celosia.hw.dma.load import LoadUnit
from celosia.hw.dma.sizes import LoadSizes, StoreSizes
from celosia.hw.dma.store import StoreUnit
from celosia.hw.matrix.sizes import MatrixSizes
from celosia.hw.matrix.unit import MatrixUnit
from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.hw.sequencer.sequencer import Sequencer
from celosia.hw.vector.task import VectorSizes
from celosia.hw.vector.unit import VectorUnit

PAGE = Path(__file__).resolve().parents[2] / "docs/design/units.md"
CONFIG = PRESETS["nano"]
MATRIX = replace(MatrixSizes.of(CONFIG), forwards=True, skid=True, serial_skips=False)
VECTOR = VectorSizes.of(CONFIG, lanes=2, skid=True, requantizer="pipelined")
LATENCY = UnifiedBuffer.READ_LATENCY


def examples() -> dict[str, dict[str, set[int]]]:
    """Return for each example, by its last row, the cycles of the marks of each row."""
    found = {}
    for part in re.findall(r"^cycle.*?(?=\n\n|\n```)", PAGE.read_text("utf-8"), re.M | re.S):
        header, *rows = part.splitlines()
        cycles = {match.end(): match[0] for match in re.finditer(r"\d+|\.\.", header)}
        marks = {}
        for row in rows:
            name, *_ = re.split(r"  +", row)
            ends = (m.end() for m in re.finditer(r"\S+", row) if m.start() >= len(name))
            marks[name] = {int(cycles[end]) for end in ends if cycles[end] != ".."}
        shown = {int(cycle) for cycle in cycles.values() if cycle != ".."}
        found[rows[-1].split()[0]] = marks | {"shown": shown}
    return found


def issue(ctx, port, instruction: Instruction) -> None:
    """Offer an instruction."""
    ctx.set(port.payload.fields.as_value(), issued_bits(instruction))
    ctx.set(port.valid, 1)


def check(
    dut, name: str, setup: Callable, probes: dict, before: Callable | None = None, first: int = 0
) -> None:
    """Run a unit from cycle ``first`` on; compare the cycles in which its signals are set."""
    wanted = examples()[name]
    seen: dict[str, set[int]] = {probe: set() for probe in probes}

    async def bench(ctx) -> None:
        for _ in range(8):
            await ctx.tick()
        setup(ctx)
        for cycle in range(first, max(wanted["shown"]) + 1):
            if before:
                before(ctx, cycle, seen)
            for probe, signal in probes.items():
                if ctx.get(signal) and cycle in wanted["shown"]:
                    seen[probe].add(cycle)
            taken = hasattr(dut, "instruction") and ctx.get(dut.instruction.ready)
            await ctx.tick()
            if taken:
                ctx.set(dut.instruction.valid, 0)

    pysim.run(dut, bench)
    assert seen == {probe: wanted[probe] for probe in probes}


def test_sequencer():
    dut: Any = Sequencer(config=CONFIG)
    program = [
        Instruction(Opcode.LOAD, external=0x40, post=1),
        Instruction(Opcode.STORE, external=0x80, wait=1),
    ]
    words = list(commands.words(commands.encode(program)))

    def setup(ctx) -> None:
        ctx.set(dut.program_length, len(words) + 1)
        ctx.set(dut.load.instruction.ready, 1)

    def before(ctx, cycle: int, seen) -> None:
        ctx.set(dut.start, cycle == -1)
        ctx.set(dut.beats.valid, cycle in range(len(words)))
        ctx.set(dut.beats.payload.data, words[cycle] if cycle in range(len(words)) else 0)
        ctx.set(dut.load.done, cycle == 13)
        if ctx.get(dut.load.instruction.valid):
            assert ctx.get(dut.load.instruction.payload.fields.load.external) == 0x40

    probes = {
        "beats": dut.beats.valid,
        "Check.o": dut.program.o.valid,
        "load.instruction": dut.load.instruction.valid,
        "load.done": dut.load.done,
        "Issue.post of load": dut.issues[Unit.LOAD].post,
        "Semaphores.granted, store": dut.semaphores.granted[Unit.STORE.value],
        "store.instruction": dut.store.instruction.valid,
    }
    check(dut, "store.instruction", setup, probes, before, first=-2)


def test_end_of_a_program():
    dut: Any = Sequencer(config=CONFIG)
    program = [Instruction(Opcode.STORE), Instruction(Opcode.HALT)]
    words = list(commands.words(commands.encode(program)))

    def setup(ctx) -> None:
        ctx.set(dut.program_length, len(words))
        ctx.set(dut.request.ready, 1)
        ctx.set(dut.store.instruction.ready, 1)
        for unit in (dut.load, dut.store, dut.matrix, dut.vector):
            ctx.set(unit.idle, 1)

    def before(ctx, cycle: int, seen) -> None:
        ctx.set(dut.start, cycle == 0)
        ctx.set(dut.beats.valid, cycle in (1, 2))
        ctx.set(dut.beats.payload.data, words[cycle - 1] if cycle in (1, 2) else 0)
        ctx.set(dut.beats.payload.last, cycle == 2)
        pysim.drive(ctx, dut.store, idle=cycle not in range(10, 22), done=cycle == 21)

    probes = {
        "Sequencer.start": dut.start,
        "Supervisor.running": dut.supervisor.running,
        "beats": dut.beats.valid,
        "store.instruction": dut.store.instruction.valid,
        "store.done": dut.store.done,
        "Dispatch.quiet": dut.dispatch.quiet,
        "Dispatch.halted": dut.dispatch.halted,
        "Supervisor.flush": dut.supervisor.flush,
        "Sequencer.done": dut.status.done,
    }
    check(dut, "Sequencer.done", setup, probes, before, first=-1)


def sizes(config: Config, *names: str) -> dict[str, Any]:
    """Return fields of a configuration."""
    return {name: getattr(config, name) for name in names}


def test_load():
    dut = LoadUnit(sizes=LoadSizes.of(CONFIG, burst_beats=4, outstanding=4), visible_cycles=4)

    def setup(ctx) -> None:
        for stream in (dut.request, dut.write):
            ctx.set(stream.ready, 1)
        issue(ctx, dut.instruction, Instruction(Opcode.LOAD, length=24))

    def before(ctx, cycle: int, seen) -> None:
        ctx.set(dut.beats.valid, 6 <= cycle < 12)
        ctx.set(dut.beats.payload.last, cycle in (9, 11))

    probes = {
        "load.instruction": dut.instruction.valid,
        "LoadUnit.request": dut.request.valid,
        "LoadUnit.beats": dut.beats.valid,
        "LoadUnit.write": dut.write.valid,
        "load.done": dut.done,
    }
    check(dut, "load.done", setup, probes, before)


def test_store():
    dut = StoreUnit(sizes=StoreSizes.of(CONFIG, burst_beats=4))
    responses = set()

    def setup(ctx) -> None:
        for ready in (dut.reads.request.ready, dut.bus.awready, dut.bus.wready):
            ctx.set(ready, 1)
        issue(ctx, dut.instruction, Instruction(Opcode.STORE, length=24))

    def before(ctx, cycle: int, seen) -> None:
        ctx.set(dut.reads.valid, cycle - LATENCY in seen["StoreUnit.reads.request"])
        ctx.set(dut.bus.bvalid, cycle in responses)
        if ctx.get(dut.bus.wvalid) and ctx.get(dut.bus.wlast):
            responses.add(cycle + 3)

    probes = {
        "store.instruction": dut.instruction.valid,
        "bus.awvalid": dut.bus.awvalid,
        "StoreUnit.reads.request": dut.reads.request.valid,
        "StoreUnit.reads.valid": dut.reads.valid,
        "bus.wvalid": dut.bus.wvalid,
        "bus.bvalid": dut.bus.bvalid,
        "store.done": dut.done,
    }
    check(dut, "store.done", setup, probes, before)


def test_matrix():
    dut = MatrixUnit(sizes=MATRIX, read_latency=LATENCY)

    def setup(ctx) -> None:
        ctx.set(dut.reads.request.ready, 1)
        issue(ctx, dut.instruction, Instruction(Opcode.MATMUL, taps=8, x_count=4, x_stride=4))

    def before(ctx, cycle: int, seen) -> None:
        ctx.set(dut.reads.valid, cycle - LATENCY in seen["MatrixUnit.reads.request"])

    probes = {
        "matrix.instruction": dut.instruction.valid,
        "WeightBuffer.start": dut.control.start,
        "SystolicArray.load, row": dut.array.load,
        "MatrixUnit.reads.request": dut.reads.request.valid,
        "SystolicArray.switch": dut.array.switch,
        "MatrixUnit.reads.valid": dut.reads.valid,
        "Accumulators.enable": dut.accumulators.enable,
        "matrix.done": dut.done,
    }
    check(dut, "matrix.done", setup, probes, before)


def test_moved_weights():
    sizes = replace(MATRIX, activation_weights=True)
    dut = MatrixUnit(sizes=sizes, read_latency=LATENCY)

    def setup(ctx) -> None:
        ctx.set(dut.reads.request.ready, 1)
        move = Instruction(Opcode.MOVE_WEIGHTS, taps=4, x_count=4, x_stride=4)
        issue(ctx, dut.instruction, move)

    def before(ctx, cycle: int, seen) -> None:
        if cycle == 5:
            issue(ctx, dut.instruction, Instruction(Opcode.MATMUL, taps=4, x_count=2, x_stride=4))

    probes = {
        "matrix.instruction": dut.instruction.valid,
        "MatrixUnit.reads.request": dut.reads.request.valid,
        "MoveOrder.hold": dut.control.prefetcher.hold,
        "WeightBuffer.write": dut.buffer.write.valid,
        "WeightBuffer.start": dut.control.start,
        "SystolicArray.load, row": dut.array.load,
        "SystolicArray.switch": dut.array.switch,
    }
    check(dut, "SystolicArray.switch", setup, probes, before)


def test_vector():
    dut = VectorUnit(sizes=VECTOR, bus_bytes=CONFIG.bus_bytes, visible_cycles=4)
    instruction = Instruction(
        Opcode.VECTOR,
        source=Space.ACCUMULATORS,
        x_count=2,
        channels=4,
        source_x_stride=1,
        destination_x_stride=4,
    )

    def setup(ctx) -> None:
        ctx.set(dut.unified_write.ready, 1)
        issue(ctx, dut.instruction, instruction)

    probes = {
        "vector.instruction": dut.instruction.valid,
        "accumulator_port.read": dut.accumulator_port.read.enable,
        "Pipe.result": dut.writers.writer.result.valid,
        "unified_write": dut.unified_write.valid,
        "vector.done": dut.done,
    }
    check(dut, "vector.done", setup, probes)


def test_softmax():
    dut = VectorUnit(
        sizes=replace(VECTOR, softmax=True), bus_bytes=CONFIG.bus_bytes, visible_cycles=4
    )

    def setup(ctx) -> None:
        for stream in (dut.reads.request, dut.unified_write):
            ctx.set(stream.ready, 1)
        issue(ctx, dut.instruction, Instruction(Opcode.SOFTMAX, channels=4))

    def before(ctx, cycle: int, seen) -> None:
        ctx.set(dut.instruction.valid, cycle <= 26)
        ctx.set(dut.reads.valid, cycle - LATENCY in seen["reads.request"])

    probes = {
        "SOFTMAX offered": dut.instruction.valid,
        "reads.request": dut.reads.request.valid,
        "unified_write": dut.unified_write.valid,
        "SOFTMAX done": dut.done,
    }
    check(dut, "SOFTMAX", setup, probes, before)


@pytest.mark.parametrize("name", examples())
def test_every_example_has_a_test(name: str):
    assert f'"{name}"' in Path(__file__).read_text("utf-8")
