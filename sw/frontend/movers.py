"""Operators that move bytes, to make small networks of."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from celosia.sw.frontend.chain import Chain, sliced

__all__ = [
    "Concatenate",
    "ExpandDims",
    "Pack",
    "Split",
    "Squeeze",
    "StridedSlice",
    "Transpose",
    "Unpack",
]


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"wanted an axis from {-rank} to {rank - 1}, got {axis}")
    return axis % rank


@dataclass(frozen=True, kw_only=True)
class Concatenate:
    """One CONCATENATION operator, of the last result and earlier ones of equal quantisation."""

    others: Sequence[str]
    axis: int

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        numbers = [chain.find(name) for name in self.others]
        shape = list(chain.last.shape)
        axis = _axis(self.axis, len(shape))
        shape[axis] += sum(chain.tensor(number).shape[axis] for number in numbers)
        chain.operator("CONCATENATION", shape, numbers, axis=axis)


@dataclass(frozen=True, kw_only=True)
class Pack:
    """One PACK operator, of the last result and earlier ones of its shape and quantisation."""

    others: Sequence[str]
    axis: int

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        numbers = [chain.find(name) for name in self.others]
        shape = list(chain.last.shape)
        axis = _axis(self.axis, len(shape) + 1)
        shape.insert(axis, len(numbers) + 1)
        chain.operator("PACK", shape, numbers, axis=axis)


@dataclass(frozen=True, kw_only=True)
class Unpack:
    """One UNPACK operator; the first slice becomes the last result."""

    axis: int

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        shape = list(chain.last.shape)
        axis = _axis(self.axis, len(shape))
        count = shape.pop(axis)
        chain.operator("UNPACK", shape, results=count, axis=axis)


@dataclass(frozen=True, kw_only=True)
class Split:
    """One SPLIT operator in equal parts; the first becomes the last result."""

    axis: int
    parts: int

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        shape = list(chain.last.shape)
        axis = _axis(self.axis, len(shape))
        if shape[axis] % self.parts:
            raise ValueError(f"wanted {shape[axis]} rows in equal parts, got {self.parts} parts")
        shape[axis] //= self.parts
        given = chain.constant("axis", np.array(self.axis, np.int32))
        chain.operator("SPLIT", shape, inputs=(given, chain.number), results=self.parts, axis=axis)


@dataclass(frozen=True, kw_only=True)
class Transpose:
    """One TRANSPOSE operator."""

    permutation: tuple[int, ...]

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        shape = chain.last.shape
        if sorted(self.permutation) != list(range(len(shape))):
            raise ValueError(f"wanted a permutation of {len(shape)}, got {self.permutation}")
        chain.operator(
            "TRANSPOSE",
            [shape[axis] for axis in self.permutation],
            [chain.constant("permutation", np.array(self.permutation, np.int32))],
            permutation=self.permutation,
        )


@dataclass(frozen=True, kw_only=True)
class StridedSlice:
    """One STRIDED_SLICE operator: what ``begin``, ``end``, ``stride`` take of each dimension.

    Dimensions ``dropped`` go; of those ``begin`` alone is taken. ``plain`` writes a SLICE, which
    has neither these nor strides.
    """

    begin: tuple[int, ...]
    end: tuple[int, ...]
    stride: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    plain: bool = False

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        shape = chain.last.shape
        masks = [0, 0, sum(1 << axis for axis in self.dropped)]
        said = sliced(shape, (self.begin, self.end, self.stride), masks)
        if 0 in said["count"]:
            raise ValueError(f"wanted at least one element, got a slice of {said['count']}")
        kept = [n for axis, n in enumerate(said["count"]) if axis not in self.dropped]
        if self.plain:
            numbers = [("begin", said["begin"]), ("size", said["count"])]
            constants = [chain.constant(role, np.array(n, np.int32)) for role, n in numbers]
            chain.operator("SLICE", kept, constants, **said)
            return
        stops = zip(said["begin"], said["count"], said["stride"], strict=True)
        end = [begin + count * step for begin, count, step in stops]
        constants = [
            chain.constant(role, np.array(given, np.int32))
            for role, given in (("begin", said["begin"]), ("end", end), ("strides", self.stride))
        ]
        chain.operator("STRIDED_SLICE", kept, constants, **said)


@dataclass(frozen=True, kw_only=True)
class Squeeze:
    """One SQUEEZE operator, of all dimensions of 1 but the first."""

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        first, *rest = chain.last.shape
        # Without options, the kernel would take the first one, too.
        if first == 1:
            raise ValueError("wanted a batch of more than 1, got 1")
        chain.operator("SQUEEZE", [first, *(extent for extent in rest if extent != 1)])


@dataclass(frozen=True, kw_only=True)
class ExpandDims:
    """One EXPAND_DIMS operator."""

    axis: int

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        shape = list(chain.last.shape)
        shape.insert(_axis(self.axis, len(shape) + 1), 1)
        chain.operator(
            "EXPAND_DIMS", shape, [chain.constant("axis", np.array(self.axis, np.int32))]
        )
