"""uint8 as int8: the same bytes but for their first bit, and zero points that are 128 less."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from celosia.sw.ir.graph import Operation, Quantization, Tensor
from celosia.sw.layers.node import ModelError


def signed(tensor: Tensor) -> Tensor:
    """Return a quantised tensor of uint8 as int8."""
    assert tensor.quantization is not None
    meaning = tensor.quantization
    data = tensor.data
    return replace(
        tensor,
        dtype=np.dtype(np.int8),
        quantization=replace(meaning, zero_points=meaning.zero_points - 128),
        data=None if data is None else (data ^ np.uint8(0x80)).view(np.int8),
    )


def centred(weights: Tensor) -> Tensor:
    """Return constant weights less their zero point: int8, or int16 where that has nine bits."""
    assert weights.data is not None and weights.quantization is not None
    data = weights.data.astype(np.int64) - weights.quantization.zero_point
    narrow = data.min() >= -128 and data.max() <= 127
    meaning = replace(weights.quantization, zero_points=np.zeros(1, np.int64))
    dtype = np.dtype(np.int8 if narrow else np.int16)
    return replace(weights, dtype=dtype, quantization=meaning, data=data.astype(dtype))


def rescaling(source: Quantization, output: Quantization) -> np.ndarray:
    """Return for every int8 the result of CONCATENATION of uint8, in single precision.

    Zero points are those of int8. Entries lie in the order of the bits of their int8.
    """
    scale = source.scales[0] * (np.float32(1) / output.scales[0])
    bias = np.float32(-(source.zero_point + 128)) * scale
    x = (np.arange(256, dtype=np.int64) ^ 0x80).astype(np.float32)
    exact = (x * scale + bias).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(exact) + 0.5), exact)
    return np.clip(rounded + output.zero_point, -128, 127).astype(np.int8)


def require_one_sign(
    operation: Operation,
    operands: Sequence[int],
    tensors: Sequence[Tensor],
    unsigned: Collection[int],
) -> None:
    """Refuse int8 beside uint8: only QUANTIZE converts, other kernels take one for the other.

    ``operands``: tensors that the operation reads when it runs; ``unsigned``: tensors that are
    uint8 in the file. Raises ModelError.
    """
    numbers = [n for n in (*operands, *operation.outputs[:1]) if n != -1]
    computed = [n for n in numbers if tensors[n].data is None and tensors[n].quantization]
    signs = {n in unsigned for n in computed if tensors[n].dtype == np.int8}
    if operation.kind != "QUANTIZE" and len(signs) > 1:
        raise ModelError("wanted int8 or uint8 for operands and results, got both")
