"""The load unit between external memory and the three memories that it writes."""

from typing import Any

import cocotb
import numpy as np
from cosim.bench import Bench
from cosim.golden import block, generator_of, machine_of, parameter_memory, run, same
from cosim.memories import BurstMemory, UnifiedWrites
from cosim.streams import take
from cosim.units import Unit

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.registers import Activity
from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.hw.memory.weight_buffer import WeightBuffer
from celosia.sim.check import footprint
from celosia.sim.timing.costs import bursts

#: Cycles from a write of the unit until the slowest memory has it.
VISIBLE = max(UnifiedBuffer.WRITE_LATENCY + UnifiedBuffer.VISIBLE, WeightBuffer.WRITE_LATENCY)


def make(config: Config) -> Any:
    return block(config, "load")


class LoadBench(Bench):
    """The unit; the contents of the memories, and a machine with the same ones."""

    async def begin(self) -> None:
        await self.start()
        self.machine, self.generator, self.runs = machine_of(self), generator_of(self), Unit(self)
        machine, ports = self.machine, self.ports
        self.bytes = machine.unified.copy()
        self.tiles = np.zeros((*machine.weights.shape[:2], self.config.tile_row_bytes), np.uint8)
        self.tiles[:, :, : self.config.columns] = machine.weights.view(np.uint8)
        self.parameters = parameter_memory(machine)
        self.memory = BurstMemory(self, ports.request, ports.beats, machine.memory)
        self.writes = UnifiedWrites(self, ports.write, self.bytes, 1)
        for process in (
            self.runs.watch(),
            self.watch(),
            self.memory.serve(),
            self.writes.serve(),
            take(self, ports.weights, self.write_weights),
            take(self, ports.parameters, self.write_parameters),
        ):
            cocotb.start_soon(process)

    async def watch(self) -> None:
        """Check that a unit is busy when a burst or a beat is taken, for ever."""
        request, beats = self.ports.request, self.ports.beats
        while True:
            await self.edge
            taken = request.valid.bits and request.ready.bits
            taken |= beats.valid.bits and beats.ready.bits
            assert bool(taken) == (self.ports.activity.bits == Activity.BUSY.value)

    def write_weights(self, beat: Any) -> None:
        size = self.config.bus_bytes
        columns = slice(beat.block * size, (beat.block + 1) * size)
        self.tiles[beat.tile, beat.row, columns] = list(beat.data)

    def write_parameters(self, beat: Any) -> None:
        content = self.parameters[isa.Kind(beat.kind)]
        content[beat.offset : beat.offset + self.config.bus_bytes] = list(beat.data)

    def compare(self, what: object) -> None:
        """Compare all memories with the machine's."""
        same(self.bytes, self.machine.unified, what)
        columns = self.tiles[:, :, : self.config.columns].view(np.int8)
        same(columns, self.machine.weights, what)
        for kind, content in parameter_memory(self.machine).items():
            mask = PARAMETER_MASK if kind is isa.Kind.CHANNELS else TABLE_MASK
            same(np.resize(mask, content.size) & self.parameters[kind], content, what)

    async def again(self) -> None:
        """Reset."""
        await self.reset()
        self.runs.forget()
        self.memory.forget()

    def draw(self) -> Instruction:
        draws = (self.generator.load, self.generator.load_weights, self.generator.load_params)
        return self.rng.choice(draws)()


#: Bits of a channel, and of a table, that the machine keeps.
PARAMETER_MASK = np.array([255] * 7 + [127, 31, 31] + [0] * 6, np.uint8)
TABLE_MASK = np.array([255], np.uint8)


@LoadBench.test(make)
async def random_programs(bench: LoadBench) -> None:
    """Bytes, tiles, parameters and tables are those of the machine."""
    for number in range(3 * bench.options["rounds"]):
        bench.stall = 0.4 * (number % 2)
        program = [bench.draw() for _ in range(bench.rng.randint(1, 8))]
        assert run(bench.machine, *program) is None
        await bench.runs.run(program)
        bench.compare(program)


