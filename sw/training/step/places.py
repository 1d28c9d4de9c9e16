"""Places in the memories of a training step: matrices, blocks of weights, chunks of gradients."""

from dataclasses import dataclass

from celosia.sw.compiler.emit.access import Access


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
    """C columns of the weights of a layer, high and low bytes, in both memories.

    All rows of the layer, or those of one part, if the parts are streamed.
    """

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
    part: int  #: Of the rows of the layer, from 0.
    rows: tuple[int, int]  #: Of the matrices of the block.


class Area:
    """Bytes, or tiles, given out in order, from ``first`` on, in multiples of ``step``."""

    def __init__(self, step: int, first: int = 0) -> None:
        self.step = step
        self.end = first

    def take(self, count: int) -> int:
        """Return the first of ``count`` bytes, or tiles."""
        first = self.end
        self.end += -(-count // self.step) * self.step
        return first

    def matrix(self, rows: int, pitch: int) -> Matrix:
        """Return the place of a matrix."""
        return Matrix(self.take(rows * pitch), rows, pitch)

    def pair(self, rows: int, pitch: int) -> tuple[Matrix, Matrix]:
        """Return places of high and low bytes, the low ones first."""
        low = self.matrix(rows, pitch)
        return self.matrix(rows, pitch), low


def balanced(count: int, limit: int, step: int = 1) -> list[tuple[int, int]]:
    """Return ranges of at most ``limit`` of ``count``, about equal, in multiples of ``step``.

    Only the last may be no multiple.
    """
    steps = -(-count // step)
    parts = -(-steps // max(limit // step, 1))
    size = -(-steps // parts) * step
    return [(first, min(first + size, count)) for first in range(0, count, size)]
