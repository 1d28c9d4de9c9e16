"""Coordinates of the pictures of a profile: rectangles, points and ticks for the page's SVG."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from celosia.hw.arch.isa import Opcode
from celosia.sim.check.footprint import pixels, steps
from celosia.sw.profile.events import LANES, Event, shares
from celosia.sw.profile.figures import Profile

#: Width of pictures over time, and height of a lane of the timeline, in units of the SVG.
WIDTH, HEIGHT = 1000, 40
#: Columns of the memory map.
_COLUMNS = 500
#: Width and height of the roofline, likewise.
_PLANE = (560, 320)

#: Positions of the marks of an axis, with their texts.
_Ticks = list[tuple[float, str]]


class Shapes(NamedTuple):
    """Rectangles of one layer, as the path of an SVG; the layer is -1 for none."""

    layer: int
    path: str


class Area(NamedTuple):
    """A value over time: the path of its area, and its greatest value."""

    path: str
    greatest: float


class Dot(NamedTuple):
    """A layer in the roofline, in units of the SVG and in figures."""

    layer: int
    x: float
    y: float
    intensity: float
    macs_per_cycle: float


class Roofline(NamedTuple):
    """Layers by MACs per byte and MACs per cycle, both on logarithmic scales.

    ``roof`` is the lower of the limits of memory and array, as points of a polyline, and ``top``
    the height of its flat part; ``outside`` are labels of matrix layers that move no bytes.
    """

    roof: str
    top: float
    dots: list[Dot]
    x_ticks: _Ticks
    y_ticks: _Ticks
    outside: list[str]


def ticks(cycles: int, limit: int = 8) -> _Ticks:
    """Return positions and texts of round cycles from 0 on."""
    step = 10 ** math.floor(math.log10(max(cycles, 1)))
    sizes = (step / 10, step / 5, step / 2, step, 2 * step)
    step = next(size for size in sizes if cycles / size <= limit)
    step = max(1, round(step))
    return [(t / max(cycles, 1) * WIDTH, f"{t:,}") for t in range(0, cycles + 1, step)]


def _rectangle(x: float, y: float, width: float, height: float) -> str:
    """Return a rectangle as part of a path, to a tenth of a unit."""
    return f"M{x:.4g} {y:.4g}h{width:.4g}v{height:.4g}h{-width:.4g}z"


def timeline(profile: Profile) -> list[tuple[str, list[Shapes]]]:
    """Return for each lane the rectangles of its layers.

    A column is as high as the share of its cycles in which the unit works; it belongs to the layer
    that the unit works for most.
    """
    edges = np.linspace(0, max(profile.total.cycles, 1), WIDTH + 1)
    layers = sorted({-1, *(event.layer for event in profile.events)})
    result = []
    for lane in LANES:
        own = [event for event in profile.events if event.lane == lane]
        busy = np.array([_busy([e for e in own if e.layer == n], edges) for n in layers])
        result.append((lane, _columns(layers, busy)))
    return result


def _busy(events: Sequence[Event], edges: np.ndarray) -> np.ndarray:
    """Return the share of each column in which some events work."""
    begins = np.array([e.begin for e in events], float)
    ends = np.array([e.end for e in events], float)
    return shares(begins, ends, edges, np.ones(len(events)))


def _columns(layers: Sequence[int], busy: np.ndarray) -> list[Shapes]:
    """Return columns from the shares of layers, [layers, columns]; equal neighbours are joined."""
    heights = np.rint(busy.sum(axis=0).clip(0, 1) * HEIGHT).astype(int)
    winners = busy.argmax(axis=0)
    keys = np.stack([heights, winners])
    starts = np.flatnonzero(np.any(np.diff(keys, axis=1, prepend=-1), axis=0))
    paths: dict[int, list[str]] = defaultdict(list)
    for first, last in zip(starts.tolist(), [*starts[1:].tolist(), keys.shape[1]], strict=True):
        if height := int(heights[first]):
            box = _rectangle(first, HEIGHT - height, last - first, height)
            paths[layers[winners[first]]].append(box)
    return [Shapes(layer, "".join(boxes)) for layer, boxes in sorted(paths.items())]


def memory_map(profile: Profile) -> tuple[list[Shapes], int]:
    """Return the rectangles of each layer in the unified buffer, and the number of blocks shown.

    A column is a time, a row of height 1 a block; block 0 is at the bottom.
    """
    contents = profile.contents
    times = (np.arange(_COLUMNS) + 0.5) * profile.total.cycles / _COLUMNS
    owners = contents.owners(times)
    count = max(1, contents.blocks)
    open_: dict[tuple[int, int, int], int] = {}
    paths: dict[int, list[str]] = defaultdict(list)
    wide = WIDTH / _COLUMNS
    for row in range(count + 1):
        runs = set(_runs(owners[row])) if row < contents.blocks else set()
        for key in [key for key in open_ if key not in runs]:
            first, last, layer = key
            low = open_.pop(key)
            box = _rectangle(first * wide, count - row, (last - first) * wide, row - low)
            paths[layer].append(box)
        for key in runs:
            open_.setdefault(key, row)
    return [Shapes(layer, "".join(boxes)) for layer, boxes in sorted(paths.items())], count


def _runs(owners: np.ndarray) -> list[tuple[int, int, int]]:
    """Return (first column, column after the last, layer) of equal neighbours that are in use."""
    starts = np.flatnonzero(np.diff(owners, prepend=-3))
    ends = [*starts[1:].tolist(), len(owners)]
    runs = zip(starts.tolist(), ends, owners[starts].tolist(), strict=True)
    return [(first, last, layer) for first, last, layer in runs if layer >= -1]


def _area(values: np.ndarray, greatest: float) -> Area:
    """Return an area over equal columns, of height ``HEIGHT`` at ``greatest``."""
    wide = WIDTH / len(values)
    tops = HEIGHT * (1 - values / (greatest or 1))
    starts = np.flatnonzero(np.diff(np.round(tops, 1), prepend=-1))
    steps_ = "".join(f"H{x * wide:.4g}V{tops[x]:.3g}" for x in starts)
    return Area(f"M0 {HEIGHT}{steps_}H{WIDTH}V{HEIGHT}z", greatest)


def memory_use(profile: Profile) -> Area:
    """Return the bytes of the unified buffer in use over time."""
    times = (np.arange(_COLUMNS) + 0.5) * profile.total.cycles / _COLUMNS
    used = profile.contents.used(times)
    return _area(used, profile.program.config.unified_bytes)


def array_use(profile: Profile) -> Area:
    """Return the share of the multipliers in use over time, 0 to 1.

    The multiplications of a layer are divided among its passes by their reduction steps and pixels.
    """
    program, config = profile.program, profile.program.config
    passes = [e for e in profile.events if e.instruction.opcode is Opcode.MATMUL]
    sizes = [steps(e.instruction, config) * pixels(e.instruction) for e in passes]
    totals: dict[int, int] = defaultdict(int)
    for event, size in zip(passes, sizes, strict=True):
        totals[event.layer] += size
    weights = np.array(
        [
            program.layers[e.layer].macs * program.batch * size / totals[e.layer] / max(e.cycles, 1)
            for e, size in zip(passes, sizes, strict=True)
        ]
    )
    begins = np.array([e.begin for e in passes], float)
    ends = np.array([max(e.end, e.begin + 1) for e in passes], float)
    edges = np.linspace(0, max(profile.total.cycles, 1), _COLUMNS + 1)
    used = shares(begins, ends, edges, weights) / (config.rows * config.columns)
    return _area(used, max(1.0, float(used.max(initial=0))))


class _Plane(NamedTuple):
    """A plane of two logarithmic scales; bounds are powers of ten."""

    left: float
    right: float
    low: float
    high: float

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return a point in units of the SVG."""
        across = (math.log10(x) - self.left) / (self.right - self.left)
        up = (math.log10(y) - self.low) / (self.high - self.low)
        return round(across * _PLANE[0], 1), round((1 - up) * _PLANE[1], 1)

    def ticks(self, ridge: float, peak: float) -> tuple[_Ticks, _Ticks]:
        """Return tens across and twos up, with their texts."""
        tens = [10.0**n for n in range(round(self.left), round(self.right) + 1)]
        first, last = math.log2(10**self.low), math.log2(10**self.high)
        twos = [2.0**n for n in range(math.ceil(first), math.floor(last) + 1)]
        return (
            [(self.point(x, peak)[0], f"{x:g}") for x in tens],
            [(self.point(ridge, y)[1], f"{y:g}") for y in twos],
        )


