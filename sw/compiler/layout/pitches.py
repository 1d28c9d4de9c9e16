"""Layouts of values in the unified buffer, and the array's reads of them.

Rows of a value follow one another at a pitch, with margins around the pixels for reads past the
edges. The reduction of a matrix layer reads runs of taps that lie side by side. If the pitch suits
its kernel, one instruction reads all of them, R taps a step across rows. If consumers need
different pitches, the cheapest one is taken, and the others read one run at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sim.timing.costs import pass_cycles
from celosia.sw.compiler.layout.bands import Band, band_matrix, overrun, pixel_pitch, spans
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct, Layer, MatrixLayer, Padded, Pooling
from celosia.sw.layers.values import Value

#: Rows and pixels before and after a value.
Margins = tuple[int, int, int, int]


@dataclass(frozen=True)
class Layout:
    """Layout of one sample of a value in the unified buffer, in bytes."""

    #: Rows and pixels around the value.
    top: int
    left: int
    bottom: int
    right: int
    pitch: int  #: From one row to the next.
    sample_pitch: int  #: From one sample to the next.
    pixel: int  #: From one pixel to the next.
    row: int = 0  #: Pixels from one row to the next, of values that bands read or make; else 0.
    after: int = 0  #: Pixels read after the last row.
    #: Pixels read, and read or written, after the last row of a stripe.
    beyond: int = 0
    spare: int = 0

    @property
    def margins(self) -> bool:
        """True if there is anything around the value."""
        return any((self.top, self.left, self.bottom, self.right, self.after))


@dataclass(frozen=True, eq=False)
class Segment:
    """Taps that one instruction reads for each pixel."""

    offset: int  #: Byte of the first tap, from the first tap of the pixel's kernel.
    taps: np.ndarray  #: int64: columns of the weights, in the order they are read.
    #: As in MATMUL; ``run`` is all taps if they lie side by side.
    run: int
    skip: int

    @property
    def side_by_side(self) -> bool:
        """True if the taps may be split anywhere."""
        return self.run >= len(self.taps)

    def steps(self, config: Config) -> int:
        """Return the reduction steps of R taps."""
        return -(-len(self.taps) // config.rows)


def least_steps(layer: MatrixLayer, config: Config) -> int:
    """Return the steps of a reduction whose taps are packed densely."""
    _, depth = layer.inputs(0, min(config.columns, layer.channels))
    return -(-layer.kernel[0] * layer.kernel[1] * depth // config.rows)


def segments(
    layer: MatrixLayer,
    pitch: int,
    pixel: int,
    channels: tuple[int, int],
    config: Config,
    most: int | None = None,
) -> tuple[Segment, ...]:
    """Return the reads of the reduction of some output channels of a layer.

    - ``pitch``, ``pixel``: bytes of its source from one row to the next, and from one pixel to the
      next.
    - ``channels``: first output channel, and the one after the last.
    - ``most``: preferred limit of the steps of an instruction; taps that lie side by side can be
      split anywhere and do not count.
    """
    (high, wide), (down, right) = layer.kernel, layer.dilation
    _, depth = layer.inputs(*channels)
    numbers = np.arange(high * wide * depth).reshape(high, wide * depth)
    if wide > 1 and right * pixel != depth:
        groups = [
            [
                (y * down * pitch + x * right * pixel, numbers[y, x * depth : (x + 1) * depth])
                for x in range(wide)
            ]
            for y in range(high)
        ]
    else:
        groups = [[(y * down * pitch, numbers[y]) for y in range(high)]]
    joined = []
    for group in groups:
        joined += _join(group, config, most)
    return tuple(joined)


def tile_segments(
    layer: MatrixLayer, band: Band, source: Layout, config: Config
) -> tuple[tuple[Segment, ...], ...]:
    """Return the reads of the reduction of each tile of a layer with a band."""
    count = layer.channels // (band.channels * layer.depth_multiplier)
    all_tiles = (band_segments(layer, band, source, config),) * count
    if layer.summands == 1:
        return all_tiles
    large = np.any(layer.parts(0, layer.channels)[1].reshape(len(all_tiles), -1), axis=1)
    stretches, tiles = spans(layer, band, source.row, config), list(all_tiles)
    for number in np.flatnonzero(large).tolist():
        matrix = band_matrix(layer, band, number * band.channels, stretches, source.row)
        tiles[number] += tuple(further_parts(layer, matrix, tiles[number], config.rows))
    return tuple(tiles)


def band_segments(
    layer: MatrixLayer, band: Band, source: Layout, config: Config
) -> tuple[Segment, ...]:
    """Return the reads of the reduction of a tile of a band, for the first summands of its weights.

    ``taps`` are columns of ``band_matrix``.
    """
    skip = (source.pixel - band.channels) // config.rows
    found, done = [], 0
    for first, count in spans(layer, band, source.row, config):
        taps = np.arange(done, done + count * band.channels)
        run = band.channels if skip else len(taps)
        found.append(Segment(first * source.pixel, taps, run, skip))
        done += len(taps)
    return tuple(found)


def pixel_bytes(layer: MatrixLayer, value: Value, pixel: int) -> int:
    """Return the bytes from one pixel to the next in a layer's reads of a value.

    ``pixel`` is the pitch of the value's own pixels. A layer may read a vector as several rows.
    """
    depth = value.channels if layer.depth_multiplier else layer.weights.shape[3]
    return pixel if depth == value.channels else depth


def _join(
    runs: Sequence[tuple[int, np.ndarray]], config: Config, most: int | None
) -> list[Segment]:
    """Return runs of equal length at equal distances as few segments."""
    length = len(runs[0][1])
    distance = runs[1][0] - runs[0][0] if len(runs) > 1 else length
    between = distance - length
    one_by_one = [Segment(offset, taps, length, 0) for offset, taps in runs]
    if between < 0 or between % config.rows or between // config.rows >= config.unified_rows:
        return one_by_one
    skip = between // config.rows
    count = len(runs)
    if skip and most is not None:
        count = max(1, most * config.rows // length)
    result = []
    for first in range(0, len(runs), count):
        part = runs[first : first + count]
        taps = np.concatenate([taps for _, taps in part])
        run = length if skip and len(part) > 1 else len(taps)
        result.append(Segment(part[0][0], taps, run, skip if len(part) > 1 else 0))
    return result


def further_parts(
    layer: MatrixLayer, matrix: np.ndarray, segments: tuple[Segment, ...], rows: int
) -> Iterator[Segment]:
    """Yield the reads for the second and third summands of weights: steps that are not all zero.

    A weight less its zero point can need nine bits. Most still fit int8, so that the second summand
    of a tile is often zero: only its non-zero steps are multiplied. 255 alone has a third.
    ``matrix`` are the weights of the tile.
    """
    first, *others = np.split(np.any(matrix, axis=0), layer.summands)
    for number, used in enumerate(others, 1):
        for segment in segments:
            reads = [read for run in _runs(segment, rows) for read in _used(run, used, rows)]
            if sum(-(-len(read.taps) // rows) for read in reads) > -(-len(segment.taps) // rows):
                reads = [segment]
            for read in reads:
                yield replace(read, taps=number * first.size + read.taps)


def _runs(segment: Segment, rows: int) -> Iterator[Segment]:
    """Yield the taps of a segment that lie side by side; short runs together."""
    if segment.run < rows:
        yield segment
        return
    for number in range(-(-len(segment.taps) // segment.run)):
        taps = segment.taps[number * segment.run : (number + 1) * segment.run]
        yield Segment(
            segment.offset + number * (segment.run + segment.skip * rows), taps, len(taps), 0
        )


def _used(segment: Segment, used: np.ndarray, rows: int) -> Iterator[Segment]:
    """Yield the fewest steps that read all used taps, each from the start of a run if runs skip.

    Steps side by side are one read.
    """
    # A step of short runs ends with one, where the next step may begin.
    run, width = (segment.run, rows // segment.run * segment.run) if segment.skip else (1, rows)
    starts: list[int] = []
    for tap in np.flatnonzero(used[segment.taps]).tolist():
        if not starts or tap >= starts[-1] + width:
            starts.append(tap // run * run)
    for stretch in np.split(starts, np.flatnonzero(np.diff(starts) != rows) + 1):
        if stretch.size:
            first = int(stretch[0])
            taps = segment.taps[first : int(stretch[-1]) + width]
            offset = segment.offset + first + first // run * segment.skip * rows
            yield Segment(offset, taps, segment.run if segment.skip else len(taps), segment.skip)


def lay_out(network: Network, bands: Mapping[int, Band], config: Config) -> tuple[Layout, ...]:
    """Return a layout for each value; ``bands`` are those of layers that have one."""
    layouts: dict[int, Layout] = {}
    results = [layer.result for layer in network.layers]
    # A layer's source comes before its result.
    inputs = (number for number, makers in enumerate(network.makers) if not makers)
    for number in (*inputs, *results):
        layouts[number] = layout_of(network, number, bands, layouts, config)
    return tuple(layouts[number] for number in range(len(network.values)))


def layout_of(
    network: Network,
    number: int,
    bands: Mapping[int, Band],
    layouts: Mapping[int, Layout],
    config: Config,
) -> Layout:
    """Return the layout of a value; ``layouts`` has those of the values before it."""
    if not bands.keys().isdisjoint((*network.makers[number], *network.readers[number])):
        return _banded(network, number, bands, layouts, config)
    value = network.values[number]
    top, left, bottom, right = margins_of(network, number)
    readers = [network.layers[n] for n in network.readers[number]]
    # Bands take the same time at any pitch.
    products = [x for x in readers if isinstance(x, MatrixLayer) and x.kernel[0] > 1]
    pixel = pixel_pitch(value.channels, 1, config) if value.spread else value.channels
    least = (left + value.width + right) * pixel
    rows = top + value.height + bottom
    pitch = least
    if rows > 1 and products:
        pitch = min(
            range(least, least + config.rows),
            key=lambda p: (sum(cycles(x, value, p, value.channels, config) for x in products), p),
        )
    return Layout(top, left, bottom, right, pitch, rows * pitch, pixel)


def margins_of(network: Network, number: int) -> Margins:
    """Return the rows and pixels around a value that its readers read."""
    value = network.values[number]
    readers = [network.layers[n] for n in network.readers[number]]
    reaches = [_reach(layer, value) for layer in readers if isinstance(layer, MatrixLayer)]
    for layer in readers:
        if isinstance(layer, Pooling) and layer.seen is None:
            for windows in layer.windows:
                reaches.append((*windows.source, *windows.ends(layer.stride)))
    top, left = (max([0, *(-reach[axis] for reach in reaches)]) for axis in (0, 1))
    bottom = max([0, *(reach[2] - value.height for reach in reaches)])
    right = max([0, *(reach[3] - value.width for reach in reaches)])
    return top, left, bottom, right


def _banded(
    network: Network,
    number: int,
    bands: Mapping[int, Band],
    layouts: Mapping[int, Layout],
    config: Config,
) -> Layout:
    """Return the layout of a value that bands read or make.

    Pixels after a row are at the same time pixels before the next one.
    """
    value = network.values[number]
    top, left, bottom, right = margins = margins_of(network, number)
    row = left + value.width + max(0, right - left)
    rows = top + value.height + bottom
    run = written = 0
    # Pixels from the first to the last that is read.
    last = (rows - 1) * row + left + value.width + right
    reach = left + value.width + right
    filled = any(margins)
    for layer_number in network.makers[number]:
        layer, band = network.layers[layer_number], bands.get(layer_number)
        if band and isinstance(layer, MatrixLayer):
            run = band.channels * layer.depth_multiplier
            row = layouts[layer.source].row if band.joined else row
            written = (top + value.height - 1) * row + left + value.width + overrun(layer, band)
    for layer_number in network.readers[number]:
        layer, band = network.layers[layer_number], bands.get(layer_number)
        if not isinstance(layer, MatrixLayer):
            continue
        _, _, end, side = _reach(layer, value)
        if band:
            run, filled = band.channels, True
            side += overrun(layer, band) * layer.stride[1]
        last = max(last, (top + end - 1) * row + left + side)
        reach = max(reach, left + side)
    pixel = pixel_pitch(value.channels, run, config)
    pitch = row * pixel
    after = max(0, last - rows * row) if filled else 0
    more = max(after, written - rows * row)
    sample_pitch = rows * pitch + more * pixel
    right = row - left - value.width if filled else 0
    beyond = max(0, reach - row) if filled else 0
    spare = max(beyond, written - (top + value.height) * row)
    margins = top, left, bottom, right
    return Layout(*margins, pitch, sample_pitch, pixel, row, after, beyond, spare)


def sees_rows(layer: Layer, number: int, value: Value) -> bool:
    """Return whether a layer reads a vector as several rows, or as an image."""
    if isinstance(layer, DynamicProduct):
        widths = [(addend.value, addend.columns) for addend in layer.addends]
        if layer.taps and not layer.reads:
            ends = zip((layer.source, layer.second), layer.extents, strict=True)
            widths += [(end, depth) for end, (_, depth) in ends]
        return any(number == end and value.channels != depth for end, depth in widths)
    if isinstance(layer, MatrixLayer):
        return _cuts(layer, value)
    if isinstance(layer, Padded):
        return layer.seen is not None and value.channels != layer.seen[2]
    return isinstance(layer, Pooling) and layer.seen is not None


def _cuts(layer: MatrixLayer, value: Value) -> bool:
    """Return whether a matrix layer reads a vector as several rows."""
    return not layer.depth_multiplier and layer.weights.shape[3] != value.channels


def _reach(layer: MatrixLayer, value: Value) -> Margins:
    """Return the first row and column that a layer reads, and those after the last."""
    if _cuts(layer, value):
        return 0, 0, 1, value.width
    bottom, right = (
        start + (count - 1) * stride + (taps - 1) * apart + 1
        for start, count, stride, taps, apart in zip(
            layer.origin, layer.grid, layer.stride, layer.kernel, layer.dilation, strict=True
        )
    )
    return (*layer.origin, bottom, right)


def cycles(layer: MatrixLayer, value: Value, pitch: int, pixel: int, config: Config) -> int:
    """Return the cycles of the array that a layer without a band takes to read a value.

    ``pitch`` and ``pixel`` are the bytes of the value from one row or pixel to the next.
    """
    depth = pixel_bytes(layer, value, pixel)
    channels = 0, min(config.columns, layer.channels)
    parts = segments(layer, pitch, depth, channels, config)
    steps = sum(segment.steps(config) for segment in parts)
    tiles = -(-layer.channels // config.columns)
    return steps * tiles * pass_cycles(layer.pixels, config)
