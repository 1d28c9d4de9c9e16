"""The whole core between AxiRam and AxiLiteMaster, against the machine."""

from typing import Any

import cocotb
import numpy as np
from cocotbext.axi import AxiResp
from cosim.bench import Bench
from host import Host, check_damage, failure_of
from networks import FullyConnected, write_fully_connected

from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import CODE_BITS, REGISTERS, WORD_BYTES
from celosia.hw.arch.config import PROGRAM_BYTES, Config
from celosia.hw.arch.isa import Instruction, Opcode, Space
from celosia.hw.arch.registers import MAGIC, OFFSETS, VERSION, Control, Status
from celosia.hw.core import Core
from celosia.hw.top import Top
from celosia.sim.check import footprint
from celosia.sim.check.schedule import listing
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.fuzz.programs.ordering import ordered
from celosia.sw.fuzz.stage import CODE, DUMP, SIZE, SOURCE, TARGET, closing, opening

HALT = Instruction(Opcode.HALT)


def make(config: Config) -> Any:
    return Top(Core(config=config))


async def started(dut: Any, size: int = SIZE) -> Host:
    bench = Bench(dut, make)
    await bench.start()
    return Host(bench, size=size)


async def run_good(host: Host, count: int, *, whole: bool = True) -> None:
    """Run a random program without races on both and compare.

    It shows all of the unified buffer in external memory, and all sums too where it is ``whole``.
    """
    middle = [host.generator.any() for _ in range(count)]
    shown = closing(host.config)[: None if whole else 1]
    program = ordered([*opening(host.config), *middle, *shown], host.config)
    words = commands.encode(program)
    host.write_memory(CODE, words)
    host.machine.run(words, check=True)
    error = await host.run_words(words)
    assert error is None, f"{error}: {program}"
    host.compare(str(program))


@cocotb.test()
async def fill_first(dut: Any) -> None:
    """FILL gives its constant, known in every bit, before anything was read."""
    host = await started(dut)
    channels = host.config.columns
    program = [
        Instruction(
            Opcode.FILL, x_count=3, destination_x_stride=channels, channels=channels, value=-77
        ),
        Instruction(Opcode.FENCE),
        Instruction(Opcode.STORE, external=TARGET[0], length=3 * channels),
        HALT,
    ]
    words = commands.encode(program)
    host.write_memory(CODE, words)
    host.machine.run(words)
    assert await host.run_words(words) is None
    host.compare("the constant")


@cocotb.test()
async def random_programs(dut: Any) -> None:
    host = await started(dut)
    for _ in range(host.bench.options["programs"]):
        host.fill_memory()
        await run_good(host, host.bench.rng.randint(10, host.bench.options["longest"]))
        await host.counters()


@cocotb.test()
async def registers(dut: Any) -> None:
    host = await started(dut)
    assert await host.read("magic") == MAGIC
    assert await host.read("version") == VERSION
    assert await host.read("fingerprint") == host.config.fingerprint
    await host.write("watchdog", 12345)
    assert await host.read("watchdog") == 12345
    last = max(OFFSETS.values())
    assert (await host.registers.read(last + 4, 4)).resp == AxiResp.DECERR
    assert (await host.registers.write(last + 4, bytes(4))).resp == AxiResp.DECERR
    assert (await host.registers.write(OFFSETS["magic"], bytes(4))).resp == AxiResp.SLVERR
    assert await host.read("magic") == MAGIC


@cocotb.test()
async def network(dut: Any) -> None:
    """Layers of fully connected neurons, as the compiler makes them."""
    host = await started(dut, 1 << 16)
    numbers = host.bench.numbers
    widths = host.bench.options["widths"]
    layers = [
        FullyConnected(
            weights=numbers.integers(-127, 128, (channels, taps)).astype(np.int8),
            weight_scale=0.01,
            bias=numbers.integers(-3000, 3000, channels).astype(np.int32),
            output_scale=0.1 * float(np.sqrt(taps)),
            output_zero_point=int(numbers.integers(-128, 128)),
            activation="RELU",
        )
        for taps, channels in zip(widths, widths[1:], strict=False)
    ]
    model = load(write_fully_connected(layers, input_scale=0.05, input_zero_point=3))
    program = compile_graph(model, host.config, host.bench.options["batch"])
    assert program.memory_bytes <= host.memory.size
    for segment in program.segments:
        host.write_memory(segment.address, segment.data)
    (port,) = program.inputs
    for round_ in range(2):
        inputs = numbers.integers(0, 256, program.batch * port.bytes_per_item, np.uint8)
        host.write_memory(port.address, inputs.tobytes())
        for section in (program.setup, program.main)[round_:]:
            host.write_memory(section.address, section.code)
            host.machine.run(section.code)
            assert await host.run(section.address, section.words) is None
            host.compare("a section of the network")
    counters = await host.counters()
    assert counters["matrix"]["busy"]


