"""Operators that the host runs, with the bytes of LiteRT's reference kernels.

A kernel takes the operator and the arrays that it reads, and returns those that it makes. Arrays
have a dimension more than the operands, in front: the units that are computed together. Constants
have not, and broadcast.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from celosia.sw.host.blocks import (
    batch_to_space,
    depth_to_space,
    space_to_batch,
    space_to_depth,
)
from celosia.sw.host.elementwise import (
    addition,
    dequantize,
    greatest,
    maximum,
    minimum,
    multiplication,
    prelu,
    quantize,
    subtraction,
)
from celosia.sw.host.moves import (
    concatenation,
    pack,
    pad,
    reshape,
    split,
    strided_slice,
    transpose,
    unpack,
)
from celosia.sw.host.pooling import average_pool, dense, max_pool
from celosia.sw.host.softmax import softmax
from celosia.sw.host.windows import mean, resize_bilinear, resize_nearest, transposed_convolution
from celosia.sw.ir.program import HostOperator, Operand

__all__ = ["OPERATORS", "Kernel", "run", "softmax"]

Kernel = Callable[[HostOperator, Sequence[np.ndarray]], Sequence[np.ndarray]]


def _softmax(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    (source,) = operator.sources
    return [softmax(arrays[0], source.scale, operator.attributes["beta"])]


#: Operator to its kernel. What can be said about them, the compiler has checked.
OPERATORS: dict[str, Kernel] = {
    "ADD": addition,
    "ARG_MAX": greatest,
    "AVERAGE_POOL_2D": average_pool,
    "BATCH_TO_SPACE_ND": batch_to_space,
    "CONCATENATION": concatenation,
    "DEPTH_TO_SPACE": depth_to_space,
    "DEQUANTIZE": dequantize,
    "EXPAND_DIMS": reshape,
    "FULLY_CONNECTED": dense,
    "MAXIMUM": maximum,
    "MAX_POOL_2D": max_pool,
    "MEAN": mean,
    "MINIMUM": minimum,
    "MUL": multiplication,
    "PACK": pack,
    "PAD": pad,
    "PADV2": pad,
    "PRELU": prelu,
    "QUANTIZE": quantize,
    "RESHAPE": reshape,
    "RESIZE_BILINEAR": resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resize_nearest,
    "SLICE": strided_slice,
    "SOFTMAX": _softmax,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "SPACE_TO_DEPTH": space_to_depth,
    "SPLIT": split,
    "SPLIT_V": split,
    "SQUEEZE": reshape,
    "STRIDED_SLICE": strided_slice,
    "SUB": subtraction,
    "TRANSPOSE": transpose,
    "TRANSPOSE_CONV": transposed_convolution,
    "UNPACK": unpack,
}


def run(operator: HostOperator, values: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Return what an operator makes, by number of tensor.

    Parameters
    ----------
    operator : HostOperator
        The operator.
    values : mapping of int to numpy.ndarray
        What is computed so far, by number of tensor: of the operand's type, shape ``(N, ...)`` with
        as many elements in each as the operand has.

    Returns
    -------
    dict of int to numpy.ndarray
        Results, shape ``(N, *operand.shape)``.
    """
    arrays = [_array(operand, values) for operand in operator.sources]
    made = OPERATORS[operator.kind](operator, arrays)
    results = {}
    for operand, array in zip(operator.results, made, strict=True):
        assert array.dtype == operand.dtype and array.shape[1:] == operand.shape, operator.name
        results[operand.tensor] = array
    return results


def _array(operand: Operand, values: Mapping[int, np.ndarray]) -> np.ndarray:
    if operand.data is not None:
        return np.frombuffer(operand.data, operand.dtype).reshape(operand.shape)
    array = values[operand.tensor]
    return array.reshape(len(array), *operand.shape)
