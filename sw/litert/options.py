"""Options of operators from LiteRT's structures, ``core/c/builtin_op_data.h``."""

import ctypes
from typing import Any

_POOL = "padding:p strideW:i strideH:i filterWidth:i filterHeight:i fusedActivationFunction:i"
_SUM = "fusedActivationFunction:i potScaleInt16:b"
#: Members of the structure of each operator of the core that has options, in order. They have the
#: names of the file's fields; a letter is the type: i an integer, b a truth value, f a number, p
#: the kind of padding.
MEMBERS = {
    "ADD": _SUM,
    "AVERAGE_POOL_2D": _POOL,
    "BATCH_MATMUL": "adjX:b adjY:b asymmetricQuantizeInputs:b",
    "CONCATENATION": "axis:i fusedActivationFunction:i",
    "CONV_2D": "padding:p strideW:i strideH:i fusedActivationFunction:i dilationWFactor:i "
    "dilationHFactor:i",
    "DEPTHWISE_CONV_2D": "padding:p strideW:i strideH:i depthMultiplier:i "
    "fusedActivationFunction:i dilationWFactor:i dilationHFactor:i",
    "FULLY_CONNECTED": "fusedActivationFunction:i weightsFormat:i keepNumDims:b "
    "asymmetricQuantizeInputs:b",
    "GELU": "approximate:b",
    "LEAKY_RELU": "alpha:f",
    "MAX_POOL_2D": _POOL,
    "MEAN": "keepDims:b",
    "MUL": "fusedActivationFunction:i",
    "REDUCE_MAX": "keepDims:b",
    "RESIZE_NEAREST_NEIGHBOR": "alignCorners:b halfPixelCenters:b",
    "SOFTMAX": "beta:f",
    "SPLIT": "numSplits:i",
    "SPLIT_V": "numSplits:i",
    "STRIDED_SLICE": "beginMask:i endMask:i ellipsisMask:i newAxisMask:i shrinkAxisMask:i offset:b",
    "SUB": _SUM,
    "SUM": "keepDims:b",
    "TRANSPOSE_CONV": "padding:p strideW:i strideH:i fusedActivationFunction:i",
}
_TYPES = {"i": ctypes.c_int, "b": ctypes.c_bool, "f": ctypes.c_float, "p": ctypes.c_int}


def options_at(kind: str, address: int) -> dict[str, Any]:
    """Return the options of an operator by the names of the file's fields.

    ``address``: address of LiteRT's structure; of no meaning for an operator without options.
    """
    members = [member.split(":") for member in MEMBERS.get(kind, "").split()]
    if not members:
        return {}
    fields = [(name, _TYPES[letter]) for name, letter in members]
    structure: Any = type(kind, (ctypes.Structure,), {"_fields_": fields})
    values = structure.from_address(address)
    # LiteRT counts the kinds of padding from 1, the file from 0.
    return {name: getattr(values, name) - (letter == "p") for name, letter in members}
