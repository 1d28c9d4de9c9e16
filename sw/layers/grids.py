"""Images on grids of pixels with zeros around them, and the windows that products read there."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise


@dataclass(frozen=True)
class Grid:
    """Images in a value of one row: rows and columns of pixels, with zeros around each image."""

    images: int
    height: int
    width: int
    origin: tuple[int, int]  #: Row and column of the first pixel of an image.
    stride: tuple[int, int] = (1, 1)  #: Rows and columns from one pixel of an image to the next.
    spare: int = 0  #: Pixels of zeros after the last image.
    diagonal: bool = False  #: True if each pixel of a row has one byte, one channel further.

    @property
    def pixels(self) -> int:
        """Pixels of the value."""
        return self.images * self.height * self.width + self.spare

    def inside(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the first pixel of the first image, and the one after the last of the last one.

        ``rows``, ``columns``: pixels of an image.
        """
        (top, left), (down, right) = self.origin, self.stride
        last = (top + (rows - 1) * down) * self.width + left + (columns - 1) * right
        before = (self.images - 1) * self.height * self.width
        return top * self.width + left, before + last + 1


@dataclass(frozen=True)
class Repeats:
    """Pixels of images that are repeated for all pixels of windows side by side.

    With windows of one pixel they are those of a part of each image.
    """

    window: tuple[int, int]
    counts: tuple[int, int]  #: Rows of windows in an image, and windows in a row.
    strides: tuple[int, int]  #: Pixels from one image to the next, and from row to row.

    @property
    def width(self) -> int:
        """Pixels in a row of an image."""
        return self.window[1] * self.counts[1]

    def cuts(self, rows: tuple[int, int]) -> list[tuple[int, int]]:
        """Return parts of a range of whole rows of pixels, each of one row of windows.

        With windows of one row, each is of one image.
        """
        first, last = (row // self.width for row in rows)
        high = self.window[0] if self.window[0] > 1 else self.counts[0]
        ends = [first, *range((first // high + 1) * high, last, high), last]
        return [(a * self.width, b * self.width) for a, b in pairwise(ends)]

    def box(self, rows: tuple[int, int]) -> tuple[int, tuple[int, int, int], tuple[int, int, int]]:
        """Return the first pixel of a part, and the counts and strides of the loops over it."""
        first, last = (row // self.width for row in rows)
        image, line = divmod(first // self.window[0], self.counts[0])
        pixel = image * self.strides[0] + line * self.strides[1]
        down = self.strides[1] if self.window[0] == 1 else 0
        return pixel, (last - first, self.counts[1], self.window[1]), (down, 1, 0)


@dataclass(frozen=True)
class Group:
    """Taps of windows: where they begin in both matrices of a product."""

    pixel: int = 0  #: First pixel of the first matrix, for the first window.
    column: int = 0  #: First of its columns.
    row: int = 0  #: First row of the second matrix.
    block: int = 0  #: Index of the second matrix.
    missing: int = 0  #: Taps that other groups have and this one has not.


@dataclass(frozen=True)
class Reads:
    """Rows of the first matrix of a product that are windows of pixels on a grid.

    Products of several groups of taps are added.
    """

    #: Nested loops over the rows of the product, and pixels from one turn to the next. If the
    #: matrix is turned, the innermost loop goes from channel to channel.
    counts: tuple[int, int, int]
    strides: tuple[int, int, int]
    taps: int  #: Taps of each group, at most.
    groups: tuple[Group, ...]

    @property
    def rows(self) -> int:
        """Rows of the product."""
        return math.prod(self.counts)

    def jump(self, pixel: int, rows: int) -> tuple[int, int]:
        """Return how many groups one pass takes, and the rows of banks between their taps.

        ``pixel``: bytes of a pixel; ``rows``: of the array, as many as the banks.
        """
        first, second, *_ = (*self.groups, self.groups[0])
        step = second.pixel - first.pixel
        alike = (
            replace(first, pixel=first.pixel + n * step, row=first.row + n * self.taps)
            for n in range(len(self.groups))
        )
        apart = step * pixel - self.taps
        if apart < 0 or apart % rows or tuple(alike) != self.groups:
            return 1, 0
        return max(1, min(len(self.groups), rows // self.taps)), apart // rows

    def box(self, rows: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int, int]]:
        """Return the outer and middle turn with which rows of a cut begin, and their counts."""
        _, middle, inner = self.counts
        first, count = rows[0] // inner, (rows[1] - rows[0]) // inner
        start = divmod(first, middle)
        if count % middle or start[1]:
            return start, (1, count, inner)
        return start, (count // middle, middle, inner)


@dataclass(frozen=True)
class Addend:
    """Matrix that is added to sums, times a factor."""

    value: int
    factor: int
    #: Its rows, one for all or as many as there are sums, and its columns, which repeat.
    rows: int
    columns: int
    first: int = 0  #: Column that is added to the first channel.
    repeats: Repeats | None = None  #: Repeats of its rows, if they are those of windows.

    @property
    def tiles(self) -> tuple[int, ...]:
        """Numbers of int8 on the diagonals of tiles; one after the other they make the factor."""
        most = 127 if self.factor > 0 else -128
        count, rest = divmod(self.factor, most)
        return (most,) * count + ((rest,) if rest else ())
