"""Address patterns: nested loops with strides, the access pattern of every instruction.

A pattern is a base and loops of (count, stride), outermost first, with strides of at least 0, then
a row of elements in contiguous segments: element ``k`` lies at ``k + (k div segment) · jump``.
Memories are one-dimensional NumPy arrays, so that every access is at most two strided views.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

_Loops = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Block:
    """Plain loops of a pattern: elements ``first`` … of each innermost row.

    ``offset`` is the address of its first element, from the base of the pattern.
    """

    first: int
    elements: int
    offset: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]

    def addresses(self, base: int) -> np.ndarray:
        """Return the address of every element, int64."""
        result = np.full((), base + self.offset, np.int64)
        for count, stride in zip(self.counts, self.strides, strict=True):
            result = np.add.outer(result, np.arange(count, dtype=np.int64) * stride)
        return result


class _Cover(NamedTuple):
    """Intervals of ``length`` addresses: one at ``offset``, or one for each iteration of loops."""

    offset: int
    length: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]

    def view(self, memory: np.ndarray, base: int) -> np.ndarray:
        """Return the addresses of ``memory``, each at least once, without a copy."""
        start = base + self.offset
        if not self.counts:
            return memory[start : start + self.length]
        return _view(memory, start, (*self.counts, self.length), (*self.strides, 1))


class _Shape(NamedTuple):
    """Properties shared by patterns that differ only in their base.

    ``size`` counts repetitions; ``span`` is from the least to the greatest address; ``blocks`` hold
    the address of each element, ``covers`` the set of addresses.
    """

    loops: _Loops
    elements: int
    segment: int
    jump: int
    size: int
    span: int
    blocks: tuple[_Block, ...]
    covers: tuple[_Cover, ...]
    apart: bool


def _view(
    memory: np.ndarray, start: int, counts: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray:
    """Return a strided view of a contiguous memory."""
    step = memory.itemsize
    byte_strides = tuple(stride * step for stride in strides)
    return np.ndarray(counts, memory.dtype, memory, start * step, byte_strides)


def _cover(offset: int, loops: Iterable[tuple[int, int]]) -> _Cover:
    """Return the addresses of loops of (count, stride), adjacent intervals joined."""
    length = 1
    apart: list[tuple[int, int]] = []
    for stride, count in sorted((stride, count) for count, stride in loops):
        if count == 1 or stride == 0:
            continue
        if not apart and stride <= length:
            length += (count - 1) * stride
        elif apart and stride % apart[-1][1] == 0 and stride <= math.prod(apart[-1]):
            span = apart[-1][1]
            apart[-1] = (apart[-1][0] + (count - 1) * (stride // span), span)
        else:
            apart.append((count, stride))
    apart.reverse()
    return _Cover(offset, length, tuple(n for n, _ in apart), tuple(s for _, s in apart))


@lru_cache(maxsize=1 << 12)
def _shape(loops: _Loops, elements: int, segment: int, jump: int) -> _Shape:
    segment = min(segment, elements) if jump else elements
    full, remainder = divmod(elements, segment)
    pitch = segment + jump
    counts, strides = tuple(n for n, _ in loops), tuple(stride for _, stride in loops)
    blocks = [_Block(0, full * segment, 0, (*counts, full, segment), (*strides, pitch, 1))]
    covers = [_cover(0, (*loops, (full, pitch), (segment, 1)))]
    if remainder:
        blocks.append(
            _Block(full * segment, remainder, full * pitch, (*counts, remainder), (*strides, 1))
        )
        covers.append(_cover(full * pitch, (*loops, (remainder, 1))))
    last = elements - 1
    span = last + last // segment * jump + sum((count - 1) * stride for count, stride in loops)
    apart = _apart((*loops, (-(-elements // segment), pitch), (segment, 1)))
    size = math.prod(counts) * elements
    return _Shape(loops, elements, segment, jump, size, span, tuple(blocks), tuple(covers), apart)


def _apart(loops: _Loops) -> bool:
    """Return True if surely no address of loops is touched twice."""
    reach = 0
    for stride, count in sorted((stride, count) for count, stride in loops):
        if count > 1:
            if stride <= reach:
                return False
            reach += stride * (count - 1)
    return True


class Pattern:
    """Addresses of nested loops, in order.

    - ``base``: address of the first element.
    - ``loops``: outermost first; counts at least 1, strides at least 0.
    - ``elements``: elements of the innermost row.
    - ``segment``: contiguous elements before ``jump``.
    - ``jump``: addresses left out after each segment.
    - ``last``: greatest address; ``base`` is the least.
    """

    __slots__ = ("_shape", "base", "last")

    def __init__(
        self,
        base: int,
        loops: Sequence[tuple[int, int]],
        elements: int = 1,
        segment: int = 1 << 30,
        jump: int = 0,
    ) -> None:
        self.base = base
        self._shape = _shape(tuple(loops), elements, segment, jump)
        self.last = base + self._shape.span

    def at(self, base: int) -> "Pattern":
        """Return the same pattern from another base."""
        other = Pattern.__new__(Pattern)
        other.base = base
        other._shape = self._shape
        other.last = base + self._shape.span
        return other

    @property
    def loops(self) -> _Loops:
        """Loops of (count, stride), outermost first."""
        return self._shape.loops

    @property
    def elements(self) -> int:
        """Elements of the innermost row."""
        return self._shape.elements

    @property
    def segment(self) -> int:
        """Contiguous elements; all of a row if there is no jump."""
        return self._shape.segment

    @property
    def jump(self) -> int:
        """Addresses left out after each segment."""
        return self._shape.jump

    @property
    def counts(self) -> tuple[int, ...]:
        """Iterations of each loop."""
        return tuple(count for count, _ in self.loops)

    @property
    def size(self) -> int:
        """Elements touched, with repetition."""
        return self._shape.size

    @property
    def apart(self) -> bool:
        """True if surely no address is touched twice."""
        return self._shape.apart

    @property
    def distinct(self) -> "Pattern":
        """The same addresses without the loops of stride 0."""
        loops = [(count, stride) for count, stride in self.loops if stride]
        return Pattern(self.base, loops, self.elements, self.segment, self.jump)

    def views(self, memory: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield each block: the elements of a row that it holds, and the view of ``memory``."""
        for block in self._shape.blocks:
            columns = slice(block.first, block.first + block.elements)
            yield columns, _view(memory, self.base + block.offset, block.counts, block.strides)

    def covered(self, memory: np.ndarray) -> Iterator[np.ndarray]:
        """Yield views of ``memory`` with every address, in no order and at least once."""
        for cover in self._shape.covers:
            yield cover.view(memory, self.base)

    def gather(self, memory: np.ndarray) -> np.ndarray:
        """Return a copy of the values in ``memory``, of shape (\\*counts, elements)."""
        result = np.empty((*self.counts, self.elements), memory.dtype)
        for columns, view in self.views(memory):
            result[..., columns].reshape(view.shape)[...] = view
        return result

    def reader(self, memory: np.ndarray, kind: type[np.generic]) -> Callable[[], np.ndarray]:
        """Return ``gather`` of a memory as a function, for many calls, with results of a kind."""
        views, shape = list(self.views(memory)), (*self.counts, self.elements)
        if len(views) == 1:
            ((_, only),) = views
            return lambda: only.astype(kind, order="C").reshape(shape)
        return lambda: self.gather(memory).astype(kind, copy=False)

    def writer(self, memory: np.ndarray) -> Callable[[np.ndarray], None]:
        """Return ``scatter`` into a memory as a function, for many calls."""
        views = list(self.views(memory))
        if len(views) > 1 or not self.apart:
            return lambda values: self.scatter(memory, values)
        ((_, only),) = views

        def write(values: np.ndarray) -> None:
            only[...] = values.reshape(only.shape)

        return write

    def scatter(self, memory: np.ndarray, values: np.ndarray) -> None:
        """Write ``values`` of shape (\\*counts, elements), in order: the last write wins."""
        if not self.apart:
            memory[self.addresses().ravel()] = values.ravel()
            return
        for columns, view in self.views(memory):
            view[...] = values[..., columns].reshape(view.shape)

    def mark(self, memory: np.ndarray, value: bool | int) -> None:
        """Write one value to every address."""
        for view in self.covered(memory):
            view[...] = value

    def all(self, memory: np.ndarray) -> bool:
        """Return True if a boolean ``memory`` holds True at every address."""
        return all(view.all() for view in self.covered(memory))

    def addresses(self) -> np.ndarray:
        """Return every address, int64 of shape (\\*counts, elements)."""
        result = np.empty((*self.counts, self.elements), np.int64)
        for block in self._shape.blocks:
            columns = slice(block.first, block.first + block.elements)
            result[..., columns] = block.addresses(self.base).reshape(*self.counts, -1)
        return result

    def bitmap(self, low: int, high: int) -> np.ndarray:
        """Return a bool for each address ``low`` … ``high`` inclusive: True if touched."""
        touched = np.zeros(self._shape.span + 1, np.bool_)
        for cover in self._shape.covers:
            cover.view(touched, 0)[...] = True
        result = np.zeros(high - low + 1, np.bool_)
        start, stop = max(low, self.base), min(high, self.last) + 1
        if start < stop:
            result[start - low : stop - low] = touched[start - self.base : stop - self.base]
        return result