def roofline(profile: Profile) -> Roofline:
    """Return the matrix layers under the roof of array and memory."""
    config, batch = profile.program.config, profile.program.batch
    peak, slope = config.rows * config.columns, config.bus_bytes * profile.estimates.costs.bandwidth
    ridge = peak / slope
    rows = [(layer, layer.row) for layer in profile.layers if layer.row.macs and layer.row.cycles]
    values = [
        (layer.number, row.macs * batch / row.bytes, row.macs * batch / row.cycles)
        for layer, row in rows
        if row.bytes
    ]
    xs = [ridge / 4, ridge * 4, *(x for _, x, _ in values)]
    ys = [peak / 10, peak * 1.2, *(y for *_, y in values)]
    left, right = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)))
    plane = _Plane(left, right, math.log10(min(ys) / 1.5), math.log10(max(ys) * 1.2))
    start = max(10.0**left, 10**plane.low / slope)
    corners = [(start, start * slope), (ridge, peak), (10.0**right, peak)]
    return Roofline(
        " ".join("{},{}".format(*plane.point(*corner)) for corner in corners),
        plane.point(ridge, peak)[1],
        [Dot(number, *plane.point(x, y), x, y) for number, x, y in values],
        *plane.ticks(ridge, peak),
        [layer.label for layer, row in rows if not row.bytes],
    )
