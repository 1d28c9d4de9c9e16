"""Tiles of weights and the activations that pass through them, recorded on the machine model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sim.check import footprint
from celosia.sw.driver.core import RunResult
from celosia.sw.ir.program import Program
from celosia.sw.runtime.machine import MachineDevice

#: Vectors of a pass that are kept.
_VECTORS = 24


@dataclass(frozen=True, eq=False)
class Pass:
    """One tile of weights, and some of the activations that it is multiplied with."""

    layer: int  #: Number of the layer in the program.
    instruction: int  #: Index of the MATMUL in its section.
    tile: int  #: Tile of the weight buffer.
    #: Reduction step from 0, and how many the instruction has.
    step: int
    steps: int
    #: First of the vectors kept, and how many the pass has.
    first: int
    vectors: int
    weights: np.ndarray  #: int8, shape ``(rows, columns)`` of the array.
    activations: np.ndarray  #: int8, shape ``(vectors kept, rows)``.


class Recorder(MachineDevice):
    """A machine model that keeps one pass of each layer: the one whose activations vary most.

    ``program``: the program that will run.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program.config, program.memory_bytes)
        self._layers = {section.address: section.layers for _, section in program.sections}
        self._best: dict[int, tuple[float, Pass]] = {}

    def run(self, address: int, count: int) -> RunResult:
        """Run the program at byte ``address``, and record its passes."""
        layers = self._layers[address]
        self.machine.watch = lambda index, i: self._see(layers, index, i)
        return super().run(address, count)

    def clear(self) -> None:
        """Remove all records."""
        self._best.clear()

    @property
    def passes(self) -> list[Pass]:
        """The pass of each layer that has any, in the order of layers."""
        return [self._best[layer][1] for layer in sorted(self._best)]

    def _see(self, layers: Sequence[int], index: int, i: Instruction) -> None:
        """Keep a pass of a MATMUL before it runs, if its activations vary most in its layer."""
        if i.opcode is not Opcode.MATMUL:
            return
        rows, steps = self.config.rows, footprint.steps(i, self.config)
        taps = footprint.taps(i, self.config).gather(self.machine.unified).reshape(-1, i.taps)
        past = ((0, 0), (0, steps * rows - i.taps))
        score, first, step = _most_varied(np.pad(taps, past, "edge").reshape(-1, steps, rows))
        # Lanes past the last tap read zero.
        lanes = np.pad(taps, past).reshape(-1, steps, rows)
        if score <= self._best.get(layers[index], (-1.0,))[0]:
            return
        record = Pass(
            layer=layers[index],
            instruction=index,
            tile=i.tile + step,
            step=step,
            steps=steps,
            first=first,
            vectors=len(lanes),
            weights=self.machine.weights[i.tile + step].copy(),
            activations=lanes[first : first + _VECTORS, step].copy(),
        )
        self._best[layers[index]] = score, record


def _most_varied(lanes: np.ndarray) -> tuple[float, int, int]:
    """Return spread, first vector and step of the ``_VECTORS`` vectors that vary most."""
    spread = np.cumsum(lanes.std(axis=2), axis=0)
    count = min(_VECTORS, len(lanes))
    windows = spread[count - 1 :].copy()
    windows[1:] -= spread[: len(windows) - 1]
    first, step = np.unravel_index(int(windows.argmax()), windows.shape)
    return float(windows[first, step]), int(first), int(step)
