"""Instructions of the matrix unit."""

from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sw.compiler.emit.access import Step, span
from celosia.sw.compiler.emit.addressing import Addressing, loops
from celosia.sw.compiler.layout.bands import vectors
from celosia.sw.compiler.layout.pitches import Segment
from celosia.sw.compiler.schedule.actions import Multiply, Region
from celosia.sw.compiler.schedule.blocks import sums
from celosia.sw.layers.spec import MatrixLayer


def multiply(about: Addressing, action: Multiply, slot: int) -> Step:
    """Return the step of a matrix action; one unit at a time owns a half of the accumulators."""
    layer, block = about.network.layers[action.layer], action.block
    assert isinstance(layer, MatrixLayer)
    layout = about.placement.layouts[layer.source]
    tiled = about.tiling.layers[action.layer]
    segment = tiled.segments[action.tile][action.segment]
    depth, channel = about.pixels(action.layer, action.tile)
    start = [
        origin + first * pool * stride
        for origin, first, pool, stride in zip(
            layer.origin,
            (block.rows[0], block.columns[0]),
            layer.pool.stride,
            layer.stride,
            strict=True,
        )
    ]
    reads = _band_reads if tiled.band else _reads
    region = reads(about, action, layer, segment, (start[0], start[1]))
    offset = segment.offset + action.first_step * about.config.rows
    taps = min(action.last_step * about.config.rows, len(segment.taps))
    taps -= action.first_step * about.config.rows
    first = start[1] * depth + channel
    pixel = region._replace(rows=(start[0], start[0] + 1), columns=(first, first + 1))
    strides = (layout.sample_pitch, layer.stride[0] * layout.pitch, layer.stride[1] * depth)
    counts = sums(layer.pool, block)
    if tiled.band:
        strides = (*strides[:2], strides[2] * tiled.band.count)
        counts = (counts[0], *vectors(tiled.band, *counts[1:], layout.row))
    fields = loops(counts, strides)
    if not segment.side_by_side:
        fields |= {"run": segment.run, "skip": segment.skip}
    instruction = Instruction(
        Opcode.MATMUL,
        unified=about.address(pixel) + offset,
        taps=taps,
        tile=slot,
        accumulator=action.half * about.config.accumulator_depth + action.accumulator,
        accumulate=int(action.accumulate),
        **fields,
    )
    steps = action.last_step - action.first_step
    accesses = (
        about.access(region, writes=False),
        span("weights", False, slot, steps),
        about.half(action.half, writes=True),
    )
    return Step(instruction, accesses, action.layer)


def _reads(
    about: Addressing,
    action: Multiply,
    layer: MatrixLayer,
    segment: Segment,
    start: tuple[int, int],
) -> Region:
    """Return a region with all bytes that a matrix action reads."""
    value = about.network.values[layer.source]
    layout = about.placement.layouts[layer.source]
    rows = about.config.rows
    first = segment.offset + action.first_step * rows
    last = min(action.last_step * rows, len(segment.taps)) - 1
    last = segment.offset + last + last // segment.run * segment.skip * rows
    _, high, wide = sums(layer.pool, action.block)
    depth, channel = about.pixels(action.layer, action.tile)
    channels = None
    if value.height == 1 and not layout.margins:
        base = start[1] * depth + channel
        columns = (base + first, base + (wide - 1) * layer.stride[1] * depth + last + 1)
        ends = (0, 1)
    else:
        pitch, left = layout.pitch, layout.left * layout.pixel
        along = (wide - 1) * layer.stride[1] + (layer.kernel[1] - 1) * layer.dilation[1] + 1
        # Where bands read the value, too, the next row has the right margin.
        reach = (start[1] + along) * depth if layout.row else 0
        columns = (-left, max(pitch - left, reach))
        end = start[0] + (high - 1) * layer.stride[0] + last // pitch + 1
        ends = (start[0] + first // pitch, end)
        if layer.depth_multiplier:
            count = layer.inputs(*about.channels(action.layer, action.tile))[1]
            channels = (channel, channel + count)
        elif layer.kernel == (1, 1):
            channels = (channel + first, channel + last + 1)
    samples, stripe = action.block.samples, action.source
    return Region(layer.source, action.sub_batch, samples, ends, columns, channels, stripe)


def _band_reads(
    about: Addressing,
    action: Multiply,
    layer: MatrixLayer,
    segment: Segment,
    start: tuple[int, int],
) -> Region:
    """Return a region with all bytes that a matrix action of a band reads."""
    layout = about.placement.layouts[layer.source]
    band = about.tiling.layers[action.layer].band
    assert band
    depth, channel = about.pixels(action.layer, action.tile)
    _, rows, wide = sums(layer.pool, action.block)
    rows, across = vectors(band, rows, wide, layout.row)
    high, along = (
        (count - 1) * stride + (taps - 1) * apart + 1
        for count, stride, taps, apart in zip(
            (rows, across * band.count), layer.stride, layer.kernel, layer.dilation, strict=True
        )
    )
    columns, channels = (start[1], start[1] + along), (channel, channel + band.channels)
    ends = (start[0], start[0] + high), (columns[0] * depth, columns[1] * depth)
    return Region(
        layer.source, action.sub_batch, action.block.samples, *ends, channels, action.source
    )
