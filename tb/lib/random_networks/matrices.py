"""Random products of computed matrices: of inputs, and of the results of other layers."""

import math

import networks as w
import numpy as np

from random_networks.core_layers import kernel
from random_networks.draw import Draw


def _product(draw: Draw, first: int, second: int, *, turned: tuple[bool, bool]) -> None:
    """Add a BATCH_MATMUL of two results; ``turned`` are those that are transposed."""
    chain = draw.chain
    shapes = chain.tensor(first).shape, chain.tensor(second).shape
    rows, depth = shapes[0][-2:][::-1] if turned[0] else shapes[0][-2:]
    columns = shapes[1][-2] if turned[1] else shapes[1][-1]
    batch = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
    (mean, spread), (other, wide) = draw.moments[first], draw.moments[second]
    size = math.sqrt(depth) * math.hypot(mean, spread) * math.hypot(other, wide)
    size += depth * abs(mean * other)
    unit = chain.quantization(first).scale * chain.quantization(second).scale
    scale = draw.about(unit * size / float(draw.rng.uniform(20, 60)))
    zero_point = draw.zero_point() if draw.chance(0.2) else draw.integer(-60, 60)
    chain.operator(
        "BATCH_MATMUL",
        (*batch, rows, columns),
        inputs=[first, second],
        scale=scale,
        zero_point=zero_point,
        adjX=turned[0],
        adjY=turned[1],
    )
    for number in chain.results:
        draw.moments[number] = (draw.mean, draw.spread) = 0.0, 40.0


def _inputs(draw: Draw) -> None:
    """Make a graph of two inputs and their product; some share matrices between heads."""
    rows, depth, columns = (draw.few(40) for _ in range(3))
    rank, heads = draw.integer(3, 5), draw.few(6)
    batch = (draw.integer(1, 3), heads, draw.integer(1, 2))[: rank - 2]
    ways = [batch, batch]
    if draw.chance(0.3):
        shared = batch[0], *(1 if draw.chance(0.7) else extent for extent in batch[1:])
        ways[draw.integer(0, 1)] = shared
    turned = draw.chance(0.4), draw.chance(0.5)
    draw.begin((*ways[0], *((depth, rows) if turned[0] else (rows, depth))))
    shape = (*ways[1], *((columns, depth) if turned[1] else (depth, columns)))
    first, scale, zero_point = draw.chain.number, draw.scale(), draw.zero_point()
    second = draw.chain.input("second", shape, scale, zero_point)
    values = draw.int8((len(draw.inputs), *shape))
    draw.more.append(values)
    draw.moments[second] = float(values.mean()) - zero_point, float(values.std()) + 1
    _product(draw, first, second, turned=turned)


def _projected(draw: Draw, source: int, channels: int) -> int:
    """Add a convolution of the image ``source`` to some channels; return its number."""
    draw.back_to(source)
    side = 3 if draw.chance(0.15) else 1
    weights = draw.int8((channels, side, side, draw.chain.last.shape[3]))
    draw.add(w.Convolution(**kernel(draw, weights), padding="SAME"))
    return draw.chain.number


def _attention(draw: Draw) -> None:
    """Make a graph of an image whose rows are heads, and one or two products of projections."""
    heads, rows, depth = draw.few(5), draw.few(40), draw.few(24)
    draw.begin((draw.integer(2, 3) if draw.chance(0.3) else 1, heads, rows, draw.few(24)))
    source = draw.chain.number
    first = _projected(draw, source, depth)
    # A matrix times its own transpose now and then.
    second = first if draw.chance(0.1) else _projected(draw, source, depth)
    _product(draw, first, second, turned=(False, True))
    if draw.chance(0.5):
        scores = draw.chain.number
        if draw.chance(0.5):
            draw.chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
            scores = draw.chain.number
            draw.moments[scores] = 128.0, 70.0
        _product(draw, scores, _projected(draw, source, draw.few(24)), turned=(False, False))
    if draw.chance(0.3):
        draw.add(w.Pool(window=(1, 1), stride=(1, 1), padding="VALID"))
    if draw.chance(0.4):
        channels = draw.chain.last.shape[3]
        draw.add(w.Convolution(**kernel(draw, draw.int8((draw.few(20), 1, 1, channels)))))


def _turned(draw: Draw, source: int, order: tuple[int, ...]) -> int:
    """Add a TRANSPOSE; return its number."""
    moments = draw.moments[source]
    draw.back_to(source)
    draw.add(w.Transpose(permutation=order))
    draw.moments[draw.chain.number] = moments
    return draw.chain.number


def _heads(draw: Draw) -> None:
    """Make a graph of attention as converters write it: heads next to the last dimension."""
    rows, heads, depth = draw.integer(2, 30), draw.integer(2, 5), draw.integer(2, 20)
    # FULLY_CONNECTED makes rows of all samples.
    dense = draw.chance(0.6)
    batch = draw.integer(2, 3) if not dense and draw.chance(0.6) else 1
    draw.begin((batch, rows, heads, draw.few(16)))
    source = draw.chain.number
    first = _turned(draw, _projected(draw, source, depth), (0, 2, 1, 3))
    way = draw.chance(0.5)
    order = (0, 2, 1, 3) if way else (0, 2, 3, 1)
    second = _turned(draw, _projected(draw, source, depth), order)
    _product(draw, first, second, turned=(False, way))
    draw.chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
    scores = draw.chain.number
    draw.moments[scores] = 128.0, 70.0
    values = _turned(draw, _projected(draw, source, depth), (0, 2, 1, 3))
    _product(draw, scores, values, turned=(False, False))
    if dense:
        number = _turned(draw, draw.chain.number, (0, 2, 1, 3))
        shape = (1, rows, heads * depth)
        draw.chain.operator("RESHAPE", shape, [np.array(shape, np.int32)])
        draw.moments[draw.chain.number] = draw.moments[number]
        channels = draw.few(20)
        weights = kernel(draw, draw.int8((channels, heads * depth)))
        draw.add(w.FullyConnected(**weights))


def matrices(draw: Draw) -> None:
    """Make a graph with products of computed matrices."""
    makers = (_inputs, _attention, _heads)
    makers[int(draw.rng.choice(len(makers), p=(0.4, 0.3, 0.3)))](draw)
