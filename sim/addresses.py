"""Address patterns: nested loops with strides, the access pattern of every instruction.

A pattern is a base and loops of (count, stride), outermost first, with strides of at least 0, then
elements that lie side by side in runs: element ``k`` lies at ``k + (k div run) · jump``. Memories
are one-dimensional NumPy arrays, so that every access is at most two strided views.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided


@dataclass(frozen=True)
class _Block:
    """A part of a pattern that is plain loops: elements ``first`` … of each innermost row."""

    first: int
    elements: int
    base: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]

    def view(self, memory: np.ndarray) -> np.ndarray:
        """Return the addressed elements of ``memory``, without a copy."""
        step = memory.itemsize
        strides = tuple(stride * step for stride in self.strides)
        return as_strided(memory[self.base :], self.counts, strides)

    def addresses(self) -> np.ndarray:
        """Return the address of every element, int64."""
        result = np.full((), self.base, np.int64)
        for count, stride in zip(self.counts, self.strides, strict=True):
            result = np.add.outer(result, np.arange(count, dtype=np.int64) * stride)
        return result


class Pattern:
    """Addresses that loops touch, in order.

    Parameters
    ----------
    base : int
        Address of the first element.
    loops : sequence of (count, stride)
        Outermost first; counts at least 1, strides at least 0.
    elements : int
        Elements of the innermost row.
    run : int
        Elements side by side before ``jump`` is skipped.
    jump : int
        Addresses left out after each run.
    """

    def __init__(
        self,
        base: int,
        loops: Sequence[tuple[int, int]],
        elements: int = 1,
        run: int = 1 << 30,
        jump: int = 0,
    ) -> None:
        self.base = base
        self.loops = list(loops)
        self.elements = elements
        self.run = min(run, elements) if jump else elements
        self.jump = jump
        self.counts = tuple(count for count, _ in loops)
        self._blocks: list[_Block] | None = None

    @property
    def last(self) -> int:
        """Greatest address; ``base`` is the least."""
        last = self.elements - 1
        inner = last + last // self.run * self.jump
        return self.base + inner + sum((count - 1) * stride for count, stride in self.loops)

    @property
    def size(self) -> int:
        """Elements touched, with repetition."""
        return math.prod(self.counts) * self.elements

    @property
    def blocks(self) -> list[_Block]:
        """The plain loops that make up the pattern: whole runs, then what is left of the last."""
        if self._blocks is None:
            whole, rest = divmod(self.elements, self.run)
            pitch = self.run + self.jump
            strides = tuple(stride for _, stride in self.loops)
            self._blocks = [
                _Block(
                    0,
                    whole * self.run,
                    self.base,
                    (*self.counts, whole, self.run),
                    (*strides, pitch, 1),
                )
            ]
            if rest:
                base = self.base + whole * pitch
                self._blocks.append(
                    _Block(whole * self.run, rest, base, (*self.counts, rest), (*strides, 1))
                )
        return self._blocks

    @property
    def apart(self) -> bool:
        """Whether surely no address is touched twice."""
        pitch = self.run + self.jump
        loops = (*self.loops, (-(-self.elements // self.run), pitch), (self.run, 1))
        reach = 0
        for stride, count in sorted((stride, count) for count, stride in loops):
            if count > 1:
                if stride <= reach:
                    return False
                reach += stride * (count - 1)
        return True

    @property
    def distinct(self) -> "Pattern":
        """The same addresses without the loops that stay where they are."""
        loops = [(count, stride) for count, stride in self.loops if stride]
        return Pattern(self.base, loops, self.elements, self.run, self.jump)

    def views(self, memory: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Give each block: the elements of a row that it holds, and the view of ``memory``."""
        for block in self.blocks:
            yield slice(block.first, block.first + block.elements), block.view(memory)

    def gather(self, memory: np.ndarray) -> np.ndarray:
        """Return a copy of what ``memory`` holds, of shape (\\*counts, elements)."""
        result = np.empty((*self.counts, self.elements), memory.dtype)
        for where, view in self.views(memory):
            result[..., where].reshape(view.shape)[...] = view
        return result

    def scatter(self, memory: np.ndarray, values: np.ndarray) -> None:
        """Write ``values`` of shape (\\*counts, elements), in order: the last write stays."""
        if not self.apart:
            memory[self.addresses().ravel()] = values.ravel()
            return
        for where, view in self.views(memory):
            view[...] = values[..., where].reshape(view.shape)

    def mark(self, memory: np.ndarray, value: bool | int) -> None:
        """Write one value to every address."""
        for _, view in self.distinct.views(memory):
            view[...] = value

    def all(self, memory: np.ndarray) -> bool:
        """Return whether a boolean ``memory`` holds True at every address."""
        return all(bool(view.all()) for _, view in self.distinct.views(memory))

    def addresses(self) -> np.ndarray:
        """Return every address, int64 of shape (\\*counts, elements)."""
        result = np.empty((*self.counts, self.elements), np.int64)
        for block in self.blocks:
            where = slice(block.first, block.first + block.elements)
            result[..., where] = block.addresses().reshape(*self.counts, -1)
        return result

    def bitmap(self, low: int, high: int) -> np.ndarray:
        """Return booleans for addresses ``low`` … ``high`` inclusive: touched or not."""
        touched = np.zeros(self.last - self.base + 1, np.bool_)
        Pattern(0, self.loops, self.elements, self.run, self.jump).mark(touched, True)
        result = np.zeros(high - low + 1, np.bool_)
        start, stop = max(low, self.base), min(high, self.last) + 1
        if start < stop:
            result[start - low : stop - low] = touched[start - self.base : stop - self.base]
        return result
