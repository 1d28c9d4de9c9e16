"""Layers, the data of the compiler's passes, checked when they are made."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from celosia.hw.arch.isa import Mode, Window
from celosia.sw.layers.errors import require_layer
from celosia.sw.layers.grids import Addend, Grid, Reads
from celosia.sw.layers.terms import Correction, Term, extents_of
from celosia.sw.layers.values import Scaling

#: From the first to after the last.
Range = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Windows over a grid of pixels, all of them whole."""

    #: Rows and columns.
    window: tuple[int, int]
    stride: tuple[int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layer:
    """Fields of all layers."""

    name: str  #: Name of the layer in reports and messages.
    kind: str  #: Operators of the layer, joined by ``+``.
    place: int  #: Number of the first of them in the model.
    #: Values read and written.
    source: int
    result: int
    #: Channel of ``result`` for the first output channel; other layers make the others.
    first: int = 0
    #: int8, shape ``(256,)``: final results by the bits of the results after their clamp.
    table: np.ndarray | None = None

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """Values read."""
        return (self.source,)

    def __post_init__(self) -> None:
        """Refuse fields that no instruction can express."""
        if self.table is not None:
            got = f"{self.table.shape} of {self.table.dtype}"
            valid = self.table.shape == (256,) and self.table.dtype == np.int8
            require_layer(valid, self.name, "a table of 256 int8", got)


@dataclass(frozen=True, kw_only=True, eq=False)
class MatrixLayer(_Layer):
    """A convolution or matrix product with its requantisation, and maxima of its sums.

    A matrix product is a convolution whose kernel covers the source.
    """

    #: Row and column of the source that tap (0, 0) of output pixel (0, 0) reads; below zero where
    #: the source is padded.
    origin: tuple[int, int]
    #: Rows and columns.
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    grid: tuple[int, int]  #: Rows and columns of sums, before ``pool``.
    pool: Pool  #: Windows whose greatest sums are kept; of one sum each without pooling.
    #: int8, shape ``(channels, *kernel, source channels)``; the last 1 with ``depth_multiplier``.
    #: int16 from -255 to 255 if some do not fit: these are multiplied in two or three summands.
    weights: np.ndarray
    scaling: Scaling  #: By channel. The source's zero point is folded into the bias, modulo 2³².
    macs: int  #: Multiplications of the model, for each sample.
    #: Output channels computed from each source channel alone, 0 if all depend on all.
    depth_multiplier: int = 0
    stored: int = -1  #: Input whose bytes in external memory are the tiles; -1 for constants.

    def inputs(self, first: int, last: int) -> tuple[int, int]:
        """Return first and number of the source channels that some output channels read."""
        if not self.depth_multiplier:
            return 0, self.weights.shape[3]
        start = first // self.depth_multiplier
        return start, (last - 1) // self.depth_multiplier + 1 - start

    @property
    def summands(self) -> int:
        """Number of int8 summands of each weight: 1 to 3."""
        if self.weights.dtype == np.int8:
            return 1
        return 3 if self.weights.max() > 2 * 127 else 2

    def matrix(self, first: int, last: int) -> np.ndarray:
        """Return the weights of some output channels on all taps that these read.

        Returns int8, shape ``(last - first, rows, columns and source channels of the kernel)``;
        ``summands`` times as long, the second summands after all first ones.
        """
        return np.hstack([self._matrix(part, first, last) for part in self.parts(first, last)])

    def parts(self, first: int, last: int) -> list[np.ndarray]:
        """Return the int8 summands of the weights of some output channels."""
        remainder, parts = self.weights[first:last], list[np.ndarray]()
        for _ in range(self.summands):
            parts.append(np.clip(remainder, -128, 127).astype(np.int8))
            remainder = remainder - parts[-1]
        return parts

    def _matrix(self, part: np.ndarray, first: int, last: int) -> np.ndarray:
        if not self.depth_multiplier:
            return part.reshape(len(part), -1)
        start, count = self.inputs(first, last)
        places = np.arange(first, last) // self.depth_multiplier - start
        wide = np.zeros((*part.shape[:3], count), np.int8)
        wide[np.arange(len(part)), :, :, places] = part[..., 0]
        return wide.reshape(len(part), -1)

    @property
    def channels(self) -> int:
        """Output channels."""
        return self.weights.shape[0]

    @property
    def taps(self) -> int:
        """Length of the reduction."""
        return self.weights[0].size

    @property
    def pixels(self) -> int:
        """Sums of each channel, for each sample."""
        return self.grid[0] * self.grid[1]

    @property
    def output(self) -> tuple[int, int]:
        """Rows and columns of results."""
        (gh, gw), (wh, ww), (sh, sw) = self.grid, self.pool.window, self.pool.stride
        return (gh - wh) // sh + 1, (gw - ww) // sw + 1

    def __post_init__(self) -> None:
        """Refuse fields that no instruction can express."""
        self.scaling.check(self.name, self.channels)
        super().__post_init__()
        fits = self.kernel == self.weights.shape[1:3]
        require_layer(fits, self.name, f"weights of kernel {self.kernel}", self.weights.shape)


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Equal windows of a Pooling: a rectangle of results, and the source of the first."""

    #: First row and column of results, and their numbers.
    result: tuple[int, int]
    count: tuple[int, int]
    source: tuple[int, int]  #: Row and column of the source at which the first window starts.
    size: tuple[int, int]  #: Rows and columns of each window.
    parameters: int = 0  #: Index of its scaling among those of the layer.

    def ends(self, stride: tuple[int, int]) -> tuple[int, int]:
        """Return the row and the column after the last that a window reads."""
        bottom, right = (
            first + (count - 1) * step + size
            for first, count, step, size in zip(
                self.source, self.count, stride, self.size, strict=True
            )
        )
        return bottom, right


@dataclass(frozen=True, kw_only=True, eq=False)
class Pooling(_Layer):
    """Work of the vector unit alone: windows of a value, combined and requantised."""

    combine: Window  #: Maximum or sum.
    stride: tuple[int, int]  #: Rows and columns from one window to the next.
    windows: tuple[Windows, ...]  #: Rectangles that cover the result.
    scalings: tuple[Scaling, ...]  #: For one channel each, the same for all.
    #: Rows, columns and channels as which a source of one row is read.
    seen: tuple[int, int, int] | None = None
    #: uint32, shape ``(256,)``: those of SOFTMAX of each window, which is one pixel. Its scaling
    #: has no effect then.
    exponentials: np.ndarray | None = None

    macs = 0

    def __post_init__(self) -> None:
        """Refuse fields that no instruction can express."""
        for scaling in self.scalings:
            scaling.check(self.name, 1)
        super().__post_init__()
        for windows in self.windows:
            require_layer(
                max(windows.size) <= 255, self.name, "windows up to 255 by 255", windows.size
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Transpose(Pooling):
    """A copy of pixels whose rows and columns are swapped; ``seen`` are those of the source.

    The source may be an image of these extents. The result is, or one row of all its rows.
    """


@dataclass(frozen=True, kw_only=True, eq=False)
class Padded(Pooling):
    """A copy of images to a grid with zeros around them; ``seen`` are all rows of the images."""

    grid: Grid


@dataclass(frozen=True, kw_only=True, eq=False)
class Sum(_Layer):
    """Two values, each rescaled, combined, and rescaled again.

    A value with one row, or with one column, is repeated for all of them.
    """

    second: int  #: The other value read.
    extents: tuple[int, int, int]  #: Rows, columns and channels of the result.
    #: For one channel each: of ``source``, of ``second``, and of their sum.
    scalings: tuple[Scaling, Scaling, Scaling]
    mode: Mode = Mode.ADD  #: ADD, MAX for the greater of the two, or one of products.

    macs = 0
    pool = Pool(window=(1, 1), stride=(1, 1))

    @property
    def output(self) -> tuple[int, int]:
        """Rows and columns of results."""
        return self.extents[0], self.extents[1]

    @property
    def channels(self) -> int:
        """Output channels."""
        return self.extents[2]

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """Values read."""
        return self.source, self.second

    def __post_init__(self) -> None:
        """Refuse fields that no instruction can express."""
        for scaling in self.scalings:
            scaling.check(self.name, 1)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True, eq=False)
class DynamicProduct(_Layer):
    """Products of two computed matrices for each head; tiles are made of the second one.

    A head is a row of a value, or the values are flat: one row, head after head.
    """

    second: int  #: Value of the matrices that become tiles.
    #: Matrix of each value for each head: several heads may share one.
    matrices: tuple[tuple[int, ...], tuple[int, ...]]
    #: Rows and columns of the first matrix, and columns of the second one.
    rows: int
    taps: int
    channels: int
    #: True if the columns of the first, or second, matrix are rows in its value.
    turned: tuple[bool, bool]
    output: tuple[int, int]  #: Rows and columns of the result's value.
    #: Of results: for each channel, or one for all. Of sums of columns that are copied.
    scalings: tuple[Scaling, Scaling]
    #: Term of the first zero point, times the sums of the second matrix's columns: ``taps`` bytes.
    columns: Correction | None = None
    #: Term of the second zero point, times the sums of the first matrix's rows: ``channels`` bytes.
    lines: Correction | None = None
    addends: tuple[Addend, ...] = ()  #: Besides the products; without taps there are no products.
    #: Input whose bytes in external memory are parameters of channels: they shift the product in
    #: place before addends come. -1 for none.
    stepped: int = -1
    column: int = 0  #: First column of the second matrix, if some are read, which is not turned.
    span: int = 0  #: Its columns, if some are read; else 0.
    reads: Reads | None = None  #: Windows that are rows of the first matrix, if they are.
    #: Values of further second matrices, which groups of taps multiply.
    blocks: tuple[int, ...] = ()
    #: Values of further pairs of matrices, whose products are added. Those of all pairs that are
    #: not constant are loaded one pair after the other, in two buffers that take turns.
    pairs: tuple[tuple[int, int], ...] = ()
    grid: Grid | None = None  #: Grid to which results are written, if they are.
    image: tuple[int, int] = (0, 0)  #: Rows and columns of its images.
    shares: bool = False  #: True if the sums are those of the layer before, drained once more.
    #: Layer before it whose tiles it multiplies, too; -1 if it makes its own.
    tiles_from: int = -1

    pool = Pool(window=(1, 1), stride=(1, 1))

    @property
    def heads(self) -> int:
        """Results of each sample."""
        return len(self.matrices[0])

    @property
    def macs(self) -> int:
        """Multiplications of the model, for each sample."""
        return self.heads * self.rows * self.taps * self.groups * self.channels

    @property
    def groups(self) -> int:
        """Groups of taps, whose products are added: some of each pair of matrices."""
        return self.groups_of_pair * (1 + len(self.pairs))

    @property
    def groups_of_pair(self) -> int:
        """Groups of taps of one pair of matrices."""
        return len(self.reads.groups) if self.reads else 1

    @property
    def scaling(self) -> Scaling:
        """Scaling of results."""
        return self.scalings[0]

    @property
    def by_channel(self) -> bool:
        """True if results of each channel have their own parameters."""
        return self.scaling.bias.size > 1

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """Values read."""
        terms = (self.columns, self.lines)
        corrections = (term.value for term in terms if term)
        added = (one.value for one in self.addends)
        further = (value for pair in self.pairs for value in pair)
        seconds = (self.second, *self.blocks) if self.tiles_from < 0 else ()
        return (self.source, *seconds, *further, *corrections, *added)

    @property
    def turns(self) -> tuple[tuple[int, int], ...]:
        """Values of the pairs of matrices that are loaded in turn; none of a single pair."""
        return ((self.source, self.second), *self.pairs) if self.pairs else ()

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """Numbers on the diagonals of the tiles of all addends, each once."""
        return tuple(sorted({factor for one in self.addends for factor in one.tiles}))

    @property
    def passes(self) -> int:
        """Passes over each tile, with those of the zero points."""
        corrections = sum(term.times for term in (self.columns, self.lines) if term)
        return bool(self.taps) + corrections

    @property
    def extents(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows and columns of the first and second matrices as they lie in their values."""
        return extents_of(self.rows, self.taps, self.span or self.channels, self.turned)

    def taps_of(self, group: int) -> int:
        """Return the taps of a group."""
        if not self.reads:
            return self.taps
        return self.taps - self.reads.groups[group % self.groups_of_pair].missing

    def first_of(self, group: int) -> int:
        """Return the value of the first matrix of a group of taps."""
        pair = group // self.groups_of_pair
        return self.pairs[pair - 1][0] if pair else self.source

    def pixels_of(self, term: "Term | Addend", group: int = 0) -> int:
        """Return the value whose bytes the array multiplies for a term, and a group of taps."""
        if isinstance(term, Addend):
            return term.value
        if term is not Term.COLUMNS:
            return self.first_of(group)
        assert self.columns
        return self.columns.value

    def tiles_of(self, term: Term, group: int = 0) -> int:
        """Return the value of which the tiles for a term, and a group of taps, are made."""
        if pair := group // self.groups_of_pair:
            return self.pairs[pair - 1][1]
        if term is not Term.LINES:
            block = self.reads.groups[group].block if self.reads else 0
            return (self.second, *self.blocks)[block]
        assert self.lines
        return self.lines.value

    def __post_init__(self) -> None:
        """Refuse fields that no instruction can express."""
        self.scaling.check(self.name, self.channels if self.by_channel else 1)
        self.scalings[1].check(self.name, 1)
        super().__post_init__()


Layer = MatrixLayer | Pooling | Sum | DynamicProduct
