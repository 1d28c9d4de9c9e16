"""Row stripes of values that the unified buffer does not hold whole.

Such a value lies in external memory, and the layers that make and read it use buffers of some rows,
two each if they fit: while one stripe is computed, the next is loaded and the one before is stored.
Or its rows pass from one layer to the next through one buffer, which is used in laps.
"""

from collections.abc import Sequence
from typing import NamedTuple

from celosia.hw.arch.config import Config
from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.bands import Band
from celosia.sw.compiler.layout.pitches import Layout
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct, Layer, MatrixLayer, Pooling, Range, Sum
from celosia.sw.layers.values import Value


class Passage(NamedTuple):
    """Rows of a value that one layer makes and the next one reads, turn by turn.

    A buffer holds the rows of ``period`` turns, a lap. Those of the next lap overwrite them as soon
    as they have been read. Rows that two laps read are written twice.
    """

    made: tuple[Range, ...]  #: Rows made in each turn.
    reads: tuple[Range, ...]  #: Rows, and those of margins, that the next layer reads in each turn.
    period: int

    def first(self, turn: int) -> int:
        """Return the row at which the lap of a turn begins, or that after all if there is none."""
        start = turn - turn % self.period
        return self.reads[start][0] if start < len(self.reads) else self.reads[-1][1]

    @property
    def rows(self) -> int:
        """Rows of the buffer."""
        return max(last - self.first(turn) for turn, (_, last) in enumerate(self.reads))

    @property
    def written(self) -> int:
        """Rows written, those of two laps twice."""
        laps = ((*rows, self.first(t + self.period)) for t, rows in enumerate(self.made))
        return sum(last - first + max(0, last - max(first, lap)) for first, last, lap in laps)

    def entering(self, turn: int) -> Range:
        """Return the rows of a lap that no turn before reads."""
        last = self.reads[turn][1]
        return (self.reads[turn - 1][1] if turn % self.period else self.first(turn)), last

    def free(self, turn: int, rows: Range) -> int:
        """Return the turns whose reads end before some rows of a turn's lap are written."""
        start = turn - turn % self.period
        by = self.first(start) - self.first(start - self.period) if start else 0
        before = range(max(0, start - self.period), start)
        meets = (
            self.reads[n][0] < rows[1] - by and rows[0] - by < self.reads[n][1] for n in before
        )
        return max((n + 1 for n, meet in zip(before, meets, strict=True) if meet), default=0)

    def waits(self, turn: int, rows: Range, more: int) -> int:
        """Return the turns of the next layer that come before rows of a turn are made.

        ``more``: rows after them that are written, too.
        """
        first, last = self.entering(turn)
        after = turn + self.period
        lap = max(rows[0], self.first(after)), rows[1]
        return max(
            self.free(turn, (min(first, rows[0]), max(last, rows[1]) + more)),
            self.free(after, (lap[0], lap[1] + more)) if lap[0] < lap[1] else 0,
        )


def even_rows(height: int, step: int) -> list[Range]:
    """Return row stripes of ``step`` rows."""
    return [(first, min(first + step, height)) for first in range(0, height, step)]


def joint_cycles(*units: int) -> int:
    """Return about the cycles in which several units do their work, each waiting for others."""
    *_, second, most = sorted(units)
    return most + second // policy.WAITED


