"""What operators of the host must be like: types of their operands, shapes that lead to results.

The compiler makes no others; a program's file may.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from celosia.sw.compiler.shapes import RESHAPES
from celosia.sw.host.softmax import LEAST, factor
from celosia.sw.ir.program import HostOperator, Operand, ProgramError

__all__ = ["want_fitting"]

_Shape = tuple[int, ...]

#: Rows and columns of windows and blocks, elements of margins: at most.
_EXTENT = 1 << 20

_ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")


class _Misfit(ValueError):
    """An operator that makes no sense; the message says what was wanted."""


#: Greatest number of single precision.
_GREATEST = float(np.finfo(np.float32).max)


def _want(holds: bool, wanted: str) -> None:
    if not holds:
        raise _Misfit(f"wanted {wanted}")


class _Said:
    """The attributes of an operator, each of the kind that is asked for."""

    def __init__(self, operator: HostOperator) -> None:
        self._said = operator.attributes

    def whole(self, name: str, least: int, most: int) -> int:
        """Return a whole number."""
        return self._number(self._said.get(name), name, least, most)

    def _number(self, found: Any, name: str, least: int, most: int) -> int:
        good = type(found) is int and least <= found <= most
        _want(good, f"{name} from {least} to {most}")
        return found

    def wholes(self, name: str, count: int, least: int, most: int) -> list[int]:
        """Return so many whole numbers."""
        found = self._said.get(name)
        good = isinstance(found, list | tuple) and len(found) == count
        _want(good, f"{count} numbers as {name}")
        assert found is not None
        return [self._number(each, name, least, most) for each in found]

    def pairs(self, name: str) -> list[list[int]]:
        """Return two pairs of numbers from 0 on."""
        found = self._said.get(name)
        _want(isinstance(found, list | tuple) and len(found) == 2, f"two pairs as {name}")
        assert found is not None
        return [_Said._plain(name, pair) for pair in found]

    @staticmethod
    def _plain(name: str, pair: Any) -> list[int]:
        good = isinstance(pair, list | tuple) and len(pair) == 2
        good = good and all(type(each) is int and 0 <= each <= _EXTENT for each in pair)
        _want(good, f"two pairs as {name}")
        return list(pair)

    def axes(self, name: str, rank: int) -> list[int]:
        """Return some different dimensions."""
        found = self._said.get(name)
        _want(isinstance(found, list | tuple), f"dimensions as {name}")
        assert found is not None
        axes = [self._number(each, name, 0, rank - 1) for each in found]
        _want(len(set(axes)) == len(axes), f"different dimensions as {name}")
        return axes

    def name(self, name: str, names: Sequence[str]) -> None:
        """Look for one of some names."""
        _want(self._said.get(name) in names, f"{name} to be one of {', '.join(names)}")

    def flag(self, name: str) -> None:
        """Look for true or false."""
        _want(type(self._said.get(name)) is bool, f"true or false as {name}")

    def real(self, name: str) -> float:
        """Return a number that single precision knows."""
        found = self._said.get(name)
        known = type(found) in (int, float) and abs(found) <= _GREATEST  # pyright: ignore
        _want(known, f"a number of single precision as {name}")
        return float(found)  # pyright: ignore


def _sources(operator: HostOperator, *ranks: int | None, most: int | None = None) -> list[_Shape]:
    """Return the shapes of as many sources as ``ranks``, or up to ``most``; None is any rank."""
    shapes = [operand.shape for operand in operator.sources]
    count = len(shapes)
    good = len(ranks) <= count <= (most or len(ranks))
    _want(good, f"{len(ranks)} sources")
    for shape, rank in zip(shapes, ranks, strict=False):
        _want(rank is None or len(shape) == rank, f"sources of {ranks} dimensions")
    return shapes


def _same(operator: HostOperator, said: _Said) -> list[_Shape]:
    return _sources(operator, None)


def _softmax(operator: HostOperator, said: _Said) -> list[_Shape]:
    (shape,) = _sources(operator, None)
    _want(bool(shape), "a dimension")
    beta = said.real("beta")
    _want(factor(operator.sources[0].scale, beta) > LEAST, "scale * beta above 2^-26")
    return [shape]


def _reshape(operator: HostOperator, said: _Said) -> list[_Shape]:
    (shape,) = _sources(operator, None)
    result = operator.results[0].shape
    _want(math.prod(shape) == math.prod(result), "as many elements in the result")
    return [result]


def _broadcast(operator: HostOperator, said: _Said) -> list[_Shape]:
    first, second = _sources(operator, None, None)
    if operator.kind in ("ADD", "MUL", "SUB"):
        said.name("activation", _ACTIVATIONS)
    try:
        return [np.broadcast_shapes(first, second)]
    except ValueError:
        raise _Misfit("wanted sources that broadcast") from None


def _greatest(operator: HostOperator, said: _Said) -> list[_Shape]:
    (shape,) = _sources(operator, None)
    axis = said.whole("axis", 0, len(shape) - 1)
    return [shape[:axis] + shape[axis + 1 :]]


def _concatenation(operator: HostOperator, said: _Said) -> list[_Shape]:
    shapes = _sources(operator, None, most=len(operator.sources))
    axis = said.whole("axis", 0, len(shapes[0]) - 1)
    rests = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    _want(len(rests) == 1 and len({len(shape) for shape in shapes}) == 1, "sources alike")
    total = sum(shape[axis] for shape in shapes)
    return [(*shapes[0][:axis], total, *shapes[0][axis + 1 :])]


def _pack(operator: HostOperator, said: _Said) -> list[_Shape]:
    shapes = _sources(operator, None, most=len(operator.sources))
    _want(len(set(shapes)) == 1, "sources alike")
    axis = said.whole("axis", 0, len(shapes[0]))
    return [(*shapes[0][:axis], len(shapes), *shapes[0][axis:])]


def _unpack(operator: HostOperator, said: _Said) -> list[_Shape]:
    (shape,) = _sources(operator, None)
    axis = said.whole("axis", 0, len(shape) - 1)
    # As many as there are: that many results would do, and no more are made.
    _want(shape[axis] == len(operator.results), f"{shape[axis]} results")
    return [shape[:axis] + shape[axis + 1 :]] * shape[axis]


def _split(operator: HostOperator, said: _Said) -> list[_Shape]:
    (shape,) = _sources(operator, None)
    axis = said.whole("axis", 0, len(shape) - 1)
    found = [result.shape for result in operator.results]
    _want(all(len(each) == len(shape) for each in found), "results of as many dimensions")
    parts = [each[axis] for each in found]
    _want(sum(parts) == shape[axis], "results that make up the source")
    return [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]


def _pad(operator: HostOperator, said: _Said) -> list[_Shape]:
    (shape,) = _sources(operator, None)
    margins = [said.wholes(name, len(shape), 0, _EXTENT) for name in ("before", "after")]
    said.whole("value", -128, 127)
    return [tuple(a + n + b for a, n, b in zip(margins[0], shape, margins[1], strict=True))]


def _slice(operator: HostOperator, said: _Said) -> list[_Shape]:
    (shape,) = _sources(operator, None)
    ways = [
        said.wholes(name, len(shape), -least, 1 << 31)
        for name, least in (("begin", 0), ("count", 0), ("stride", 1 << 31))
    ]
    for extent, begin, count, stride in zip(shape, *ways, strict=True):
        last = begin + (count - 1) * stride
        good = stride != 0 and count >= 1 and begin < extent and 0 <= last < extent
        _want(good, f"a slice of {extent}")
    dropped = said.axes("dropped", len(shape))
    _want(all(ways[1][axis] == 1 for axis in dropped), "single slices dropped")
    return [tuple(n for axis, n in enumerate(ways[1]) if axis not in dropped)]


def _transpose(operator: HostOperator, said: _Said) -> list[_Shape]:
    (shape,) = _sources(operator, None)
    order = said.axes("permutation", len(shape))
    _want(len(order) == len(shape), "all dimensions permuted")
    return [tuple(shape[axis] for axis in order)]


def _mean(operator: HostOperator, said: _Said) -> list[_Shape]:
    (shape,) = _sources(operator, None)
    axes = said.axes("axes", len(shape))
    said.flag("keep_dims")
    kept = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
    if not operator.attributes["keep_dims"]:
        kept = [extent for axis, extent in enumerate(shape) if axis not in axes]
    return [tuple(kept)]


def _depth_to_space(operator: HostOperator, said: _Said) -> list[_Shape]:
    ((batch, high, wide, channels),) = _sources(operator, 4)
    block = said.whole("block", 1, _EXTENT)
    _want(channels % block**2 == 0, f"channels in blocks of {block}")
    return [(batch, high * block, wide * block, channels // block**2)]


def _space_to_depth(operator: HostOperator, said: _Said) -> list[_Shape]:
    ((batch, high, wide, channels),) = _sources(operator, 4)
    block = said.whole("block", 1, _EXTENT)
    _want(high % block == 0 and wide % block == 0, f"whole blocks of {block}")
    return [(batch, high // block, wide // block, channels * block**2)]


def _space_to_batch(operator: HostOperator, said: _Said) -> list[_Shape]:
    ((batch, *extents, channels),) = _sources(operator, 4)
    blocks, margins = said.wholes("blocks", 2, 1, _EXTENT), said.pairs("margins")
    whole = [n + sum(margin) for n, margin in zip(extents, margins, strict=True)]
    _want(all(n % b == 0 for n, b in zip(whole, blocks, strict=True)), f"whole blocks of {blocks}")
    places = (n // b for n, b in zip(whole, blocks, strict=True))
    return [(batch * math.prod(blocks), *places, channels)]


def _batch_to_space(operator: HostOperator, said: _Said) -> list[_Shape]:
    ((batch, *extents, channels),) = _sources(operator, 4)
    blocks, margins = said.wholes("blocks", 2, 1, _EXTENT), said.pairs("margins")
    _want(batch % math.prod(blocks) == 0, f"batches in blocks of {blocks}")
    ways = zip(extents, blocks, margins, strict=True)
    places = [n * block - sum(margin) for n, block, margin in ways]
    return [(batch // math.prod(blocks), *places, channels)]


def _resize(operator: HostOperator, said: _Said) -> list[_Shape]:
    ((batch, _, _, channels),) = _sources(operator, 4)
    said.flag("align_corners")
    said.flag("half_pixel_centers")
    (result,) = (operand.shape for operand in operator.results)
    _want(len(result) == 4, "a result of 4 dimensions")
    return [(batch, *result[1:3], channels)]


def _pool(operator: HostOperator, said: _Said) -> list[_Shape]:
    ((batch, *extents, channels),) = _sources(operator, 4)
    said.name("activation", _ACTIVATIONS)
    said.name("padding", ("SAME", "VALID"))
    window, stride = (said.wholes(name, 2, 1, _EXTENT) for name in ("window", "stride"))
    places = []
    for extent, size, step in zip(extents, window, stride, strict=True):
        same = operator.attributes["padding"] == "SAME"
        places.append(-(-extent // step) if same else (extent - size) // step + 1)
    _want(min(places) >= 1, "a window inside the image")
    return [(batch, *places, channels)]


def _want_weights(operator: HostOperator, channels: int) -> None:
    """Refuse weights and a bias that are no constants, or not of so many channels."""
    source, weights, *bias = operator.sources
    _want(source.data is None, "a computed source")
    _want(weights.data is not None, "constant weights")
    _want(len(weights.scales) in (0, channels), f"none or {channels} scales")
    for operand in bias:
        good = operand.data is not None and operand.dtype == "int32"
        _want(good and math.prod(operand.shape) == channels, f"a constant bias of {channels}")


def _dense(operator: HostOperator, said: _Said) -> list[_Shape]:
    source, (channels, taps), *_ = _sources(operator, None, 2, most=3)
    said.name("activation", _ACTIVATIONS)
    _want_weights(operator, channels)
    result = operator.results[0].shape
    _want(math.prod(source) % taps == 0, f"rows of {taps}")
    _want(math.prod(source) // taps * channels == math.prod(result), f"rows of {channels}")
    return [result]


def _transposed(operator: HostOperator, said: _Said) -> list[_Shape]:
    (batch, *extents, depth), (channels, *taps, inputs), *_ = _sources(operator, 4, 4, most=3)
    said.name("activation", _ACTIVATIONS)
    _want_weights(operator, channels)
    _want(inputs == depth, f"weights of {depth} channels")
    result = operator.results[0].shape
    _want(len(result) == 4, "a result of 4 dimensions")
    stride, margins = said.wholes("stride", 2, 1, _EXTENT), said.wholes("margins", 2, 0, _EXTENT)
    ways = zip(extents, taps, result[1:3], stride, margins, strict=True)
    for extent, size, places, step, margin in ways:
        good = (extent - 1) * step < places and margin < size
        _want(good, "pixels inside the result")
    return [(batch, *result[1:3], channels)]


_Fit = Callable[[HostOperator, _Said], list[_Shape]]

#: Operator to the function that returns the shapes of its results.
_FITS: dict[str, _Fit] = {
    **dict.fromkeys(("ADD", "MAXIMUM", "MINIMUM", "MUL", "PRELU", "SUB"), _broadcast),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), _pool),
    **dict.fromkeys(("DEQUANTIZE", "QUANTIZE"), _same),
    **dict.fromkeys(("PAD", "PADV2"), _pad),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), _resize),
    **dict.fromkeys(("SLICE", "STRIDED_SLICE"), _slice),
    **dict.fromkeys(("SPLIT", "SPLIT_V"), _split),
    **dict.fromkeys(RESHAPES, _reshape),
    "ARG_MAX": _greatest,
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "CONCATENATION": _concatenation,
    "DEPTH_TO_SPACE": _depth_to_space,
    "FULLY_CONNECTED": _dense,
    "MEAN": _mean,
    "PACK": _pack,
    "SOFTMAX": _softmax,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "SPACE_TO_DEPTH": _space_to_depth,
    "TRANSPOSE": _transpose,
    "TRANSPOSE_CONV": _transposed,
    "UNPACK": _unpack,
}

#: Types of sources and of results, where they are not int8 alone.
_TYPES = {
    "ARG_MAX": (("int8",), ("int32", "int64")),
    "DEQUANTIZE": (("int8", "uint8"), ("float32",)),
    "QUANTIZE": (("int8", "uint8", "float32"), ("int8", "uint8")),
}
_WEIGHTED = ("FULLY_CONNECTED", "TRANSPOSE_CONV")


def _want_types(operator: HostOperator) -> None:
    ends = _TYPES.get(operator.kind, (("int8",), ("int8",)))
    sources = operator.sources[:2] if operator.kind in _WEIGHTED else operator.sources
    for operands, types in zip((sources, operator.results), ends, strict=True):
        for operand in operands:
            _want(operand.dtype in types, f"{' or '.join(types)} ({operand.name!r})")


def want_fitting(operator: HostOperator) -> None:
    """Refuse an operator that no kernel of the host could run as it is.

    Raises
    ------
    ProgramError
        Naming the operator.
    """
    try:
        _want(operator.kind in _FITS, "an operator that the host runs")
        _want_types(operator)
        _want(bool(operator.sources and operator.results), "sources and results")
        _want(_some(operator.sources), "something computed among the sources")
        shapes = _FITS[operator.kind](operator, _Said(operator))
        found = [result.shape for result in operator.results]
        _want(found == shapes, f"results of shape {shapes}")
    except _Misfit as misfit:
        label = f"operator {operator.place} {operator.kind[:40]} ({operator.name!r})"
        raise ProgramError(f"{label} of the host: {misfit}") from None


def _some(operands: Sequence[Operand]) -> bool:
    return any(operand.data is None for operand in operands)
