"""Contents of the unified buffer over time: layers, the blocks with their bytes, and when."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sim.check.footprint import Memory, reach, touches
from celosia.sw.profile.events import Event

#: Blocks that the part in use is divided into, at most; a block is a power of two of bytes.
_BLOCKS = 512

#: Owner of blocks that are read and were not written in this batch: margins of the one-time load.
_MARGINS = -1
_FREE = -2


class Contents(NamedTuple):
    """Lifetimes of blocks of the unified buffer: from a write to the last read before another."""

    block_bytes: int  #: Bytes of a block.
    blocks: int  #: Number of blocks, up to the last byte that the program uses.
    #: Of each lifetime the block, the layer whose instruction wrote it (-1 for margins that the
    #: one-time load left), and the cycles from ``first`` up to ``last``; [lifetimes], int64.
    block: np.ndarray
    layer: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def used(self, times: np.ndarray) -> np.ndarray:
        """Return the bytes in use at each of some ascending cycles, whole blocks, int64."""
        born = np.searchsorted(np.sort(self.first), times, side="right")
        died = np.searchsorted(np.sort(self.last), times, side="right")
        return (born - died) * self.block_bytes

    def owners(self, times: np.ndarray) -> np.ndarray:
        """Return the layer that owns each block at some ascending cycles, [blocks, times], int32.

        -1 for margins, -2 for blocks out of use.
        """
        result = np.full((self.blocks, len(times)), _FREE, np.int32)
        low = np.searchsorted(times, self.first, side="left")
        high = np.searchsorted(times, self.last, side="left")
        # Short lifetimes still show: in the column after their start.
        high = np.minimum(np.maximum(high, low + 1), len(times))
        for block, layer, a, b in zip(self.block, self.layer, low, high, strict=True):
            result[block, a:b] = layer
        return result


class _Blocks:
    """Owners of all blocks while a program runs, and the lifetimes that have ended."""

    def __init__(self, config: Config, used_bytes: int) -> None:
        self.config = config
        self.size = 1
        while used_bytes > self.size * _BLOCKS:
            self.size *= 2
        self.count = -(-used_bytes // self.size)
        self.owner = np.full(self.count, _FREE, np.int64)
        self.first = np.zeros(self.count, np.int64)
        self.last = np.zeros(self.count, np.int64)
        self.is_read = np.zeros(self.count, np.bool_)
        self.ended: list[np.ndarray] = []

    def of(self, event: Event) -> Iterator[tuple[bool, np.ndarray]]:
        """Yield for each access of an instruction whether it is a write, and its blocks."""
        for _, write, pattern in touches(event.instruction, self.config, Memory.UNIFIED):
            low = pattern.base // self.size
            high = pattern.last // self.size
            bits = pattern.bitmap(low * self.size, (high + 1) * self.size - 1)
            yield write, low + np.flatnonzero(bits.reshape(-1, self.size).any(axis=1))

    def read(self, blocks: np.ndarray, end: int) -> None:
        """Note a read that ends in a cycle."""
        unwritten = blocks[self.owner[blocks] == _FREE]
        self.owner[unwritten] = _MARGINS
        self.first[unwritten] = 0
        self.last[blocks] = np.maximum(self.last[blocks], end)
        self.is_read[blocks] = True

    def write(self, blocks: np.ndarray, layer: int, begin: int, end: int) -> None:
        """Note a write that begins and ends in these cycles."""
        others = (self.owner[blocks] != layer) | self.is_read[blocks]
        new = blocks[others]
        self.end(new[self.owner[new] != _FREE])
        self.owner[new] = layer
        self.first[new] = np.maximum(begin, self.last[new])
        self.last[blocks] = np.maximum(end, self.first[blocks])
        self.is_read[blocks] = False

    def end(self, blocks: np.ndarray) -> None:
        """End the lifetimes of blocks with their last access."""
        of = (blocks, self.owner[blocks], self.first[blocks], self.last[blocks])
        self.ended.append(np.array(of, np.int64))


def contents(events: Sequence[Event], config: Config) -> Contents:
    """Return the lifetimes of the blocks of the unified buffer in one batch."""
    own = [event for event in events if event.lane not in ("weights", "sequencer")]
    blocks = _Blocks(config, reach([event.instruction for event in own], Memory.UNIFIED, config))
    for event in sorted(own, key=lambda event: event.end):
        accesses = list(blocks.of(event))
        for write, touched in accesses:
            if not write:
                blocks.read(touched, event.end)
        for write, touched in accesses:
            if write:
                blocks.write(touched, event.layer, event.begin, event.end)
    blocks.end(np.flatnonzero(blocks.owner != _FREE))
    lifetimes = np.concatenate(blocks.ended, axis=1)
    return Contents(blocks.size, blocks.count, *lifetimes)
