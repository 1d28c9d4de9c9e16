"""Operators that move pixels between blocks, channels and items, and more, to make networks of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from celosia.sw.frontend.chain import Chain, want_name

__all__ = ["ArgMax", "BatchToSpace", "DepthToSpace", "SpaceToBatch", "SpaceToDepth", "SplitSizes"]

_Margins = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class DepthToSpace:
    """One DEPTH_TO_SPACE operator."""

    block: int

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.want_image()
        batch, high, wide, channels = chain.last.shape
        if channels % self.block**2:
            raise ValueError(f"wanted whole blocks of channels, got {channels}")
        shape = batch, high * self.block, wide * self.block, channels // self.block**2
        chain.operator("DEPTH_TO_SPACE", shape, block=self.block)


@dataclass(frozen=True, kw_only=True)
class SpaceToDepth:
    """One SPACE_TO_DEPTH operator."""

    block: int

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.want_image()
        batch, high, wide, channels = chain.last.shape
        if high % self.block or wide % self.block:
            raise ValueError(f"wanted whole blocks, got {high} x {wide} pixels")
        shape = batch, high // self.block, wide // self.block, channels * self.block**2
        chain.operator("SPACE_TO_DEPTH", shape, block=self.block)


def _add(chain: Chain, kind: str, shape: Sequence[int], blocks: Sequence[int], margins: _Margins):
    constants = [
        chain.constant("blocks", np.array(blocks, np.int32)),
        chain.constant("margins", np.array(margins, np.int32)),
    ]
    chain.operator(kind, shape, constants, blocks=tuple(blocks), margins=margins)


@dataclass(frozen=True, kw_only=True)
class SpaceToBatch:
    """One SPACE_TO_BATCH_ND operator of an image; margins as its paddings."""

    blocks: tuple[int, int]
    margins: _Margins = ((0, 0), (0, 0))

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.want_image()
        batch, *extents, channels = chain.last.shape
        wide = [n + sum(margin) for n, margin in zip(extents, self.margins, strict=True)]
        if any(n % block for n, block in zip(wide, self.blocks, strict=True)):
            raise ValueError(f"wanted whole blocks, got {wide} pixels")
        places = [n // block for n, block in zip(wide, self.blocks, strict=True)]
        shape = batch * self.blocks[0] * self.blocks[1], *places, channels
        _add(chain, "SPACE_TO_BATCH_ND", shape, self.blocks, self.margins)


@dataclass(frozen=True, kw_only=True)
class BatchToSpace:
    """One BATCH_TO_SPACE_ND operator of images; margins as its crops."""

    blocks: tuple[int, int]
    margins: _Margins = ((0, 0), (0, 0))

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.want_image()
        batch, *extents, channels = chain.last.shape
        count = self.blocks[0] * self.blocks[1]
        if batch % count:
            raise ValueError(f"wanted whole blocks of items, got {batch}")
        ways = zip(extents, self.blocks, self.margins, strict=True)
        places = [n * block - sum(margin) for n, block, margin in ways]
        _add(
            chain,
            "BATCH_TO_SPACE_ND",
            (batch // count, *places, channels),
            self.blocks,
            self.margins,
        )


@dataclass(frozen=True, kw_only=True)
class SplitSizes:
    """One SPLIT_V operator in two parts, of ``first`` and the rest; the first becomes the last."""

    axis: int
    first: int

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        shape = list(chain.last.shape)
        shape[self.axis] = self.first
        sizes = [self.first, -1]
        constants = [
            chain.constant("sizes", np.array(sizes, np.int32)),
            chain.constant("axis", np.array(self.axis, np.int32)),
        ]
        rest = list(chain.last.shape)
        rest[self.axis] -= self.first
        chain.operator("SPLIT_V", shape, constants, shapes=[rest], axis=self.axis % len(shape))


@dataclass(frozen=True, kw_only=True)
class ArgMax:
    """One ARG_MAX operator, whose result is of ``output_type``: int32 or int64."""

    TYPES: ClassVar = ("int32", "int64")

    axis: int
    output_type: str = "int32"

    def __post_init__(self) -> None:
        """Refuse unknown types."""
        want_name("output_type", self.output_type, self.TYPES)

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        shape = list(chain.last.shape)
        axis = self.axis % len(shape)
        del shape[axis]
        given = chain.constant("axis", np.array(self.axis, np.int32))
        chain.operator("ARG_MAX", shape, [given], dtype=self.output_type, axis=axis)
