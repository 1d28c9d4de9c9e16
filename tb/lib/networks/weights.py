"""Operators with weights."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from networks.chain import Chain

__all__ = ["Convolution", "Depthwise", "FullyConnected", "TransposedConvolution"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Weighted:
    """A layer with int8 or uint8 weights.

    ``weight_scale`` is one number, or one for each output channel. ``bias`` is int32 in units of
    input scale x weight scale; None leaves the operand out. ``activation`` is the fused one.
    """

    weights: np.ndarray
    weight_scale: float | np.ndarray
    bias: np.ndarray | None = None
    output_scale: float
    output_zero_point: int = 0
    activation: str = "NONE"
    weight_zero_point: int = 0

    def constants(self, chain: Chain, axis: int = 0) -> list[int]:
        """Add weights, with output channels along ``axis``, and bias; return their numbers."""
        point = self.weight_zero_point
        numbers = [chain.constant("weights", self.weights, self.weight_scale, point, axis)]
        if self.bias is not None:
            scale = np.asarray(self.weight_scale) * chain.scale
            numbers.append(chain.constant("bias", self.bias, scale))
        return numbers

    @property
    def result(self) -> dict[str, Any]:
        """Quantisation and activation of the result, as ``Chain.operator`` takes them."""
        return {
            "scale": self.output_scale,
            "zero_point": self.output_zero_point,
            "fusedActivationFunction": self.activation,
        }


class FullyConnected(_Weighted):
    """A FULLY_CONNECTED; weights of shape (outputs, inputs).

    An input of more than two dimensions counts as rows of ``inputs``.
    """

    def add(self, chain: Chain) -> None:
        outputs, inputs = self.weights.shape
        shape = (chain.last.elements // inputs, outputs)
        chain.operator("FULLY_CONNECTED", shape, self.constants(chain), **self.result)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Windowed(_Weighted):
    """A layer whose weights apply to windows of an image; ``stride`` is (y, x)."""

    padding: str = "SAME"
    stride: tuple[int, int] = (1, 1)

    @property
    def windows(self) -> dict[str, Any]:
        """Options of the windows, and ``result``."""
        way = {"strideH": self.stride[0], "strideW": self.stride[1]}
        return {"padding": self.padding, **way, **self.result}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Dilated(_Windowed):
    """A layer whose windows may have gaps."""

    dilation: tuple[int, int] = (1, 1)

    @property
    def windows(self) -> dict[str, Any]:
        gaps = {"dilationHFactor": self.dilation[0], "dilationWFactor": self.dilation[1]}
        return super().windows | gaps

    def shape(self, chain: Chain, outputs: int) -> tuple[int, ...]:
        """Return the shape of the result."""
        counts = chain.positions(self.weights.shape[1:3], self.stride, self.dilation, self.padding)
        return (chain.last.shape[0], *counts, outputs)


class Convolution(_Dilated):
    """A CONV_2D; weights of shape (outputs, height, width, inputs), or of a group of the inputs.

    LiteRT takes no convolution without bias.
    """

    def add(self, chain: Chain) -> None:
        shape = self.shape(chain, self.weights.shape[0])
        chain.operator("CONV_2D", shape, self.constants(chain), **self.windows)


class Depthwise(_Dilated):
    """A DEPTHWISE_CONV_2D; weights of shape (1, height, width, outputs).

    Each of the input's channels leads to the same number of outputs, which are consecutive.
    """

    def add(self, chain: Chain) -> None:
        inputs, outputs = chain.image()[3], self.weights.shape[3]
        shape, numbers = self.shape(chain, outputs), self.constants(chain, axis=3)
        more = {"depthMultiplier": outputs // inputs}
        chain.operator("DEPTHWISE_CONV_2D", shape, numbers, **self.windows, **more)


class TransposedConvolution(_Windowed):
    """A TRANSPOSE_CONV; weights of shape (outputs, height, width, inputs)."""

    def add(self, chain: Chain) -> None:
        outputs, *window, _ = self.weights.shape
        batch, *extents, _ = chain.image()
        result = [
            n * step if self.padding == "SAME" else (n - 1) * step + taps
            for n, taps, step in zip(extents, window, self.stride, strict=True)
        ]
        shape = (batch, *result, outputs)
        weights, *bias = self.constants(chain)
        inputs = (chain.constant("shape", shape), weights, chain.number, *bias)
        chain.operator("TRANSPOSE_CONV", shape, inputs=inputs, **self.windows)
