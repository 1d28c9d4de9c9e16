"""The weight buffer between the load unit and the array."""

from typing import Any

import cocotb
import numpy as np
from cosim.bench import Bench
from cosim.golden import block, machine_of, run, same, weight_beats
from cosim.streams import put

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.memory.weight_buffer import WeightBuffer


def make(config: Config) -> Any:
    return block(config, "matrix").buffer


class WeightBench(Bench):
    """The buffer, a machine with the same tiles, and all that left the buffer, by cycle."""

    async def begin(self) -> None:
        await self.start()
        self.machine = machine_of(self)
        self.left: dict[int, tuple[int, list[list[int]]]] = {}
        cocotb.start_soon(self.watch())
        for tile in range(self.config.weight_tiles):
            await self.write(tile)

    async def watch(self) -> None:
        """Record strobes and weights of every cycle, for ever."""
        while True:
            await self.edge
            weights = [list(segment) for segment in self.ports.weights.value]
            self.left[self.cycle] = self.ports.load.bits, weights

    async def write(self, tile: int) -> None:
        """Write a tile of the machine."""
        for beat in weight_beats(self.machine, tile):
            if self.unit.whole_rows:
                # As MOVE_WEIGHTS and the unit's own converter of beats do.
                first = beat.pop("block") * self.config.bus_bytes
                data = [self.rng.randrange(256) for _ in range(self.config.columns)]
                size = min(self.config.bus_bytes, self.config.columns - first)
                data[first : first + size] = beat["data"][:size]
                beat |= {"mask": 1 << first // self.config.bus_bytes, "data": data}
            await put(self, self.ports.write, beat)

    def check(self, tile: int, start: int, weights: np.ndarray) -> None:
        """Compare what left the buffer after a start with the machine's weights of then."""
        config = self.config
        segment = config.rows // config.weight_rows
        found = np.zeros_like(weights)
        for row in range(config.rows):
            load = start + WeightBuffer.LATENCY + row
            assert self.left[load][0] >> row & 1, f"tile {tile}: no load of row {row}"
            for column in range(config.columns):
                # Weights come one cycle before their load.
                buses = self.left[load + column - 1][1]
                found[row, column] = buses[row // segment][column]
        same(found, weights, f"tile {tile}")


@WeightBench.test(make)
async def tiles(bench: WeightBench) -> None:
    """Tiles follow one another at full rate, while others are written by LOAD_WEIGHTS."""
    config = bench.config
    segment = config.rows // config.weight_rows
    for number in range(4 * bench.options["rounds"]):
        bench.stall = 0.5 * (number % 2)
        await bench.ticks(WeightBuffer.WRITE_LATENCY)
        changed = bench.rng.randrange(config.weight_tiles)
        others = [tile for tile in range(config.weight_tiles) if tile != changed]
        external = bench.rng.randrange(0, 2048, config.bus_bytes)
        load = Instruction(Opcode.LOAD_WEIGHTS, external=external, tile=changed)
        assert run(bench.machine, load) is None
        writing = cocotb.start_soon(bench.write(changed))
        started = []
        for _ in range(8):
            tile = bench.rng.choice(others)
            await bench.until(lambda: bench.ports.ready.bits, 2 * config.rows, "ready")
            bench.ports.start.drive(1)
            bench.ports.tile.drive(tile)
            await bench.edge
            started.append((tile, bench.cycle))
            bench.ports.start.drive(0)
            await bench.ticks(max(0, segment - 1) + bench.rng.choice([0, 0, 3]))
        await bench.ticks(2 * config.rows + config.columns + WeightBuffer.LATENCY)
        await writing
        for tile, start in started:
            bench.check(tile, start, bench.machine.weights[tile])
        strobes = sum(
            bench.left[cycle][0].bit_count() for cycle in range(started[0][1], bench.cycle)
        )
        assert strobes == len(started) * config.rows
        bench.left.clear()
