"""An operator of a ``.tflite`` file, as its reader sees it, and the refusals that readers share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Tensor, short_name

_PADDINGS = {tflite.Padding.SAME: "SAME", tflite.Padding.VALID: "VALID"}

#: Fields of the options that hold rows and columns of a pair.
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

_INDICES = (np.int32, np.int64)


class ModelError(ValueError):
    """A model file that cannot be used; the message is one line."""


class FloatModelError(ModelError):
    """A float model, which quantisation makes usable."""


@dataclass(frozen=True, eq=False)
class Node:
    """An operator of a file."""

    operator: Any  #: The table in the file.
    inputs: tuple[Tensor | None, ...]  #: None for an input left out.
    outputs: tuple[Tensor, ...]  #: Results.
    intermediates: tuple[Tensor, ...] = ()  #: Tensors of no contents, whose scales it uses within.

    def require_inputs(self, least: int, greatest: int | None = None, *, results: int | None = 1):
        """Refuse all but ``least`` to ``most`` inputs, the first ``least`` given, and one output.

        ``results`` None stands for any number of outputs, at least one. Raises ModelError if the
        operator has others.
        """
        greatest = least if greatest is None else greatest
        count = len(self.inputs)
        some = len(self.outputs) == results or (results is None and self.outputs)
        if not least <= count <= greatest or not some or None in self.inputs[:least]:
            counts = f"{least}" if least == greatest else f"{least} to {greatest}"
            plural = "" if counts == "1" else "s"
            raise ModelError(
                f"wanted {counts} input{plural} and one output, "
                f"got {count - self.inputs.count(None)} and {len(self.outputs)}"
            )

    def tensor(self, number: int) -> Tensor:
        """Return an input that ``require_inputs`` has made sure of."""
        tensor = self.inputs[number]
        assert tensor is not None
        return tensor

    def optional(self, number: int) -> Tensor | None:
        """Return an input, or None where it is left out."""
        return self.inputs[number] if number < len(self.inputs) else None

    @property
    def rank(self) -> int:
        """Dimensions of the first input."""
        return len(self.tensor(0).shape)

    def options(self, table: type) -> Any:
        """Return the operator's options read as ``table``, or None when it has none.

        ``table``: class of the ``tflite`` package, for instance ``tflite.Conv2DOptions``.
        """
        raw = self.operator.BuiltinOptions()
        kind = getattr(tflite.BuiltinOptions, table.__name__)
        if raw is None or self.operator.BuiltinOptionsType() != kind:
            return None
        options = table()
        options.Init(raw.Bytes, raw.Pos)
        return options

    def require_options(self, table: type) -> Any:
        """Return the operator's options read as ``table``.

        Raises ModelError if it has none of that kind.
        """
        options = self.options(table)
        if options is None:
            raise ModelError(f"wanted {table.__name__}, got none")
        return options

    def constant(self, number: int, types: Sequence[type], role: str) -> np.ndarray:
        """Return the contents of an input that must be constant.

        - ``number``: position of the input.
        - ``types``: NumPy types that are good.
        - ``role``: its name in messages.

        Raises ModelError if it is computed, or of another type.
        """
        tensor = self.tensor(number)
        if tensor.dtype not in types or tensor.data is None:
            names = " or ".join(np.dtype(kind).name for kind in types)
            raise ModelError(f"wanted constant {names} {role}, got {described(tensor)}")
        return tensor.data

    def indices(self, number: int, role: str) -> list[int]:
        """Return the int32 or int64 numbers of an input that must be constant."""
        return self.constant(number, _INDICES, role).reshape(-1).tolist()

    def axis(self, axis: int, rank: int | None = None) -> int:
        """Return a dimension of the first input, or of ``rank``, counted from the first.

        Raises ModelError if there is none.
        """
        rank = self.rank if rank is None else rank
        if not -rank <= axis < rank:
            raise ModelError(f"wanted an axis from {-rank} to {rank - 1}, got {axis}")
        return axis % rank

    def margins(self) -> dict[str, Any]:
        """Return the numbers of elements before and after each dimension: the second input."""
        margins = self.constant(1, _INDICES, "paddings")
        if margins.shape != (self.rank, 2) or margins.min(initial=0) < 0:
            requirement = f"paddings of shape ({self.rank}, 2) of at least 0"
            raise ModelError(f"wanted {requirement}, got {margins.tolist()}")
        return {"before": tuple(margins[:, 0].tolist()), "after": tuple(margins[:, 1].tolist())}

    def axes(self, number: int) -> tuple[int, ...]:
        """Return the dimensions that a constant input names, sorted, counted from the first."""
        numbers = self.indices(number, "axes")
        if not all(-self.rank <= axis < self.rank for axis in numbers):
            raise ModelError(f"wanted axes from {-self.rank} to {self.rank - 1}, got {numbers}")
        return tuple(sorted({axis % self.rank for axis in numbers}))


def constant_name(group: type, value: int) -> str:
    """Return the name of a value in an enumeration of the ``tflite`` package."""
    names = [key for key, number in vars(group).items() if number == value and key[0] != "_"]
    return names[0] if names else f"number {value}"


def described(tensor: Tensor) -> str:
    """Return a tensor's description for messages: type, shape, name, and whether it is computed."""
    computed = "" if tensor.data is not None else "computed "
    return f"{computed}{tensor.dtype.name} {tensor.shape} ({short_name(tensor.name)!r})"


