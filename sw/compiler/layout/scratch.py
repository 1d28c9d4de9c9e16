"""Tiles of the weight buffer that are made of activations."""

from collections.abc import Mapping
from dataclasses import dataclass

from celosia.hw.arch.config import Config
from celosia.sim.timing.costs import drain_cycles
from celosia.sw.compiler import policy
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct


@dataclass(frozen=True)
class Scratch:
    """Last slots of the weight buffer, for tiles made of activations."""

    first: int  #: First slot; all slots are below it if there are no such tiles.
    #: Steps of a reduction in the tiles at once, and regions for so many.
    steps: int
    turns: int
    #: By layer, the slot of its tile of equal weights.
    constants: Mapping[int, int]

    def slot(self, turn: int) -> int:
        """Return the first slot of a region of steps."""
        return self.first + len(self.constants) + turn % self.turns * self.steps


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
        return Scratch(config.weight_tiles, 0, 1, {})
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
    return Scratch(start, steps, turns, slots)


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
