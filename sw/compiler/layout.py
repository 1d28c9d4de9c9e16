"""Second pass: how values lie in the unified buffer, and how the array reads them.

Rows of a value follow one another at a pitch, with room around the pixels for what consumers read
past the edges. The reduction of a product reads runs of taps that lie side by side; where the
pitch suits its kernel, all of them in one instruction, R taps a step whichever row they are of.
Where consumers want different pitches, the one that costs least is taken, and the others read one
run at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.spec import CompileError, Network, Pooling, Product, Value, Windows

__all__ = ["Layout", "Segment", "lay_out", "least_steps", "pixel_bytes", "segments"]


@dataclass(frozen=True)
class Layout:
    """How one item of a value lies in the unified buffer, in bytes.

    Parameters
    ----------
    top, left, bottom, right : int
        Rows and pixels around the value.
    pitch : int
        From one row to the next.
    item_pitch : int
        From one item to the next.
    """

    top: int
    left: int
    bottom: int
    right: int
    pitch: int
    item_pitch: int

    @property
    def margins(self) -> bool:
        """Whether there is anything around the value."""
        return any((self.top, self.left, self.bottom, self.right))


@dataclass(frozen=True, eq=False)
class Segment:
    """Taps that one instruction reads for each pixel.

    Parameters
    ----------
    offset : int
        Byte of the first tap, from the first tap of the pixel's kernel.
    taps : numpy.ndarray
        int64: which columns of the weights, in the order they are read.
    run, skip : int
        As of MATMUL; ``run`` is all taps where they lie side by side.
    """

    offset: int
    taps: np.ndarray
    run: int
    skip: int

    @property
    def side_by_side(self) -> bool:
        """Whether the taps may be cut anywhere."""
        return self.run >= len(self.taps)

    def steps(self, config: Config) -> int:
        """Return the reduction steps of R taps."""
        return -(-len(self.taps) // config.rows)


def least_steps(layer: Product, config: Config) -> int:
    """Return the steps of a reduction whose taps are packed as tightly as can be."""
    _, depth = layer.inputs(0, min(config.columns, layer.channels))
    return -(-layer.kernel[0] * layer.kernel[1] * depth // config.rows)


def segments(
    layer: Product,
    pitch: int,
    pixel: int,
    channels: tuple[int, int],
    config: Config,
    most: int | None = None,
) -> tuple[Segment, ...]:
    """Return the reads that make up the reduction of some output channels of a layer.

    Parameters
    ----------
    layer : Product
        The layer.
    pitch, pixel : int
        Bytes of its source from row to row, and from pixel to pixel.
    channels : (int, int)
        First output channel, and the one behind the last.
    config : Config
        The core.
    most : int, optional
        Steps of an instruction that may not be exceeded where it can be avoided; taps that lie side
        by side can be cut anywhere and do not count.
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


def pixel_bytes(layer: Product, value: Value) -> int:
    """Return the bytes from one pixel to the next of what a layer reads."""
    return value.channels if layer.each else layer.weights.shape[3]


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


def lay_out(network: Network, config: Config) -> tuple[Layout, ...]:
    """Return a layout for each value.

    Raises
    ------
    CompileError
        If a row is longer than instructions can say.
    """
    return tuple(_layout(network, number, config) for number in range(len(network.values)))


def _layout(network: Network, number: int, config: Config) -> Layout:
    value = network.values[number]
    readers = [layer for layer in network.layers if number in layer.sources]
    products = [layer for layer in readers if isinstance(layer, Product)]
    reaches = [_reach(layer, value) for layer in products]
    for layer in readers:
        if isinstance(layer, Pooling) and layer.seen is None:
            for windows in layer.windows:
                reaches.append(_window_reach(windows, layer.stride))
    top, left = (max([0, *(-reach[axis] for reach in reaches)]) for axis in (0, 1))
    bottom = max([0, *(reach[2] - value.height for reach in reaches)])
    right = max([0, *(reach[3] - value.width for reach in reaches)])
    if left or right:
        for layer in readers:
            cut = isinstance(layer, Product) and pixel_bytes(layer, value) != value.channels
            if cut or (isinstance(layer, Pooling) and layer.seen):
                raise CompileError(f"{layer.name}: wanted an input that nobody else pads")
    least = (left + value.width + right) * value.channels
    rows = top + value.height + bottom
    pitch = least
    if rows > 1 and products:
        pitch = min(
            range(least, least + config.rows), key=lambda p: (_cost(products, value, p, config), p)
        )
    if pitch >= config.unified_bytes:
        raise CompileError(
            f"{value.name}: wanted rows below unified_bytes = {config.unified_bytes}, got {pitch}"
        )
    return Layout(top, left, bottom, right, pitch, rows * pitch)


def _reach(layer: Product, value: Value) -> tuple[int, int, int, int]:
    """Return first row and column that a layer reads, and those behind the last."""
    if pixel_bytes(layer, value) != value.channels:
        # A vector cut into rows of its own.
        return 0, 0, 1, value.width
    bottom, right = (
        start + (count - 1) * stride + (taps - 1) * apart + 1
        for start, count, stride, taps, apart in zip(
            layer.origin, layer.grid, layer.stride, layer.kernel, layer.dilation, strict=True
        )
    )
    return (*layer.origin, bottom, right)


def _window_reach(windows: Windows, stride: tuple[int, int]) -> tuple[int, int, int, int]:
    bottom, right = windows.ends(stride)
    return (*windows.source, bottom, right)


def _cost(products: Sequence[Product], value: Value, pitch: int, config: Config) -> int:
    """Return the cycles that all readers take at a pitch."""
    total = 0
    for layer in products:
        pixel = pixel_bytes(layer, value)
        channels = 0, min(config.columns, layer.channels)
        parts = segments(layer, pitch, pixel, channels, config)
        steps = sum(segment.steps(config) for segment in parts)
        tiles = -(-layer.channels // config.columns)
        total += steps * tiles * max(layer.pixels, config.rows // config.weight_rows)
    return total
