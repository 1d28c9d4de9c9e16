"""Instructions of SOFTMAX."""

from collections.abc import Iterator
from itertools import product

from celosia.hw.arch.config import EXPONENTIAL_TABLES, SOFTMAX_ROWS
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sw.compiler.emit.access import Step, span
from celosia.sw.compiler.emit.addressing import Addressing
from celosia.sw.compiler.schedule.actions import PoolRegion, Region
from celosia.sw.layers.spec import Pooling, Range


def softmax(about: Addressing, action: PoolRegion) -> Iterator[Step]:
    """Yield SOFTMAX of the pixels of some rows, as many pixels in one instruction as it takes.

    Pixels of one instruction are columns; rows if there is one column, or else samples.
    """
    layer = about.network.layers[action.layer]
    assert isinstance(layer, Pooling)
    windows = layer.windows[action.windows]
    left = windows.result[1]
    ranges = (action.samples, action.rows, (left, left + windows.count[1]))
    several = [axis for axis, (first, last) in enumerate(ranges) if last - first > 1]
    along = several[-1] if several else 2
    steps = [SOFTMAX_ROWS if axis == along else 1 for axis in range(3)]
    cuts = (range(*each, step) for each, step in zip(ranges, steps, strict=True))
    for starts in product(*cuts):
        ends = (
            (start, min(start + step, last))
            for start, step, (_, last) in zip(starts, steps, ranges, strict=True)
        )
        samples, rows, columns = ends
        yield _step(about, action, (samples, rows, columns), along)


def _step(
    about: Addressing, action: PoolRegion, pixels: tuple[Range, Range, Range], along: int
) -> Step:
    """Return the instruction for results of some samples, rows and columns; all but one are one."""
    layer = about.network.layers[action.layer]
    assert isinstance(layer, Pooling)
    windows = layer.windows[action.windows]
    samples, rows, columns = pixels
    down, right = (a - b for a, b in zip(windows.source, windows.result, strict=True))
    read = _region(about, action, layer.source, samples, _moved(rows, down), _moved(columns, right))
    written = _region(about, action, layer.result, samples, rows, columns)
    first, last = pixels[along]
    fields = {"x_count": last - first, "channels": _elements(about, layer)}
    for side, region in (("source", read), ("destination", written)):
        layout = about.placement.layouts[region.value]
        strides = (layout.sample_pitch, layout.pitch, _pixel(about, layer, region.value))
        stride = strides[along]
        fields[f"{side}_base"] = about.address(region)
        fields[f"{side}_x_stride"] = stride if last - first > 1 else 0
    accesses = (
        about.access(read, writes=False),
        about.access(written, writes=True),
        span("tables", False, about.config.tables, EXPONENTIAL_TABLES),
    )
    return Step(Instruction(Opcode.SOFTMAX, **fields), accesses, action.layer)


def _moved(span: Range, by: int) -> Range:
    return span[0] + by, span[1] + by


def _region(
    about: Addressing, action: PoolRegion, value: int, samples: Range, rows: Range, columns: Range
) -> Region:
    """Return the region of some pixels of source or result."""
    layer = about.network.layers[action.layer]
    assert isinstance(layer, Pooling)
    source = value == layer.source
    pixel, start = _pixel(about, layer, value), 0 if source else layer.first
    last = (columns[1] - 1) * pixel + start + _elements(about, layer)
    ends, stripe = (columns[0] * pixel + start, last), action.source if source else action.result
    return Region(value, action.sub_batch, samples, rows, ends, stripe=stripe)


def _elements(about: Addressing, layer: Pooling) -> int:
    """Return the elements of a row."""
    return layer.seen[2] if layer.seen else about.network.values[layer.source].channels


def _pixel(about: Addressing, layer: Pooling, value: int) -> int:
    """Return the bytes from row to row in the source or the result."""
    if layer.seen and value == layer.source:
        return layer.seen[2]
    return about.placement.layouts[value].pixel
