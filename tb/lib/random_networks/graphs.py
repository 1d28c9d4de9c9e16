"""Random graphs: choice of operators and of their inputs."""

from collections.abc import Callable

import numpy as np
from networks import Activation, Quantize

from random_networks.core_layers import (
    ACTIVATIONS,
    Maker,
    activation,
    addition,
    average_pool,
    convolution,
    depthwise,
    flatten,
    fully_connected,
    matching,
    max_pool,
    mean,
    pad,
    pointwise,
    quantize,
    softmax,
)
from random_networks.draw import Draw
from random_networks.host_layers import ANYWHERE, ELEMENTS, IMAGES, any_mean, arg_max, dequantize

_Graph = Callable[[Draw], None]


def _single(*makers: Maker, flat: bool = False) -> _Graph:
    """Return a maker of graphs of one operator."""

    def make(draw: Draw) -> None:
        if flat:
            draw.begin((draw.integer(1, 3), draw.few(300)))
        else:
            draw.begin_image()
        draw.add(draw.rng.choice(np.array(makers))(draw))

    return make


#: Operators after an image, and after a row, with their weights.
_AFTER_IMAGE: tuple[tuple[Maker, int], ...] = (
    *((convolution, 10), (max_pool, 4), (average_pool, 2), (activation, 3)),
    *((pad, 3), (quantize, 1), (mean, 1), (flatten, 1)),
)
_AFTER_ROW: tuple[tuple[Maker, int], ...] = (
    *((fully_connected, 6), (activation, 2), (quantize, 1)),
)


#: The same for graphs with channels that keep to themselves.
_AFTER_ANY: tuple[tuple[Maker, int], ...] = ((depthwise, 6), *_AFTER_IMAGE)


def _weighted(draw: Draw, table: tuple[tuple[Maker, int], ...]) -> Maker:
    """Return one of some operators, drawn with the weights beside them."""
    shares = np.array([share for _, share in table]) / sum(share for _, share in table)
    return table[int(draw.rng.choice(len(table), p=shares))][0]


def _any(draw: Draw, images: tuple[tuple[Maker, int], ...] = _AFTER_ANY) -> None:
    """Add an operator that takes the last result."""
    table = images if len(draw.chain.last.shape) == 4 else _AFTER_ROW
    draw.add(_weighted(draw, table)(draw))


def _soft(draw: Draw, share: float) -> None:
    """Add a SOFTMAX in a share of cases, if the reference kernel accepts one."""
    # It aborts on rows of more than 511 equal values.
    if len(draw.chain.last.shape) == 2 and draw.chain.last.shape[1] < 512 and draw.chance(share):
        draw.add(softmax(draw))


def _chain(images: tuple[tuple[Maker, int], ...]) -> _Graph:
    """Return a maker of graphs of some operators, in any order."""

    def make(draw: Draw) -> None:
        draw.begin_image(channels=24)
        for _ in range(draw.integer(2, 5)):
            _any(draw, images)
        _soft(draw, 0.3)

    return make


def _network(draw: Draw) -> None:
    """Make a graph as people do: convolutions, pools, then rows."""
    draw.begin_image(channels=6)
    for _ in range(draw.integer(1, 2)):
        if draw.chance(0.2):
            draw.add(pad(draw))
        draw.add(convolution(draw))
        if draw.chance(0.3):
            draw.add(Activation(kind=draw.one_of(*ACTIVATIONS[1:])))
        if draw.chance(0.7):
            draw.add(_weighted(draw, ((max_pool, 3), (average_pool, 1)))(draw))
    if draw.chance(0.9):
        draw.add(_weighted(draw, ((flatten, 3), (mean, 1)))(draw))
    for _ in range(draw.integer(1, 2)):
        draw.add(fully_connected(draw))
    if draw.chance(0.5):
        draw.add(softmax(draw))


