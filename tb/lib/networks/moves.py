"""Operators that move bytes: other shapes, slices, blocks, and images of another size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from networks.chain import Chain

__all__ = ["BatchToSpace", "Concatenate", "DepthToSpace", "ExpandDims", "Pack", "Reshape"]
__all__ += ["Resize", "SpaceToBatch", "SpaceToDepth", "Split", "SplitSizes", "Squeeze"]
__all__ += ["StridedSlice", "Transpose", "Unpack"]

_Margins = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class Reshape:
    """A RESHAPE; one extent may be -1."""

    shape: tuple[int, ...]

    def add(self, chain: Chain) -> None:
        known = math.prod(extent for extent in self.shape if extent != -1)
        shape = [chain.last.elements // known if e == -1 else e for e in self.shape]
        chain.operator("RESHAPE", shape, [chain.constant("shape", self.shape)])


@dataclass(frozen=True, kw_only=True)
class Squeeze:
    """A SQUEEZE of all dimensions of 1 but the first."""

    def add(self, chain: Chain) -> None:
        # Without options, the kernel would also take the first one.
        first, *rest = chain.last.shape
        assert first > 1
        chain.operator("SQUEEZE", [first, *(extent for extent in rest if extent != 1)])


@dataclass(frozen=True, kw_only=True)
class ExpandDims:
    """An EXPAND_DIMS."""

    axis: int

    def add(self, chain: Chain) -> None:
        shape = list(chain.last.shape)
        shape.insert(self.axis % (len(shape) + 1), 1)
        chain.operator("EXPAND_DIMS", shape, [chain.constant("axis", self.axis)])


@dataclass(frozen=True, kw_only=True)
class Transpose:
    """A TRANSPOSE."""

    permutation: tuple[int, ...]

    def add(self, chain: Chain) -> None:
        shape = [chain.last.shape[axis] for axis in self.permutation]
        chain.operator("TRANSPOSE", shape, [chain.constant("permutation", self.permutation)])


@dataclass(frozen=True, kw_only=True)
class Concatenate:
    """A CONCATENATION of the last result and earlier ones."""

    others: Sequence[str]
    axis: int

    def add(self, chain: Chain) -> None:
        shape = list(chain.last.shape)
        axis = self.axis % len(shape)
        shape[axis] += sum(chain.tensor(chain.find(name)).shape[axis] for name in self.others)
        chain.operator("CONCATENATION", shape, self.others, axis=axis)


@dataclass(frozen=True, kw_only=True)
class Pack:
    """A PACK of the last result and earlier ones."""

    others: Sequence[str]
    axis: int

    def add(self, chain: Chain) -> None:
        shape, count = list(chain.last.shape), len(self.others) + 1
        axis = self.axis % (len(shape) + 1)
        shape.insert(axis, count)
        chain.operator("PACK", shape, self.others, axis=axis, valuesCount=count)


@dataclass(frozen=True, kw_only=True)
class Unpack:
    """An UNPACK; the first slice becomes the last result."""

    axis: int

    def add(self, chain: Chain) -> None:
        shape = list(chain.last.shape)
        axis = self.axis % len(shape)
        count = shape.pop(axis)
        chain.operator("UNPACK", shapes=[shape] * count, axis=axis, num=count)


@dataclass(frozen=True, kw_only=True)
class Split:
    """A SPLIT into equal results; the first becomes the last result."""

    axis: int
    parts: int

    def add(self, chain: Chain) -> None:
        shape, parts = list(chain.last.shape), self.parts
        shape[self.axis] //= parts
        inputs = (chain.constant("axis", self.axis), chain.number)
        chain.operator("SPLIT", inputs=inputs, shapes=[shape] * parts, numSplits=parts)


@dataclass(frozen=True, kw_only=True)
class SplitSizes:
    """A SPLIT_V into two results, of ``first`` and the rest; the first becomes the last result."""

    axis: int
    first: int

    def add(self, chain: Chain) -> None:
        shape, rest = list(chain.last.shape), list(chain.last.shape)
        shape[self.axis], rest[self.axis] = self.first, rest[self.axis] - self.first
        sizes, axis = chain.constant("sizes", [self.first, -1]), chain.constant("axis", self.axis)
        chain.operator("SPLIT_V", None, [sizes, axis], shapes=[shape, rest], numSplits=2)


@dataclass(frozen=True, kw_only=True)
class StridedSlice:
    """A STRIDED_SLICE, by ``begin``, ``end`` and ``stride`` of each dimension.

    Dimensions ``dropped`` are removed; their only index is ``begin``. ``plain`` writes a SLICE,
    which has neither these nor strides.
    """

    begin: tuple[int, ...]
    end: tuple[int, ...]
    stride: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    plain: bool = False

    def add(self, chain: Chain) -> None:
        numbers = zip(chain.last.shape, self.begin, self.end, self.stride, strict=True)
        taken = [range(extent)[first:last:step] for extent, first, last, step in numbers]
        for axis in self.dropped:
            first = range(chain.last.shape[axis])[self.begin[axis]]
            taken[axis] = range(first, first + 1)
        begin, count = [way.start for way in taken], [len(way) for way in taken]
        kept = [n for axis, n in enumerate(count) if axis not in self.dropped]
        if self.plain:
            constants = [chain.constant("begin", begin), chain.constant("size", count)]
            chain.operator("SLICE", kept, constants)
            return
        end = [b + n * step for b, n, step in zip(begin, count, self.stride, strict=True)]
        roles = {"begin": begin, "end": end, "strides": self.stride}
        chain.operator(
            "STRIDED_SLICE",
            kept,
            [chain.constant(role, given) for role, given in roles.items()],
            # An end before the first element can only be left out.
            endMask=sum(1 << axis for axis, stop in enumerate(end) if stop < 0),
            shrinkAxisMask=sum(1 << axis for axis in self.dropped),
        )


@dataclass(frozen=True, kw_only=True)
class DepthToSpace:
    """A DEPTH_TO_SPACE."""

    block: int

    def add(self, chain: Chain) -> None:
        batch, high, wide, channels = chain.image()
        shape = batch, high * self.block, wide * self.block, channels // self.block**2
        chain.operator("DEPTH_TO_SPACE", shape, blockSize=self.block)


@dataclass(frozen=True, kw_only=True)
class SpaceToDepth:
    """A SPACE_TO_DEPTH."""

    block: int

    def add(self, chain: Chain) -> None:
        batch, high, wide, channels = chain.image()
        shape = batch, high // self.block, wide // self.block, channels * self.block**2
        chain.operator("SPACE_TO_DEPTH", shape, blockSize=self.block)


@dataclass(frozen=True, kw_only=True)
class _Blocks:
    """Blocks of an image and its margins."""

    blocks: tuple[int, int]
    margins: _Margins = ((0, 0), (0, 0))

    def constants(self, chain: Chain) -> list[int]:
        return [chain.constant("blocks", self.blocks), chain.constant("margins", self.margins)]


class SpaceToBatch(_Blocks):
    """A SPACE_TO_BATCH_ND of an image; margins as its paddings."""

    def add(self, chain: Chain) -> None:
        batch, *extents, channels = chain.image()
        wide = [n + sum(margin) for n, margin in zip(extents, self.margins, strict=True)]
        extents = [n // block for n, block in zip(wide, self.blocks, strict=True)]
        shape = batch * math.prod(self.blocks), *extents, channels
        chain.operator("SPACE_TO_BATCH_ND", shape, self.constants(chain))


class BatchToSpace(_Blocks):
    """A BATCH_TO_SPACE_ND of images; margins as its crops."""

    def add(self, chain: Chain) -> None:
        batch, *extents, channels = chain.image()
        wide = [n * block for n, block in zip(extents, self.blocks, strict=True)]
        samples = batch // math.prod(self.blocks)
        extents = [n - sum(margin) for n, margin in zip(wide, self.margins, strict=True)]
        chain.operator("BATCH_TO_SPACE_ND", (samples, *extents, channels), self.constants(chain))


@dataclass(frozen=True, kw_only=True)
class Resize:
    """A RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR, to ``size`` rows and columns."""

    KINDS: ClassVar = ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")

    kind: str
    size: tuple[int, int]
    align_corners: bool = False
    half_pixel_centers: bool = False

    def add(self, chain: Chain) -> None:
        batch, _, _, channels = chain.image()
        chain.operator(
            self.kind,
            (batch, *self.size, channels),
            [chain.constant("size", self.size)],
            alignCorners=self.align_corners,
            halfPixelCenters=self.half_pixel_centers,
        )