def wrong_instructions(host: Host) -> list[Instruction | bytes]:
    """Return instructions and words that end a program, of every unit and kind."""
    config = host.config
    size, rows = config.unified_bytes, config.accumulator_rows
    running = [
        Instruction(Opcode.LOAD, external=SOURCE[0], unified=size - 3, length=4),
        Instruction(Opcode.LOAD, external=SIZE - 5, length=9),
        Instruction(Opcode.LOAD_WEIGHTS, tile=config.weight_tiles - 1, tiles=2),
        Instruction(Opcode.LOAD_PARAMS, external=1 << 24),
        Instruction(Opcode.STORE, external=TARGET[0], unified=size - 1, length=2),
        Instruction(Opcode.STORE, external=1 << 30, length=3),
        Instruction(Opcode.MATMUL, unified=size - 1, taps=2),
        Instruction(Opcode.MATMUL, accumulator=config.accumulator_depth - 1, y_count=2),
        Instruction(Opcode.VECTOR, destination_base=size - 1, channels=2),
        Instruction(
            Opcode.VECTOR,
            source=Space.ACCUMULATORS,
            source_base=rows - 1,
            y_count=2,
            source_y_stride=1,
        ),
        Instruction(Opcode.FILL, destination_base=size - 2, channels=5),
        Instruction(Opcode.VECTOR, wait=1 << 11),
    ]
    channels = next(r.code for r in REGISTERS[isa.Unit.VECTOR] if r.name == "channels")
    words = (
        15,
        Opcode.FENCE.value | 1 << 31,
        channels,
        REGISTERS[isa.Unit.STORE][-1].code | size + 1 << CODE_BITS,
    )
    return [*running, *(word.to_bytes(WORD_BYTES, "little") for word in words)]


def busy_program(host: Host, wrong: Instruction | bytes) -> bytes:
    """Return a program that keeps every unit busy while ``wrong`` runs."""
    config = host.config
    length = config.unified_bytes // 2
    around = [
        Instruction(Opcode.LOAD, external=SOURCE[0], unified=length, length=length),
        Instruction(Opcode.STORE, external=TARGET[0], external_pitch=64, rows=6, length=60),
        Instruction(Opcode.MATMUL, x_count=config.accumulator_depth, taps=3 * config.rows),
        Instruction(
            Opcode.VECTOR,
            source=Space.ACCUMULATORS,
            x_count=8,
            source_base=config.accumulator_depth,
            source_x_stride=1,
            channels=config.columns,
        ),
    ]
    host.bench.rng.shuffle(around)
    place = host.bench.rng.randrange(5)
    return commands.encode([*around[:place], wrong, *around[place:], HALT])


def stored(words: bytes, host: Host) -> list[np.ndarray]:
    """Return the addresses that the stores of a program name, up to its first error."""
    return [
        footprint.external_block(instruction).addresses().ravel()
        for instruction in listing(words, host.config).instructions
        if instruction.opcode is Opcode.STORE
    ]


@cocotb.test()
async def errors(dut: Any) -> None:
    """Wrong programs: error, soft reset, and a good program runs."""
    host = await started(dut)
    host.fill_memory()
    wrong = wrong_instructions(host)
    for word in host.bench.rng.sample(wrong, host.bench.options["wrong"]):
        words = busy_program(host, word)
        before = host.machine.memory.copy()
        expected = failure_of(host.machine, words)
        host.machine.memory[:] = before
        assert expected is not None
        await host.write("watchdog", 400)
        got = await host.run_words(words)
        assert got == expected, f"wanted {expected}, got {got}: {words.hex()}"
        await host.reset()
        await host.memory.stays_quiet(30)
        check_damage(host, words.hex(), stored(words, host))
    await host.write("watchdog", 1 << 20)
    await run_good(host, 4, whole=False)


