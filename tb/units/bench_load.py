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
from celosia.sim.check import footprint
from celosia.sim.timing.costs import bursts


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
            self.memory.serve(),
            self.writes.serve(),
            take(self, ports.weights, self.write_weights),
            take(self, ports.parameters, self.write_parameters),
        ):
            cocotb.start_soon(process)

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

    def draw(self) -> Instruction:
        draws = (self.generator.load, self.generator.load_weights, self.generator.load_params)
        return self.rng.choice(draws)()


#: Bits of a channel, and of a table, that the machine keeps.
PARAMETER_MASK = np.array([255] * 7 + [127, 31, 31] + [0] * 6, np.uint8)
TABLE_MASK = np.array([255], np.uint8)


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """Bytes, tiles, parameters and tables are those of the machine."""
    bench = LoadBench(dut, make)
    await bench.begin()
    for number in range(3 * bench.options["rounds"]):
        bench.stall = 0.4 * (number % 2)
        program = [bench.draw() for _ in range(bench.rng.randint(1, 8))]
        assert run(bench.machine, *program) is None
        await bench.runs.run(program)
        bench.compare(program)


@cocotb.test()
async def pace(dut: Any) -> None:
    """One beat each cycle; bursts and their beats are those of the estimator."""
    bench = LoadBench(dut, make)
    await bench.begin()
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


@cocotb.test()
async def refusals(dut: Any) -> None:
    """Out of range or refused by the bus: the error of the machine, and no later effect."""
    bench = LoadBench(dut, make)
    await bench.begin()
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
        await bench.reset()
        bench.runs.forget()
        bench.memory.forget()


@cocotb.test()
async def abort(dut: Any) -> None:
    """After an abort nothing is requested or written, and beats under way are taken."""
    bench = LoadBench(dut, make)
    await bench.begin()
    bench.stall = 0.2
    for wait in (2, 8, 20, 50):
        for _ in range(3):
            await bench.runs.issue(Instruction(Opcode.LOAD, length=bench.config.unified_bytes // 2))
        await bench.ticks(wait)
        bench.ports.abort.drive(1)
        await bench.ticks(2)
        requests = len(bench.memory.requested)
        await bench.until(lambda: bench.ports.idle.bits, 1_000, "idle")
        writes = len(bench.writes.cycles)
        await bench.ticks(20)
        assert len(bench.memory.requested) <= requests and len(bench.writes.cycles) == writes
        assert not bench.memory.under_way and bench.runs.activity[-1] == Activity.IDLE.value
        bench.ports.abort.drive(0)
        await bench.reset()
        bench.runs.forget()
