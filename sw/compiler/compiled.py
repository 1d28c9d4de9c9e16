"""Results of the passes: a program, its parts, and its sections by layer."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from celosia.hw.arch.commands import encode
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode, Unit
from celosia.hw.arch.registers import MOST_INSTRUCTIONS
from celosia.sim.timing.costs import pass_cycles
from celosia.sw.compiler.emit.access import Step
from celosia.sw.compiler.emit.synchronise import synchronise
from celosia.sw.compiler.layout.pitches import least_steps
from celosia.sw.compiler.layout.tile import Tiling
from celosia.sw.ir.parts import Section
from celosia.sw.ir.program import Program
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct, MatrixLayer


@dataclass(frozen=True, eq=False)
class CompiledPart:
    """Results of the passes for one part of a program."""

    network: Network  #: The layers.
    per_image: int  #: Number of per-image layers.
    bands: frozenset[int]  #: Layers that multiply in bands.
    steps: tuple[Step, ...]  #: The instructions of ``mains`` without HALT and semaphores.
    first: int  #: Number of the first layer in the program.


class LayerResult(NamedTuple):
    """A value that a layer computes."""

    layer: int  #: Number of the layer in the program.
    name: str  #: Name of the tensor in the model.
    shape: tuple[int, int, int]  #: Height, width and channels of one sample.


@dataclass(frozen=True, eq=False)
class Compiled:
    """A program, and the results of its passes."""

    program: Program
    parts: tuple[CompiledPart, ...]

    @property
    def results(self) -> list[LayerResult]:
        """Results of the layers, with those that a layer changes further on its way out."""
        return [
            LayerResult(
                part.first + makers[-1], value.name, (value.height, value.width, value.channels)
            )
            for part in self.parts
            for value, makers in zip(part.network.values, part.network.makers, strict=True)
            if makers
        ]


@dataclass(frozen=True)
class LayerSection:
    """Work of one layer, or a share of it, as a separate section."""

    layer: int  #: Number of the layer.
    section: Section  #: The instructions, with their own semaphores, and HALT.


def bounds(compiled: Compiled) -> list[int]:
    """Return the least cycles of each layer in the array, for one batch.

    For a layer in bands, the cycles of its passes. Else the sum over reduction steps of R taps and
    output tiles of C channels of the cycles of a pass: one for each pixel, but not less than the
    R / W in which its tile loads. Samples of the batch share a tile in batched layers.
    0 for a layer without weights.
    """
    program = compiled.program
    config, batch = program.config, program.batch
    cycles = []
    for part, made in zip(compiled.parts, program.parts, strict=True):
        by_layer: dict[int, list[Step]] = defaultdict(list)
        for step in part.steps:
            if step.instruction.unit is Unit.MATRIX:
                by_layer[step.layer].append(step)
        for number, layer in enumerate(part.network.layers):
            if isinstance(layer, DynamicProduct):
                passes = -(-layer.taps // config.rows) * -(-layer.channels // config.columns)
                heads_cycles = layer.heads * pass_cycles(layer.rows, config)
                cycles.append(made.items * batch * passes * heads_cycles)
                continue
            if not isinstance(layer, MatrixLayer):
                cycles.append(0)
                continue
            if number in part.bands:
                passes = sum(_passes(s.instruction, config) for s in by_layer[number])
                cycles.append(made.items * passes)
                continue
            # Pixels of the model: some that no window reads are not computed.
            pixels = layer.macs // layer.weights.size
            passes = least_steps(layer, config) * -(-layer.channels // config.columns)
            alone = number < part.per_image
            times = batch if alone else 1
            batch_cycles = times * pass_cycles(batch * pixels // times, config)
            cycles.append(made.items * passes * batch_cycles)
    return cycles


def _passes(i: Instruction, config: Config) -> int:
    """Return the least cycles of the passes of a MATMUL."""
    pixels = i.x_count * i.y_count * i.z_count
    return -(-i.taps // config.rows) * pass_cycles(pixels, config)


def layer_sections(compiled: Compiled, number: int = 0) -> list[LayerSection]:
    """Return a part's main sections split by layer; each section runs alone.

    Sections follow the program in external memory, one after the other. Run in order after
    ``setups``, they have the effect of ``mains``. Instructions of the array, the vector unit and
    the stores decide the layer of a section. Loads keep their position, those for later layers too,
    unless they come right before the work of their layer.
    """
    address = compiled.program.memory_bytes
    made = []
    part = compiled.parts[number]
    for layer, steps in _cut(part.steps):
        for section, _ in sections(steps, compiled.program.config, address, part.first):
            made.append(LayerSection(part.first + layer, section))
            address = section.end
    return made


def _cut(steps: Sequence[Step]) -> Iterator[tuple[int, list[Step]]]:
    """Yield (layer, its steps) for each section."""
    part: list[Step] = []
    layer = None
    for step in steps:
        if step.instruction.unit is not Unit.LOAD:
            if layer not in (None, step.layer):
                index = _own_loads(part, step.layer)
                yield layer, part[:index]
                part = part[index:]
            layer = step.layer
        part.append(step)
    if layer is not None:
        yield layer, part


def _own_loads(part: Sequence[Step], layer: int) -> int:
    """Return the index of the last loads of a section that the section of ``layer`` starts with."""
    first = len(part)
    while first and part[first - 1].instruction.unit is Unit.LOAD:
        first -= 1
    own = (n for n in range(first, len(part)) if part[n].layer == layer)
    return next(own, len(part))


def least_instructions(
    network: Network, tiling: Tiling, per_image: int, batch: int, config: Config
) -> int:
    """Return the least number of instructions of ``mains``.

    Per-image layers run by sample, in blocks that half of the accumulators holds: for each
    tile of each block a pass for each of its segments, and one instruction of the vector unit.
    """
    count = 0
    for layer, tiled in list(zip(network.layers, tiling.layers, strict=True))[:per_image]:
        result = network.values[layer.result]
        most = config.accumulator_depth * (tiled.band.count if tiled.band else 1)
        blocks = -(-result.height * result.width // most)
        count += blocks * sum(len(segments) + 1 for segments in tiled.segments)
    return batch * count


def sections(
    steps: Sequence[Step], config: Config, address: int, first: int
) -> Iterator[tuple[Section, list[Instruction]]]:
    """Yield the code of ``steps`` from ``address`` on, and its instructions.

    Each section has its own semaphores, and HALT. There is one even if there are no steps, and
    several if the core cannot number the instructions of one. ``first``: number of the first layer.
    """
    most = MOST_INSTRUCTIONS - 1
    for start in range(0, len(steps) or 1, most):
        some = steps[start : start + most]
        made = [*synchronise(some, config), Instruction(Opcode.HALT)]
        layers = (*(step.layer + first if step.layer >= 0 else -1 for step in some), -1)
        section = Section(address, encode(made), layers)
        yield section, made
        address = section.end
