"""Operators that the host can run: which of their inputs it reads."""

__all__ = ["HOST"]

#: By operator, the places of the inputs that are operands; None for all of them. The others say
#: what attributes say.
HOST: dict[str, tuple[int, ...] | None] = {
    "ADD": None,
    "ARG_MAX": (0,),
    "AVERAGE_POOL_2D": (0,),
    "BATCH_TO_SPACE_ND": (0,),
    "CONCATENATION": None,
    "DEPTH_TO_SPACE": (0,),
    "DEQUANTIZE": (0,),
    "EXPAND_DIMS": (0,),
    "FULLY_CONNECTED": None,
    "MAXIMUM": None,
    "MAX_POOL_2D": (0,),
    "MEAN": (0,),
    "MINIMUM": None,
    "MUL": None,
    "PACK": None,
    "PAD": (0,),
    "PADV2": (0,),
    "PRELU": None,
    "QUANTIZE": (0,),
    "RESHAPE": (0,),
    "RESIZE_BILINEAR": (0,),
    "RESIZE_NEAREST_NEIGHBOR": (0,),
    "SLICE": (0,),
    "SOFTMAX": (0,),
    "SPACE_TO_BATCH_ND": (0,),
    "SPACE_TO_DEPTH": (0,),
    "SPLIT": (1,),
    "SPLIT_V": (0,),
    "SQUEEZE": (0,),
    "STRIDED_SLICE": (0,),
    "SUB": None,
    "TRANSPOSE": (0,),
    "TRANSPOSE_CONV": (2, 1, 3),
    "UNPACK": (0,),
}
