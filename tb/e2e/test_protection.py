"""Bits that flip in memories of a protected core: reported where they are used, only there."""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Const
from flips import command as flips
from flips.device import Array, Flip, FlipDevice, drawn
from networks import FullyConnected, write_fully_connected

from celosia.hw.arch import commands, isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Error, Instruction, Opcode, Unit
from celosia.hw.memory import parity
from celosia.hw.verilog.netlist import Cell
from celosia.hw.verilog.registers import Step
from celosia.hw.verilog.writer import Writer
from celosia.sim.check import footprint
from celosia.sim.check.footprint import Memory
from celosia.sim.model.machine import Machine
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.driver.core import RunResult
from celosia.sw.frontend.tflite import load
from celosia.sw.fuzz import stage
from celosia.sw.fuzz.programs.configurations import CONFIGURATIONS, variant
from celosia.sw.fuzz.programs.legal import legal
from celosia.sw.fuzz.programs.ordering import ordered

pytestmark = pytest.mark.usefixtures("verilator")

WIDE = variant(CONFIGURATIONS["wide"], protection="parity")
ODD = variant(CONFIGURATIONS["odd"], protection="parity")


@pytest.fixture
def device() -> Iterator[FlipDevice]:
    with FlipDevice(WIDE, memory_bytes=stage.SIZE) as made:
        yield made


def place(config: Config, array: Array, word: int) -> int:
    """Return the address of a word, as ``footprint`` counts in its memory."""
    match array.memory:
        case Memory.UNIFIED:
            return word * config.rows + array.numbers[0]
        case Memory.WEIGHTS:
            return word // (config.rows // config.weight_rows)
        case Memory.ACCUMULATORS:
            column, half = array.numbers
            return (half * config.accumulator_depth + word) * config.columns + column
        case Memory.PARAMETERS:
            return word * config.lanes + array.numbers[0]
        case _:
            return word >> 8


def users(program: Sequence[Instruction], config: Config, memory: Memory, at: int) -> set[int]:
    """Return the instructions that may read a place; MATMUL reads the sums that it made before."""
    found = set()
    for index, instruction in enumerate(program):
        for touch in footprint.touches(instruction, config):
            reads = not touch.write or instruction.opcode is Opcode.MATMUL
            if touch.memory is memory and reads and touch.pattern.bitmap(at, at)[0]:
                found.add(index)
    return found


