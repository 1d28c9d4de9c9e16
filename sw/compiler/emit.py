"""Sixth pass: instructions, each with what it reads and writes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from celosia.hw.arch.config import PARAMETER_BYTES, Config
from celosia.hw.arch.isa import Instruction, Kind, Opcode, Space
from celosia.sw.compiler.allocate import Placement
from celosia.sw.compiler.schedule import Block, Drain, LoadBlock, Multiply, StoreBlock
from celosia.sw.compiler.spec import Network
from celosia.sw.compiler.stream import FetchParameters, FetchWeights, Work
from celosia.sw.compiler.tile import Tiling

__all__ = ["Access", "Step", "emit_main", "emit_setup"]


@dataclass(frozen=True)
class Access:
    """Part of one of the core's memories that an instruction reads or writes.

    Rows of ``pitch`` from ``base``; of rows ``first_row`` to ``last_row`` (exclusive) the columns
    ``first_column`` to ``last_column`` (exclusive). Units are bytes, tiles, channels, or halves.
    """

    memory: str
    writes: bool
    base: int
    pitch: int
    first_row: int
    last_row: int
    first_column: int
    last_column: int

    @property
    def start(self) -> int:
        """Lowest address touched."""
        return self.base + self.first_row * self.pitch + self.first_column

    @property
    def end(self) -> int:
        """Address behind the highest touched."""
        return self.base + (self.last_row - 1) * self.pitch + self.last_column

    def conflicts(self, other: "Access") -> bool:
        """Whether the order of both matters."""
        if self.memory != other.memory or not (self.writes or other.writes):
            return False
        if self.end <= other.start or other.end <= self.start:
            return False
        if (self.base, self.pitch) != (other.base, other.pitch):
            return True
        return (
            self.first_row < other.last_row
            and other.first_row < self.last_row
            and self.first_column < other.last_column
            and other.first_column < self.last_column
        )


@dataclass(frozen=True)
class Step:
    """An instruction, without its semaphores, and what it touches.

    ``layer`` is the number of the layer it works for.
    """

    instruction: Instruction
    accesses: tuple[Access, ...]
    layer: int


def _span(memory: str, writes: bool, first: int, count: int) -> Access:
    return Access(memory, writes, 0, 0, 0, 1, first, first + count)


class _Emitter:
    def __init__(
        self, network: Network, tiling: Tiling, placement: Placement, config: Config
    ) -> None:
        self.network = network
        self.tiling = tiling
        self.placement = placement
        self.config = config

    def step(self, work: Work) -> Step:
        """Return the instruction that does a piece of work."""
        if isinstance(work, FetchWeights):
            return self.weights(work.layer, work.first, work.count, work.place)
        if isinstance(work, FetchParameters):
            return self.parameters(work.layer, work.first, work.count, work.place)
        if isinstance(work, LoadBlock):
            return self.move(Opcode.LOAD, work.block, work.layer)
        if isinstance(work, StoreBlock):
            return self.move(Opcode.STORE, work.block, work.layer)
        if isinstance(work.action, Multiply):
            return self.multiply(work.action, work.place)
        return self.drain(work.action, work.place)

    def access(self, block: Block, *, writes: bool) -> Access:
        """Return the bytes of a block in the unified buffer."""
        return Access(
            "unified",
            writes,
            self.placement.address(block.value, block.part),
            block.pitch,
            block.first_row,
            block.last_row,
            block.first_column,
            block.last_column,
        )

    def weights(self, layer: int, first: int, count: int, place: int) -> Step:
        """Return a load of tiles."""
        instruction = Instruction(
            Opcode.LOAD_WEIGHTS,
            external=self.placement.weights[layer] + first * self.config.tile_bytes,
            tile=place,
            tiles=count,
        )
        return Step(instruction, (_span("weights", True, place, count),), layer)

    def parameters(self, layer: int, first: int, count: int, place: int) -> Step:
        """Return a load of channel parameters."""
        instruction = Instruction(
            Opcode.LOAD_PARAMS,
            external=self.placement.parameters[layer] + first * PARAMETER_BYTES,
            kind=Kind.CHANNELS,
            first=place,
            count=count,
        )
        return Step(instruction, (_span("parameters", True, place, count),), layer)

    def move(self, opcode: Opcode, block: Block, layer: int) -> Step:
        """Return a load or store; whole rows are one row, being side by side on both ends."""
        value = self.network.values[block.value]
        first_item = self.placement.parts[block.part][0]
        access = self.access(block, writes=opcode is Opcode.LOAD)
        external = self.placement.external[block.value] + first_item * value.bytes_per_item
        external += block.first_row * block.pitch + block.first_column
        fields = {"external": external, "unified": access.start}
        if block.columns == block.pitch or block.rows == 1:
            fields["length"] = block.columns * block.rows
        else:
            fields["length"] = block.columns
            fields["rows"] = block.rows
            fields["external_pitch"] = fields["unified_pitch"] = block.pitch
        return Step(Instruction(opcode, **fields), (access,), layer)

    def multiply(self, action: Multiply, place: int) -> Step:
        """Return matrix work; a half of the accumulators belongs to one unit at a time."""
        block = action.block
        read = self.access(block, writes=False)
        instruction = Instruction(
            Opcode.MATMUL,
            unified=read.start,
            x_count=block.rows,
            x_stride=block.pitch if block.rows > 1 else 0,
            taps=block.columns,
            tile=place,
            accumulator=action.half * self.config.accumulator_depth + action.accumulator,
            accumulate=int(action.accumulate),
        )
        steps = action.last_step - action.first_step
        accesses = (
            read,
            _span("weights", False, place, steps),
            _span("accumulators", True, action.half, 1),
        )
        return Step(instruction, accesses, action.layer)

    def drain(self, action: Drain, place: int) -> Step:
        """Return the requantisation of a tile."""
        block, layer = action.block, self.network.layers[action.layer]
        written = self.access(block, writes=True)
        instruction = Instruction(
            Opcode.VECTOR,
            source=Space.ACCUMULATORS,
            destination=Space.UNIFIED,
            x_count=block.rows,
            channels=block.columns,
            source_base=action.half * self.config.accumulator_depth + action.accumulator,
            source_x_stride=1,
            destination_base=written.start,
            destination_x_stride=block.pitch if block.rows > 1 else 0,
            params=place,
            per_channel=1,
            rounding=layer.rounding,
            zero_point=layer.zero_point,
            low=layer.low,
            high=layer.high,
        )
        accesses = (
            written,
            _span("parameters", False, place, block.columns),
            _span("accumulators", False, action.half, 1),
        )
        return Step(instruction, accesses, action.layer)


def emit_main(
    work: Iterable[Work], network: Network, tiling: Tiling, placement: Placement, config: Config
) -> Iterator[Step]:
    """Yield the instructions of one batch, in order."""
    emitter = _Emitter(network, tiling, placement, config)
    return (emitter.step(piece) for piece in work)


def emit_setup(
    network: Network, tiling: Tiling, placement: Placement, config: Config
) -> Iterator[Step]:
    """Yield the one-time loads of constants that stay."""
    emitter = _Emitter(network, tiling, placement, config)
    for number, layer in enumerate(tiling.layers):
        if layer.first_tile is not None:
            yield emitter.weights(number, 0, layer.steps * layer.tiles, layer.first_tile)
        if layer.first_channel is not None:
            count = layer.tiles * config.columns
            yield emitter.parameters(number, 0, count, layer.first_channel)
