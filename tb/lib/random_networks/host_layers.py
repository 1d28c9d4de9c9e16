"""Random operators that the host runs, at least in some cases: two inputs, moves, other sizes."""

import math
from typing import Any

import networks as w
import numpy as np

from random_networks.core_layers import ACTIVATIONS, MACS, Maker, changed, kernel
from random_networks.draw import Draw

#: Most elements of a result that only moves bytes.
ELEMENTS = 60_000


def _operand(draw: Draw) -> tuple[np.ndarray, float, int]:
    """Return a constant that broadcasts to the last result, its scale and zero point."""
    shape = draw.chain.last.shape
    channels = [shape[-1]] if draw.chance(0.5) else [1] * (len(shape) - 1) + [shape[-1]]
    whole = [1, *shape[1:]]
    some = [1 if draw.chance(0.5) else extent for extent in whole]
    choices = (channels, channels, [], [1], some, whole)
    picked = choices[draw.integer(0, len(choices) - 1)]
    return draw.int8(picked), draw.scale(), draw.zero_point()


def _other(draw: Draw) -> tuple[str, float, tuple[float, float]] | None:
    """Return name, scale and moments of an earlier result that broadcasts with the last one."""
    shape, tensor = draw.chain.last.shape, draw.chain.tensor
    fits = []
    for number in draw.moments:
        other = tensor(number).shape
        pairs = zip(reversed(shape), reversed(other), strict=False)
        if tensor(number).dtype == np.int8 and all(a == b or b == 1 for a, b in pairs):
            if len(other) <= len(shape):
                fits.append(number)
    if not fits:
        return None
    number = fits[draw.integer(0, len(fits) - 1)]
    return tensor(number).name, draw.chain.quantization(number).scale, draw.moments[number]


def binary(draw: Draw) -> w.Layer:
    """Return an ADD, SUB or MUL of the last result and an earlier one or a constant."""
    kind, swapped = draw.one_of(*w.Binary.KINDS), draw.chance(0.3)
    found = _other(draw) if draw.chance(0.5) else None
    if kind == "SUB" and found and found[0] == draw.chain.last.name:
        found = None
    given: dict[str, Any] = {}
    if found is None:
        second, scale, zero_point = _operand(draw)
        values = second.astype(float)
        moments = float(values.mean()) - zero_point, float(values.std()) + 1
        given = {"second": second, "second_scale": scale, "second_zero_point": zero_point}
    else:
        name, scale, moments = found
        given = {"second": name}
    (one, one_spread), (two, two_spread) = (
        (draw.mean * draw.chain.scale, draw.spread * draw.chain.scale),
        (moments[0] * scale, moments[1] * scale),
    )
    if kind == "MUL":
        mean = one * two
        spread = math.hypot(one * two_spread, two * one_spread, one_spread * two_spread)
    else:
        mean = one + two if kind == "ADD" else (two - one if swapped else one - two)
        spread = math.hypot(one_spread, two_spread)
    output = draw.about((spread + abs(mean) / 4) / float(draw.rng.uniform(20, 60)))
    # The reference kernels abort if the greater of two scales is 2^19 of the sum's.
    output = max(output, max(scale, draw.chain.scale) * 2.0**-12 if kind != "MUL" else 0)
    zero_point = int(np.clip(draw.integer(-50, 50) - mean / output, -128, 127))
    draw.mean, draw.spread = mean / output, min(spread / output, 100.0)
    return w.Binary(
        kind=kind,
        swapped=swapped,
        output_scale=output,
        output_zero_point=draw.zero_point() if draw.chance(0.1) else zero_point,
        activation=draw.one_of(*ACTIVATIONS) if draw.chance(0.2) else "NONE",
        **given,
    )


def slopes(draw: Draw) -> w.Layer:
    """Return a PRELU of several slopes."""
    shape = draw.chain.last.shape
    picked = [1] * (len(shape) - 2) + [shape[-1]] if draw.chance(0.8) else shape[1:]
    return w.Prelu(
        alpha=draw.int8(picked),
        alpha_scale=float(draw.rng.uniform(0.002, 0.02)),
        alpha_zero_point=draw.zero_point(),
        **changed(draw, 0.7),
    )


def resize(draw: Draw) -> w.Layer:
    """Return a RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR, most often to twice the size."""
    batch, high, wide, channels = draw.chain.last.shape
    size = (2 * high, 2 * wide) if draw.chance(0.4) else draw.pair(24)
    if batch * size[0] * size[1] * channels > ELEMENTS:
        size = (high, wide)
    way = draw.one_of("", "align_corners", "half_pixel_centers")
    flags = {way: True} if way else {}
    return w.Resize(kind=draw.one_of(*w.Resize.KINDS), size=size, **flags)


