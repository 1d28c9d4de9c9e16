"""Load and store unit against AxiRam, with others at the unified buffer in their way."""

from typing import Any

import cocotb
import numpy as np
from bfm import Ports, Sink, Unit
from memories import ExternalMemory

from celosia.hw.arch import isa
from celosia.hw.arch.config import PARAMETER_BYTES, TABLE_BYTES
from celosia.hw.arch.isa import Instruction, Kind, Opcode
from celosia.sim import footprint
from celosia.sim.fuzz.programs.generator import Generator
from celosia.sim.fuzz.programs.ordering import conflict
from celosia.sim.machine import Machine
from celosia.sim.schedule import MachineError

SIZE = 1 << 14
HALT = Instruction(Opcode.HALT)


class Bench:
    """Both units, and a machine that holds the same."""

    def __init__(self, ports: Ports, *, stall: float) -> None:
        self.ports = ports
        config = ports.config
        self.stall = stall
        self.machine = Machine(config, memory_bytes=SIZE)
        self.machine.memory[:] = ports.numbers.integers(0, 256, SIZE)
        self.generator = Generator(
            config, ports.rng, source=(0, SIZE), target=(SIZE // 2, SIZE // 2)
        )
        self.memory = ExternalMemory(ports, SIZE, stall)
        self.memory.write(0, self.machine.memory)
        self.units = {
            isa.Unit.LOAD: Unit(ports, "load_", stall / 2),
            isa.Unit.STORE: Unit(ports, "store_", stall / 2),
        }
        self.weights = np.zeros((config.weight_tiles, config.rows, config.tile_row_bytes), np.uint8)
        self.images = {
            Kind.CHANNELS.value: np.zeros(config.parameter_channels * PARAMETER_BYTES, np.uint8),
            Kind.TABLES.value: np.zeros(config.tables * TABLE_BYTES, np.uint8),
        }
        Sink(ports, "weights", self._weights)
        Sink(ports, "parameters", self._parameters)
        cocotb.start_soon(self._others())

    def _weights(self, beat: dict[str, Any]) -> None:
        first = beat["block"] * self.ports.config.bus_bytes
        place = slice(first, first + self.ports.config.bus_bytes)
        self.weights[beat["tile"], beat["row"], place] = beat["data"]

    def _parameters(self, beat: dict[str, Any]) -> None:
        first = beat["offset"]
        place = slice(first, first + self.ports.config.bus_bytes)
        self.images[beat["kind"]][place] = beat["data"]

    async def _others(self) -> None:
        """Take the unified buffer's ports away for a cycle, now and then."""
        ports = self.ports
        while True:
            await ports.edge
            ports.set("read_first__valid", ports.rests(self.stall))
            ports.set("read_first__payload", {"address": ports.rng.randrange(64), "mask": 1})
            ports.set("write_first__valid", ports.rests(self.stall))
            ports.set("write_first__payload", {"address": ports.rng.randrange(64), "mask": 0})

    def put(self, instruction: Instruction, index: int) -> None:
        self.units[instruction.unit].put(instruction, index)

    async def run(self, program: list[Instruction]) -> None:
        """Run instructions on both; those of different units in any order."""
        for index, instruction in enumerate(program):
            self.put(instruction, index)
        for unit in self.units.values():
            await unit.finish()
        self.machine.run([*program, HALT])

    def batch(self, count: int) -> list[Instruction]:
        """Return instructions of which no two of different units depend on one another."""
        generator = self.generator
        draws = (generator.load, generator.load, generator.store, generator.store)
        rare = (generator.load_weights, generator.load_params)
        program: list[Instruction] = []
        while len(program) < count:
            new = self.ports.rng.choice((*draws, *rare))()
            others = [i for i in program if i.unit is not new.unit]
            if not any(conflict(i, new, self.ports.config) for i in others):
                program.append(new)
        return program

    async def dump(self) -> np.ndarray:
        """Store the whole unified buffer and return it, int8."""
        size = self.ports.config.unified_bytes
        await self.run([Instruction(Opcode.STORE, external=SIZE - size, length=size)])
        return self.memory.content[SIZE - size :].view(np.int8)

    async def compare(self) -> None:
        """Compare all memories with the machine's."""
        config = self.ports.config
        await self.dump()
        wrong = np.flatnonzero(self.memory.content != self.machine.memory)
        assert not wrong.size, f"external memory differs at {wrong[:8].tolist()}"
        got = self.weights[:, :, : config.columns].view(np.int8)
        assert np.array_equal(got, self.machine.weights)
        tables = self.images[Kind.TABLES.value].view(np.int8)
        assert np.array_equal(tables, self.machine.tables.reshape(-1))
        channels = self.images[Kind.CHANNELS.value].reshape(-1, PARAMETER_BYTES)
        parameters = self.machine.parameters
        words = np.ascontiguousarray(channels[:, :8]).view("<u4")
        assert np.array_equal(words[:, 0].view("<i4"), parameters["bias"])
        assert np.array_equal(words[:, 1] & 0x7FFFFFFF, parameters["multiplier"])
        assert np.array_equal(channels[:, 8] & 31, parameters["left"])
        assert np.array_equal(channels[:, 9] & 31, parameters["right"])


@cocotb.test()
async def random_transfers(dut: Any) -> None:
    ports = Ports(dut)
    await ports.start()
    bench = Bench(ports, stall=ports.options["stall"])
    config = ports.config
    # Memories of the simulation may start with anything, those of the machine with zeros.
    tiles, channels = config.weight_tiles, config.parameter_channels
    await bench.run(
        [
            Instruction(Opcode.LOAD, length=config.unified_bytes),
            Instruction(Opcode.LOAD_WEIGHTS, tiles=tiles),
            Instruction(Opcode.LOAD_PARAMS, count=channels),
            Instruction(Opcode.LOAD_PARAMS, kind=Kind.TABLES, count=config.tables),
        ]
    )
    await bench.compare()
    for _ in range(ports.options["batches"]):
        await bench.run(bench.batch(ports.rng.randint(1, 6)))
        await bench.compare()


def wrong_instructions(config: Any) -> list[Instruction]:
    size = config.unified_bytes
    return [
        Instruction(Opcode.LOAD, unified=size - 5, length=6),
        Instruction(Opcode.LOAD, unified=3, unified_pitch=size - 5, rows=2, length=4),
        Instruction(Opcode.LOAD, external=(1 << 32) - 4, length=5),
        Instruction(Opcode.LOAD, external=SIZE - 3, length=20),
        Instruction(Opcode.LOAD, external=4, external_pitch=SIZE, rows=3, length=9),
        Instruction(Opcode.LOAD_WEIGHTS, tile=config.weight_tiles - 1, tiles=2),
        Instruction(Opcode.LOAD_WEIGHTS, external=1 << 20, tiles=1),
        Instruction(Opcode.LOAD_PARAMS, first=config.parameter_channels - 1, count=2),
        Instruction(Opcode.LOAD_PARAMS, kind=Kind.TABLES, first=config.tables - 1, count=2),
        Instruction(Opcode.LOAD_PARAMS, external=SIZE - 16, count=2),
        Instruction(Opcode.STORE, external=SIZE // 2, unified=size - 9, length=10),
        Instruction(Opcode.STORE, external=SIZE - 2, external_pitch=32, rows=2, length=3),
        Instruction(Opcode.STORE, external=(1 << 32) - 1, length=2),
    ]


def touched(instruction: Instruction, memory: np.ndarray, pattern: Any) -> np.ndarray:
    """Return which places of a memory belong to a pattern that may leave it."""
    places = pattern(instruction).addresses()
    mask = np.zeros(memory.size, np.bool_)
    mask[places[places < memory.size]] = True
    return mask


@cocotb.test()
async def errors(dut: Any) -> None:
    ports = Ports(dut)
    await ports.start()
    bench = Bench(ports, stall=ports.options["stall"])
    machine, config = bench.machine, ports.config
    await bench.run([Instruction(Opcode.LOAD, length=config.unified_bytes)])
    for wrong in wrong_instructions(config):
        # Loads before it stay done. Loads behind it do not begin; a store may be under way already.
        before = Instruction(Opcode.LOAD, external=77, unified=5, length=30)
        behind = Instruction(Opcode.LOAD if wrong.unit is isa.Unit.LOAD else Opcode.STORE, length=9)
        await bench.run([before])
        unit = bench.units[wrong.unit]
        bench.put(wrong, 1)
        bench.put(behind, 2)
        try:
            machine.run([before, wrong, HALT])
            raise AssertionError(f"{wrong} is not wrong")
        except MachineError as error:
            expected = error
        assert await unit.fail() == (expected.error, expected.index), f"{wrong}"
        await bench.memory.stays_quiet(40)
        ports.set(f"{unit.prefix}abort", 0)
        await ports.reset()
        for each in bench.units.values():
            each.begin_again()
        await check_damage(bench, wrong, behind)


async def check_damage(bench: Bench, wrong: Instruction, behind: Instruction) -> None:
    """Check that only what instructions name has changed, and let the machine follow."""
    machine = bench.machine
    content = bench.memory.content
    may = np.zeros(SIZE, np.bool_)
    if wrong.opcode is Opcode.STORE:
        for instruction in (wrong, behind):
            may |= touched(instruction, machine.memory, footprint.external_block)
    assert np.array_equal(content[~may], machine.memory[~may]), f"{wrong} wrote elsewhere"
    machine.memory[:] = content
    before = machine.unified.copy()
    unified = await bench.dump()
    may = np.zeros(unified.size, np.bool_)
    if wrong.opcode is Opcode.LOAD:
        may = touched(wrong, machine.unified, footprint.unified_block)
    assert np.array_equal(unified[~may], before[~may]), f"{wrong} wrote elsewhere"
    machine.unified[:] = unified
    machine.memory[:] = bench.memory.content