def run(device: FlipDevice, program: Sequence[Instruction], flip: Flip | None = None) -> RunResult:
    code = commands.encode(program)
    device.write(stage.CODE, code)
    device.pending = flip
    return device.run(stage.CODE, len(code) // commands.WORD_BYTES)


def drawn_program(
    config: Config, rng: random.Random
) -> tuple[list[Instruction], np.ndarray, Machine]:
    """Return a legal program, external memory before it, and a machine model that has run it."""
    case = legal(config, rng)
    image = stage.content(config, np.random.default_rng(case.seed))
    image[stage.CODE : stage.CODE + len(case.code)] = np.frombuffer(case.code, np.uint8)
    machine = Machine(config, memory_bytes=stage.SIZE)
    machine.memory[:] = image
    machine.run(case.code)
    return commands.decode(case.code), image, machine


#: Fills every memory, and sums that the program does not make itself.
SETUP = ordered(stage.opening(WIDE), WIDE)
#: What uses some of it: two products, one of them added to sums, two passes, and a store.
FIRST, SECOND, DRAIN, ADD, STORE = range(1, 6)
MAIN = ordered(
    isa.assemble(f"""
        FILL destination_base=200 channels=8 value=5
        MATMUL x_count=4 x_stride=3 taps=16
        MATMUL x_count=2 x_stride=8 taps=8 unified=100 tile=3 accumulator=8 accumulate=1
        VECTOR source=ACCUMULATORS source_base=12 x_count=2 source_x_stride=1 channels=10 params=4 \
            per_channel=1 use_table=1 table=1 destination_base=300 destination_x_stride=12
        VECTOR source_base=50 destination=ACCUMULATORS destination_base=20 channels=6 mode=ADD
        STORE external={stage.DUMP} unified=400 length=20
    """),
    WIDE,
)

#: Memory, place, and who reports it: the unit and the instruction, or nobody.
USED = [
    (Memory.UNIFIED, 3, (Unit.MATRIX, FIRST)),
    (Memory.UNIFIED, 115, (Unit.MATRIX, SECOND)),
    (Memory.UNIFIED, 116, None),
    (Memory.UNIFIED, 55, (Unit.VECTOR, ADD)),
    (Memory.UNIFIED, 56, None),
    (Memory.UNIFIED, 203, None),
    (Memory.UNIFIED, 400, (Unit.STORE, STORE)),
    (Memory.UNIFIED, 419, (Unit.STORE, STORE)),
    (Memory.UNIFIED, 420, None),
    (Memory.WEIGHTS, 0, (Unit.MATRIX, FIRST)),
    (Memory.WEIGHTS, 1, (Unit.MATRIX, FIRST)),
    (Memory.WEIGHTS, 2, None),
    (Memory.WEIGHTS, 3, (Unit.MATRIX, SECOND)),
    (Memory.ACCUMULATORS, 0, None),
    (Memory.ACCUMULATORS, 9 * 12 + 11, (Unit.MATRIX, SECOND)),
    (Memory.ACCUMULATORS, 13 * 12 + 9, (Unit.VECTOR, DRAIN)),
    (Memory.ACCUMULATORS, 13 * 12 + 10, None),
    (Memory.ACCUMULATORS, 14 * 12, None),
    (Memory.ACCUMULATORS, 20 * 12 + 5, (Unit.VECTOR, ADD)),
    (Memory.ACCUMULATORS, 20 * 12 + 6, None),
    (Memory.ACCUMULATORS, 20 * 12 + 8, None),
    (Memory.PARAMETERS, 4, (Unit.VECTOR, DRAIN)),
    (Memory.PARAMETERS, 13, (Unit.VECTOR, DRAIN)),
    (Memory.PARAMETERS, 14, None),
    (Memory.PARAMETERS, 3, (Unit.VECTOR, ADD)),
    (Memory.TABLES, 1, (Unit.VECTOR, DRAIN)),
    (Memory.TABLES, 0, None),
]


def test_every_memory_is_watched_where_it_is_used(device, rng) -> None:
    """One bit changes between two programs, parity among them; the core goes on after the error."""
    numbers = np.random.default_rng(1)
    image = stage.content(WIDE, numbers)
    device.write(0, image.tobytes())

    def both(changes: Sequence[tuple[int, int, int]]) -> tuple[RunResult, bytes]:
        assert run(device, SETUP).error is None
        for change in changes:
            device.flip(*change)
        result = run(device, MAIN)
        return result, device.read(stage.DUMP, 20)

    clean, right = both([])
    assert clean.error is None and right == device.read(stage.SOURCE[0] + 400, 20)
    for memory, at, who in USED:
        words = [
            (number, word)
            for number, array in enumerate(device.arrays)
            if array.memory is memory
            for word in range(array.words)
            if place(WIDE, array, word) == at
        ]
        # One row and column of a tile; every entry of a table, since some of them is looked up.
        if memory is not Memory.TABLES:
            words = [words[int(rng.integers(len(words)))]]
        bit = int(rng.integers(device.arrays[words[0][0]].bits))
        result, got = both([(*word, bit) for word in words])
        assert result.error == (who and (Error.MEMORY, *who)), (memory, at, bit)
        if who is None:
            assert got == right and result.cycles == clean.cycles
        if memory in (Memory.UNIFIED, Memory.WEIGHTS, Memory.PARAMETERS, Memory.TABLES):
            # What is written anew is right; sums may be wrong until a program makes them.
            again, got = both([])
            assert again.error is None and got == right and again.cycles == clean.cycles
        else:
            for word in words:
                device.flip(*word, bit)


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Turns over all bits of words that are read while they are written, so their parity is wrong.

    Block memory promises nothing of such words: nobody may look at them. Returns the memories of
    the models that are built.
    """
    memories = ("\\bank", "\\half", "\\lane")
    found: list[str] = []
    plain = Writer.read_step

    def spoil(writer: Writer, cell: Cell) -> Step | None:
        name, at = cell.parameters["MEMID"], cell.ports["ADDR"]
        step = plain(writer, cell)
        if step is None or not name.startswith(memories):
            return step
        found.append(name)
        word = writer.signals.word(cell)
        (port,) = [
            other
            for other in writer.module.cells
            if other.kind == "$memwr_v2" and other.parameters["MEMID"] == name
        ]
        to = writer.signals.read(port.ports["ADDR"]).text
        met = f"({writer.signals.read(port.ports['EN'][:1]).text}) && ({to}) == ({writer.signals.read(at).text})"
        return Step(met, Step(value=f"~{word}"), step)

    monkeypatch.setattr(Writer, "read_step", spoil)
    monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path))
    return found


def test_flips_in_random_programs(seed: int, figure) -> None:
    check_flips(WIDE, 30, random.Random(seed), figure)


def test_no_false_alarm_where_a_read_meets_a_write(seed: int, spoilt: list[str], figure) -> None:
    """Programs on a core whose memories give wrong words there: right, whatever else flips."""
    check_flips(ODD, 30, random.Random(seed), figure)
    with FlipDevice(ODD, memory_bytes=stage.SIZE) as device:
        assert len(spoilt) == len(device.arrays)


def check_flips(
    config: Config, programs: int, rng: random.Random, figure: Callable[[str], None]
) -> None:
    """Whatever bit flips in whatever cycle: right, or named with an instruction that reads it.

    A program fills every memory first, so that nothing is left of the flip before.
    """
    ends = {"right": 0, "reported": 0}
    with FlipDevice(config, memory_bytes=stage.SIZE) as device:
        for _ in range(programs):
            program, image, machine = drawn_program(config, rng)
            device.write(0, image.tobytes())
            clean = run(device, program)
            assert clean.error is None and clean.cycles
            assert device.read(0, stage.SIZE) == machine.memory.tobytes()
            for _ in range(5):
                flip = drawn(device.arrays, rng, clean.cycles)
                array = device.arrays[flip.array]
                device.write(0, image.tobytes())
                result = run(device, program, flip)
                where = (array.name, flip, result.error)
                if result.error is None:
                    ends["right"] += 1
                    assert device.read(0, stage.SIZE) == machine.memory.tobytes(), where
                    assert result.cycles == clean.cycles
                    continue
                ends["reported"] += 1
                code, unit, index = result.error
                may = users(program, config, array.memory, place(config, array, flip.word))
                assert code is Error.MEMORY, where
                assert index in may and program[index].unit is unit, (where, may)
            device.write(0, image.tobytes())
            assert run(device, program).error is None
            assert device.read(0, stage.SIZE) == machine.memory.tobytes()
    assert min(ends.values()) > 10
    figure(f"flips in random programs on {config.name}: {ends}")


@pytest.mark.slow
def test_a_core_whose_checks_are_cut_goes_wrong_in_silence(seed, tmp_path, monkeypatch) -> None:
    """The test above fails for a core that keeps parity and never checks it."""
    monkeypatch.setattr(parity, "is_wrong", lambda word, bits: Const(0))
    monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path))
    config = variant(CONFIGURATIONS["least"], protection="parity")
    rng = random.Random(seed)
    silent = 0
    with FlipDevice(config, memory_bytes=stage.SIZE) as device:
        for _ in range(20):
            program, image, machine = drawn_program(config, rng)
            device.write(0, image.tobytes())
            clean = run(device, program)
            assert clean.cycles and device.read(0, stage.SIZE) == machine.memory.tobytes()
            for _ in range(5):
                device.write(0, image.tobytes())
                result = run(device, program, drawn(device.arrays, rng, clean.cycles))
                assert result.error is None
                silent += device.read(0, stage.SIZE) != machine.memory.tobytes()
    assert silent


def test_flips_during_an_inference(seed: int, figure) -> None:
    """The campaign of flips, on a small layer."""
    config = variant(CONFIGURATIONS["least"], protection="parity")
    numbers = np.random.default_rng(seed)
    weights = numbers.integers(-90, 90, (6, 24)).astype(np.int8)
    layer = FullyConnected(weights=weights, weight_scale=0.01, output_scale=0.5)
    program = compile_graph(load(write_fully_connected([layer], input_scale=0.1)), config, 1)
    inputs = numbers.integers(-128, 128, (40, 24)).astype(np.int8)
    plan = flips.Plan(program, config, seed, 0, inputs)
    plan = plan._replace(cycles=flips.cycles_of(plan))
    found = flips.run_batch(plan, range(40))
    assert all(one.right or one.reported for one in found)
    # What nobody reports is right without protection, too.
    assert all(one.bare for one in found if not one.reported)
    figure(
        f"flips during an inference: {sum(one.reported is not None for one in found)} of 40 reported"
    )


def test_a_flip_must_exist(device: FlipDevice) -> None:
    with pytest.raises(ValueError, match="array: wanted 0 to .*, got -1"):
        device.flip(-1, 0, 0)
    with pytest.raises(ValueError, match="wanted words below .*, bits below 33, got 0 and 33"):
        device.flip(0, 0, 33)