def _fork(draw: Draw) -> None:
    """Make a graph with different branches that read the same image."""
    draw.begin_image(channels=24)
    if draw.chance(0.6):
        draw.add(_weighted(draw, _AFTER_IMAGE[:4])(draw))
    root = draw.chain.number
    for _ in range(draw.integer(2, 3)):
        draw.back_to(root)
        for _ in range(draw.integer(1, 2)):
            _any(draw, _AFTER_IMAGE)


def _separable(draw: Draw) -> None:
    """Make a graph as small devices run: convolutions within channels, then across them."""
    draw.begin_image(channels=8)
    draw.add(convolution(draw))
    for _ in range(draw.integer(1, 3)):
        draw.add(depthwise(draw))
        draw.add(convolution(draw))
    draw.add(_weighted(draw, ((average_pool, 1), (mean, 2), (flatten, 1)))(draw))
    if len(draw.chain.last.shape) == 2:
        draw.add(fully_connected(draw))
    _soft(draw, 0.3)


#: Operators after a convolution within channels, with their weights.
_AFTER_APART: tuple[tuple[Maker, int], ...] = (
    *((pointwise, 12), (depthwise, 4), (convolution, 2), (max_pool, 2), (average_pool, 2)),
    *((activation, 1), (pad, 1), (quantize, 1), (mean, 2), (flatten, 1)),
)


def _between(draw: Draw) -> None:
    """Make a graph of convolutions within channels with other layers before and after them."""
    draw.begin_image(extent=30, channels=6)
    draw.add(pointwise(draw))
    for _ in range(draw.integer(1, 3)):
        draw.add(depthwise(draw))
        others = draw.others()
        if others and draw.chance(0.3):
            draw.add(addition(draw, others[draw.integer(0, len(others) - 1)]))
        else:
            draw.add(_weighted(draw, _AFTER_APART)(draw))
        if len(draw.chain.last.shape) == 2:
            break
        if draw.chance(0.15):
            draw.back_to(list(draw.moments)[draw.integer(1, len(draw.moments) - 1)])


def _sum(draw: Draw) -> None:
    """Make a graph that adds two tensors of scales far apart, of the same, or the same twice."""
    if draw.chance(0.3):
        draw.begin((draw.integer(1, 3), draw.few(300)))
    else:
        draw.begin_image()
    ends = []
    for _ in range(2):
        draw.back_to(0)
        if draw.chance(0.6):
            scale = draw.about(draw.chain.scale * 2.0 ** draw.integer(-10, 10))
            ratio = draw.chain.scale / scale
            draw.mean, draw.spread = draw.mean * ratio, draw.spread * ratio
            draw.add(Quantize(output_scale=scale, output_zero_point=draw.zero_point()))
        ends.append(draw.chain.number)
    draw.add(addition(draw, ends[0] if draw.chance(0.8) else ends[1]))
    if draw.chance(0.3):
        _any(draw)


def _residual(draw: Draw, most: int) -> None:
    """Add branches of up to ``most - 1`` operators in total, which is at least 1, and their sum."""
    starts = [draw.chain.number]
    for _ in range(draw.integer(1, min(3, most - 1))):
        _any(draw)
        starts.append(draw.chain.number)
    left, shape, room = starts.pop(), draw.chain.last.shape, most - len(starts)
    draw.back_to(starts[0] if draw.chance(0.7) else starts[draw.integer(0, len(starts) - 1)])
    alike = draw.chain.last.shape == shape
    if room > 1 and not (alike and draw.chance(0.6)):
        if room > 2 and draw.chance(0.2):
            _any(draw)
        layer = matching(draw, shape)
        if layer is not None:
            draw.add(layer)
    if draw.chain.last.shape != shape:
        draw.back_to(left)
    right = draw.chain.number
    if draw.chance(0.5):
        draw.back_to(left)
        left, right = right, left
    draw.add(addition(draw, left))