def row_beats(value: Value, layout: Layout, config: Config) -> int:
    """Return the beats of the bus in which a row is loaded or stored."""
    if layout.pixel == value.channels:
        return -(-value.width * value.channels // config.bus_bytes)
    return value.width * -(-value.channels // config.bus_bytes)


def rows_after(layout: Layout, pixels: int) -> int:
    """Return the rows that some pixels after a row reach into."""
    return -(-pixels // layout.row) if pixels else 0


def passage(
    network: Network, layouts: Sequence[Layout], number: int, cut: Sequence[Range], period: int
) -> Passage | None:
    """Return how the result of a layer passes to the next one, or None if it cannot.

    - ``number``: the layer that makes the value.
    - ``cut``: rows of the next layer's result that are made in each turn.
    - ``period``: see ``Passage``.
    """
    value, after = network.layers[number].result, network.layers[number + 1]
    layout, height = layouts[value], network.values[value].height
    more = rows_after(layout, layout.beyond)
    results, reads, last_made, end = list[Range](), list[Range](), 0, 0
    for rows in cut:
        first, last = source_rows(after, rows) if rows[0] < rows[1] else (end, end)
        end = max(end, last + more)
        reads.append((first, end))
        rows = max(last_made, first), min(end, height)
        results.append(rows if rows[0] < rows[1] else (last_made, last_made))
        last_made = results[-1][1]
    passed = Passage(tuple(results), tuple(reads), period)
    spare = rows_after(layout, layout.spare)
    holds = all(
        rows[1] <= passed.first(turn + 2 * period) and passed.waits(turn, rows, spare) <= turn
        for turn, rows in enumerate(results)
    )
    return passed if holds and results[0][0] < results[0][1] else None


def result_rows(network: Network, layer: Layer) -> int:
    """Return the rows of each sample that a layer makes."""
    return network.values[layer.result].height


def source_rows(layer: Layer, rows: Range) -> Range:
    """Return the rows of its source that a layer reads for some rows of its result.

    They reach past the edges if the source is padded.
    """
    first, last = rows
    if isinstance(layer, MatrixLayer):
        down, stride = layer.pool.stride[0], layer.stride[0]
        sums = first * down, (last - 1) * down + layer.pool.window[0]
        reach = (layer.kernel[0] - 1) * layer.dilation[0] + 1
        start = layer.origin[0]
        return start + sums[0] * stride, start + (sums[1] - 1) * stride + reach
    if isinstance(layer, Sum | DynamicProduct):
        return rows
    starts, ends = [], []
    for windows in layer.windows:
        begin, end = max(first, windows.result[0]), min(last, windows.result[0] + windows.count[0])
        if begin < end:
            row = windows.source[0] + (begin - windows.result[0]) * layer.stride[0]
            starts.append(row)
            ends.append(row + (end - begin - 1) * layer.stride[0] + windows.size[0])
    return min(starts), max(ends)


def rows_read(layer: Layer, rows: Range, band: Band | None, layout: Layout) -> Range:
    """Return the rows of its source that a layer reads for some rows of its result.

    Where pixels after a row are those before the next one, a kernel or a window may end on pixels
    of the next row. So may the last vector of a band, whose weights are 0 there.
    """
    first, last = source_rows(layer, rows)
    end = 0
    if isinstance(layer, MatrixLayer):
        count = layer.grid[1]
        if band:
            count = count + band.count - 1 if band.joined else -(-count // band.count) * band.count
        reach = (count - 1) * layer.stride[1] + (layer.kernel[1] - 1) * layer.dilation[1]
        end = layer.origin[1] + reach + 1
    elif isinstance(layer, Pooling) and layer.seen is None:
        end = max(windows.ends(layer.stride)[1] for windows in layer.windows)
    return first, last + (layout.row > 0 and layout.left + end > layout.row)


def stripe_bytes(
    network: Network, layouts: Sequence[Layout], number: int, rows: int, spilled: frozenset[int]
) -> dict[int, int]:
    """Return the bytes of one buffer for each spilled value of a layer, for stripes of ``rows``."""
    layer = network.layers[number]
    height = result_rows(network, layer)
    sizes = {}

    def size(value: int, count: int) -> int:
        layout = layouts[value]
        return count * layout.pitch + layout.spare * layout.pixel

    if layer.result in spilled:
        sizes[layer.result] = size(layer.result, rows)
    for source in sorted(spilled.intersection(layer.sources)):
        spans = [source_rows(layer, stripe) for stripe in even_rows(height, rows)]
        sizes[source] = size(source, max(last - first for first, last in spans))
    return sizes


def widest(
    network: Network,
    layouts: Sequence[Layout],
    number: int,
    spilled: frozenset[int],
    space: int,
    config: Config,
) -> tuple[int, int]:
    """Return the most rows of a result whose buffers fit into ``space`` bytes, and the buffers.

    There are two buffers if one row fits twice, else one; zero rows if one row does not fit.
    """
    layer = network.layers[number]
    if isinstance(layer, DynamicProduct) or (isinstance(layer, Pooling) and layer.seen):
        return 0, 1

    def fits(rows: int, turns: int) -> bool:
        sizes = stripe_bytes(network, layouts, number, rows, spilled).values()
        return turns * sum(-(-size // config.rows) * config.rows for size in sizes) <= space

    for turns in (2, 1):
        low, high = 0, result_rows(network, layer) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle, turns) else (low, middle)
        if low:
            return low, turns
    return 0, 1
