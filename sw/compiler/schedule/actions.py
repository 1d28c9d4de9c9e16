"""Actions of a schedule."""

from dataclasses import dataclass
from typing import NamedTuple

from celosia.hw.arch.config import PARAMETER_BYTES, TABLE_BYTES, Config
from celosia.sw.layers.grids import Addend
from celosia.sw.layers.spec import Range
from celosia.sw.layers.terms import Term


class Stripe(NamedTuple):
    """A buffer for a row stripe of a value that lies in external memory."""

    layer: int  #: The layer that the buffer serves.
    turn: int  #: Index of the buffer among those of the layer.
    first: int  #: Row of the value at which the buffer begins.


class Region(NamedTuple):
    """Rectangle of a value."""

    #: The value, and the sub-batch.
    value: int
    sub_batch: int
    samples: Range  #: Samples of the batch.
    rows: Range  #: Rows of each sample, counted from the value's first.
    columns: Range  #: Bytes of each row, counted from the value's first.
    channels: Range | None = None  #: Channels of each pixel, if not all.
    #: Buffer of the rows, if the unified buffer does not hold the whole value.
    stripe: Stripe | None = None


class Block(NamedTuple):
    """Results of a matrix layer whose sums are in the accumulators at the same time."""

    #: Samples of the batch, rows and columns of the output.
    samples: Range
    rows: Range
    columns: Range

    @property
    def extents(self) -> tuple[int, int, int]:
        """Numbers of samples, rows and columns."""
        (sample, samples), (row, rows), (column, columns) = self
        return samples - sample, rows - row, columns - column


class LoadRegion(NamedTuple):
    """Copy a region from external memory to the unified buffer."""

    region: Region
    layer: int


class StoreRegion(NamedTuple):
    """Copy a region from the unified buffer to external memory.

    ``after``: half of the accumulators whose sums are made first, so that the array reads the
    unified buffer alone; none unless given.
    """

    region: Region
    layer: int
    after: int | None = None


@dataclass(frozen=True)
class Fetch:
    """Load of constants of a layer, from its ``first`` on, to ``slot`` of a memory of the core."""

    memory: str  #: ``weights``, in tiles; ``parameters``, in channels; or ``tables``.
    layer: int
    first: int
    count: int
    slot: int

    def offset(self, config: Config) -> int:
        """Return the bytes in external memory from the layer's first constant to the fetch."""
        return self.first * _bytes_of(self.memory, config)

    def beats(self, config: Config) -> int:
        """Return the beats of the bus."""
        return -(-self.count * _bytes_of(self.memory, config) // config.bus_bytes)


def _bytes_of(memory: str, config: Config) -> int:
    """Return the bytes of one constant in external memory."""
    if memory == "weights":
        return config.tile_bytes
    return PARAMETER_BYTES if memory == "parameters" else TABLE_BYTES


class FillMargins(NamedTuple):
    """Fill the margins of a region: whole rows of one sample."""

    region: Region
    layer: int


class Multiply(NamedTuple):
    """Reduction steps of one segment of one output tile, for the sums of a block."""

    block: Block
    sub_batch: int
    layer: int
    tile: int
    segment: int
    first_step: int
    last_step: int
    half: int
    accumulator: int
    accumulate: bool
    source: Stripe | None = None


class MoveWeights(NamedTuple):
    """Fill tiles of the weight buffer: reduction steps of an output tile of a head.

    ``block`` is of the results that they are for. For the term ``LINES``, one tile of a constant.
    ``group``: of the taps, if there are several; ``groups``: from this one on.
    """

    block: Block
    sub_batch: int
    layer: int
    head: int
    tile: int
    first_step: int
    last_step: int
    term: Term
    slot: int
    group: int = 0
    groups: int = 1


class MultiplyMoved(NamedTuple):
    """Reduction steps of some rows of the first matrix and tiles made of the second.

    ``block`` is of the results, ``rows`` are those of the head's matrix.
    """

    block: Block
    sub_batch: int
    layer: int
    head: int
    tile: int
    rows: Range
    first_step: int
    last_step: int
    half: int
    accumulator: int
    accumulate: bool
    term: Term | Addend
    slot: int
    group: int = 0
    groups: int = 1


class SpreadSums(NamedTuple):
    """Copy a row of sums of an output tile to other rows, ``accumulator`` and those after it.

    If ``each``, the rows are those of the sums themselves, which are shifted in place.
    """

    block: Block
    sub_batch: int
    layer: int
    tile: int
    half: int
    row: int
    accumulator: int
    rows: int
    each: bool = False


class Drain(NamedTuple):
    """Pool and requantise one output tile of a block from the accumulators."""

    block: Block
    sub_batch: int
    layer: int
    tile: int
    half: int
    accumulator: int
    result: Stripe | None = None


class PoolRegion(NamedTuple):
    """Some rows of results of one rectangle of windows, of a layer without weights."""

    sub_batch: int
    samples: Range
    layer: int
    windows: int
    rows: Range
    source: Stripe | None = None
    result: Stripe | None = None


class AddRegion(NamedTuple):
    """One of the three steps of the sum of two values, for a block and an output tile.

    ``step`` 0 and 1 load the first and the second value into the accumulators, 2 drains their sum
    to the result.
    """

    block: Block
    sub_batch: int
    layer: int
    tile: int
    step: int
    half: int
    accumulator: int
    sources: tuple[Stripe | None, Stripe | None] = (None, None)
    result: Stripe | None = None


#: Actions of the matrix unit.
Matrix = Multiply | MoveWeights | MultiplyMoved
#: Actions that use a half of the accumulators.
OnSums = Matrix | SpreadSums
#: Actions between which no other job comes: loads, too, of what the others read.
Passes = list[OnSums | LoadRegion]
Action = LoadRegion | StoreRegion | FillMargins | OnSums | Drain | PoolRegion | AddRegion
