"""The systolic array: tiles follow one another under a stream of activations."""

from typing import Any

import numpy as np
from cosim.bench import Bench
from cosim.golden import block, machine_of, run, same

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode


def make(config: Config) -> Any:
    return block(config, "matrix").array


class Stimulus:
    """Inputs of each cycle, and the cycle of each vector of activations."""

    def __init__(self, bench: Bench, cycles: int) -> None:
        rows, columns, config = bench.config.rows, bench.config.columns, bench.config
        self.activations = bench.numbers.integers(-128, 128, (cycles, rows))
        # Where nothing loads, the buses carry noise.
        self.weights = bench.numbers.integers(-128, 128, (cycles, config.weight_rows, columns))
        self.loads = np.zeros((cycles, rows), np.int64)
        self.switches = np.zeros(cycles, np.int64)
        self.segment = rows // config.weight_rows

    def load(self, tile: np.ndarray, before: int, switch: int, moment: int) -> None:
        """Load a tile for a switch: each row as early or as late as it may, or between.

        A segment takes one row in a cycle, so ``moment`` is the same for all tiles.
        """
        rows, columns = tile.shape
        self.switches[switch] = 1
        for row in range(rows):
            first, last = before + row, switch + row - 1
            cycle = (first, last, (first + last) // 2)[moment]
            self.loads[cycle, row] = 1
            # A weight comes one cycle before its load, each column one cycle after its neighbour.
            for column in range(columns):
                self.weights[cycle + column - 1, row // self.segment, column] = tile[row, column]


async def play(bench: Bench, stimulus: Stimulus) -> np.ndarray:
    """Return the sums of each cycle."""
    ports, columns = bench.ports, bench.config.columns
    powers = 1 << np.arange(bench.config.rows)
    sums = np.zeros((len(stimulus.switches), columns), np.int64)
    for cycle in range(len(sums)):
        ports.activations.drive(stimulus.activations[cycle].tolist())
        ports.weights.drive(stimulus.weights[cycle].tolist())
        ports.load.drive(int(stimulus.loads[cycle] @ powers))
        ports.switch.drive(int(stimulus.switches[cycle]))
        await bench.edge
        if cycle > columns + 2 * bench.config.rows:
            sums[cycle] = list(ports.sums.value)
    return sums


@Bench.test(make)
async def products(bench: Bench) -> None:
    """Every sum of every pixel comes in its cycle, and is that of MATMUL."""
    config, machine = bench.config, machine_of(bench)
    rows, depth, gap = config.rows, config.accumulator_depth, config.rows // config.weight_rows
    for number in range(bench.options["rounds"]):
        gaps = [max(gap, bench.rng.choice([gap, gap, gap + 3, depth])) for _ in range(12)]
        gaps = [min(gap, depth) for gap in gaps]
        switches = 2 * rows + config.columns + np.cumsum([0, *gaps])
        stimulus = Stimulus(bench, int(switches[-1]) + 2 * rows + config.columns + 4)
        if number % 2:  # extremes, and the greatest sum
            stimulus.activations = np.where(stimulus.activations < 0, -128, 127)
            machine.weights[:] = np.where(machine.weights < 0, -128, 127)
            stimulus.activations[::3], machine.weights[:, :, 0] = -128, -128
        tiles = [bench.rng.randrange(config.weight_tiles) for _ in gaps]
        before, moment = int(switches[0]) - 2 * rows, bench.rng.randrange(3)
        for tile, switch in zip(tiles, switches.tolist(), strict=False):
            stimulus.load(machine.weights[tile], before, switch, moment)
            before = switch
        sums = await play(bench, stimulus)
        for tile, first, count in zip(tiles, switches.tolist(), gaps, strict=False):
            vectors = stimulus.activations[first + 1 : first + 1 + count]
            machine.unified[: count * rows] = vectors.ravel()
            fields = {"taps": rows, "x_count": count, "x_stride": rows, "tile": tile}
            assert run(machine, Instruction(Opcode.MATMUL, **fields)) is None
            for column in range(config.columns):
                cycles = first + 1 + bench.unit.latency + column + np.arange(count)
                expected = machine.accumulators[:count, column]
                same(sums[cycles, column], expected, f"tile {tile}, column {column}")
