"""Addresses of a training step: unified buffer, weight buffer, external memory."""

from functools import cached_property

from celosia.hw.arch.config import PARAMETER_BYTES, PROGRAM_BYTES, TABLE_BYTES, Config
from celosia.sw.runtime.arrays import InputError
from celosia.sw.training.scheme import TrainableNetwork
from celosia.sw.training.step.addresses import Backward, Convolution, Forward, Gradient
from celosia.sw.training.step.places import Area, Block, Chunk, Matrix, balanced
from celosia.sw.training.step.streamed import Streamed

#: Sets of parameters besides those of the layers, in order: see ``constants.parameters``.
SETS = ("same", "reciprocal", "error", "threshold", "low", "high")
#: Chunks whose parameters are loaded at once.
_NOISE_SLOTS = 4
#: Tables: exponential, reciprocal, and the one that turns -128 into 0.
TABLES = ("exponential", "reciprocal", "mask")


class Layout:
    """Addresses of one training step of a network on a core.

    Layers have their numbers in the network; ``first`` is the first matrix product. Its inputs and
    weights are streamed (``streamed``).
    Raises InputError if the core lacks MOVE_WEIGHTS, is not square, or is too small.
    """

    def __init__(self, network: TrainableNetwork, config: Config) -> None:
        self.network = network
        self.config = config
        self.size = config.rows
        self.batch = network.batch
        self._check()
        layers = network.layers
        self.convolutions = [
            Convolution(number, layer, self.batch, config)
            for number, layer in enumerate(network.convs)
        ]
        self.first = len(self.convolutions)
        #: Rows and columns of the weights of each layer, rounded up to whole tiles.
        self.inputs = [self.padded(layer.rows) for layer in layers]
        self.outputs = [self.padded(layer.outputs) for layer in layers]
        for number, conv in enumerate(self.convolutions):
            self.inputs[number] = conv.geometry.rows
        last = self.convolutions[-1].geometry
        self.inputs[self.first] = last.blocks * last.maxima_bytes
        count, outputs = self.inputs[self.first], self.outputs[self.first]
        self.streamed = Streamed(self.first, count, outputs, self.batch, config)
        self.classes = layers[-1].outputs
        #: Products whose errors have noise in their rows, to make the errors of the layer before.
        self.noisy = self.products
        self.row_lengths = [self.batch + self.outputs[-1] + self.size, self.outputs[-1] + self.size]
        self.row_lengths += [self.outputs[n] + self.size for n in self.noisy]
        self._tiles()
        self._parameters()
        space = Area(PROGRAM_BYTES)
        self._constants(space)
        self._unified()
        self._host(space)
        self._results(space)
        self.program = space.end

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

    def _require(self, field: str, size: int) -> None:
        value = getattr(self.config, field)
        if value < size:
            raise InputError(
                f"training: wanted {field} of at least {size}, got {value} in {self.config.name}"
            )

    @property
    def products(self) -> range:
        """Numbers of the matrix products."""
        return range(self.first, len(self.network.layers))

    # External memory.

    def _parameters(self) -> None:
        """Give out the channels of the parameters."""
        self.sets = [
            *SETS,
            *(f"{kind}{n}" for n in range(len(self.inputs)) for kind in ("sum", "back")),
        ]
        first = len(self.sets) * self.config.lanes
        #: Channels of the parameters of chunks, in turn.
        self.noise_slots = [first + n * self.size for n in range(_NOISE_SLOTS)]
        self._require("parameter_channels", first + _NOISE_SLOTS * self.size)

    def _constants(self, space: Area) -> None:
        """Take what the host writes before the first step: constants and weights."""
        self.parameters = space.take(len(self.sets) * self.config.lanes * PARAMETER_BYTES)
        self.tables = space.take(len(TABLES) * TABLE_BYTES)
        self.tile_content = space.take(self.constant_tiles * self.config.tile_bytes)
        #: Addresses of the high and the low bytes of each layer.
        self.weights = [
            (space.take(i * o), space.take(i * o))
            for i, o in zip(self.inputs, self.outputs, strict=True)
        ]

    def _host(self, space: Area) -> None:
        """Take what the host writes for a step: images, parameters of each chunk, noise, rows."""
        self.host = space.end
        self.images = space.take(self.batch * self.image_bytes)
        self.noise = space.take(len(self.chunks) * self.chunk_parameters)
        for conv in self.convolutions:
            conv.noise = space.take(conv.noise_rows * self.size)
        #: Rows of one image each: for the products with the softmax, its error, errors of layers.
        self.rows = [space.take(self.batch * length) for length in self.row_lengths]
        #: For each layer with dropout: -128 for the results that are left out, else 0.
        self.dropped = {n: space.take(self.batch * self.outputs[n]) for n in self.network.dropping}
        self.host_end = space.end

    def _results(self, space: Area) -> None:
        """Take what a step computes: logits, and what it streams."""
        self.scores = space.take(self.batch * self.classes)
        for conv in self.convolutions:
            conv.external(space, None if conv.number else self.images)
        self.streamed.external = space.take(self.batch * self.streamed.count)

    @property
    def image_bytes(self) -> int:
        """Bytes of one image as the host writes it."""
        return self.convolutions[0].geometry.image_bytes

    # Unified buffer.

    def _unified(self) -> None:
        space = Area(self.size)
        batch, size, last = self.batch, self.size, self.outputs[-1]
        # Columns can be read, as the pitch is 1 modulo R.
        self.activations = {n: space.matrix(batch, self.inputs[n] + 1) for n in self.held}
        self.logits = space.matrix(batch, last + size)
        self.exponentials = space.matrix(batch, last)
        self.shares = space.matrix(batch, self.row_lengths[0])
        self.differences = space.matrix(batch, self.row_lengths[1])
        self.errors: dict[int, Matrix] = {}
        #: For each product after another: errors of its inputs, then the mask for them, twice.
        self.masked: dict[int, list[Matrix]] = {}
        for number in self.products:
            pitch = self.outputs[number] + size
            hidden = number < len(self.outputs) - 1
            planes = [space.matrix(batch, pitch) for _ in range(3 if hidden else 1)]
            self.errors[number] = planes[0]
            if hidden:
                self.masked[number + 1] = planes
        self._blocks(space)
        self._require("unified_bytes", max(space.end, self._phases(space.end)))

    def _blocks(self, space: Area) -> None:
        """Place the blocks of weights that are not streamed."""
        self.blocks: dict[int, list[Block]] = {}
        for number in self.held:
            count, blocks = self.inputs[number], []
            for j in range(self.outputs[number] // self.size):
                # The bytes of a column, of which the errors of the layer before are made.
                pair = space.pair(count, self.size + 1)
                high, low = (x + j * count * self.size for x in self.weights[number])
                blocks.append(Block(number, j, *pair, high, low))
            self.blocks[number] = blocks

    def _phases(self, base: int) -> int:
        """Place what one phase needs at a time, from ``base`` on; return the end of the longest."""
        self.forward_buffers: list[Forward] = []
        self.backward_buffers: list[Backward] = []
        self.gradient_buffers: list[Gradient] = []
        following = [conv.geometry.image_bytes for conv in self.convolutions[1:]]
        following.append(self.streamed.count)
        end = self.streamed.place(base, self.weights[self.first])
        for conv, length in zip(self.convolutions, following, strict=True):
            spaces = [Area(self.size, base) for _ in range(3)]
            self.forward_buffers.append(conv.forward(spaces[0], length))
            self.backward_buffers.append(conv.backward(spaces[1]))
            self.gradient_buffers.append(conv.gradient(spaces[2], self.weights[conv.number]))
            end = max(end, *(space.end for space in spaces))
        return end

    # Weight buffer. A group of tiles is multiplied by one MATMUL.

    def _tiles(self) -> None:
        space = Area(1)
        last, outputs = self.tiles_of(self.outputs[-1]), self.outputs[-1] // self.size
        per_batch = self.tiles_of(self.batch)
        self.identity = space.take(2)
        self.ones = space.take(last)
        self.centre = [space.take(last + 1) for _ in range(outputs)]
        self.product = [space.take(per_batch + last + 1) for _ in range(outputs)]
        self.project = [space.take(last + 1) for _ in range(outputs)]
        self.back: dict[int, list[int]] = {}
        for n in self.products[1:]:
            count = self.tiles_of(self.outputs[n]) + 1
            self.back[n] = [space.take(count) for _ in range(self.inputs[n] // self.size)]
        #: Tiles of -I and 2 I.
        self.minus, self.twice = space.take(1), space.take(1)
        #: Tiles that make noise as wide as the shift of the errors of a streamed layer's inputs.
        self.noise_tiles = {n: space.take(1) for n in range(1, self.first + 1)}
        self.constant_tiles = space.end
        #: Tiles of errors, in turn.
        self.gradient = [space.take(per_batch) for _ in "01"]
        #: First tile of those that change from phase to phase.
        self.changing = space.end
        self._changing_tiles(space)

    def _changing_tiles(self, space: Area) -> None:
        free = self.config.weight_tiles - space.end
        longest = max((self.inputs[n] // self.size for n in self.held), default=0)
        count = max([longest, *(conv.tiles for conv in self.convolutions)])
        self.streamed.limit(free)
        longest = max(longest, self.streamed.part_tiles)
        count = max(count, longest, self.tiles_of(self.outputs[self.first]))
        self._require("weight_tiles", space.end + count)
        #: Tiles of the forward pass, which take turns.
        self.forward = [space.take(longest) for _ in range(min(2, free // longest))]

    def is_streamed(self, number: int) -> bool:
        """Return True for the product whose inputs and weights are streamed."""
        return number == self.first

    def source(self, number: int, turn: int) -> Matrix:
        """Return the inputs of a product; ``turn``: which buffer of a part, if streamed."""
        if self.is_streamed(number):
            return self.streamed.inputs[turn]
        return self.activations[number]

    @property
    def held(self) -> range:
        """Numbers of the matrix products that are not streamed."""
        return self.products[1:]

    @property
    def early_blocks(self) -> list[Block]:
        """Blocks of weights that are in the unified buffer before the backward pass."""
        return [block for n in self.held for block in self.blocks[n]]

    @property
    def chunk_parameters(self) -> int:
        """Bytes of the parameters of a chunk: a channel for each column."""
        return self.size * PARAMETER_BYTES

    def parts(self, number: int) -> list[tuple[int, int]]:
        """Return the rows of each chunk of a block of a layer."""
        if number < self.first:
            return self.convolutions[number].parts
        if self.is_streamed(number):
            return self.streamed.parts
        return balanced(self.inputs[number], self.config.accumulator_depth)

    @cached_property
    def chunks(self) -> list[Chunk]:
        """Chunks of all layers, the last layer first."""
        every = [part for n in reversed(range(len(self.inputs))) for part in self._chunks(n)]
        return [Chunk(number, *part) for number, part in enumerate(every)]

    def _chunks(self, number: int) -> list[tuple[Block, int, tuple[int, int]]]:
        """Return block, part and rows of the chunks of a layer; streamed blocks are of one part."""
        parts = self.parts(number)
        if number < self.first:
            some = self.gradient_buffers[number].blocks
            turns = [(block, turn % len(parts)) for turn, block in enumerate(some)]
        elif self.is_streamed(number):
            turns = [(x, part) for part, some in enumerate(self.streamed.blocks) for x in some]
        else:
            blocks = self.blocks[number]
            return [(block, part, rows) for block in blocks for part, rows in enumerate(parts)]
        return [(block, part, (0, parts[part][1] - parts[part][0])) for block, part in turns]

    def noise_slot(self, chunk: Chunk) -> int:
        """Return the first channel of the parameters of a chunk."""
        return self.noise_slots[chunk.number % len(self.noise_slots)]

    def set_of(self, name: str) -> int:
        """Return the first channel of a set of parameters."""
        return self.sets.index(name) * self.config.lanes

    def table_of(self, name: str) -> int:
        """Return the slot of a table; all share one where there are few."""
        return TABLES.index(name) if self.config.tables >= len(TABLES) else 0
