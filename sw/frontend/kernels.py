"""Operators with weights, to make small networks of."""

from dataclasses import dataclass

import numpy as np

from celosia.sw.frontend.chain import Chain, want_name, want_zero_point
from celosia.sw.frontend.serialize import ACTIVATIONS, PADDINGS

__all__ = ["Convolution", "Depthwise", "FullyConnected", "add_kernel", "want_kernel"]


def want_kernel(
    weights: np.ndarray,
    scale: float | np.ndarray,
    bias: np.ndarray | None,
    dimensions: int,
    axis: int = 0,
) -> None:
    """Refuse arrays that do not belong together; ``axis`` is that of the output channels."""
    if weights.dtype != np.int8 or weights.ndim != dimensions:
        got = f"{weights.dtype} with {weights.ndim} dimensions"
        raise ValueError(f"weights: wanted int8 with {dimensions} dimensions, got {got}")
    outputs = weights.shape[axis]
    if bias is not None and (bias.dtype != np.int32 or bias.shape != (outputs,)):
        got = f"{bias.dtype} of shape {bias.shape}"
        raise ValueError(f"bias: wanted int32 of shape ({outputs},), got {got}")
    if np.size(scale) not in (1, outputs):
        raise ValueError(f"weight_scale: wanted 1 or {outputs} numbers, got {np.size(scale)}")


def add_kernel(
    chain: Chain,
    weights: np.ndarray,
    scale: float | np.ndarray,
    bias: np.ndarray | None,
    axis: int = 0,
) -> list[int]:
    """Add weights and bias; return their numbers."""
    numbers = [chain.constant("weights", weights, scale, axis=axis)]
    if bias is not None:
        numbers.append(chain.constant("bias", bias, np.asarray(scale) * chain.scale))
    return numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class FullyConnected:
    """One int8 FULLY_CONNECTED operator.

    Parameters
    ----------
    weights : int8 array of shape (outputs, inputs)
        Weights, zero point 0.
    weight_scale : float or float array of shape (outputs,)
        Scale of the weights: one number per tensor, or one for each output channel.
    bias : int32 array of shape (outputs,), optional
        Bias in units of input scale × weight scale. None leaves the operand out.
    output_scale : float
        Scale of the outputs.
    output_zero_point : int
        Zero point of the outputs, -128 to 127.
    activation : str
        Fused activation: NONE, RELU, RELU_N1_TO_1 or RELU6.

    Raises
    ------
    ValueError
        If a shape, type or name is not as said above.
    """

    weights: np.ndarray
    weight_scale: float | np.ndarray
    bias: np.ndarray | None = None
    output_scale: float
    output_zero_point: int = 0
    activation: str = "NONE"

    def __post_init__(self) -> None:
        """Refuse arrays that do not belong together."""
        want_kernel(self.weights, self.weight_scale, self.bias, dimensions=2)
        want_zero_point(self.output_zero_point)
        want_name("activation", self.activation, ACTIVATIONS)

    def add(self, chain: Chain) -> None:
        """Add the operator; an input of more than two dimensions counts as rows of ``inputs``."""
        outputs, inputs = self.weights.shape
        if chain.last.elements % inputs:
            got = (
                chain.last.shape[-1] if len(chain.last.shape) == 2 else f"shape {chain.last.shape}"
            )
            raise ValueError(f"wanted {inputs} inputs, got {got}")
        chain.operator(
            "FULLY_CONNECTED",
            (chain.last.elements // inputs, outputs),
            add_kernel(chain, self.weights, self.weight_scale, self.bias),
            scale=self.output_scale,
            zero_point=self.output_zero_point,
            activation=self.activation,
            keep_num_dims=False,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Windowed:
    """What the operators whose weights meet windows of an image share.

    Parameters
    ----------
    weights : int8 array of four dimensions
        Weights, zero point 0.
    weight_scale, bias, output_scale, output_zero_point, activation
        As of ``FullyConnected``.
    padding : str
        SAME or VALID.
    stride : tuple of int
        (y, x), at least 1.

    Raises
    ------
    ValueError
        If a shape, type or name is not as said above.
    """

    weights: np.ndarray
    weight_scale: float | np.ndarray
    bias: np.ndarray | None = None
    output_scale: float
    output_zero_point: int = 0
    activation: str = "NONE"
    padding: str = "SAME"
    stride: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        """Refuse arrays that do not belong together."""
        self.want_weights()
        want_zero_point(self.output_zero_point)
        want_name("activation", self.activation, ACTIVATIONS)
        want_name("padding", self.padding, PADDINGS)

    def want_weights(self) -> None:
        """Refuse weights of another type or shape, and scales and biases that do not fit them."""
        want_kernel(self.weights, self.weight_scale, self.bias, dimensions=4)


@dataclass(frozen=True, kw_only=True, eq=False)
class Convolution(Windowed):
    """One int8 CONV_2D operator.

    Parameters
    ----------
    weights : int8 array of shape (outputs, height, width, inputs)
        Weights, zero point 0.
    weight_scale, bias, output_scale, output_zero_point, activation, padding, stride
        As of ``Windowed``. LiteRT takes no convolution without bias.
    dilation : tuple of int
        (y, x), at least 1.

    Raises
    ------
    ValueError
        If a shape, type or name is not as said above.
    """

    dilation: tuple[int, int] = (1, 1)

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.want_image()
        outputs, height, width, inputs = self.weights.shape
        if inputs != chain.last.shape[3]:
            raise ValueError(f"wanted {inputs} channels, got {chain.last.shape[3]}")
        counts = chain.places((height, width), self.stride, self.dilation, self.padding)
        chain.operator(
            "CONV_2D",
            (chain.last.shape[0], *counts, outputs),
            add_kernel(chain, self.weights, self.weight_scale, self.bias),
            scale=self.output_scale,
            zero_point=self.output_zero_point,
            padding=self.padding,
            stride=self.stride,
            dilation=self.dilation,
            activation=self.activation,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Depthwise(Windowed):
    """One int8 DEPTHWISE_CONV_2D operator.

    Parameters
    ----------
    weights : int8 array of shape (1, height, width, outputs)
        Weights, zero point 0. Each of the input's channels leads to as many outputs, which follow
        one another.
    weight_scale, bias, output_scale, output_zero_point, activation
        As of ``FullyConnected``.
    padding, stride, dilation
        As of ``Convolution``.

    Raises
    ------
    ValueError
        If a shape, type or name is not as said above.
    """

    dilation: tuple[int, int] = (1, 1)

    def want_weights(self) -> None:
        """Refuse weights of another type or shape, and scales and biases that do not fit them."""
        want_kernel(self.weights, self.weight_scale, self.bias, dimensions=4, axis=3)
        if self.weights.shape[0] != 1:
            raise ValueError(f"weights: wanted 1 as first extent, got {self.weights.shape}")

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.want_image()
        _, height, width, outputs = self.weights.shape
        inputs = chain.last.shape[3]
        if outputs % inputs:
            raise ValueError(f"wanted weights of whole multiples of {inputs}, got {outputs}")
        counts = chain.places((height, width), self.stride, self.dilation, self.padding)
        chain.operator(
            "DEPTHWISE_CONV_2D",
            (chain.last.shape[0], *counts, outputs),
            add_kernel(chain, self.weights, self.weight_scale, self.bias, axis=3),
            scale=self.output_scale,
            zero_point=self.output_zero_point,
            padding=self.padding,
            stride=self.stride,
            dilation=self.dilation,
            activation=self.activation,
            depth_multiplier=outputs // inputs,
        )
