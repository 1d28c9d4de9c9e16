"""Seventh pass: instructions, each with what it reads and writes."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from celosia.hw.arch.config import PARAMETER_BYTES, Config
from celosia.hw.arch.isa import Instruction, Kind, Mode, Opcode, Space
from celosia.sw.compiler.access import Access, Step, span
from celosia.sw.compiler.actions import (
    AddRegion,
    Block,
    Drain,
    FillMargins,
    LoadRegion,
    Multiply,
    PoolRegion,
    Region,
    StoreRegion,
    Strip,
)
from celosia.sw.compiler.allocate import Placement
from celosia.sw.compiler.blocks import sums
from celosia.sw.compiler.layout import Segment, pixel_bytes
from celosia.sw.compiler.spec import Network, Pooling, Product, Scaling, Sum
from celosia.sw.compiler.stream import FetchParameters, FetchWeights, Work
from celosia.sw.compiler.tile import Tiling, channels_of

__all__ = ["emit_main", "emit_setup"]

#: Bytes that one pixel of FILL may have.
_MOST_CHANNELS = (1 << 16) - 1


def _loops(
    counts: tuple[int, int, int], strides: tuple[int, int, int], prefix: str = ""
) -> dict[str, int]:
    """Return the fields of loops over items, rows and columns; what runs once does not move."""
    fields = {}
    for axis, count, stride in zip("zyx", counts, strides, strict=True):
        fields[f"{axis}_count"] = count
        fields[f"{prefix}{axis}_stride"] = stride if count > 1 else 0
    return fields


class _Emitter:
    def __init__(
        self, network: Network, tiling: Tiling, placement: Placement, config: Config
    ) -> None:
        self.network = network
        self.tiling = tiling
        self.placement = placement
        self.config = config

    def steps(self, work: Work) -> Iterator[Step]:
        """Yield the instructions that do a piece of work."""
        match work:
            case FetchWeights():
                yield self.weights(work.layer, work.first, work.count, work.place)
            case FetchParameters():
                yield self.parameters(work.layer, work.first, work.count, work.place)
            case LoadRegion():
                yield self.move(Opcode.LOAD, work.region, work.layer)
            case StoreRegion():
                yield self.move(Opcode.STORE, work.region, work.layer)
            case FillMargins():
                yield from self.fill(work.region, work.layer)
            case _ if isinstance(work.action, Multiply):
                yield self.multiply(work.action, work.place)
            case _ if isinstance(work.action, Drain):
                yield self.drain(work.action, work.place)
            case _ if isinstance(work.action, AddRegion):
                yield self.add(work.action, work.place)
            case _:
                assert isinstance(work.action, PoolRegion)
                yield self.pool(work.action, work.place)

    def address(self, region: Region) -> int:
        """Return where a region begins in the unified buffer."""
        layout = self.placement.layouts[region.value]
        value = self.network.values[region.value]
        base, row = self.base(region)
        return base + row * layout.pitch + layout.left * value.channels + region.columns[0]

    def base(self, region: Region) -> tuple[int, int]:
        """Return where a region's first item, or its buffer, begins, and its first row in that."""
        strip = region.strip
        if strip:
            turns = self.placement.strips[region.value, strip.layer]
            return turns[strip.turn], region.rows[0] - strip.first
        base = self.placement.address(region.value, region.part, region.items[0])
        return base, self.placement.layouts[region.value].top + region.rows[0]

    def access(self, region: Region, *, writes: bool) -> Access:
        """Return the bytes of a region in the unified buffer, or some more."""
        layout = self.placement.layouts[region.value]
        value = self.network.values[region.value]
        base, row = self.base(region)
        count = region.items[1] - region.items[0]
        left = layout.left * value.channels
        columns = (left + region.columns[0], left + region.columns[1])
        if value.height == 1 and not layout.margins and not region.strip:
            if self.placement.places[region.value].whole:
                # All accesses to a vector count from the part's first item.
                part = self.placement.parts[region.part][0]
                first = region.items[0] - part
                base -= first * layout.item_pitch
            else:
                first = 0
            return Access(
                "unified", writes, base, layout.item_pitch, first, first + count, *columns
            )
        if count == 1:
            rows = (row, row + region.rows[1] - region.rows[0])
            return Access("unified", writes, base, layout.pitch, *rows, *columns)
        return span("unified", writes, base, count * layout.item_pitch)

    def weights(self, layer: int, first: int, count: int, place: int) -> Step:
        """Return a load of tiles."""
        instruction = Instruction(
            Opcode.LOAD_WEIGHTS,
            external=self.placement.weights[layer] + first * self.config.tile_bytes,
            tile=place,
            tiles=count,
        )
        return Step(instruction, (span("weights", True, place, count),), layer)

    def parameters(self, layer: int, first: int, count: int, place: int) -> Step:
        """Return a load of channel parameters."""
        instruction = Instruction(
            Opcode.LOAD_PARAMS,
            external=self.placement.parameters[layer] + first * PARAMETER_BYTES,
            kind=Kind.CHANNELS,
            first=place,
            count=count,
        )
        return Step(instruction, (span("parameters", True, place, count),), layer)

    def move(self, opcode: Opcode, region: Region, layer: int) -> Step:
        """Return a load or store; what lies side by side on both ends is one row."""
        value = self.network.values[region.value]
        layout = self.placement.layouts[region.value]
        vector = value.height == 1
        row_bytes = value.width * value.channels
        external = self.placement.external[region.value] + region.rows[0] * row_bytes
        external += region.columns[0]
        if value.is_input or value.is_output:
            external += region.items[0] * value.bytes_per_item
        ends = region.items if vector else region.rows
        rows, length = ends[1] - ends[0], region.columns[1] - region.columns[0]
        pitch = layout.item_pitch if vector else layout.pitch
        fields = {"external": external, "unified": self.address(region)}
        if rows == 1 or length == row_bytes == pitch:
            fields["length"] = length * rows
        else:
            fields["length"] = length
            fields["rows"] = rows
            fields["external_pitch"] = row_bytes
            fields["unified_pitch"] = pitch
        accesses = [self.access(region, writes=opcode is Opcode.LOAD)]
        if region.strip and not value.is_input:
            count = rows * row_bytes
            accesses.append(span("external", opcode is Opcode.STORE, external, count))
        return Step(Instruction(opcode, **fields), tuple(accesses), layer)

    def fill(self, region: Region, layer: int) -> Iterator[Step]:
        """Yield what writes the margins of a region: whole rows of one item, with those around."""
        value, layout = self.network.values[region.value], self.placement.layouts[region.value]
        row_bytes = value.width * value.channels
        left, right = layout.left * value.channels, layout.right * value.channels
        start = min(max(region.rows[0], 0), region.rows[1])
        inside = start, max(min(region.rows[1], value.height), start)
        above, below = inside[0] - region.rows[0], region.rows[1] - inside[1]
        address = self.address(replace(region, columns=(-left, 0)))
        middle = address + above * layout.pitch
        rows = inside[1] - inside[0]
        rectangles = (
            (address, above, layout.pitch),
            (middle, rows, left),
            (middle + left + row_bytes, rows, right),
            (middle + rows * layout.pitch, below, layout.pitch),
        )
        for start, rows, length in rectangles:
            for first in range(0, length if rows else 0, _MOST_CHANNELS):
                count = min(_MOST_CHANNELS, length - first)
                instruction = Instruction(
                    Opcode.FILL,
                    y_count=rows,
                    channels=count,
                    destination_base=start + first,
                    destination_y_stride=layout.pitch if rows > 1 else 0,
                    value=value.fill,
                )
                base = start + first
                access = Access("unified", True, base, layout.pitch, 0, rows, 0, count)
                yield Step(instruction, (access,), layer)

    def multiply(self, action: Multiply, place: int) -> Step:
        """Return matrix work; a half of the accumulators belongs to one unit at a time."""
        layer, block = self.network.layers[action.layer], action.block
        assert isinstance(layer, Product)
        layout = self.placement.layouts[layer.source]
        segment = self.tiling.layers[action.layer].segments[action.tile][action.segment]
        depth, channel = self.pixels(layer, action.tile)
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
        region = self.reads(action, layer, segment, (start[0], start[1]))
        offset = segment.offset + action.first_step * self.config.rows
        taps = min(action.last_step * self.config.rows, len(segment.taps))
        taps -= action.first_step * self.config.rows
        pixel = Region(
            value=layer.source,
            part=action.part,
            items=block.items,
            rows=(start[0], start[0] + 1),
            columns=(start[1] * depth + channel, start[1] * depth + channel + 1),
            strip=action.source,
        )
        strides = (layout.item_pitch, layer.stride[0] * layout.pitch, layer.stride[1] * depth)
        fields = _loops(sums(layer.pool, block), strides)
        if not segment.side_by_side:
            fields |= {"run": segment.run, "skip": segment.skip}
        instruction = Instruction(
            Opcode.MATMUL,
            unified=self.address(pixel) + offset,
            taps=taps,
            tile=place,
            accumulator=action.half * self.config.accumulator_depth + action.accumulator,
            accumulate=int(action.accumulate),
            **fields,
        )
        steps = action.last_step - action.first_step
        accesses = (
            self.access(region, writes=False),
            span("weights", False, place, steps),
            span("accumulators", True, action.half, 1),
        )
        return Step(instruction, accesses, action.layer)

    def pixels(self, layer: Product, tile: int) -> tuple[int, int]:
        """Return the bytes from pixel to pixel, and the first channel that an output tile reads."""
        first = tile * self.config.columns
        last = min(first + self.config.columns, layer.channels)
        value = self.network.values[layer.source]
        return pixel_bytes(layer, value), layer.inputs(first, last)[0]

    def reads(
        self, action: Multiply, layer: Product, segment: Segment, start: tuple[int, int]
    ) -> Region:
        """Return a region with all that matrix work reads."""
        value = self.network.values[layer.source]
        layout = self.placement.layouts[layer.source]
        rows = self.config.rows
        first = segment.offset + action.first_step * rows
        last = min(action.last_step * rows, len(segment.taps)) - 1
        last = segment.offset + last + last // segment.run * segment.skip * rows
        _, high, wide = sums(layer.pool, action.block)
        depth, channel = self.pixels(layer, action.tile)
        if value.height == 1 and not layout.margins:
            base = start[1] * depth + channel
            columns = (base + first, base + (wide - 1) * layer.stride[1] * depth + last + 1)
            ends = (0, 1)
        else:
            pitch = layout.pitch
            columns = (-layout.left * value.channels, pitch - layout.left * value.channels)
            end = start[0] + (high - 1) * layer.stride[0] + last // pitch + 1
            ends = (start[0] + first // pitch, end)
        return Region(
            value=layer.source,
            part=action.part,
            items=action.block.items,
            rows=ends,
            columns=columns,
            strip=action.source,
        )

    def drain(self, action: Drain, place: int) -> Step:
        """Return the pooling and requantisation of a tile."""
        block, layer = action.block, self.network.layers[action.layer]
        assert isinstance(layer, Product)
        first = action.tile * self.config.columns
        last = min(first + self.config.columns, layer.channels)
        region = self.writes(
            layer.result, layer.channels, block, action.part, (first, last), action.result
        )
        _, high, wide = sums(layer.pool, block)
        (window_y, window_x), (down, right) = layer.pool.window, layer.pool.stride
        layout = self.placement.layouts[layer.result]
        instruction = Instruction(
            Opcode.VECTOR,
            source=Space.ACCUMULATORS,
            destination=Space.UNIFIED,
            channels=last - first,
            source_base=action.half * self.config.accumulator_depth + action.accumulator,
            **_loops(block.extents, (high * wide, down * wide, right), "source_"),
            window_x_count=window_x,
            window_y_count=window_y,
            window_x_stride=int(window_x > 1),
            window_y_stride=wide if window_y > 1 else 0,
            **self.destination(region, layout.item_pitch, layout.pitch, layer.channels, block),
            params=place,
            per_channel=1,
            **_requantised(layer.scaling),
        )
        accesses = (
            self.access(region, writes=True),
            span("parameters", False, place, last - first),
            span("accumulators", False, action.half, 1),
        )
        return Step(instruction, accesses, action.layer)

    def add(self, action: AddRegion, place: int) -> Step:
        """Return one step of a sum; a half of the accumulators holds it meanwhile."""
        block, layer = action.block, self.network.layers[action.layer]
        assert isinstance(layer, Sum)
        first = action.tile * self.config.columns
        last = min(first + self.config.columns, layer.channels)
        row = action.half * self.config.accumulator_depth + action.accumulator
        _, high, wide = block.extents
        value = (layer.source, layer.second, layer.result)[action.step]
        strip = (*action.sources, action.result)[action.step]
        region = self.writes(value, layer.channels, block, action.part, (first, last), strip)
        layout = self.placement.layouts[value]
        outside = self.loops(block, (layout.item_pitch, layout.pitch, layer.channels))
        inside = self.loops(block, (high * wide, wide, 1))
        ends = {"accumulators": (row, inside), "unified": (self.address(region), outside)}
        source, destination = ("unified", "accumulators")
        if action.step == 2:
            source, destination = destination, source
        fields: dict[str, int] = {"x_count": wide, "y_count": high, "z_count": block.extents[0]}
        for side, space in (("source", source), ("destination", destination)):
            fields[side] = Space[space.upper()].value
            fields[f"{side}_base"], strides = ends[space]
            fields |= {f"{side}_{axis}_stride": strides[axis] for axis in "xyz"}
        instruction = Instruction(
            Opcode.VECTOR,
            channels=last - first,
            mode=Mode.ADD if action.step == 1 else Mode.OVERWRITE,
            params=place,
            per_channel=0,
            **fields,
            **_requantised(layer.scalings[action.step]),
        )
        accesses = (
            self.access(region, writes=action.step == 2),
            span("parameters", False, place, self.config.lanes),
            span("accumulators", action.step < 2, action.half, 1),
        )
        return Step(instruction, accesses, action.layer)

    def loops(self, block: Block, strides: tuple[int, int, int]) -> dict[str, int]:
        """Return strides by axis; what runs once does not move."""
        counts = zip("zyx", block.extents, strides, strict=True)
        return {axis: stride if count > 1 else 0 for axis, count, stride in counts}

    def writes(
        self,
        value: int,
        depth: int,
        block: Block,
        part: int,
        channels: tuple[int, int],
        strip: Strip | None,
    ) -> Region:
        """Return the region that a block and some channels of a value lie in."""
        left, right = block.columns
        columns = (left * depth + channels[0], (right - 1) * depth + channels[1])
        return Region(
            value=value, part=part, items=block.items, rows=block.rows, columns=columns, strip=strip
        )

    def destination(
        self, region: Region, item: int, row: int, pixel: int, block: Block
    ) -> dict[str, int]:
        """Return the fields of VECTOR that say where results go."""
        loops = _loops(block.extents, (item, row, pixel), "destination_")
        strides = {name: value for name, value in loops.items() if name.startswith("destination")}
        return {"destination_base": self.address(region), **strides}

    def all_of(self, value: int, action: PoolRegion) -> Region:
        """Return all of a value."""
        about = self.network.values[value]
        columns = (0, about.width * about.channels)
        return Region(
            value=value,
            part=action.part,
            items=action.items,
            rows=(0, about.height),
            columns=columns,
        )

    def pool(self, action: PoolRegion, place: int) -> Step:
        """Return one rectangle of windows of a layer without weights."""
        layer = self.network.layers[action.layer]
        assert isinstance(layer, Pooling)
        windows = layer.windows[action.windows]
        value, layout = self.network.values[layer.source], self.placement.layouts[layer.source]
        result = self.placement.layouts[layer.result]
        pitch, depth = layout.pitch, value.channels
        if layer.seen:
            pitch, depth = layer.seen[1] * layer.seen[2], layer.seen[2]
        left, columns = windows.result[1], windows.count[1]
        block = Block(items=action.items, rows=action.rows, columns=(left, left + columns))
        first = windows.source[0] + (action.rows[0] - windows.result[0]) * layer.stride[0]
        last = first + (block.extents[1] - 1) * layer.stride[0] + windows.size[0]
        start = Region(
            value=layer.source,
            part=action.part,
            items=action.items,
            rows=(first, last),
            columns=(windows.source[1] * depth, windows.ends(layer.stride)[1] * depth),
            strip=action.source,
        )
        if layer.seen:
            start = self.all_of(layer.source, action)
        read = self.access(start, writes=False)
        written = Region(
            value=layer.result,
            part=action.part,
            items=action.items,
            rows=block.rows,
            columns=(left * depth, (left + columns) * depth),
            strip=action.result,
        )
        scaling = layer.scalings[windows.parameters]
        strides = (layout.item_pitch, layer.stride[0] * pitch, layer.stride[1] * depth)
        instruction = Instruction(
            Opcode.VECTOR,
            source=Space.UNIFIED,
            destination=Space.UNIFIED,
            channels=depth,
            source_base=self.address(start),
            **_loops(block.extents, strides, "source_"),
            window=layer.combine,
            window_x_count=windows.size[1],
            window_y_count=windows.size[0],
            window_x_stride=depth if windows.size[1] > 1 else 0,
            window_y_stride=pitch if windows.size[0] > 1 else 0,
            **self.destination(written, result.item_pitch, result.pitch, depth, block),
            params=place,
            per_channel=0,
            **_requantised(scaling),
        )
        accesses = (
            read,
            self.access(written, writes=True),
            span("parameters", False, place, self.config.lanes),
        )
        return Step(instruction, accesses, action.layer)


def _requantised(scaling: Scaling) -> dict[str, int]:
    """Return the fields of VECTOR that all channels share."""
    names = ("rounding", "zero_point", "low", "high")
    return {name: getattr(scaling, name) for name in names}


def emit_main(
    work: Iterable[Work], network: Network, tiling: Tiling, placement: Placement, config: Config
) -> Iterator[Step]:
    """Yield the instructions of one batch, in order."""
    emitter = _Emitter(network, tiling, placement, config)
    for piece in work:
        yield from emitter.steps(piece)


def emit_setup(
    network: Network, tiling: Tiling, placement: Placement, config: Config
) -> Iterator[Step]:
    """Yield what is done once: loads of constants that stay, margins that nothing overwrites."""
    emitter = _Emitter(network, tiling, placement, config)
    for number, layer in enumerate(tiling.layers):
        tile = 0
        while tile < layer.weight_tiles:
            end = layer.stretch(tile, layer.weight_tiles)
            place = layer.place(tile)
            if place is not None:
                yield emitter.weights(number, tile, end - tile, place)
            tile = end
        if layer.first_channel is not None:
            count = channels_of(network.layers[number], config)
            yield emitter.parameters(number, 0, count, layer.first_channel)
    for number, place in placement.places.items():
        if not place.permanent:
            continue
        layer = next(n for n, x in enumerate(network.layers) if number in (x.source, x.result))
        height, layout = network.values[number].height, placement.layouts[number]
        turns = range(len(place.addresses))
        copies = [(0, turn) for turn in turns]
        if place.whole:
            copies = [
                (part, first + item)
                for part, (first, count) in enumerate(placement.parts[: len(turns)])
                for item in range(count)
            ]
        for part, item in copies:
            region = Region(
                value=number,
                part=part,
                items=(item, item + 1),
                rows=(-layout.top, height + layout.bottom),
                columns=(0, 0),
            )
            yield from emitter.fill(region, layer)
