"""Models of one ONNX operator between DequantizeLinear and QuantizeLinear, and ONNX Runtime."""

from typing import Any, NamedTuple

import numpy as np
from onnx_graphs import Net, helper, onnx, results

#: Shape of an input unless another one is given.
IMAGE = (1, 4, 6, 5)
#: Samples that are compared.
COUNT = 60
#: Scale and zero point of the first input.
SAME = (0.04, 2)


class Weights(NamedTuple):
    """A constant that a DequantizeLinear follows."""

    data: np.ndarray
    scales: Any
    axis: int = 0


class Case(NamedTuple):
    """An operator of inputs that are computed, and of constants at some positions."""

    kind: str
    shapes: tuple[tuple[int, ...], ...]
    constants: dict[int, Any]
    result: tuple[float, int]
    opset: int
    attributes: dict[str, Any]


def weights(*shape: int, axis: int | None = None, bits: int = 8) -> Weights:
    """Return random weights, of a scale for each index along an axis, or of one."""
    random, scale = np.random.default_rng(1), 0.0123
    kind = np.int8 if bits == 8 else helper.tensor_dtype_to_np_dtype(onnx.TensorProto.INT4)
    data = random.integers(1 - 2 ** (bits - 1), 2 ** (bits - 1), shape).astype(kind)
    scales = np.float32(scale)
    if axis is not None:
        scales = (random.uniform(0.5, 2, shape[axis]) * scale).astype(np.float32)
    return Weights(data, scales, axis or 0)


def bias(channels: int, scales: Any) -> Weights:
    """Return a random bias in units of sums."""
    data = np.random.default_rng(2).integers(-2000, 2000, channels).astype(np.int32)
    return Weights(data, np.float32(0.04) * scales)


def case(
    kind: str,
    *shapes: tuple[int, ...],
    constants: Any = None,
    result: Any = (0.0513, 3),
    opset: Any = 17,
    **attributes: Any,
) -> Case:
    return Case(kind, shapes or (IMAGE,), constants or {}, result, opset, attributes)


def model(given: Case, dtype: Any) -> Any:
    """Return the model of an operator: its inputs ``x0`` on are quantised, so is its result."""
    offset = 128 if dtype == np.uint8 else 0
    ends = {f"x{number}": shape for number, shape in enumerate(given.shapes)}
    net, names = Net(given.opset, dtype, **ends), []
    scales = iter([SAME, (0.03, -5), (0.05, 1)])

    def scale(scale: float, zero_point: int) -> tuple[str, str]:
        return net.scale(scale, zero_point + offset, dtype)

    inputs = iter(ends)
    for position in range(len(given.shapes) + len(given.constants)):
        if position not in given.constants:
            names.append(net.add("DequantizeLinear", next(inputs), *scale(*next(scales))))
            continue
        data = given.constants[position]
        if isinstance(data, Weights):
            zeros = np.zeros_like(data.scales, data.data.dtype)
            constants = map(net.constant, (data.data, data.scales, zeros))
            names.append(net.add("DequantizeLinear", *constants, axis=data.axis))
        else:
            names.append("" if data is None else net.constant(data))
    y = net.add(given.kind, *names, **given.attributes)
    return net.proto(net.add("QuantizeLinear", y, *scale(*given.result)), ir_version=10)


def differences(given: Case, dtype: Any, count: int = COUNT) -> tuple[int, int]:
    """Return the number of values that differ from ONNX Runtime, and of all values."""
    limits, random = np.iinfo(dtype), np.random.default_rng(3)
    arrays = {
        f"x{number}": random.integers(limits.min, limits.max + 1, (count, *shape)).astype(dtype)
        for number, shape in enumerate(given.shapes)
    }
    (got,), (wanted,) = results(model(given, dtype).SerializeToString(), arrays)
    return int((got != wanted).sum()), wanted.size
