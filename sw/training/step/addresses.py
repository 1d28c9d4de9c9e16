"""Addresses of a convolution in a training step, phase by phase."""

from dataclasses import dataclass

from celosia.hw.arch.config import Config
from celosia.sw.runtime.arrays import InputError
from celosia.sw.training.scheme import Conv
from celosia.sw.training.step.geometry import Geometry
from celosia.sw.training.step.places import Area, Block, Matrix, balanced


@dataclass(frozen=True)
class Forward:
    """Buffers of the forward pass of a convolution, used in turn.

    ``images``: grids of images; ``planes``: results, then masks, of C channels; ``maxima``: maxima
    of windows, at least 1; ``results``: maxima of all channels, as the next layer reads them.
    """

    images: list[int]
    planes: list[Matrix]
    maxima: list[int]
    results: list[int]


@dataclass(frozen=True)
class Backward:
    """Buffers of the errors of a convolution, used in turn.

    ``pooled``: errors of the maxima; ``planes``: masks; ``errors``: grids of errors, of all
    channels if errors of inputs are wanted, else of C channels; ``inputs``: errors of inputs;
    ``noise``: bytes of noise; ``weights``: blocks of weights to turn.
    """

    pooled: list[int]
    planes: list[Matrix]
    errors: list[int]
    inputs: list[int]
    noise: int
    weights: list[Matrix]


@dataclass(frozen=True)
class Gradient:
    """Buffers of the gradients of a convolution, used in turn.

    ``images``: grids of images; ``errors``: planes of errors, for each of two chunks;
    ``blocks``: the weights of each chunk.
    """

    images: list[int]
    errors: list[list[int]]
    blocks: list[Block]


class Convolution:
    """A convolution of a network on a core.

    ``number``: of the layer; ``geometry``; ``images``, ``masks``, ``errors``, ``pooled``: external
    addresses of images, masks, errors and errors of the maxima, image by image; ``noise``: of noise
    for the errors of its inputs.
    Raises InputError if a row of windows, or of the kernel, does not fit half of the accumulators.
    """

    noise = 0

    def __init__(self, number: int, layer: Conv, batch: int, config: Config) -> None:
        self.number = number
        self.layer = layer
        self.batch = batch
        self.config = config
        self.geometry = Geometry(layer, config.rows, first=number == 0)
        self._check()
        #: Rows of the kernel in each part of the gradient.
        limit = config.accumulator_depth // self.geometry.kernel_row
        self.kernel_rows = balanced(layer.kernel, limit)

    def _check(self) -> None:
        g, depth = self.geometry, self.config.accumulator_depth
        size = max(g.kernel_row, self.layer.pool * g.width, self.layer.width)
        if size > depth:
            raise InputError(
                f"training: wanted accumulator_depth of at least {size}, "
                f"got {depth} in {self.config.name}"
            )

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Rows of the weights in each part of the gradient."""
        row = self.geometry.kernel_row
        return [(first * row, last * row) for first, last in self.kernel_rows]

    @property
    def noise_rows(self) -> int:
        """Rows of R bytes of noise for a step; 0 without errors of inputs.

        Each C channels of the errors of an image's inputs begin one row later than those before.
        """
        g = self.geometry
        return 0 if g.first else g.sources + self.batch * (g.channels // g.size)

    def external(self, space: Area, images: int | None) -> None:
        """Take external memory; ``images``: address of the images, if the host writes them."""
        g, batch = self.geometry, self.batch
        self.images = space.take(batch * g.image_bytes) if images is None else images
        self.masks = space.take(batch * g.blocks * g.plane_bytes)
        self.errors = space.take(batch * g.blocks * g.error_bytes)
        self.pooled = space.take(batch * g.blocks * g.maxima_bytes)

    def forward(self, space: Area, result_bytes: int) -> Forward:
        """Take the bytes of the forward pass."""
        g = self.geometry
        return Forward(
            images=[space.take(g.image_bytes) for _ in "01"],
            planes=self._planes(space, 3),
            maxima=[space.take(g.maxima_bytes) for _ in "01"],
            results=[space.take(result_bytes) for _ in "01"],
        )

    def _planes(self, space: Area, count: int) -> list[Matrix]:
        """Take planes; a row is the results of one row of windows."""
        g = self.geometry
        return [space.matrix(g.high, g.plane_bytes // g.high) for _ in range(count)]

    def backward(self, space: Area) -> Backward:
        """Take the bytes of the errors."""
        g = self.geometry
        blocks, ends = (1, 0) if g.first else (g.blocks, 2)
        return Backward(
            pooled=[space.take(g.blocks * g.maxima_bytes) for _ in "01"],
            planes=self._planes(space, 2),
            errors=[space.take(blocks * g.error_bytes) for _ in "01"],
            inputs=[space.take(g.sources * g.channels) for _ in range(ends)],
            noise=space.take(self.noise_rows * g.size),
            weights=[space.matrix(g.rows, g.size + 1) for _ in range(ends)],
        )

    def gradient(self, space: Area, weights: tuple[int, ...]) -> Gradient:
        """Take the bytes of the gradients; ``weights``: external addresses."""
        g = self.geometry
        longest = max(last - first for first, last in self.parts)
        images = [space.take(g.image_bytes) for _ in "01"]
        errors = [[space.take(g.error_bytes) for _ in "01"] for _ in "01"]
        pairs = [space.pair(longest, g.size) for _ in "01"]
        blocks = []
        for j in range(g.blocks):
            for first, _ in self.parts:
                offset = (j * g.rows + first) * g.size
                pair = pairs[len(blocks) % len(pairs)]
                addresses = (address + offset for address in weights)
                blocks.append(Block(self.number, j, *pair, *addresses))
        return Gradient(images, errors, blocks)

    @property
    def forward_tiles(self) -> int:
        """Tiles of the weights."""
        return self.geometry.rows // self.geometry.size * self.geometry.blocks

    @property
    def gradient_tiles(self) -> int:
        """Tiles of the errors of one image and block."""
        return -(-self.geometry.taps // self.geometry.size)

    @property
    def tiles(self) -> int:
        """Tiles that the phase with the most needs: weights, or errors of two chunks, twice."""
        return max(self.forward_tiles, 4 * self.gradient_tiles)