@LoadBench.test(make)
async def pace(bench: LoadBench) -> None:
    """One beat each cycle; bursts and their beats are those of the estimator."""
    length = min(112, bench.config.unified_bytes // 2)
    for external, pitch in ((0, length), (5, 200), (32, 300)):
        bench.memory.requested.clear()
        rows = bench.config.unified_bytes // length
        fields = {"external": external, "external_pitch": pitch, "rows": rows}
        program = [Instruction(Opcode.LOAD, **fields, unified_pitch=length, length=length)]
        assert run(bench.machine, *program) is None
        await bench.runs.run(program)
        bench.compare(program)
        lengths = [beats for row in bursts(program[0], bench.config) for beats in row]
        assert [beats for _, _, beats in bench.memory.requested] == lengths
        first = bench.memory.requested[0][0]
        assert first - bench.runs.taken[-1] == bench.unit.LATENCY
        assert bench.runs.done[-1] - first <= sum(lengths) + len(lengths) + 24
        assert bench.runs.done[-1] - bench.writes.cycles[-1] == VISIBLE
    program = [Instruction(Opcode.LOAD, external=96 * n, length=64) for n in range(12)]
    beats = 12 * 64 // bench.config.bus_bytes
    assert run(bench.machine, *program) is None
    taken = len(bench.runs.taken)
    await bench.runs.run(program)
    assert bench.runs.done[-1] - bench.runs.taken[taken] <= 1.1 * (beats + 24) + bench.unit.LATENCY
    bench.compare(program)


@LoadBench.test(make)
async def refusals(bench: LoadBench) -> None:
    """Out of range or refused by the bus: the error of the machine, and no later effect."""
    config, size = bench.config, bench.config.unified_bytes
    step = max(16, config.bus_bytes)
    wrong = [
        (Opcode.LOAD, {"unified": size - 3, "length": 4}),
        (Opcode.LOAD, {"unified": 1, "unified_pitch": size // 2, "length": size // 2, "rows": 2}),
        (Opcode.LOAD_WEIGHTS, {"tile": config.weight_tiles - 1, "tiles": 2}),
        (Opcode.LOAD_PARAMS, {"first": config.parameter_channels - 1, "count": 2}),
        (Opcode.LOAD_PARAMS, {"kind": 1, "first": config.table_slots - 1, "count": 2}),
        (Opcode.LOAD, {"external": bench.machine.memory.size - 5, "length": 9}),
        (Opcode.LOAD_WEIGHTS, {"external": bench.machine.memory.size // step * step}),
    ]
    wrong += [
        (Opcode.LOAD_PARAMS, {name: (1 << bits) + (name == "count")})
        for bits in range(config.parameter_channels.bit_length() - 1, 16)
        for name in ("first", "count")
    ]
    for number, (opcode, fields) in enumerate(wrong):
        bench.stall = 0.3 * (number % 2)
        good, failing = bench.draw(), Instruction(opcode, **fields)
        expected = run(bench.machine, good, failing)
        assert expected is not None and expected[1] == 1
        after = Instruction(Opcode.LOAD, length=bench.config.unified_bytes)
        assert await bench.runs.failure([good, failing, after]) == expected, failing
        # Rows, tiles or beats before the wrong one may be written.
        if opcode is Opcode.LOAD:
            named = footprint.unified_block(failing).addresses().ravel()
            named = named[named < size]
            bench.machine.unified[named] = bench.bytes[named]
        elif opcode is Opcode.LOAD_WEIGHTS:
            tile = bench.tiles[failing.tile, :, : config.columns]
            bench.machine.weights[failing.tile] = tile.view(np.int8)
        bench.compare(failing)
        await bench.again()


@LoadBench.test(make)
async def ends_of_memories(bench: LoadBench) -> None:
    """Beats before a refused one are written; 4 GiB are an end; bursts wait for space."""
    config, memory = bench.config, bench.machine.memory
    for inside in (0, 5 * config.bus_bytes, 8 * config.bus_bytes):
        bench.stall = 0.5 * bool(inside)
        before = bench.bytes.copy()
        before[:inside] = memory[memory.size - inside :].view(np.int8)
        long = Instruction(Opcode.LOAD, external=memory.size - inside, length=96)
        assert await bench.runs.failure([long, long]) == (isa.Error.BUS, 0)
        same(bench.bytes, before, inside)
        await bench.again()
    bench.memory.repeats = True
    for fields in (
        {"external": (1 << 32) - 3, "length": 4},
        {"external": 1 << 31, "external_pitch": 1 << 31, "rows": 3},
    ):
        wrong = Instruction(Opcode.LOAD, **fields)
        assert await bench.runs.failure([wrong]) == (isa.Error.RANGE, 0)
        await bench.again()
    await bench.runs.run([Instruction(Opcode.LOAD, external=(1 << 32) - 9, length=9)])
    same(bench.bytes[:9], memory[-9:].view(np.int8), "the last bytes")
    bench.memory.latency = 60
    pitches = {"external_pitch": 8, "unified_pitch": 1}
    good = Instruction(Opcode.LOAD, rows=config.outstanding + 8, length=1, **pitches)
    wrong = Instruction(Opcode.LOAD, unified=config.unified_bytes - 1, length=2)
    assert await bench.runs.failure([good, wrong]) == (isa.Error.RANGE, 1)


@LoadBench.test(make)
async def abort(bench: LoadBench) -> None:
    """After an abort nothing is requested or written, and beats under way are taken."""
    bench.stall = 0.2
    for wait in (2, 4, 8, 20, 50, 90):
        states = [bench.bytes.copy()]
        for _ in range(3):
            instruction = bench.draw()
            if instruction.opcode is Opcode.LOAD:
                instruction = instruction.but(rows=1)  # others may overlap
            assert run(bench.machine, instruction) is None
            states.append(bench.machine.unified.copy())
            await bench.runs.issue(instruction)
        await bench.ticks(wait)
        bench.ports.abort.drive(1)
        await bench.ticks(2)
        requests = len(bench.memory.requested)
        await bench.until(lambda: bench.ports.idle.bits, 1_000, "idle")
        writes = len(bench.writes.cycles)
        await bench.ticks(20)
        assert len(bench.memory.requested) <= requests and len(bench.writes.cycles) == writes
        assert not bench.memory.under_way and bench.runs.activity[-1] == Activity.IDLE.value
        assert np.any(np.array(states) == bench.bytes, axis=0).all()
        bench.ports.abort.drive(0)
        await bench.again()
        bench.machine.unified[:] = bench.bytes
