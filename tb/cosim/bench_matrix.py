"""The matrix unit between a unified buffer made of Python and the accumulators' read port."""

from typing import Any

import cocotb
import numpy as np
from bfm import Ports, Source, Unit
from memories import UnifiedBuffer

from celosia.hw.arch import isa
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.matrix.accumulators import ACCUMULATOR_LATENCY
from celosia.sim.fuzz.programs.generator import Generator
from celosia.sim.machine import Machine


class Bench:
    """A matrix unit and a machine that hold the same."""

    def __init__(self, ports: Ports, *, stall: float) -> None:
        self.ports = ports
        self.machine = Machine(ports.config, memory_bytes=1)
        shape = self.machine.unified.shape
        self.machine.unified[:] = ports.numbers.integers(-128, 128, shape)
        self.generator = Generator(ports.config, ports.rng)
        self.unit = Unit(ports, stall=stall / 2)
        self.weights = Source(ports, "weights", stall)
        self.buffer = UnifiedBuffer(
            ports,
            self.machine.unified,
            read="request",
            latency=ports.component.read_latency,
            stall=stall,
        )

    def write_tiles(self, tiles: range) -> None:
        """Put new weights into some tiles of both."""
        config = self.ports.config
        numbers = self.ports.numbers
        blocks = config.tile_row_bytes // config.bus_bytes
        for tile in tiles:
            shape = self.machine.weights[tile].shape
            ends = np.array([-128, 127, numbers.integers(-128, 128)])
            self.machine.weights[tile] = numbers.choice(ends, shape)
            for row in range(config.rows):
                raw = numbers.integers(0, 256, config.tile_row_bytes, np.uint8)
                raw[: config.columns] = self.machine.weights[tile, row].view(np.uint8)
                for block, beat in enumerate(raw.reshape(blocks, -1)):
                    self.weights.put({"tile": tile, "row": row, "block": block, "data": beat})

    async def weights_written(self) -> None:
        await self.ports.until(lambda: not self.weights.queue, 20_000, "weights taken")
        await self.ports.ticks(4)

    async def compare(self) -> None:
        """Read all accumulators and compare them with the machine's."""
        config = self.ports.config
        for row in range(config.accumulator_rows):
            self.ports.set("accumulator_read", {"enable": 1, "row": row})
            await self.ports.ticks(ACCUMULATOR_LATENCY + 1)
            got, wanted = self.ports.get("sums"), self.machine.accumulators[row].tolist()
            assert got == wanted, f"row {row}: wanted {wanted}, got {got}"
        self.ports.set("accumulator_read", {"enable": 0})


@cocotb.test()
async def random_programs(dut: Any) -> None:
    ports = Ports(dut)
    await ports.start()
    bench = Bench(ports, stall=ports.options["stall"])
    tiles = ports.config.weight_tiles
    bench.write_tiles(range(tiles))
    await bench.weights_written()
    halt = Instruction(Opcode.HALT)
    for _ in range(ports.options["programs"]):
        # What no instruction uses is written while they run.
        program = [bench.generator.matmul() for _ in range(ports.rng.randint(1, 8))]
        first_free = max(i.tile - (-i.taps // ports.config.rows) for i in program)
        for n, instruction in enumerate(program):
            bench.unit.put(instruction, n)
        before = bench.machine.weights.copy()
        bench.write_tiles(range(first_free, tiles))
        assert np.array_equal(before[:first_free], bench.machine.weights[:first_free])
        bench.machine.run([*program, halt])
        await bench.unit.finish()
        await bench.weights_written()
        await bench.compare()


@cocotb.test()
async def out_of_range(dut: Any) -> None:
    ports = Ports(dut)
    await ports.start()
    config = ports.config
    bench = Bench(ports, stall=ports.options["stall"])
    bench.write_tiles(range(config.weight_tiles))
    await bench.weights_written()
    zeros = [
        Instruction(Opcode.MATMUL, x_count=config.accumulator_depth, accumulator=first)
        for first in (0, config.accumulator_depth)
    ]
    wrong = (
        {"unified": config.unified_bytes - 1, "taps": 2},
        {"unified": config.unified_bytes - 9, "x_count": 4, "x_stride": 3, "taps": 1},
        {"taps": 3, "run": 2, "skip": config.unified_rows - 1, "unified": config.rows},
        {"tile": config.weight_tiles - 1, "taps": config.rows + 1},
        {"accumulator": config.accumulator_depth - 1, "x_count": 2},
        {"accumulator": 2 * config.accumulator_depth - 2, "y_count": 3},
    )
    for fields in wrong:
        for instruction in zeros:
            bench.unit.put(instruction)
        bench.machine.run([*zeros, Instruction(Opcode.HALT)])
        await bench.unit.finish()
        bad = Instruction(Opcode.MATMUL, **fields)
        isa.check(bad, config)
        bench.unit.put(bad)
        bench.unit.put(Instruction(Opcode.MATMUL, tile=1, x_count=config.accumulator_depth))
        fault = await bench.unit.fail()
        assert fault == (isa.Error.RANGE, 2), f"{fields}: {fault}"
        ports.set("abort", 0)
        await ports.reset()
        bench.unit.begin_again()
        # Nothing but what it names was written, and the unit runs again.
        count = bad.x_count * bad.y_count
        after = [
            Instruction(Opcode.MATMUL, x_count=1, accumulator=row)
            for row in range(bad.accumulator, min(bad.accumulator + count, config.accumulator_rows))
        ]
        for instruction in after:
            bench.unit.put(instruction)
        bench.machine.run([*after, Instruction(Opcode.HALT)])
        await bench.unit.finish()
        await bench.compare()
        bench.unit.begin_again()
