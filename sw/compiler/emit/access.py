"""Reads and writes of instructions in the core's memories."""

from typing import NamedTuple

from celosia.hw.arch.isa import Instruction
from celosia.sw.compiler.schedule.actions import Stripe


class Access(NamedTuple):
    """Region of one of the core's memories that an instruction reads or writes.

    Rows of ``pitch`` from ``base``; of rows ``first_row`` to ``last_row`` (exclusive) the columns
    ``first_column`` to ``last_column`` (exclusive), of pixels of ``pixel`` bytes in these columns
    the ``channels``, if not all. Units are bytes, tiles, channels, or rows of sums.
    """

    memory: str
    writes: bool
    base: int
    pitch: int
    first_row: int
    last_row: int
    first_column: int
    last_column: int
    pixel: int = 0
    channels: tuple[int, int] | None = None

    @property
    def start(self) -> int:
        """Lowest address touched."""
        return self.base + self.first_row * self.pitch + self.first_column

    @property
    def end(self) -> int:
        """Address after the highest touched."""
        return self.base + (self.last_row - 1) * self.pitch + self.last_column

    def conflicts(self, other: "Access") -> bool:
        """Return whether the order of two accesses matters."""
        if self.memory != other.memory or not (self.writes or other.writes):
            return False
        if self.end <= other.start or other.end <= self.start:
            return False
        if (self.base, self.pitch, self.pixel) != (other.base, other.pitch, other.pixel):
            return True
        one, two = self.channels, other.channels
        if one and two and (one[1] <= two[0] or two[1] <= one[0]):
            return False
        return (
            self.first_row < other.last_row
            and other.first_row < self.last_row
            and self.first_column < other.last_column
            and other.first_column < self.last_column
        )


class Owner(NamedTuple):
    """Owner of bytes of the unified buffer: a value, of some samples of the batch.

    Margins of a value are the same for all samples. ``stripe`` is the buffer of the rows, if the
    unified buffer does not hold the whole value.
    """

    value: int
    samples: tuple[int, int]
    margins: bool = False
    stripe: Stripe | None = None


class Step(NamedTuple):
    """An instruction without its semaphores, and the bytes that it reads and writes.

    ``layer`` is the number of its layer. ``reads`` and ``writes`` are the owners of its bytes of
    the unified buffer.
    """

    instruction: Instruction
    accesses: tuple[Access, ...]
    layer: int
    reads: Owner | None = None
    writes: Owner | None = None


def span(memory: str, writes: bool, first: int, count: int) -> Access:
    """Return an access to ``count`` slots side by side."""
    return Access(memory, writes, 0, 0, 0, 1, first, first + count)
