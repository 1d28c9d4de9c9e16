"""The work that a schedule is made of."""

from dataclasses import dataclass

__all__ = [
    "Action",
    "Block",
    "Drain",
    "FillMargins",
    "LoadRegion",
    "Multiply",
    "PoolRegion",
    "Region",
    "StoreRegion",
]

#: From the first to behind the last.
Range = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Region:
    """Part of a value.

    Parameters
    ----------
    value, part : int
        Which value, in which part of the batch.
    items : (int, int)
        Items of the batch.
    rows : (int, int)
        Rows of each item, counted from the value's first.
    columns : (int, int)
        Bytes of each row, counted from the value's first.
    """

    value: int
    part: int
    items: Range
    rows: Range
    columns: Range


@dataclass(frozen=True, kw_only=True)
class Block:
    """Results of a product that its sums are in the accumulators for at the same time.

    Parameters
    ----------
    items, rows, columns : (int, int)
        Items of the batch, rows and columns of the output.
    """

    items: Range
    rows: Range
    columns: Range

    @property
    def extents(self) -> tuple[int, int, int]:
        """Numbers of items, rows and columns."""
        return tuple(last - first for first, last in (self.items, self.rows, self.columns))  # pyright: ignore[reportReturnType]


@dataclass(frozen=True, kw_only=True)
class LoadRegion:
    """Bring a region from external memory to the unified buffer."""

    region: Region
    layer: int


@dataclass(frozen=True, kw_only=True)
class StoreRegion:
    """Bring a region from the unified buffer to external memory."""

    region: Region
    layer: int


@dataclass(frozen=True, kw_only=True)
class FillMargins:
    """Write what stands around the pixels of one item of a value."""

    value: int
    part: int
    item: int
    layer: int


@dataclass(frozen=True, kw_only=True)
class Multiply:
    """Reduction steps of one segment of one output tile, for the sums of a block."""

    block: Block
    part: int
    layer: int
    tile: int
    segment: int
    first_step: int
    last_step: int
    half: int
    accumulator: int
    accumulate: bool


@dataclass(frozen=True, kw_only=True)
class Drain:
    """Pool and requantise one output tile of a block from the accumulators."""

    block: Block
    part: int
    layer: int
    tile: int
    half: int
    accumulator: int


@dataclass(frozen=True, kw_only=True)
class PoolRegion:
    """One rectangle of windows of a layer without weights."""

    part: int
    items: Range
    layer: int
    windows: int


Action = LoadRegion | StoreRegion | FillMargins | Multiply | Drain | PoolRegion
