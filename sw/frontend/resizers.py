"""Operators that make images of another size, to make small networks of."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from celosia.sw.frontend.chain import Chain, transposed_margins, want_name
from celosia.sw.frontend.kernels import Windowed, add_kernel

__all__ = ["Resize", "TransposedConvolution"]


@dataclass(frozen=True, kw_only=True)
class Resize:
    """One RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR operator, to ``size`` rows and columns."""

    KINDS: ClassVar = ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")

    kind: str
    size: tuple[int, int]
    align_corners: bool = False
    half_pixel_centers: bool = False

    def __post_init__(self) -> None:
        """Refuse unknown names."""
        want_name("kind", self.kind, self.KINDS)

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.want_image()
        chain.operator(
            self.kind,
            (chain.last.shape[0], *self.size, chain.last.shape[3]),
            [chain.constant("size", np.array(self.size, np.int32))],
            align_corners=self.align_corners,
            half_pixel_centers=self.half_pixel_centers,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TransposedConvolution(Windowed):
    """One int8 TRANSPOSE_CONV operator.

    Parameters
    ----------
    weights : int8 array of shape (outputs, height, width, inputs)
        Weights, zero point 0.
    weight_scale, bias, output_scale, output_zero_point, activation, padding
        As of ``Windowed``.
    stride : tuple of int
        (y, x), at least 1: results from one pixel of the input to the next.

    Raises
    ------
    ValueError
        If a shape, type or name is not as said above.
    """

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        chain.want_image()
        outputs, *window, inputs = self.weights.shape
        batch, *extents, depth = chain.last.shape
        if inputs != depth:
            raise ValueError(f"wanted {inputs} channels, got {depth}")
        result = [
            n * step if self.padding == "SAME" else (n - 1) * step + taps
            for n, taps, step in zip(extents, window, self.stride, strict=True)
        ]
        shape = (batch, *result, outputs)
        numbers = add_kernel(chain, self.weights, self.weight_scale, self.bias)
        chain.operator(
            "TRANSPOSE_CONV",
            shape,
            scale=self.output_scale,
            zero_point=self.output_zero_point,
            inputs=(
                chain.constant("shape", np.array(shape, np.int32)),
                numbers[0],
                chain.number,
                *numbers[1:],
            ),
            padding=self.padding,
            stride=self.stride,
            activation=self.activation,
            margins=transposed_margins(
                tuple(result), (window[0], window[1]), self.stride, self.padding
            ),
        )
