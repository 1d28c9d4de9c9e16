"""Operators in general, those without weights, and branches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from networks.chain import Chain, Operand

__all__ = ["Activation", "Add", "ArgMax", "Back", "Binary", "Dequantize", "Function", "Layer"]
__all__ += ["Mean", "Operator", "Pad", "Pool", "Prelu", "Quantize", "Softmax"]


class Layer(Protocol):
    """One operator, or a step to another branch."""

    def add(self, chain: Chain) -> None:
        """Take the step in a graph."""
        ...


@dataclass(frozen=True, kw_only=True)
class Back:
    """No operator: the next one reads an earlier result of that name, or ``input``."""

    to: str

    def add(self, chain: Chain) -> None:
        chain.back_to(chain.find(self.to))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Quantized:
    """Layer whose result has the quantisation of its input unless another is given."""

    output_scale: float | None = None
    output_zero_point: int | None = None

    @property
    def quantization(self) -> dict[str, Any]:
        """Quantisation of the result, as ``Chain.operator`` takes it."""
        return {"scale": self.output_scale, "zero_point": self.output_zero_point}


@dataclass(frozen=True, kw_only=True, eq=False)
class Operator(_Quantized):
    """Any operator: kind, shape of its result, inputs after the last result, and options.

    ``shape`` and ``output_type`` are those of the last result unless given. With ``shapes`` it has
    several results. ``options`` are named as in the schema, for instance ``keepDims``.
    """

    kind: str
    shape: Sequence[int] | None = None
    operands: Sequence[Operand] = ()
    output_type: str | None = None
    shapes: Sequence[Sequence[int]] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def add(self, chain: Chain) -> None:
        chain.operator(
            self.kind,
            self.shape,
            self.operands,
            dtype=self.output_type,
            shapes=self.shapes,
            **self.quantization,
            **self.options,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Activation(_Quantized):
    """A RELU, RELU6 or RELU_N1_TO_1."""

    kind: str = "RELU"

    def add(self, chain: Chain) -> None:
        chain.operator(self.kind, **self.quantization)


@dataclass(frozen=True, kw_only=True, eq=False)
class Function(_Quantized):
    """An operator that computes each element from one element.

    ``alpha`` is the slope of LEAKY_RELU below zero; with ``approximate``, GELU is tanh's.
    """

    kind: str
    alpha: float | None = None
    approximate: bool | None = None

    def add(self, chain: Chain) -> None:
        given = {"alpha": self.alpha, "approximate": self.approximate}
        options: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        chain.operator(self.kind, **self.quantization, **options)


@dataclass(frozen=True, kw_only=True, eq=False)
class Prelu(_Quantized):
    """A PRELU with one slope below zero, or slopes that broadcast."""

    alpha: int | np.ndarray
    alpha_scale: float
    alpha_zero_point: int = 0

    def add(self, chain: Chain) -> None:
        alpha = np.atleast_1d(np.asarray(self.alpha, np.int8))
        slopes = chain.constant("alpha", alpha, self.alpha_scale, self.alpha_zero_point)
        chain.operator("PRELU", None, [slopes], **self.quantization)


@dataclass(frozen=True, kw_only=True, eq=False)
class Binary(_Quantized):
    """An operator of the last result and a second input; the shapes broadcast.

    ``second`` is the name of an earlier result, which may also be the last one, or a constant.
    With ``swapped`` the last result comes second.
    """

    KINDS: ClassVar = ("ADD", "MUL", "SUB")
    CHOICES: ClassVar = ("MAXIMUM", "MINIMUM")

    kind: str
    second: str | np.ndarray
    second_scale: float = 1.0
    second_zero_point: int = 0
    swapped: bool = False
    activation: str = "NONE"
    output_zero_point: int | None = 0

    def add(self, chain: Chain) -> None:
        if isinstance(self.second, str):
            number = chain.find(self.second)
        else:
            number = chain.constant(
                "second", self.second, self.second_scale, self.second_zero_point
            )
        inputs = (number, chain.number) if self.swapped else (chain.number, number)
        options: dict[str, Any] = {"fusedActivationFunction": self.activation}
        chain.operator(
            self.kind,
            np.broadcast_shapes(chain.last.shape, chain.tensor(number).shape),
            inputs=inputs,
            **self.quantization,
            **(options if self.kind in self.KINDS else {}),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Add(Binary):
    """An ADD: see ``Binary``."""

    kind: str = "ADD"


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A pooling operator."""

    KINDS: ClassVar = ("MAX_POOL_2D", "AVERAGE_POOL_2D")

    kind: str = "MAX_POOL_2D"
    window: tuple[int, int] = (2, 2)
    stride: tuple[int, int] = (2, 2)
    padding: str = "VALID"
    activation: str = "NONE"

    def add(self, chain: Chain) -> None:
        batch, _, _, channels = chain.image()
        counts = chain.positions(self.window, self.stride, (1, 1), self.padding)
        chain.operator(
            self.kind,
            (batch, *counts, channels),
            padding=self.padding,
            strideH=self.stride[0],
            strideW=self.stride[1],
            filterHeight=self.window[0],
            filterWidth=self.window[1],
            fusedActivationFunction=self.activation,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean(_Quantized):
    """A reduction over ``axes``, by default a MEAN over height and width."""

    kind: str = "MEAN"
    axes: tuple[int, ...] = (1, 2)
    keep_dims: bool = False

    def add(self, chain: Chain) -> None:
        rank = len(chain.last.shape)
        reduced = {axis % rank for axis in self.axes}
        shape = [1 if n in reduced else extent for n, extent in enumerate(chain.last.shape)]
        if not self.keep_dims:
            shape = [extent for n, extent in enumerate(shape) if n not in reduced]
        axes = chain.constant("axes", self.axes)
        chain.operator(self.kind, shape, [axes], keepDims=self.keep_dims, **self.quantization)


@dataclass(frozen=True, kw_only=True)
class ArgMax:
    """An ARG_MAX."""

    TYPES: ClassVar = ("int32", "int64")

    axis: int
    output_type: str = "int32"

    def add(self, chain: Chain) -> None:
        shape = list(chain.last.shape)
        del shape[self.axis]
        axis = chain.constant("axis", self.axis)
        kind = self.output_type
        chain.operator("ARG_MAX", shape, [axis], dtype=kind, outputType=kind)


@dataclass(frozen=True, kw_only=True)
class Quantize:
    """A QUANTIZE, from the last result's type to ``output_type``."""

    output_scale: float
    output_zero_point: int = 0
    output_type: str = "int8"

    def add(self, chain: Chain) -> None:
        scale, zero_point = self.output_scale, self.output_zero_point
        chain.operator("QUANTIZE", dtype=self.output_type, scale=scale, zero_point=zero_point)


@dataclass(frozen=True, kw_only=True)
class Dequantize:
    """A DEQUANTIZE, to float32."""

    def add(self, chain: Chain) -> None:
        chain.operator("DEQUANTIZE", dtype="float32")


@dataclass(frozen=True, kw_only=True)
class Pad:
    """A PAD, or PADV2 with a ``value``; with ``wide``, the paddings are int64."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int | None = None
    wide: bool = False

    def add(self, chain: Chain) -> None:
        shape = chain.last.shape
        margins = np.array([self.before, self.after], np.int64 if self.wide else np.int32)
        constants = [chain.constant("paddings", np.ascontiguousarray(margins.T))]
        if self.value is not None:
            value = np.array([self.value], np.int8)
            constants.append(chain.constant("value", value, chain.scale, chain.zero_point))
        extents = [sum(extents) for extents in zip(self.before, shape, self.after, strict=True)]
        chain.operator("PAD" if self.value is None else "PADV2", extents, constants)


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """A SOFTMAX over the last dimension; its result has scale 1/256, zero point -128."""

    beta: float = 1.0

    def add(self, chain: Chain) -> None:
        chain.operator("SOFTMAX", scale=1 / 256, zero_point=-128, beta=self.beta)
