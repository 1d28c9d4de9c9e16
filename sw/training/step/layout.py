"""Addresses of a training step: unified buffer, weight buffer, external memory."""

from dataclasses import dataclass
from functools import cached_property

from celosia.hw.arch.config import PARAMETER_BYTES, PROGRAM_BYTES, TABLE_BYTES, Config
from celosia.sw.compiler.emit.access import Access
from celosia.sw.runtime.arrays import InputError
from celosia.sw.training.scheme import Network

#: Sets of parameters besides those of the layers, in order: see ``constants.parameters``.
SETS = ("same", "reciprocal", "error", "threshold", "low", "high")
#: Chunks whose parameters are loaded at once.
_NOISE_SLOTS = 4
#: Tables: exponential, reciprocal, and the one that turns -128 into 0.
TABLES = ("exponential", "reciprocal", "mask")


@dataclass(frozen=True)
class Matrix:
    """Matrix in the unified buffer: ``rows`` rows of ``pitch`` bytes from byte ``base``."""

    base: int
    rows: int
    pitch: int

    @property
    def end(self) -> int:
        """Byte after the last."""
        return self.base + self.rows * self.pitch

    def at(self, row: int = 0, column: int = 0) -> int:
        """Return the address of an element."""
        return self.base + row * self.pitch + column

    def access(self, writes: bool, rows: tuple[int, int], columns: tuple[int, int]) -> Access:
        """Return an access to a rectangle."""
        return Access("unified", writes, self.base, self.pitch, *rows, *columns)

    def all(self, writes: bool) -> Access:
        """Return an access to all of it."""
        return self.access(writes, (0, self.rows), (0, self.pitch))


@dataclass(frozen=True)
class Block:
    """C columns of the weights of a layer, high and low bytes, in both memories."""

    layer: int
    number: int  #: Of the columns, from 0.
    high: Matrix
    low: Matrix
    external_high: int
    external_low: int


@dataclass(frozen=True)
class Chunk:
    """Rows of a block whose gradients fit half of the accumulators."""

    number: int  #: Among all chunks.
    block: Block
    part: int  #: Of the rows of the block, from 0.
    rows: tuple[int, int]


