"""The operators that models may use: where each runs, and within which limits."""

from celosia.sw.compiler.operators import OPERATORS
from celosia.sw.compiler.operators.host import HOST
from celosia.sw.compiler.shapes import RESHAPES
from celosia.sw.compiler.tables import TABLES

__all__ = ["LIMITS", "as_markdown", "where"]

_ANY = "any kernel, stride, dilation and padding; constant weights, a scale for each channel or one"
_ALONE = "a table of 256 entries, part of the layer in front of it where nothing else reads that"
_CLAMP = "a clamp, part of the product in front of it where scales are equal"
_AXIS = "any axis"
_MOVED = "part of other layers, no bytes move, but for one row that becomes an image"
_PARTS = "rows, columns or channels of an image, or of a vector; of channels up to 16,384 pairs in and out"
_POOL = "windows up to 255 × 255; within what the accumulators hold"

#: By operator what it must be like to run on the core, and what the host takes besides; None where
#: one of them does not run it.
LIMITS: dict[str, tuple[str | None, str | None]] = {
    "ABS": (_ALONE, None),
    "ADD": ("two values of one shape, or a value and one number", "whatever broadcasts"),
    "ARG_MAX": (None, f"{_AXIS}, to int32 or int64"),
    "AVERAGE_POOL_2D": (f"{_POOL}; counts that 31 bits divide by", "any window"),
    "BATCH_TO_SPACE_ND": (None, "of images"),
    "CONCATENATION": (
        "two or more along rows, columns or channels, of these up to 16,384 pairs in and out",
        f"{_AXIS}, constants",
    ),
    "CONV_2D": (f"{_ANY}; no groups", None),
    "DEPTHWISE_CONV_2D": (f"{_ANY}; any depth multiplier", None),
    "DEPTH_TO_SPACE": (None, "any block"),
    "DEQUANTIZE": (None, "int8 or uint8 to float32"),
    "ELU": (_ALONE, None),
    "EXP": (_ALONE, None),
    "EXPAND_DIMS": (_MOVED, "any"),
    "FULLY_CONNECTED": (
        "constant weights, a scale for each channel or one; factors whose rounding 31 bits can say",
        "any factor, with results within 32 bits before the clamp",
    ),
    "GELU": (_ALONE, None),
    "HARD_SWISH": (_ALONE, None),
    "LEAKY_RELU": (_ALONE, None),
    "LOG": (_ALONE, None),
    "LOGISTIC": (_ALONE, None),
    "MAXIMUM": (None, "whatever broadcasts, of one scale and zero point"),
    "MAX_POOL_2D": (
        f"{_POOL}; part of the product in front of it where windows do not overlap",
        "any window",
    ),
    "MEAN": ("over rows and columns of an image", "any axes"),
    "MINIMUM": (None, "whatever broadcasts, of one scale and zero point"),
    "MUL": (
        "a value and one number, or one for each channel that is in int8 less its zero point",
        "whatever broadcasts",
    ),
    "NEG": (_ALONE, None),
    "PACK": (None, _AXIS),
    "PAD": ("rows and columns, no bytes move", "all dimensions"),
    "PADV2": (
        "rows and columns, no bytes move where the value is the zero point",
        "all dimensions",
    ),
    "PRELU": (f"one slope: {_ALONE}", "a slope for each channel or element"),
    "QUANTIZE": ("int8 to int8", "float32, int8 or uint8 to int8 or uint8"),
    "RELU": (_CLAMP, None),
    "RELU6": (_CLAMP, None),
    "RELU_0_TO_1": (_CLAMP, None),
    "RELU_N1_TO_1": (_CLAMP, None),
    "RESHAPE": (_MOVED, "any"),
    "RESIZE_BILINEAR": (None, "any size; align_corners, half_pixel_centers"),
    "RESIZE_NEAREST_NEIGHBOR": (None, "any size; align_corners, half_pixel_centers"),
    "RSQRT": (_ALONE, None),
    "SLICE": (_PARTS, "constant numbers"),
    "SOFTMAX": (None, "over the last dimension, any beta"),
    "SPACE_TO_BATCH_ND": (None, "of images"),
    "SPACE_TO_DEPTH": (None, "any block"),
    "SPLIT": (_PARTS, "any axis, equal parts"),
    "SPLIT_V": (_PARTS, "any axis, any parts"),
    "SQRT": (_ALONE, None),
    "SQUEEZE": (_MOVED, "any"),
    "STRIDED_SLICE": (
        f"{_PARTS}; any strides forwards",
        "constant numbers; no ellipsis, no new axes",
    ),
    "SUB": ("two values of one shape, or a value less one number", "whatever broadcasts"),
    "TANH": (_ALONE, None),
    "TRANSPOSE": (None, "any order"),
    "TRANSPOSE_CONV": (None, "any kernel, stride and padding"),
    "UNPACK": (None, _AXIS),
}

_HEAD = """# Operators

Written by `celosia report --operators`; what `celosia report MODEL` says of a model is where each of its operators did go.

Models are whole `.tflite` files in int8: activations of one scale and zero point, weights of zero point 0 with a scale for each output
channel or one, biases int32. Their ends may also be float32 or uint8, their results places (int32, int64). Every byte is that of LiteRT's reference kernel (`BUILTIN_REF`).

An operator runs on the core where it is like the second column says, else on the host where it is like the third: the program then has several
parts, the core stops between them, and tensors go through external memory. What is like neither is refused by the operator's number, kind and
result. *table* is a table of 256 entries behind a layer's clamp; *view* moves no bytes.

| operator | runs on | on the core | on the host, besides |
|---|---|---|---|
"""


def where(kind: str) -> str:
    """Return where an operator runs: core, table, view or host, or two of them."""
    places = []
    if kind in RESHAPES or kind in ("PAD", "PADV2"):
        places.append("view")
    elif kind in OPERATORS:
        only = kind in TABLES and kind not in HOST
        places += ["core (table)"] if only or kind == "PRELU" else ["core"]
    if kind in HOST:
        places.append("host")
    return ", ".join(places)


def as_markdown() -> str:
    """Return the page of all operators, docs/operators.md."""
    rows = [
        f"| {kind} | {where(kind)} | {core or '—'} | {host or '—'} |\n"
        for kind, (core, host) in LIMITS.items()
    ]
    return _HEAD + "".join(rows)