def past_the_end(config: Config) -> list[Instruction]:
    """Return instructions past an end of the unified buffer, as each unit or the buffer notices."""
    size = config.unified_bytes
    jump = {"skip": size // config.rows - 1, "run": 1}
    source, destination = (
        {f"{side}_{name}": value for name, value in jump.items()}
        for side in ("source", "destination")
    )
    return [
        Instruction(Opcode.LOAD, unified=size - 1, length=2),
        Instruction(Opcode.STORE, external=DUMP, unified=size - 1, length=2),
        Instruction(Opcode.MATMUL, unified=config.rows, taps=4, **jump),
        Instruction(Opcode.VECTOR, source_base=config.rows, channels=2, **source),
        Instruction(Opcode.FILL, destination_base=config.rows, channels=2, **destination),
    ]


@cocotb.test()
async def errors_stop_all_units(dut: Any) -> None:
    """Long instructions of the other units end with an error, before a reset."""
    host = await started(dut)
    host.fill_memory()
    long = [
        Instruction(Opcode.LOAD, rows=60, length=64),
        Instruction(Opcode.STORE, external=DUMP, rows=60, length=64),
        Instruction(Opcode.FILL, destination_base=64, x_count=5000),
    ]
    for wrong in past_the_end(host.config):
        # The store unit reads before the others, which would wait for it.
        late = {wrong.unit, isa.Unit.STORE}
        before = [i for i in long if i.unit not in late]
        words = commands.encode([*before, wrong, Instruction(Opcode.MATMUL), *long, HALT])
        content = host.machine.memory.copy()
        expected = failure_of(host.machine, words)
        host.machine.memory[:] = content
        assert await host.run_words(words) == expected
        if not host.bench.stall:
            assert 0 < await host.read("cycles") < 400, wrong
        await host.reset()
        check_damage(host, wrong, stored(words, host))


@cocotb.test()
async def resets(dut: Any) -> None:
    """The reset of the core stops a program, and clears all registers."""
    host = await started(dut)
    host.fill_memory()
    words = commands.encode([Instruction(Opcode.FILL, wait=8), HALT])
    host.write_memory(CODE, words)
    await host.begin(CODE, len(words) // WORD_BYTES)
    await host.bench.ticks(50)
    names = ("status", "program_address", "interrupt_enable")
    assert [await host.read(name) for name in names] == [Status.BUSY.value, CODE, 3]
    await host.bench.reset()
    assert [await host.read(name) for name in names] == [0, 0, 0]
    await run_good(host, 4, whole=False)


@cocotb.test()
async def errors_of_programs(dut: Any) -> None:
    """No HALT, a fetch that is refused, and resets in the middle."""
    host = await started(dut)
    host.fill_memory()
    sequencer = isa.Unit.SEQUENCER
    nops = [Instruction(Opcode.NOP)] * (PROGRAM_BYTES // WORD_BYTES)
    assert await host.run_words(commands.encode(nops[:3])) == (isa.Error.PROGRAM, sequencer, 3)
    await host.reset()
    words = commands.encode(nops)
    host.write_memory(SIZE - len(words), words)
    assert await host.run(SIZE - len(words), 20) == (isa.Error.BUS, sequencer, 16)
    await host.reset()
    for _ in range(host.bench.options["resets"]):
        words = busy_program(host, Instruction(Opcode.LOAD, length=9))
        host.write_memory(CODE, words)
        await host.begin(CODE, len(words) // WORD_BYTES)
        await host.bench.ticks(host.bench.rng.randrange(20, 300))
        await host.write("control", Control.RESET.value)
        await host.reset()
        await host.write("interrupt", 3)
        await host.memory.stays_quiet(30)
        check_damage(host, words.hex(), stored(words, host))
    await run_good(host, 4, whole=False)
