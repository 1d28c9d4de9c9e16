"""The accumulators between the array and the vector unit, which use different halves."""

from typing import Any

import cocotb
import numpy as np
from cosim.bench import Bench
from cosim.golden import block, machine_of, run, same

from celosia.hw.arch.config import ADD_CYCLES, Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY, Accumulators


def make(config: Config) -> Any:
    return block(config, "matrix").accumulators


class AccumulatorBench(Bench):
    """The accumulators, and two machines: ``products`` has the sums of the array alone."""

    async def begin(self) -> None:
        await self.start()
        self.machine, self.products = machine_of(self), machine_of(self)
        self.products.weights[:] = self.machine.weights
        self.products.unified[:] = self.machine.unified
        cocotb.start_soon(self.sums())
        # Sums of each column, by the cycle in which it takes them.
        self.due: dict[int, list[tuple[int, int]]] = {}

    async def sums(self) -> None:
        """Drive the sums of the array in their cycles, and noise in all others; for ever."""
        columns, bits = self.config.columns, self.unit.sum_bits
        least = 1 << bits - 1
        while True:
            await self.edge
            row = [self.rng.randrange(-least, least) for _ in range(columns)]
            for column, value in self.due.pop(self.cycle, ()):
                row[column] = value
            self.ports.sums.drive(row)

    def later(self, sums: np.ndarray) -> None:
        """Note the sums of an operation that is driven at this edge."""
        for column, value in enumerate(sums.tolist()):
            cycle = self.cycle + Accumulators.SUM_LATENCY + column
            self.due.setdefault(cycle, []).append((column, value))

    async def operate(self, half: int) -> None:
        """Run passes of one tile each on a half, most as close to one another as they may be."""
        config, rng = self.config, self.rng
        latest: list[tuple[int, int]] = []

        def must_wait(row: int) -> bool:
            """Return True if a row was added to in less than ADD_CYCLES, and others since."""
            recent = [one for cycle, one in latest if self.cycle - cycle < ADD_CYCLES]
            return row in recent and (
                not config.forwards or set(recent[recent.index(row) :]) != {row}
            )

        for _ in range(rng.randint(6, 16)):
            pixels = rng.choice([1, 1, 1, 2, 5])
            row = half * config.accumulator_depth + rng.randrange(3)
            gap = max(0, rng.randrange(-ADD_CYCLES, ADD_CYCLES)) if latest else 0
            if gap:
                # The sum that is added to is in memory, or comes there now.
                pixels, row = 1, latest[-1][1]
            fields = {"taps": config.rows, "x_count": pixels, "x_stride": rng.randrange(9)}
            fields |= {"tile": rng.randrange(config.weight_tiles), "accumulator": row}
            instruction = Instruction(Opcode.MATMUL, **fields)
            accumulate = int(gap > 0 or rng.randrange(4) > 0)
            assert run(self.products, instruction) is None
            assert run(self.machine, instruction.but(accumulate=accumulate)) is None
            await self.ticks(gap)
            for pixel in range(row, row + pixels):
                while accumulate and must_wait(pixel):
                    await self.edge
                latest.append((self.cycle, pixel))
                for name, value in {"row": pixel, "accumulate": accumulate, "enable": 1}.items():
                    getattr(self.ports, name).drive(value)
                self.later(self.products.accumulators[pixel])
                await self.edge
                self.ports.enable.drive(0)

    async def exchange(self, half: int) -> None:
        """Write rows of a half, and read all of it, as the vector unit does."""
        config, rng = self.config, self.rng
        first = half * config.accumulator_depth
        for _ in range(rng.randrange(4)):
            row = first + rng.randrange(config.accumulator_depth)
            mask = rng.getrandbits(config.columns)
            sums = self.numbers.integers(-(1 << 31), 1 << 31, config.columns)
            self.ports.port.write.drive({"enable": 1, "row": row, "mask": mask})
            await self.edge
            self.ports.port.write.drive({"row": rng.randrange(first + 1), "mask": -1})
            await self.edge
            self.ports.port.write.drive({"sums": sums.tolist()})
            await self.edge
            chosen = (mask >> np.arange(config.columns) & 1).astype(bool)
            self.machine.accumulators[row, chosen] = sums[chosen]
        found = []
        for row in range(config.accumulator_depth + ACCUMULATOR_LATENCY):
            read = first + min(row, config.accumulator_depth - 1)
            self.ports.port.read.drive({"enable": 1, "row": read})
            await self.edge
            if row >= ACCUMULATOR_LATENCY:
                found.append(list(self.ports.port.sums.value))
        self.ports.port.read.drive(0)
        expected = self.machine.accumulators[first : first + config.accumulator_depth]
        same(found, expected, f"half {half}")


@AccumulatorBench.test(make)
async def both_halves(bench: AccumulatorBench) -> None:
    """One half takes sums of the array while the other one is read and written."""
    for row in range(bench.config.accumulator_rows):
        bench.ports.port.write.drive({"enable": 1, "row": row, "mask": -1})
        await bench.ticks(1)
        bench.ports.port.write.drive(0)
        await bench.ticks(1)
        bench.ports.port.write.drive({"sums": bench.machine.accumulators[row].tolist()})
        await bench.ticks(1)
    for number in range(4 * bench.options["rounds"]):
        working = cocotb.start_soon(bench.operate(number % 2))
        await bench.exchange(1 - number % 2)
        await working
        # The last sum of a row may be read one cycle before it is written.
        await bench.ticks(bench.unit.latency - 2)