class _Space:
    """Bytes given out one after the other."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.end = 0

    def take(self, count: int) -> int:
        """Return the first of ``count`` bytes, or tiles."""
        first = self.end
        self.end += -(-count // self.step) * self.step
        return first


class Layout:
    """Addresses of one training step of a network on a core.

    Raises InputError if the core lacks MOVE_WEIGHTS, is not square, or is too small.
    """

    def __init__(self, network: Network, config: Config) -> None:
        self.network = network
        self.config = config
        self.size = config.rows
        self.batch = network.batch
        self._check()
        layers = network.layers
        #: Bytes of the inputs and outputs of each layer, rounded up to whole tiles.
        self.inputs = [self.padded(layer.inputs) for layer in layers]
        self.outputs = [self.padded(layer.outputs) for layer in layers]
        self.classes = layers[-1].outputs
        #: Layers whose errors have noise in their rows, to make the errors of the layer before; the
        #: last layer is always one, as the host clears what is beside its errors.
        self.noisy = list(range(1, len(layers))) or [0]
        self._tiles()
        self._external()
        self._unified()

    def _check(self) -> None:
        config, batch = self.config, self.batch
        if not config.activation_weights:
            raise InputError(
                f"training: wanted a core with activation_weights=true, got {config.name}"
            )
        if config.rows != config.columns:
            raise InputError(f"training: wanted a square array, got {config.rows}x{config.columns}")
        if batch % self.size or batch > config.accumulator_depth:
            raise InputError(
                f"training: wanted a batch of a multiple of {self.size}, "
                f"at most {config.accumulator_depth}, got {batch}"
            )

    def padded(self, count: int) -> int:
        """Return a count rounded up to whole tiles."""
        return -(-count // self.size) * self.size

    def tiles_of(self, count: int) -> int:
        """Return the tiles of so many taps."""
        return -(-count // self.size)

    # External memory.

    def _external(self) -> None:
        space = _Space(PROGRAM_BYTES)
        lanes, layers = self.config.lanes, len(self.network.layers)
        self.sets = [
            *SETS,
            *(f"{kind}{n}" for n in range(layers) for kind in ("sum", "back")),
        ]
        first = len(self.sets) * lanes
        #: Channels of the parameters of chunks, in turn.
        self.noise_slots = [first + n * self.size for n in range(_NOISE_SLOTS)]
        wanted = first + _NOISE_SLOTS * self.size
        if wanted > self.config.parameter_channels:
            raise InputError(
                f"training: wanted parameter_channels of at least {wanted}, "
                f"got {self.config.parameter_channels} in {self.config.name}"
            )
        self.parameters = space.take(len(self.sets) * lanes * PARAMETER_BYTES)
        self.tables = space.take(len(TABLES) * TABLE_BYTES)
        self.weights = [
            tuple(space.take(i * o) for _ in "hl")
            for i, o in zip(self.inputs, self.outputs, strict=True)
        ]
        #: What the host writes for a step: images, parameters of each chunk, then rows.
        self.host = space.end
        self.images = space.take(self.batch * self.inputs[0])
        chunks = (len(self.parts(n)) * o // self.size for n, o in enumerate(self.outputs))
        self.noise = space.take(sum(chunks) * self.chunk_parameters)
        self.row_lengths = [self.batch + self.outputs[-1] + self.size, self.outputs[-1] + self.size]
        self.row_lengths += [self.outputs[n] + self.size for n in self.noisy]
        #: Rows of one image each: for the products with the softmax, its error, errors of layers.
        self.rows = [space.take(self.batch * length) for length in self.row_lengths]
        self.host_end = space.end
        self.scores = space.take(self.batch * self.classes)
        self.tile_content = space.take(self.constant_tiles * self.config.tile_bytes)
        self.program = space.end

    # Unified buffer.

    def _unified(self) -> None:
        space = _Space(self.size)

        def matrix(rows: int, pitch: int) -> Matrix:
            return Matrix(space.take(rows * pitch), rows, pitch)

        batch, size, last = self.batch, self.size, self.outputs[-1]
        # Columns can be read, as the pitch is 1 modulo R.
        self.activations = [matrix(batch, count + 1) for count in self.inputs]
        self.logits = matrix(batch, last + size)
        self.exponentials = matrix(batch, last)
        self.products = matrix(batch, self.row_lengths[0])
        self.differences = matrix(batch, self.row_lengths[1])
        self.errors: list[Matrix] = []
        #: For each layer but the first: errors of its inputs, then the mask for them, twice.
        self.masked: list[list[Matrix]] = [[]]
        for number, count in enumerate(self.outputs):
            pitch = count + size * (number in self.noisy)
            hidden = number < len(self.outputs) - 1
            first, *masks = (matrix(batch, pitch) for _ in range(3 if hidden else 1))
            self.errors.append(first)
            if hidden:
                self.masked.append([first, *masks])
        self._blocks(space)
        if space.end > self.config.unified_bytes:
            raise InputError(
                f"training: wanted unified_bytes of at least {space.end}, "
                f"got {self.config.unified_bytes} in {self.config.name}"
            )

    def _blocks(self, space: _Space) -> None:
        """Place the blocks of weights: those of the first layer take turns."""
        self.blocks: list[list[Block]] = []
        first = 2 * self.inputs[0] * self.size
        later = sum(
            2 * i * (self.size + 1) * self.tiles_of(o)
            for i, o in list(zip(self.inputs, self.outputs, strict=True))[1:]
        )
        turns = 2 if space.end + later + 2 * first <= self.config.unified_bytes else 1
        buffers = [self._pair(space, self.inputs[0], self.size) for _ in range(turns)]
        for number, (count, outputs) in enumerate(zip(self.inputs, self.outputs, strict=True)):
            blocks = []
            for j in range(outputs // self.size):
                # The bytes of a column, of which the errors of the layer before are made.
                pair = buffers[j % turns] if not number else self._pair(space, count, self.size + 1)
                high, low = (x + j * count * self.size for x in self.weights[number])
                blocks.append(Block(number, j, *pair, high, low))
            self.blocks.append(blocks)

    @staticmethod
    def _pair(space: _Space, rows: int, pitch: int) -> tuple[Matrix, Matrix]:
        """Return places of high and low bytes, the low ones first."""
        low = Matrix(space.take(rows * pitch), rows, pitch)
        return Matrix(space.take(rows * pitch), rows, pitch), low

    # Weight buffer. A group of tiles is multiplied by one MATMUL.

    def _tiles(self) -> None:
        space = _Space(1)
        last, outputs = self.tiles_of(self.outputs[-1]), self.outputs[-1] // self.size
        per_batch = self.tiles_of(self.batch)
        self.identity = space.take(2)
        self.ones = space.take(last)
        self.centre = [space.take(last + 1) for _ in range(outputs)]
        self.product = [space.take(per_batch + last + 1) for _ in range(outputs)]
        self.project = [space.take(last + 1) for _ in range(outputs)]
        self.back = [
            [space.take(self.tiles_of(o) + 1) for _ in range(i // self.size)] if n else []
            for n, (i, o) in enumerate(zip(self.inputs, self.outputs, strict=True))
        ]
        self.constant_tiles = space.end
        #: Tiles of errors, in turn.
        self.gradient = [space.take(per_batch) for _ in "01"]
        most = max(self.inputs) // self.size
        free = self.config.weight_tiles - space.end
        if free < most:
            raise InputError(
                f"training: wanted weight_tiles of at least {space.end + most}, "
                f"got {self.config.weight_tiles} in {self.config.name}"
            )
        #: Tiles of the forward pass, which take turns.
        self.forward = [space.take(most) for _ in range(min(2, free // most))]

    @property
    def early_blocks(self) -> list[Block]:
        """Blocks of weights that are in the unified buffer before the backward pass."""
        return [*(block for blocks in self.blocks[1:] for block in blocks), self.blocks[0][0]]

    @property
    def chunk_parameters(self) -> int:
        """Bytes of the parameters of a chunk: a channel for each column."""
        return self.size * PARAMETER_BYTES

    def parts(self, number: int) -> list[tuple[int, int]]:
        """Return the rows of each chunk of a block of a layer."""
        count, depth = self.inputs[number], self.config.accumulator_depth
        rows = -(-count // -(-count // depth))
        return [(first, min(first + rows, count)) for first in range(0, count, rows)]

    @cached_property
    def chunks(self) -> list[Chunk]:
        """Chunks of all layers, the last layer first."""
        every = [
            (block, part, rows)
            for blocks in reversed(self.blocks)
            for block in blocks
            for part, rows in enumerate(self.parts(block.layer))
        ]
        return [Chunk(number, *each) for number, each in enumerate(every)]

    def noise_slot(self, chunk: Chunk) -> int:
        """Return the first channel of the parameters of a chunk."""
        return self.noise_slots[chunk.number % len(self.noise_slots)]

    def set_of(self, name: str) -> int:
        """Return the first channel of a set of parameters."""
        return self.sets.index(name) * self.config.lanes

    def table_of(self, name: str) -> int:
        """Return the slot of a table; all share one where there are few."""
        return TABLES.index(name) if self.config.tables >= len(TABLES) else 0
