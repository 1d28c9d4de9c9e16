"""Operators that the host can run: which of their inputs it reads."""

__all__ = ["HOST"]

#: By operator, the places of the inputs that are operands; None for all of them. The others say
#: what attributes say.
HOST: dict[str, tuple[int, ...] | None] = {
    "ADD": None,
    "AVERAGE_POOL_2D": (0,),
    "CONCATENATION": None,
    "DEQUANTIZE": (0,),
    "EXPAND_DIMS": (0,),
    "FULLY_CONNECTED": None,
    "MAX_POOL_2D": (0,),
    "MEAN": (0,),
    "MUL": None,
    "PACK": None,
    "PAD": (0,),
    "PADV2": (0,),
    "PRELU": None,
    "QUANTIZE": (0,),
    "RESHAPE": (0,),
    "RESIZE_BILINEAR": (0,),
    "RESIZE_NEAREST_NEIGHBOR": (0,),
    "SOFTMAX": (0,),
    "SPLIT": (1,),
    "SQUEEZE": (0,),
    "STRIDED_SLICE": (0,),
    "SUB": None,
    "TRANSPOSE": (0,),
    "TRANSPOSE_CONV": (2, 1, 3),
    "UNPACK": (0,),
}
