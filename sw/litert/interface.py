"""C interface of LiteRT for delegates, as far as Celosia uses it.

Structures and numbers are those of ``core/c/common.h`` of LiteRT 2; members after the last one
used are left out where LiteRT alone allocates the structure.
"""

import ctypes
from collections.abc import Iterable
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)
from typing import Any

import numpy as np

#: Status of a call.
OK, ERROR = 0, 1
#: Allocations of tensors: read-only contents of the model's file; allocated while the model runs.
READ_ONLY, DYNAMIC = 1, 4
#: Flags of a delegate: it takes inputs of changing shapes, which LiteRT carries through its nodes.
DYNAMIC_SHAPES = 3
#: Type of quantisation with scales and zero points.
AFFINE = 1
#: NumPy's type of each number of ``TfLiteType`` that Celosia reads.
DTYPES = {
    1: np.dtype(np.float32),
    2: np.dtype(np.int32),
    3: np.dtype(np.uint8),
    4: np.dtype(np.int64),
    6: np.dtype(np.bool_),
    7: np.dtype(np.int16),
    9: np.dtype(np.int8),
}


class IntArray(Structure):
    """``TfLiteIntArray``: a count and as many numbers after it."""

    _fields_ = [("size", c_int), ("data", c_int * 0)]


class FloatArray(Structure):
    """``TfLiteFloatArray``."""

    _fields_ = [("size", c_int), ("data", c_float * 0)]


class Affine(Structure):
    """``TfLiteAffineQuantization``."""

    _fields_ = [
        ("scale", POINTER(FloatArray)),
        ("zero_point", POINTER(IntArray)),
        ("quantized_dimension", c_int32),
    ]


class Tensor(Structure):
    """``TfLiteTensor``."""

    _fields_ = [
        ("type", c_int),
        ("data", c_void_p),
        ("dims", POINTER(IntArray)),
        ("scale", c_float),
        ("zero_point", c_int32),
        ("allocation_type", c_int),
        ("bytes", c_size_t),
        ("allocation", c_void_p),
        ("name", c_char_p),
        ("delegate", c_void_p),
        ("buffer_handle", c_int),
        ("data_is_stale", c_bool),
        ("is_variable", c_bool),
        ("quantization_type", c_int),
        ("quantization", c_void_p),
        ("sparsity", c_void_p),
        ("dims_signature", POINTER(IntArray)),
    ]


class Node(Structure):
    """``TfLiteNode``."""

    _fields_ = [
        ("inputs", POINTER(IntArray)),
        ("outputs", POINTER(IntArray)),
        ("intermediates", POINTER(IntArray)),
        ("temporaries", POINTER(IntArray)),
        ("user_data", c_void_p),
        ("builtin_data", c_void_p),
    ]


class Partition(Structure):
    """``TfLiteDelegateParams``: nodes of one kernel of the delegate."""

    _fields_ = [
        ("delegate", c_void_p),
        ("nodes", POINTER(IntArray)),
        ("inputs", POINTER(IntArray)),
        ("outputs", POINTER(IntArray)),
    ]


Init = CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t)
Free = CFUNCTYPE(None, c_void_p, c_void_p)
#: ``prepare`` and ``invoke`` of a kernel, and ``Prepare`` of a delegate.
Step = CFUNCTYPE(c_int, c_void_p, c_void_p)


class Registration(Structure):
    """``TfLiteRegistration``: functions of a kernel."""

    _fields_ = [
        ("init", Init),
        ("free", Free),
        ("prepare", Step),
        ("invoke", Step),
        ("profiling_string", c_void_p),
        ("builtin_code", c_int32),
        ("custom_name", c_char_p),
        ("version", c_int),
        ("registration_external", c_void_p),
        ("async_kernel", c_void_p),
        ("inplace_operator", c_uint64),
    ]


class Context(Structure):
    """``TfLiteContext``."""

    _fields_ = [
        ("tensors_size", c_size_t),
        ("plan", CFUNCTYPE(c_int, c_void_p, POINTER(POINTER(IntArray)))),
        ("tensors", POINTER(Tensor)),
        ("impl", c_void_p),
        ("resize_tensor", c_void_p),
        ("report_error", CFUNCTYPE(None, c_void_p, c_char_p)),
        ("add_tensors", c_void_p),
        (
            "node",
            CFUNCTYPE(
                c_int, c_void_p, c_int, POINTER(POINTER(Node)), POINTER(POINTER(Registration))
            ),
        ),
        ("replace", CFUNCTYPE(c_int, c_void_p, Registration, POINTER(IntArray), c_void_p)),
        ("threads", c_int),
        ("get_external_context", c_void_p),
        ("set_external_context", c_void_p),
        ("half_precision", c_bool),
        ("profiler", c_void_p),
        ("allocate_persistent", c_void_p),
        ("allocate_for_eval", c_void_p),
        ("request_scratch", c_void_p),
        ("get_scratch", c_void_p),
        ("resize_tensor_explicit", c_void_p),
        (
            "partitions",
            CFUNCTYPE(
                c_int, c_void_p, POINTER(IntArray), POINTER(POINTER(Partition)), POINTER(c_int)
            ),
        ),
    ]


class DelegateRecord(Structure):
    """``TfLiteDelegate``."""

    _fields_ = [
        ("data", c_void_p),
        ("prepare", Step),
        ("copy_from_handle", c_void_p),
        ("copy_to_handle", c_void_p),
        ("free_handle", c_void_p),
        ("flags", c_int64),
        ("builder", c_void_p),
    ]


def numbers(array: Any) -> list[Any]:
    """Return the numbers of a pointer to an array of LiteRT; none of a null pointer."""
    if not array:
        return []
    contents = array.contents
    kind = type(contents.data)._type_
    start = ctypes.addressof(contents) + type(contents).data.offset
    return list((kind * contents.size).from_address(start))


def int_array(values: Iterable[int]) -> Any:
    """Return a pointer to a ``TfLiteIntArray``, which keeps its memory."""
    items = list(values)
    memory = (c_int * (1 + len(items)))(len(items), *items)
    return ctypes.cast(memory, POINTER(IntArray))


def contents(tensor: Tensor) -> np.ndarray:
    """Return the contents of a tensor as an array on its own memory, of its type and shape."""
    shape, dtype = numbers(tensor.dims), DTYPES[tensor.type]
    if not tensor.bytes:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * tensor.bytes).from_address(tensor.data)
    return np.frombuffer(memory, dtype).reshape(shape)
