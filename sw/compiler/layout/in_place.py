"""Values that take the place of others: results of sums, and matrices that are loaded in turn."""

from collections.abc import Sequence

from celosia.hw.arch.config import Config
from celosia.sw.compiler.layout.pitches import Layout
from celosia.sw.compiler.layout.scratch import tile_columns
from celosia.sw.layers.network import Network, end_of_run
from celosia.sw.layers.spec import DynamicProduct


def users(network: Network, value: int) -> list[int]:
    """Return the layers that make and read a value."""
    return [*network.makers[value], *network.readers[value]]


def in_place(network: Network, layouts: Sequence[Layout], config: Config) -> dict[int, int]:
    """Return the results of sums that replace an addend row by row, and these addends.

    Nothing reads the addend later, and one output tile has all columns.
    """
    found: dict[int, int] = {}
    for number, layer in enumerate(network.layers):
        if not isinstance(layer, DynamicProduct) or network.readers[layer.result]:
            continue
        if layer.taps and layer.stepped < 0:
            continue
        last = end_of_run(network, number)
        for addend in layer.addends:
            value = addend.value
            alike = layouts[value] == layouts[layer.result]
            narrow = addend.columns == layer.channels <= tile_columns(config)
            if (
                alike
                and narrow
                and addend.rows == layer.rows
                and network.readers[value][-1] <= last
                and network.values[value].is_input
                and not network.values[value].is_output
                and value not in found.values()
            ):
                found[layer.result] = value
                break
    return found


def in_turn(network: Network) -> dict[int, int]:
    """Return the matrices that a product loads where those of two pairs before were."""
    return {
        value: first
        for layer in network.layers
        if isinstance(layer, DynamicProduct)
        for place, pair in enumerate(layer.turns[2:])
        for value, first in zip(pair, layer.turns[place % 2], strict=True)
        if network.values[value].contents is None
    }
