"""What the readers of operators have in common: the operator they look at, and its refusals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Tensor

__all__ = [
    "ModelError",
    "Node",
    "constant_name",
    "described",
    "want_activation",
    "want_bias",
    "want_equal_quantization",
    "want_image",
    "want_int8",
    "want_padding",
    "want_pair",
    "want_quantized",
    "want_shape",
    "want_weights",
    "window_count",
]

_PADDINGS = {tflite.Padding.SAME: "SAME", tflite.Padding.VALID: "VALID"}

#: How options name the rows and columns of a pair.
_PAIRS = {
    "stride": ("StrideH", "StrideW"),
    "dilation": ("DilationHFactor", "DilationWFactor"),
    "window": ("FilterHeight", "FilterWidth"),
}

_ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: "NONE",
    tflite.ActivationFunctionType.RELU: "RELU",
    tflite.ActivationFunctionType.RELU_N1_TO_1: "RELU_N1_TO_1",
    tflite.ActivationFunctionType.RELU6: "RELU6",
}


class ModelError(ValueError):
    """A model file that cannot be used; the message is one line."""


@dataclass(frozen=True, eq=False)
class Node:
    """An operator of a file.

    Parameters
    ----------
    operator : tflite.Operator
        The table in the file.
    inputs : tuple of Tensor or None
        None for an input left out.
    outputs : tuple of Tensor
        Results.
    """

    operator: Any
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]

    def want_places(self, *, least: int, most: int, results: int | None = 1) -> None:
        """Refuse all but ``least`` to ``most`` inputs, the first ``least`` given, and one output.

        ``results`` None stands for any number of outputs, at least one.

        Raises
        ------
        ModelError
            If the operator has others.
        """
        count = len(self.inputs)
        some = len(self.outputs) == results or (results is None and self.outputs)
        if not least <= count <= most or not some or None in self.inputs[:least]:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            plural = "" if wanted == "1" else "s"
            raise ModelError(
                f"wanted {wanted} input{plural} and one output, "
                f"got {count - self.inputs.count(None)} and {len(self.outputs)}"
            )

    def tensor(self, number: int) -> Tensor:
        """Return an input that ``want_places`` has made sure of."""
        tensor = self.inputs[number]
        assert tensor is not None
        return tensor

    def optional(self, number: int) -> Tensor | None:
        """Return an input, or None where it is left out."""
        return self.inputs[number] if number < len(self.inputs) else None

    def activations(self) -> tuple[Tensor, Tensor]:
        """Return the first input and the result, both int8 and quantised as a whole.

        Raises
        ------
        ModelError
            If one of them is not.
        """
        return want_int8(self.tensor(0)), want_int8(self.outputs[0])

    def options(self, table: type) -> Any:
        """Return the operator's options read as ``table``, or None when it has none.

        Parameters
        ----------
        table : type
            Class of the ``tflite`` package, for instance ``tflite.Conv2DOptions``.
        """
        raw = self.operator.BuiltinOptions()
        kind = getattr(tflite.BuiltinOptions, table.__name__)
        if raw is None or self.operator.BuiltinOptionsType() != kind:
            return None
        options = table()
        options.Init(raw.Bytes, raw.Pos)
        return options

    def want_options(self, table: type) -> Any:
        """Return the operator's options read as ``table``.

        Raises
        ------
        ModelError
            If it has none of that kind.
        """
        options = self.options(table)
        if options is None:
            raise ModelError(f"wanted {table.__name__}, got none")
        return options

    def constant(self, number: int, types: Sequence[type], role: str) -> np.ndarray:
        """Return the contents of an input that has to be constant.

        Parameters
        ----------
        number : int
            Which input.
        types : sequence of type
            NumPy types that are good.
        role : str
            What the messages call it.

        Raises
        ------
        ModelError
            If it is computed, or of another type.
        """
        tensor = self.tensor(number)
        if tensor.dtype not in types or tensor.data is None:
            names = " or ".join(np.dtype(kind).name for kind in types)
            raise ModelError(f"wanted constant {names} {role}, got {described(tensor)}")
        return tensor.data


def constant_name(group: type, value: int) -> str:
    """Return how an enumeration of the ``tflite`` package names a value."""
    names = [key for key, number in vars(group).items() if number == value and key[0] != "_"]
    return names[0] if names else f"number {value}"


def described(tensor: Tensor) -> str:
    """Return how messages describe a tensor: type, shape, name, and whether it is computed."""
    computed = "" if tensor.data is not None else "computed "
    return f"{computed}{tensor.dtype.name} {tensor.shape} ({tensor.name!r})"


def want_int8(tensor: Tensor) -> Tensor:
    """Return an activation that is int8 and quantised as a whole.

    Raises
    ------
    ModelError
        If it is anything else.
    """
    if tensor.dtype != np.int8:
        raise ModelError(
            f"{tensor.dtype.name} tensor {tensor.name!r}: wanted a fully int8 quantised model"
        )
    return want_quantized(tensor)


def want_quantized(tensor: Tensor) -> Tensor:
    """Return an activation that is int8 or uint8 and quantised as a whole.

    Raises
    ------
    ModelError
        If it is anything else.
    """
    name = tensor.dtype.name
    if tensor.dtype not in (np.int8, np.uint8):
        raise ModelError(f"{name} tensor {tensor.name!r}: wanted int8 or uint8")
    if tensor.quantization is None or len(tensor.quantization.scales) != 1:
        raise ModelError(f"{name} tensor {tensor.name!r}: wanted one scale and zero point")
    limits, zero_point = np.iinfo(tensor.dtype), tensor.quantization.zero_point
    if not limits.min <= zero_point <= limits.max:
        raise ModelError(f"tensor {tensor.name!r}: wanted a zero point in {name}, got {zero_point}")
    return tensor


def want_padding(options: Any) -> str:
    """Return how the options say padding: ``SAME`` or ``VALID``.

    Raises
    ------
    ModelError
        If it is neither.
    """
    if options.Padding() not in _PADDINGS:
        raise ModelError(f"padding {constant_name(tflite.Padding, options.Padding())} is unknown")
    return _PADDINGS[options.Padding()]


def want_pair(role: str, options: Any) -> tuple[int, int]:
    """Return rows and columns that the options say of ``stride``, ``dilation`` or ``window``.

    Raises
    ------
    ModelError
        If one is below 1.
    """
    y, x = (getattr(options, name)() for name in _PAIRS[role])
    if y < 1 or x < 1:
        raise ModelError(f"wanted a {role} of at least 1 x 1, got {y} x {x}")
    return y, x


def want_image(tensor: Tensor) -> tuple[int, int, int, int]:
    """Return the extents of a tensor of four dimensions.

    Raises
    ------
    ModelError
        If it has another number of them.
    """
    if len(tensor.shape) != 4:
        raise ModelError(f"wanted 4 dimensions, got {described(tensor)}")
    batch, height, width, channels = tensor.shape
    return batch, height, width, channels


def window_count(extent: int, window: int, stride: int, dilation: int, padding: str) -> int:
    """Return in how many places a window lies along one dimension of an image.

    Parameters
    ----------
    extent : int
        Pixels of the image.
    window : int
        Taps of the window, at least 1.
    stride, dilation : int
        Pixels between windows and between taps, at least 1.
    padding : str
        ``SAME`` or ``VALID``.

    Returns
    -------
    int
        Less than 1 where not one window fits into the image.

    Examples
    --------
    >>> window_count(28, 5, 1, 1, "SAME"), window_count(28, 5, 2, 1, "VALID")
    (28, 12)
    """
    if padding == "SAME":
        return -(-extent // stride)
    return (extent - (window - 1) * dilation - 1) // stride + 1


def want_equal_quantization(source: Tensor, result: Tensor) -> None:
    """Refuse an operator that copies integers between different scales or zero points.

    Raises
    ------
    ModelError
        If they differ.
    """
    assert source.quantization is not None
    if not source.quantization.equals(result.quantization):
        raise ModelError("wanted the same scale and zero point on both sides")


def want_shape(result: Tensor, shape: Sequence[int]) -> None:
    """Refuse a result whose shape is not what the operator computes.

    Raises
    ------
    ModelError
        If it differs.
    """
    if result.shape != tuple(shape):
        raise ModelError(f"wanted a result of shape {tuple(shape)}, got {result.shape}")


def want_activation(value: int) -> str:
    """Return the name of a fused activation.

    Raises
    ------
    ModelError
        If it is not supported.
    """
    if value not in _ACTIVATIONS:
        name = constant_name(tflite.ActivationFunctionType, value)
        raise ModelError(f"fused activation {name} is not supported")
    return _ACTIVATIONS[value]


def want_weights(weights: Tensor, dimensions: int, axis: int = 0) -> None:
    """Refuse weights that are not constant int8 with one scale, or one for each output channel.

    Parameters
    ----------
    weights : Tensor
        The weights.
    dimensions : int
        How many there have to be.
    axis : int
        The one of the output channels.

    Raises
    ------
    ModelError
        If they are otherwise.
    """
    if weights.dtype != np.int8 or len(weights.shape) != dimensions:
        raise ModelError(
            f"wanted int8 weights of {dimensions} dimensions, got {described(weights)}"
        )
    if weights.data is None:
        raise ModelError(f"wanted constant weights, got computed ones ({weights.name!r})")
    channels, scales = weights.shape[axis], weights.quantization
    if scales is None or len(scales.scales) not in (1, channels):
        raise ModelError(f"wanted 1 or {channels} scales of weights {weights.name!r}")
    if len(scales.scales) > 1 and scales.axis != axis:
        raise ModelError(f"wanted scales of the weights along axis {axis}, got axis {scales.axis}")
    if scales.zero_points.any():
        got = scales.zero_points[np.flatnonzero(scales.zero_points)[0]]
        raise ModelError(f"wanted weights with zero point 0, got {got}")


def want_bias(bias: Tensor | None, channels: int) -> None:
    """Refuse a bias that is neither left out nor constant int32, one for each channel.

    Raises
    ------
    ModelError
        If it is otherwise.
    """
    if bias is None:
        return
    if bias.dtype != np.int32 or bias.elements != channels or bias.data is None:
        raise ModelError(f"wanted a constant bias of {channels} int32, got {described(bias)}")