def transposed(draw: Draw) -> w.Layer:
    """Return a TRANSPOSE_CONV of 1 to 20 channels."""
    batch, high, wide, inputs = draw.chain.last.shape
    window, stride = draw.pair(4), (2, 2) if draw.chance(0.5) else draw.pair(3)
    padding = draw.one_of("SAME", "VALID")
    cost = batch * high * wide * inputs * window[0] * window[1]
    if batch * high * stride[0] * wide * stride[1] * 20 > ELEMENTS or cost > MACS:
        window = stride = (1, 1)
        cost = batch * high * wide * inputs
    weights = draw.int8((min(draw.few(20), max(1, MACS // cost)), *window, inputs))
    operands = kernel(draw, weights)
    if draw.chance(0.3):
        operands["bias"] = None
    return w.TransposedConvolution(**operands, padding=padding, stride=stride)


def transpose(draw: Draw) -> w.Layer:
    """Return a TRANSPOSE, most often of all dimensions but the first."""
    rank = len(draw.chain.last.shape)
    if draw.chance(0.1):
        return w.Transpose(permutation=tuple(draw.rng.permutation(rank).tolist()))
    return w.Transpose(permutation=(0, *(1 + draw.rng.permutation(rank - 1)).tolist()))


def _compatible(draw: Draw, axis: int | None) -> list[str]:
    """Return names of results that can stand beside the last one along an axis, or anywhere."""
    chain, names = draw.chain, []
    for number in draw.moments:
        tensor, shape = chain.tensor(number), list(chain.last.shape)
        other = list(tensor.shape)
        if axis is not None and len(other) == len(shape):
            other[axis] = shape[axis]
        same = tensor.quantization is not None and tensor.dtype == np.int8
        if other == shape and same and chain.quantization(number).equals(chain.last.quantization):
            names.append(tensor.name)
    return names


def _choose(draw: Draw, names: list[str], size: int) -> list[str]:
    most = max(0, min(2, ELEMENTS // max(1, size) - 1))
    return [names[draw.integer(0, len(names) - 1)] for _ in range(min(draw.integer(1, 2), most))]


def concatenate(draw: Draw) -> w.Layer:
    """Return a CONCATENATION, most often along channels."""
    rank = len(draw.chain.last.shape)
    axis = rank - 1 if draw.chance(0.6) else draw.integer(1 if draw.chance(0.9) else 0, rank - 1)
    others = _choose(draw, _compatible(draw, axis), draw.chain.last.elements)
    return w.Concatenate(others=others, axis=axis - rank if draw.chance(0.3) else axis)


def pack(draw: Draw) -> w.Layer:
    """Return a PACK along a dimension that is not the first."""
    others = _choose(draw, _compatible(draw, None), draw.chain.last.elements)
    return w.Pack(others=others, axis=draw.integer(1, len(draw.chain.last.shape)))


def _short_axes(draw: Draw) -> list[int]:
    shape = draw.chain.last.shape
    return [axis for axis in range(1, len(shape)) if 1 < shape[axis] <= 24]


def unpack(draw: Draw) -> w.Layer:
    """Return an UNPACK of a dimension of few entries, else an EXPAND_DIMS."""
    axes = _short_axes(draw)
    if not axes or len(draw.chain.last.shape) < 3:
        return expand(draw)
    return w.Unpack(axis=axes[draw.integer(0, len(axes) - 1)])


def split(draw: Draw) -> w.Layer:
    """Return a SPLIT in two or three, or as many as there are; else an EXPAND_DIMS."""
    ways = [
        (axis, parts)
        for axis in _short_axes(draw)
        for parts in (2, 3, draw.chain.last.shape[axis])
        if draw.chain.last.shape[axis] % parts == 0
    ]
    if not ways:
        return expand(draw)
    axis, parts = ways[draw.integer(0, len(ways) - 1)]
    return w.Split(axis=axis, parts=parts)


def strided_slice(draw: Draw) -> w.Layer:
    """Return a STRIDED_SLICE of at least one element, most often without dropped dimensions."""
    begin, end, stride, dropped = [], [], [], []
    for axis, extent in enumerate(draw.chain.last.shape):
        if axis == 0 or draw.chance(0.4):
            first, last, step = 0, extent, 1
        else:
            first = draw.integer(0, extent - 1)
            last = draw.integer(first + 1, extent)
            step = draw.integer(1, 3)
            if draw.chance(0.15):
                # From the last to the second.
                first, last, step = last - 1, first - 1 if first else -extent - 1, -step
            elif draw.chance(0.1) and len(draw.chain.last.shape) > 2 and not dropped:
                dropped.append(axis)
                last, step = first + 1, 1
        begin.append(first)
        end.append(last)
        stride.append(step)
    plain = not dropped and set(stride) == {1} and draw.chance(0.6)
    return w.StridedSlice(
        begin=tuple(begin),
        end=tuple(end),
        stride=tuple(stride),
        dropped=tuple(dropped),
        plain=plain,
    )


def split_sizes(draw: Draw) -> w.Layer:
    """Return a SPLIT_V; else an EXPAND_DIMS."""
    axes = _short_axes(draw)
    if not axes:
        return expand(draw)
    axis = axes[draw.integer(0, len(axes) - 1)]
    return w.SplitSizes(axis=axis, first=draw.integer(1, draw.chain.last.shape[axis] - 1))


def choice(draw: Draw) -> w.Layer:
    """Return a MAXIMUM or MINIMUM of the last result and one alike or a constant."""
    names = _compatible(draw, None)
    given: dict[str, Any] = {"second": names[draw.integer(0, len(names) - 1)]}
    if draw.chance(0.5):
        scale, zero_point = draw.chain.scale, draw.chain.zero_point
        second, _, _ = _operand(draw)
        given = {"second": second, "second_scale": scale, "second_zero_point": zero_point}
    return w.Binary(
        kind=draw.one_of(*w.Binary.CHOICES),
        output_scale=draw.chain.scale,
        output_zero_point=draw.chain.zero_point,
        **given,
    )


def blocks(draw: Draw) -> w.Layer:
    """Return an operator that moves pixels between blocks, channels and samples."""
    batch, high, wide, channels = draw.chain.last.shape
    block = draw.integer(1, 3)
    if draw.chance(0.5):
        if channels % block**2 == 0 and draw.chance(0.5):
            return w.DepthToSpace(block=block)
        if high % block == 0 and wide % block == 0:
            return w.SpaceToDepth(block=block)
    down, right = draw.pair(2)
    if batch % (down * right) == 0 and draw.chance(0.5):
        crops = tuple(
            (0, 1 if n * step > 1 and draw.chance(0.3) else 0)
            for n, step in ((high, down), (wide, right))
        )
        return w.BatchToSpace(blocks=(down, right), margins=(crops[0], crops[1]))
    (top, left), rest = draw.rng.integers(0, 2, 2).tolist(), (high, wide)
    margins = [
        (first, -(extent + first) % step)
        for first, extent, step in zip((top, left), rest, (down, right), strict=True)
    ]
    return w.SpaceToBatch(blocks=(down, right), margins=(margins[0], margins[1]))


def expand(draw: Draw) -> w.Layer:
    """Return an EXPAND_DIMS, or a SQUEEZE if that is possible."""
    shape = draw.chain.last.shape
    if 1 in shape[1:] and shape[0] > 1 and draw.chance(0.6):
        return w.Squeeze()
    if len(shape) > 3:
        return image(draw)
    return w.ExpandDims(axis=draw.integer(1, len(shape)))


def image(draw: Draw) -> w.Layer:
    """Return a RESHAPE to an image of another shape."""
    batch, *extents = draw.chain.last.shape
    left = int(np.prod(extents, dtype=np.int64))
    shape = [batch]
    for _ in range(2):
        divisors = [n for n in range(1, 25) if left % n == 0]
        shape.append(divisors[draw.integer(0, len(divisors) - 1)])
        left //= shape[-1]
    return w.Reshape(shape=(*shape, left))


def any_mean(draw: Draw) -> w.Layer:
    """Return a MEAN over any axes but the first."""
    shape = draw.chain.last.shape
    axes = [axis for axis in range(1, len(shape)) if draw.chance(0.5)] or [len(shape) - 1]
    draw.spread = draw.spread / math.sqrt(math.prod(shape[axis] for axis in axes)) + 1
    keep = draw.chance(0.5) or len(shape) - len(axes) < 2
    return w.Mean(axes=tuple(axes), keep_dims=keep, **changed(draw, 0.5))


def any_pad(draw: Draw) -> w.Layer:
    """Return a PAD of all dimensions, channels included."""
    rank = len(draw.chain.last.shape)
    margins = draw.rng.integers(0, 3, (2, rank)).tolist()
    before, after = ((0, *margin[1:]) for margin in margins)
    value = draw.integer(-128, 127) if draw.chance(0.3) else None
    return w.Pad(before=before, after=after, value=value)


#: Scale and zero point that a function's results have.
_RANGES = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}


def function(draw: Draw) -> w.Layer:
    """Return an operator that a table does."""
    kind = draw.one_of("ABS", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "TANH")
    alpha = {"alpha": float(draw.rng.uniform(-0.5, 1))} if kind == "LEAKY_RELU" else {}
    if kind in _RANGES:
        scale, zero_point = _RANGES[kind]
        draw.mean, draw.spread = 64.0, 60.0
        return w.Function(kind=kind, output_scale=scale, output_zero_point=zero_point)
    return w.Function(kind=kind, **alpha, **changed(draw, 0.5))


def arg_max(draw: Draw) -> w.Layer:
    """Return an ARG_MAX."""
    axis = -1 if draw.chance(0.6) else draw.integer(1, len(draw.chain.last.shape) - 1)
    return w.ArgMax(axis=axis, output_type=draw.one_of(*w.ArgMax.TYPES))


def dequantize(draw: Draw) -> w.Layer:
    """Return a DEQUANTIZE."""
    return w.Dequantize()


#: Operators for any result, and for images only, with their weights.
ANYWHERE: tuple[tuple[Maker, int], ...] = (
    *(
        (binary, 6),
        (slopes, 1),
        (function, 3),
        (transpose, 2),
        (concatenate, 3),
        (pack, 1),
        (unpack, 1),
    ),
    *((split, 1), (strided_slice, 2), (expand, 2), (any_mean, 1), (any_pad, 1), (image, 1)),
    *((split_sizes, 1), (choice, 2)),
)
IMAGES: tuple[tuple[Maker, int], ...] = ((resize, 3), (transposed, 3), (blocks, 3))
