"""The vector unit between a unified buffer and accumulators made of Python."""

from typing import Any

import cocotb
import numpy as np
from bfm import Ports, Source, Unit
from memories import AccumulatorMemory, UnifiedBuffer

from celosia.hw.arch.isa import Instruction, Kind, Mode, Opcode, Space
from celosia.hw.memory.unified_buffer import UnifiedBuffer as HardwareBuffer
from celosia.sim.fuzz.programs.generator import Generator
from celosia.sim.fuzz.programs.images import channels_image, tables_image
from celosia.sim.machine import Machine
from celosia.sim.schedule import MachineError

HALT = Instruction(Opcode.HALT)


class Bench:
    """A vector unit with its memories, and a machine with others that begin the same."""

    def __init__(self, ports: Ports, *, stall: float) -> None:
        self.ports = ports
        config = ports.config
        self.machine = Machine(config, memory_bytes=1 << 14)
        self.unified = np.zeros_like(self.machine.unified)
        self.sums = np.zeros_like(self.machine.accumulators)
        self.generator = Generator(config, ports.rng)
        self.unit = Unit(ports, stall=stall / 2)
        self.parameters = Source(ports, "parameters", stall)
        self.buffer = UnifiedBuffer(
            ports,
            self.unified,
            read="unified_read",
            write="unified_write",
            latency=HardwareBuffer.READ_LATENCY,
            write_latency=HardwareBuffer.WRITE_LATENCY,
            stall=stall,
        )
        AccumulatorMemory(ports, self.sums)

    def fill_memories(self) -> None:
        """Give both the same random contents."""
        numbers = self.ports.numbers
        self.unified[:] = numbers.integers(-128, 128, self.unified.shape)
        wide = numbers.integers(-(2**31), 2**31, self.sums.shape)
        self.sums[:] = wide >> numbers.integers(0, 32, self.sums.shape)
        self.machine.unified[:] = self.unified
        self.machine.accumulators[:] = self.sums

    async def load_parameters(self) -> None:
        """Give both the same random parameters and tables."""
        config, numbers = self.ports.config, self.ports.numbers
        images = {
            Kind.CHANNELS: channels_image(config.parameter_channels, numbers),
            Kind.TABLES: tables_image(config.tables, numbers),
        }
        program = []
        for place, (kind, image) in enumerate(images.items()):
            for offset in range(0, image.size, config.bus_bytes):
                beat = image[offset : offset + config.bus_bytes]
                self.parameters.put({"kind": kind, "offset": offset, "data": beat})
            self.machine.memory[place << 13 :][: image.size] = image
            count = config.tables if kind is Kind.TABLES else config.parameter_channels
            program.append(
                Instruction(Opcode.LOAD_PARAMS, external=place << 13, kind=kind, count=count)
            )
        self.machine.run([*program, HALT])
        await self.ports.until(lambda: not self.parameters.queue, 20_000, "parameters taken")
        await self.ports.ticks(4)

    async def run(self, program: list[Instruction]) -> None:
        """Run instructions on both and compare what they leave behind."""
        for instruction in program:
            self.unit.put(instruction)
        self.machine.run([*program, HALT])
        await self.unit.finish()
        self.compare(str(program))

    def compare(self, what: str) -> None:
        """Compare both memories with the machine's."""
        wrong = np.flatnonzero(self.unified != self.machine.unified)
        assert not wrong.size, f"unified buffer differs at {wrong[:8].tolist()} after {what}"
        wrong = np.argwhere(self.sums != self.machine.accumulators)
        assert not wrong.size, f"accumulators differ at {wrong[:8].tolist()} after {what}"


@cocotb.test()
async def random_programs(dut: Any) -> None:
    ports = Ports(dut)
    await ports.start()
    bench = Bench(ports, stall=ports.options["stall"])
    for _ in range(ports.options["programs"]):
        bench.fill_memories()
        await bench.load_parameters()
        draws = [bench.generator.vector] * 5 + [bench.generator.fill]
        await bench.run([ports.rng.choice(draws)() for _ in range(ports.rng.randint(1, 10))])


def wrong_instructions(config: Any) -> list[Instruction]:
    size, rows = config.unified_bytes, config.accumulator_rows
    sums = {"source": Space.ACCUMULATORS, "destination": Space.ACCUMULATORS}
    return [
        Instruction(Opcode.VECTOR, source_base=size - 2, channels=3),
        Instruction(Opcode.VECTOR, source_base=9, source_x_stride=size - 9, x_count=2),
        Instruction(Opcode.VECTOR, window_y_count=3, window_y_stride=size // 2),
        Instruction(Opcode.VECTOR, destination_base=size - 1, channels=2),
        Instruction(Opcode.VECTOR, destination_y_stride=size - 1, y_count=3),
        Instruction(Opcode.FILL, destination_base=size - config.rows, channels=config.rows + 1),
        Instruction(
            Opcode.VECTOR, **sums, source_base=rows - 1, window_x_count=2, window_x_stride=1
        ),
        Instruction(
            Opcode.VECTOR, **sums, destination_base=rows - 2, x_count=3, destination_x_stride=1
        ),
    ]


@cocotb.test()
async def errors(dut: Any) -> None:
    ports = Ports(dut)
    await ports.start()
    bench = Bench(ports, stall=ports.options["stall"])
    await bench.load_parameters()
    for wrong in wrong_instructions(ports.config):
        bench.fill_memories()
        first = Instruction(Opcode.FILL, channels=5, value=77)
        await bench.run([first])
        bench.unit.put(wrong)
        bench.unit.put(Instruction(Opcode.FILL, channels=9, value=-3))
        try:
            bench.machine.run([first, wrong, HALT])
            raise AssertionError(f"{wrong} is not wrong")
        except MachineError as error:
            expected = error
        assert await bench.unit.fail() == (expected.error, expected.index), f"{wrong}"
        before = bench.unified.copy(), bench.sums.copy()
        await ports.ticks(30)
        assert np.array_equal(before[0], bench.unified) and np.array_equal(before[1], bench.sums)
        ports.set("abort", 0)
        await ports.reset()
        bench.unit.begin_again()
        bench.fill_memories()
        await bench.run([bench.generator.vector(), bench.generator.fill()])
        bench.unit.begin_again()


@cocotb.test()
async def adds_to_one_place_again_and_again(dut: Any) -> None:
    ports = Ports(dut)
    await ports.start()
    bench = Bench(ports, stall=ports.options["stall"])
    await bench.load_parameters()
    for mode in (Mode.ADD, Mode.MAX):
        bench.fill_memories()
        fields = {"destination": Space.ACCUMULATORS, "mode": mode, "channels": ports.config.columns}
        await bench.run(
            [
                Instruction(Opcode.VECTOR, **fields, x_count=9, source_x_stride=3),
                Instruction(Opcode.VECTOR, **fields, x_count=2, y_count=3, source_y_stride=5),
            ]
        )