def _branching(least: int, most: int) -> _Graph:
    """Return a maker of graphs of this many operators, with sums of branches."""

    def make(draw: Draw) -> None:
        draw.begin_image(channels=24)
        wanted = draw.integer(least, most)
        while (room := wanted + 1 - len(draw.moments)) > 0:
            others = draw.others()
            if others and draw.chance(0.2):
                draw.add(addition(draw, others[draw.integer(0, len(others) - 1)]))
            elif room > (2 if most > 4 else 1) and draw.chance(0.4):
                _residual(draw, room)
            elif len(draw.moments) > 2 and draw.chance(0.06):
                draw.back_to(list(draw.moments)[draw.integer(1, len(draw.moments) - 1)])
            else:
                _any(draw)

    return make


def _one_of(table: tuple[tuple[Maker, int], ...], flat: bool = False) -> _Graph:
    """Return a maker of graphs of one operator of a table."""

    def make(draw: Draw) -> None:
        if flat:
            draw.begin((draw.integer(1, 3), draw.few(300)))
        else:
            draw.begin_image(extent=14, channels=40)
        draw.add(_weighted(draw, table)(draw))

    return make


def _either(draw: Draw, share: float) -> None:
    """Add an operator that the host may run in a share of cases, else one that the core runs."""
    image = len(draw.chain.last.shape) == 4
    if not draw.chance(share):
        _any(draw)
        return
    draw.add(_weighted(draw, ANYWHERE + (IMAGES if image else ()))(draw))


def _mixed(least: int, most: int) -> _Graph:
    """Return a maker of graphs of this many operators of core and host, with branches."""

    def make(draw: Draw) -> None:
        draw.begin_image(extent=12, channels=16)
        share = float(draw.rng.choice([0.15, 0.35, 0.7]))
        for _ in range(draw.integer(least, most)):
            if len(draw.moments) > 2 and draw.chance(0.15):
                draw.back_to(list(draw.moments)[draw.integer(1, len(draw.moments) - 1)])
            if draw.chain.last.elements > ELEMENTS:
                draw.add(any_mean(draw))
            _either(draw, share)
        _soft(draw, 0.2)

    return make


def _ends(draw: Draw) -> None:
    """Make a graph with inputs or outputs of floating point or uint8, or both."""
    kind = draw.one_of("int8", "float32", "float32", "uint8")
    draw.begin_image(extent=12, channels=16, dtype=kind)
    if kind != "int8":
        draw.add(Quantize(output_scale=draw.scale(), output_zero_point=draw.zero_point()))
        draw.spread = 45.0
    for _ in range(draw.integer(1, 4)):
        _either(draw, 0.2)
    _soft(draw, 0.4)
    way = draw.one_of("int8", "float32", "float32", "uint8", "indices")
    if way == "uint8":
        scale = draw.near(draw.chain.scale)
        draw.add(Quantize(output_scale=scale, output_zero_point=128, output_type="uint8"))
    elif way == "indices":
        draw.add(arg_max(draw))
    elif way == "float32":
        draw.add(dequantize(draw))


#: Graphs by ten thousands of seeds, with their weights. New ones come last, so that older seeds
#: do not change.
FAMILIES: tuple[tuple[tuple[_Graph, int], ...], ...] = (
    (
        (_single(convolution), 12),
        (_single(max_pool, average_pool), 5),
        (_single(fully_connected, flat=True), 2),
        (_single(mean, pad, flatten), 4),
        (_single(activation, quantize), 3),
        (_single(activation, quantize, softmax, flat=True), 1),
        (_chain(_AFTER_IMAGE), 10),
        (_network, 6),
        (_fork, 3),
    ),
    (
        (_single(depthwise), 12),
        (_sum, 6),
        (_chain(_AFTER_ANY), 6),
        (_separable, 4),
        (_branching(2, 4), 6),
    ),
    ((_branching(3, 12), 1),),
    (
        (_one_of(ANYWHERE + IMAGES), 6),
        (_one_of(ANYWHERE, flat=True), 1),
        (_mixed(2, 4), 4),
        (_ends, 2),
    ),
    ((_mixed(3, 12), 4), (_ends, 1)),
    ((_between, 1),),
)
