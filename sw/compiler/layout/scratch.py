"""Tiles of the weight buffer that are made of activations."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

from celosia.hw.arch.config import Config
from celosia.sim.timing.costs import drain_cycles
from celosia.sw.compiler import policy
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct, Layer


@dataclass(frozen=True)
class Scratch:
    """Last slots of the weight buffer, for tiles made of activations."""

    first: int  #: First slot; all slots are below it if there are no such tiles.
    #: Steps of a reduction in the tiles at once, and regions for so many.
    steps: int
    turns: int
    #: By layer, the slot of its tile of equal weights.
    constants: Mapping[int, int]
    #: By layer whose tiles several layers multiply, their first slot.
    shared: Mapping[int, int]

    def slot(self, turn: int) -> int:
        """Return the first slot of a region of steps."""
        return self.first + len(self.constants) + turn % self.turns * self.steps

    @property
    def below(self) -> int:
        """Slots below all of these."""
        return min([self.first, *self.shared.values()])


def tile_columns(config: Config) -> int:
    """Return the columns of a tile made of activations: as many bytes as one read has."""
    return min(config.rows, config.columns)


def _products(network: Network) -> dict[int, DynamicProduct]:
    """Return the layers that need tiles made of activations, by number."""
    return {n: x for n, x in enumerate(network.layers) if isinstance(x, DynamicProduct)}


def diagonals(network: Network) -> list[tuple[int, ...]]:
    """Return the numbers on the diagonals of constant tiles, by groups that layers share."""
    groups = dict.fromkeys(layer.factors for layer in _products(network).values())
    return [group for group in groups if group]


def scratch_limit(network: Network, config: Config) -> str:
    """Return the reason why a core has too few slots or sums for such tiles, if it has."""
    least = policy.SCRATCH_SHARE * (
        1 + sum(bool(layer.lines) for layer in _products(network).values())
    )
    if config.weight_tiles < least:
        return f"wanted at least {least} weight tiles, got {config.weight_tiles}"
    count = sum(map(len, diagonals(network)))
    if count > config.weight_tiles // 2:
        # Half of the tiles are for those of activations, and for tiles that stream.
        requirement = f"at most {config.weight_tiles // 2} constant tiles of addends"
        return f"wanted {requirement}, got {count}"
    if config.accumulator_rows <= config.rows:
        wanted = f"more than {config.rows} rows of accumulators"
        return f"wanted {wanted}, got {config.accumulator_rows}"
    return ""


def row_limit(layer: DynamicProduct, config: Config) -> str:
    """Return the reason why rows of pixels of a layer do not fit the accumulators, if they do not.

    Loops over windows, and those that repeat pixels, are divided between such rows.
    """
    rows = [addend.repeats.width for addend in layer.addends if addend.repeats]
    longest = max([*rows, layer.reads.counts[2] if layer.reads else 0])
    if longest <= config.accumulator_depth:
        return ""
    return f"wanted rows of at most {config.accumulator_depth} pixels, got {longest}"


def scratch_of(network: Network, config: Config) -> Scratch:
    """Return the slots for tiles made of activations, on a core without a ``scratch_limit``."""
    layers = _products(network)
    if not layers:
        return Scratch(config.weight_tiles, 0, 1, {}, {})
    assert config.activation_weights
    constants = [number for number, layer in layers.items() if layer.lines]
    space = config.weight_tiles // policy.SCRATCH_SHARE - len(constants)
    # One instruction counts fewer rows of tiles than the accumulators have.
    most = (config.accumulator_rows - 1) // config.rows
    longest = max(-(-max(layer.taps, 1) // config.rows) for layer in layers.values())
    # Two regions at least, so that one fills while the other is multiplied.
    steps = min(longest, max(1, space // 2), most)
    turns = min(policy.SCRATCH_TURNS, space // steps)
    start = config.weight_tiles - len(constants) - turns * steps
    slots = {number: start + index for index, number in enumerate(constants)}
    places, count = _places(_shared(layers), config)
    makers = {n: x.tiles_from if x.tiles_from >= 0 else n for n, x in layers.items()}
    shared = {n: start - count + places[first] for n, first in makers.items() if first in places}
    return Scratch(start, steps, turns, slots, shared)


def with_shared_tiles(network: Network, config: Config) -> Network:
    """Return a network in which products of windows multiply tiles that an earlier one has made.

    As many as fit: the tiles of most layers first.
    """
    layers = list(network.layers)
    alike: dict[tuple[object, ...], list[int]] = {}
    for number, layer in _products(network).items():
        if layer.reads and not (layer.turns or layer.columns or layer.lines or layer.stepped >= 0):
            values = (_bytes(network, value) for value in (layer.second, *layer.blocks))
            taps = (layer.taps, *((g.row, g.block, g.missing) for g in layer.reads.groups))
            key = *values, taps, layer.channels, layer.turned, layer.column, layer.span
            alike.setdefault(key, []).append(number)
    for first, *others in sorted(alike.values(), key=lambda users: -len(users)):
        before = list(layers)
        for number in others:
            layers[number] = replace(layers[number], tiles_from=first)
        count = _places(_shared(dict(enumerate(layers))), config)[1]
        if count * policy.SHARED_SHARE > config.weight_tiles:
            layers = before
    return replace(network, layers=tuple(layers))


def _bytes(network: Network, number: int) -> tuple[object, ...]:
    """Return a name of the bytes of a value and of their order."""
    value = network.values[number]
    if network.makers[number] or value.contents is not None:
        return (number,)
    original = number if value.original < 0 else value.original
    return original, value.offset, value.pitch, value.height, value.width, value.channels


def _shared(layers: Mapping[int, Layer]) -> dict[int, tuple[int, DynamicProduct]]:
    """Return the last user of shared tiles, by the layer that makes them, and that layer."""
    result = {}
    for number, layer in layers.items():
        if isinstance(layer, DynamicProduct) and layer.tiles_from >= 0:
            maker = layers[layer.tiles_from]
            assert isinstance(maker, DynamicProduct)
            result[layer.tiles_from] = number, maker
    return result


def _places(
    shared: Mapping[int, tuple[int, DynamicProduct]], config: Config
) -> tuple[dict[int, int], int]:
    """Return the first slot of shared tiles, counted from those of all, and the slots of all."""
    ends: list[tuple[int, int, int]] = []
    places: dict[int, int] = {}
    for first, (last, layer) in sorted(shared.items()):
        places[first] = max((end for end, _, until in ends if until >= first), default=0)
        tiles = -(-layer.channels // tile_columns(config))
        ends.append((places[first] + tiles * steps_of_groups(layer, config)[-1], first, last))
    return places, max((end for end, _, _ in ends), default=0)


def steps_of_groups(layer: DynamicProduct, config: Config) -> list[int]:
    """Return the steps of the groups of taps before each group, and of all groups."""
    steps = (-(-layer.taps_of(group) // config.rows) for group in range(layer.groups))
    return list(accumulate(steps, initial=0))


def spreads(layer: DynamicProduct, scratch: Scratch, config: Config) -> bool:
    """Return whether the sums of columns are made once for a tile, and copied to all rows.

    The vector unit copies them, which pays if the array is busier than it.
    """
    steps = -(-layer.taps // config.rows)
    most = config.accumulator_depth - scratch.turns
    if not layer.columns or steps > scratch.steps or scratch.turns < 2 or most < 1:
        return False
    if layer.rows < config.rows:
        return False
    groups = drain_cycles(min(layer.channels, config.columns), config)
    others = layer.passes - layer.columns.times
    return max(others * steps, 2 * groups) < max(layer.passes * steps, groups)


def spread_layers(network: Network, scratch: Scratch, config: Config) -> frozenset[int]:
    """Return the layers whose jobs follow one another: a job begins the next one in its half.

    Those for which ``spreads`` holds, and those with stepped sums or several pairs of matrices.
    """
    return frozenset(
        n
        for n, x in _products(network).items()
        if x.stepped >= 0 or x.turns or spreads(x, scratch, config)
    )
