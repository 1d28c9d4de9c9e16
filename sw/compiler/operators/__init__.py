"""Operators of models, each by the function that lowers it."""

from collections.abc import Callable

from celosia.sw.compiler.lowering import Lowering
from celosia.sw.compiler.operators.products import convolution, dense, multiply
from celosia.sw.compiler.operators.slices import cut, split
from celosia.sw.compiler.operators.sums import add, concatenate
from celosia.sw.compiler.operators.tables import function
from celosia.sw.compiler.operators.vectors import mean, pointwise, pooling
from celosia.sw.compiler.operators.views import pad, reshape
from celosia.sw.ir.graph import Operation

__all__ = ["OPERATORS"]

#: Lowers one operator; the last argument is how messages name it.
Lower = Callable[[Lowering, Operation, str], None]

OPERATORS: dict[str, Lower] = {
    "ABS": function,
    "ADD": add,
    "AVERAGE_POOL_2D": pooling,
    "CONCATENATION": concatenate,
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": convolution,
    "ELU": function,
    "EXP": function,
    "EXPAND_DIMS": reshape,
    "FULLY_CONNECTED": dense,
    "GELU": function,
    "HARD_SWISH": function,
    "LEAKY_RELU": function,
    "LOG": function,
    "LOGISTIC": function,
    "MAX_POOL_2D": pooling,
    "MEAN": mean,
    "MUL": multiply,
    "NEG": function,
    "PAD": pad,
    "PADV2": pad,
    "PRELU": function,
    "QUANTIZE": pointwise,
    "RELU": pointwise,
    "RELU6": pointwise,
    "RELU_0_TO_1": pointwise,
    "RELU_N1_TO_1": pointwise,
    "RESHAPE": reshape,
    "RSQRT": function,
    "SLICE": cut,
    "SPLIT": split,
    "SPLIT_V": split,
    "SQRT": function,
    "SQUEEZE": reshape,
    "STRIDED_SLICE": cut,
    "SUB": add,
    "TANH": function,
}
