"""Instructions, each with its reads and writes."""

from collections.abc import Iterable, Iterator

from celosia.hw.arch.isa import Opcode
from celosia.sw.compiler.emit.access import Owner, Step
from celosia.sw.compiler.emit.addressing import Addressing
from celosia.sw.compiler.emit.grids import drained, loaded, padded
from celosia.sw.compiler.emit.matrix import multiply
from celosia.sw.compiler.emit.moved_weights import move_weights, multiply_moved, spread_sums
from celosia.sw.compiler.emit.moves import constants, fill, move
from celosia.sw.compiler.emit.softmax import softmax
from celosia.sw.compiler.emit.vector import add, pool
from celosia.sw.compiler.layout.placement import Arrangement
from celosia.sw.compiler.layout.tile import parameters_of
from celosia.sw.compiler.schedule.actions import (
    AddRegion,
    Drain,
    Fetch,
    FillMargins,
    LoadRegion,
    MoveWeights,
    Multiply,
    MultiplyMoved,
    PoolRegion,
    Region,
    SpreadSums,
    StoreRegion,
)
from celosia.sw.compiler.schedule.areas import Areas
from celosia.sw.compiler.schedule.stream import Bound, Work
from celosia.sw.layers.spec import Padded


def _owners(areas: Areas, work: Work) -> tuple[Owner | None, Owner | None]:
    """Return the owners of the bytes of the unified buffer that an action reads and writes."""
    if isinstance(work, LoadRegion | StoreRegion | FillMargins):
        region, margins = work.region, isinstance(work, FillMargins)
        owner = Owner(region.value, region.samples, margins, region.stripe)
        return (owner, None) if isinstance(work, StoreRegion) else (None, owner)
    if isinstance(work, Fetch):
        return None, None
    action = work.action if isinstance(work, Bound) else work
    ends = (*areas.reads(action), None)[0], areas.writes(action)
    reads, writes = (end and Owner(end.value, end.samples, stripe=end.stripe) for end in ends)
    return reads, writes


def _steps(about: Addressing, work: Work) -> Iterator[Step]:
    """Yield the instructions of an action."""
    match work:
        case Fetch():
            yield constants(about, work)
        case LoadRegion() if about.network.values[work.region.value].grid:
            yield from loaded(about, work.region, work.layer)
        case LoadRegion():
            yield from move(about, Opcode.LOAD, work.region, work.layer)
        case StoreRegion():
            steps = move(about, Opcode.STORE, work.region, work.layer)
            first = () if work.after is None else (about.half(work.after, writes=False),)
            yield from (step._replace(accesses=(*step.accesses, *first)) for step in steps)
        case FillMargins():
            yield from fill(about, work.region, work.layer)
        case MoveWeights():
            yield move_weights(about, work)
        case MultiplyMoved():
            yield multiply_moved(about, work)
        case _:
            match work.action:
                case Multiply():
                    yield multiply(about, work.action, work.slot)
                case SpreadSums():
                    yield spread_sums(about, work.action, work.slot)
                case Drain():
                    yield from drained(about, work.action, work.slot, work.table)
                case AddRegion():
                    yield add(about, work.action, work.slot, work.table)
                case PoolRegion() if work.action.layer in about.tiling.exponentials.of:
                    yield from softmax(about, work.action)
                case PoolRegion(layer=number) if isinstance(about.network.layers[number], Padded):
                    yield from padded(about, work.action, work.slot)
                case PoolRegion():
                    yield pool(about, work.action, work.slot, work.table)


def emit_main(work: Iterable[Work], arrangement: Arrangement) -> Iterator[Step]:
    """Yield the instructions of one batch, in order."""
    addressing, areas = Addressing(arrangement), Areas(arrangement)
    for action in work:
        reads, writes = _owners(areas, action)
        for step in _steps(addressing, action):
            yield step._replace(reads=reads, writes=writes)


def emit_setup(arrangement: Arrangement) -> Iterator[Step]:
    """Yield the one-time steps: loads of resident constants, margins that nothing overwrites."""
    about, (network, tiling, placement, _) = Addressing(arrangement), arrangement
    for number, layer in enumerate(tiling.layers):
        tile = 0
        while tile < layer.weight_tiles:
            end = layer.stretch(tile, layer.weight_tiles)
            slot = layer.slot(tile)
            if slot is not None:
                yield constants(about, Fetch("weights", number, tile, end - tile, slot))
            tile = end
        if layer.first_channel is not None:
            count = parameters_of(network.layers[number], layer)
            yield constants(about, Fetch("parameters", number, 0, count, layer.first_channel))
    for some in (tiling.tables, tiling.exponentials):
        users = some.users()
        for number, slot in enumerate(some.slots):
            if slot is not None:
                first = some.first + number * some.each
                yield constants(about, Fetch("tables", users[number], first, some.each, slot))
    for number, kept in placement.values.items():
        if not kept.permanent:
            continue
        layer = next(n for n, x in enumerate(network.layers) if number in (x.source, x.result))
        height, layout = network.values[number].height, placement.layouts[number]
        turns = range(len(kept.addresses))
        copies = [(0, turn) for turn in turns]
        if kept.whole:
            copies = [
                (sub_batch, first + sample)
                for sub_batch, (first, count) in enumerate(placement.sub_batches[: len(turns)])
                for sample in range(count)
            ]
        for sub_batch, sample in copies:
            rows = (-layout.top, height + layout.bottom)
            region = Region(number, sub_batch, (sample, sample + 1), rows, (0, 0))
            margins = Owner(number, region.samples, margins=True)
            for step in fill(about, region, layer):
                yield step._replace(writes=margins)
