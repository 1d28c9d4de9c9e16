"""Operators without weights, to make small networks of."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from celosia.sw.frontend.chain import Chain, want_name, want_zero_point
from celosia.sw.frontend.serialize import ACTIVATIONS, PADDINGS

__all__ = [
    "Activation",
    "Back",
    "Dequantize",
    "Layer",
    "Mean",
    "Pad",
    "Pool",
    "Quantize",
    "Reshape",
    "Softmax",
]


class Layer(Protocol):
    """One operator, or a step to another branch."""

    def add(self, chain: Chain) -> None:
        """Take the step in a graph.

        Raises
        ------
        ValueError
            If it cannot take the last result there.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Back:
    """No operator: the next one reads an earlier result, so that a branch begins there.

    Parameters
    ----------
    to : str
        Name of the result, or ``input``.
    """

    to: str

    def add(self, chain: Chain) -> None:
        """Make the earlier result the last one."""
        chain.back_to(chain.find(self.to))


@dataclass(frozen=True, kw_only=True)
class Pool:
    """One MAX_POOL_2D or AVERAGE_POOL_2D operator.

    Parameters
    ----------
    kind : str
        MAX_POOL_2D or AVERAGE_POOL_2D.
    window, stride : tuple of int
        (y, x), at least 1.
    padding : str
        SAME or VALID.
    activation : str
        Fused activation: NONE, RELU, RELU_N1_TO_1 or RELU6.

    Raises
    ------
    ValueError
        If a name is not as said above.
    """

    KINDS: ClassVar = ("MAX_POOL_2D", "AVERAGE_POOL_2D")

    kind: str = "MAX_POOL_2D"
    window: tuple[int, int] = (2, 2)
    stride: tuple[int, int] = (2, 2)
    padding: str = "VALID"
    activation: str = "NONE"

    def __post_init__(self) -> None:
        """Refuse unknown names."""
        want_name("kind", self.kind, self.KINDS)
        want_name("activation", self.activation, ACTIVATIONS)
        want_name("padding", self.padding, PADDINGS)

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.want_image()
        counts = chain.places(self.window, self.stride, (1, 1), self.padding)
        chain.operator(
            self.kind,
            (chain.last.shape[0], *counts, chain.last.shape[3]),
            padding=self.padding,
            stride=self.stride,
            window=self.window,
            activation=self.activation,
        )


@dataclass(frozen=True, kw_only=True)
class Mean:
    """One MEAN operator: over ``axes``, by default height and width.

    The result is quantised as the input unless ``output_scale`` or ``output_zero_point`` is given.
    """

    axes: tuple[int, ...] = (1, 2)
    keep_dims: bool = False
    output_scale: float | None = None
    output_zero_point: int | None = None

    def __post_init__(self) -> None:
        """Refuse zero points outside int8."""
        want_zero_point(self.output_zero_point)

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        rank = len(chain.last.shape)
        if not self.axes or not all(-rank <= axis < rank for axis in self.axes):
            raise ValueError(f"wanted axes from {-rank} to {rank - 1}, got {self.axes}")
        reduced = {axis % rank for axis in self.axes}
        shape = [1 if n in reduced else extent for n, extent in enumerate(chain.last.shape)]
        if not self.keep_dims:
            shape = [extent for n, extent in enumerate(shape) if n not in reduced]
        chain.operator(
            "MEAN",
            shape,
            [chain.constant("axes", np.array(self.axes, np.int32))],
            scale=self.output_scale,
            zero_point=self.output_zero_point,
            axes=tuple(sorted(reduced)),
            keep_dims=self.keep_dims,
        )


@dataclass(frozen=True, kw_only=True)
class Activation:
    """One RELU, RELU6 or RELU_N1_TO_1 operator.

    The result is quantised as the input unless ``output_scale`` or ``output_zero_point`` is given.
    """

    KINDS: ClassVar = ("RELU", "RELU6", "RELU_N1_TO_1")

    kind: str = "RELU"
    output_scale: float | None = None
    output_zero_point: int | None = None

    def __post_init__(self) -> None:
        """Refuse unknown names."""
        want_name("kind", self.kind, self.KINDS)
        want_zero_point(self.output_zero_point)

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.operator(
            self.kind, chain.last.shape, scale=self.output_scale, zero_point=self.output_zero_point
        )


@dataclass(frozen=True, kw_only=True)
class Quantize:
    """One QUANTIZE operator, from what there is to ``output_type``: int8 or uint8."""

    output_scale: float
    output_zero_point: int = 0
    output_type: str = "int8"

    def __post_init__(self) -> None:
        """Refuse unknown types, and zero points outside them."""
        want_name("output_type", self.output_type, ("int8", "uint8"))
        want_zero_point(self.output_zero_point - (128 if self.output_type == "uint8" else 0))

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.operator(
            "QUANTIZE",
            chain.last.shape,
            scale=self.output_scale,
            zero_point=self.output_zero_point,
            dtype=self.output_type,
        )


@dataclass(frozen=True, kw_only=True)
class Dequantize:
    """One DEQUANTIZE operator, to float32."""

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.operator("DEQUANTIZE", chain.last.shape, dtype="float32")


@dataclass(frozen=True, kw_only=True)
class Pad:
    """One PAD operator, or PADV2 where a value is given.

    Parameters
    ----------
    before, after : tuple of int
        Elements added to each dimension.
    value : int, optional
        int8 to write; the zero point unless given.
    wide : bool
        Whether the paddings are int64 instead of int32.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int | None = None
    wide: bool = False

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        shape = chain.last.shape
        if not len(self.before) == len(self.after) == len(shape):
            raise ValueError(f"wanted {len(shape)} dimensions, got {self.before} and {self.after}")
        margins = np.array([self.before, self.after], np.int64 if self.wide else np.int32)
        constants = [chain.constant("paddings", np.ascontiguousarray(margins.T))]
        if self.value is not None:
            value = np.array([self.value], np.int8)
            constants.append(chain.constant("value", value, chain.scale, chain.zero_point))
        chain.operator(
            "PAD" if self.value is None else "PADV2",
            [sum(extents) for extents in zip(self.before, shape, self.after, strict=True)],
            constants,
            before=self.before,
            after=self.after,
            value=chain.zero_point if self.value is None else self.value,
        )


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """One SOFTMAX operator over the last dimension; its result has scale 1/256, zero point -128."""

    beta: float = 1.0

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.operator("SOFTMAX", chain.last.shape, scale=1 / 256, zero_point=-128, beta=self.beta)


@dataclass(frozen=True, kw_only=True)
class Reshape:
    """One RESHAPE operator; one extent may be -1."""

    shape: tuple[int, ...]

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        known = math.prod(extent for extent in self.shape if extent != -1)
        shape = [chain.last.elements // known if e == -1 else e for e in self.shape]
        if math.prod(shape) != chain.last.elements:
            raise ValueError(f"wanted {chain.last.elements} elements, got shape {self.shape}")
        chain.operator("RESHAPE", shape, [chain.constant("shape", np.array(self.shape, np.int32))])