def require_per_tensor(tensor: Tensor) -> None:
    """Refuse an integer tensor without one scale, and one zero point within its type.

    Raises ModelError if it has none, or several.
    """
    name, quantization = tensor.dtype.name, tensor.quantization
    if quantization is None or len(quantization.scales) != 1:
        raise ModelError(
            f"{name} tensor {short_name(tensor.name)!r}: wanted one scale and zero point"
        )
    if not quantization.scale:
        raise ModelError(f"tensor {short_name(tensor.name)!r}: wanted scales greater than 0, got 0")
    limits, zero_point = np.iinfo(tensor.dtype), quantization.zero_point
    if not limits.min <= zero_point <= limits.max:
        raise ModelError(
            f"tensor {short_name(tensor.name)!r}: wanted a zero point in {name}, got {zero_point}"
        )


def read_padding(options: Any) -> str:
    """Return the padding of some options: ``SAME`` or ``VALID``.

    Raises ModelError if it is neither.
    """
    if options.Padding() not in _PADDINGS:
        raise ModelError(f"padding {constant_name(tflite.Padding, options.Padding())} is unknown")
    return _PADDINGS[options.Padding()]


def read_pair(role: str, options: Any) -> tuple[int, int]:
    """Return rows and columns of ``stride``, ``dilation`` or ``window`` in some options.

    Raises ModelError if one is below 1.
    """
    y, x = (getattr(options, name)() for name in _PAIRS[role])
    if y < 1 or x < 1:
        raise ModelError(f"wanted a {role} of at least 1 x 1, got {y} x {x}")
    return y, x


def read_activation(value: int) -> str:
    """Return the name of a fused activation; raises ModelError if it is not supported."""
    if value not in _ACTIVATIONS:
        name = constant_name(tflite.ActivationFunctionType, value)
        raise ModelError(f"fused activation {name} is not supported")
    return _ACTIVATIONS[value]


def _of_nine_bits(weights: Tensor) -> bool:
    """Return whether weights are int8 or uint8 less a zero point."""
    if weights.dtype != np.int16 or weights.data is None:
        return False
    return bool((np.abs(weights.data.astype(np.int64)) < 256).all())


def require_weights(weights: Tensor, axis: int = 0) -> None:
    """Refuse weights that are not constant int8 with one scale, or one for each output channel.

    ``axis``: dimension of the output channels. Raises ModelError if they are otherwise.
    """
    if weights.dtype != np.int8 and not _of_nine_bits(weights):
        raise ModelError(f"wanted int8 weights, got {described(weights)}")
    if weights.data is None:
        raise ModelError(
            f"wanted constant weights, got computed ones ({short_name(weights.name)!r})"
        )
    channels = weights.shape[axis] if axis < len(weights.shape) else 0
    scales = weights.quantization
    if scales is None or len(scales.scales) not in (1, channels):
        raise ModelError(f"wanted 1 or {channels} scales of weights {short_name(weights.name)!r}")
    if len(scales.scales) > 1 and scales.axis != axis:
        raise ModelError(f"wanted scales of the weights along axis {axis}, got axis {scales.axis}")
    if scales.zero_points.any():
        got = scales.zero_points[np.flatnonzero(scales.zero_points)[0]]
        raise ModelError(f"wanted weights with zero point 0, got {got}")


def require_bias(bias: Tensor | None, channels: int, source: Tensor) -> None:
    """Refuse a bias that is neither left out nor constant int32, one for each channel.

    With inputs of int16 it may be int64. Raises ModelError if it is otherwise.
    """
    if bias is None:
        return
    types = _INDICES[: 1 + (source.dtype == np.int16)]
    if bias.dtype not in types or bias.elements != channels or bias.data is None:
        raise ModelError(f"wanted a constant bias of {channels} int32, got {described(bias)}")
