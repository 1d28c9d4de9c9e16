"""Tiles and addresses of a part, or the layer that does not fit."""

from collections.abc import Mapping

from celosia.hw.arch.config import Config
from celosia.sw.compiler.layout.allocate import allocate
from celosia.sw.compiler.layout.bands import Band
from celosia.sw.compiler.layout.choose import choose
from celosia.sw.compiler.layout.limits import misfit
from celosia.sw.compiler.layout.pitches import lay_out
from celosia.sw.compiler.layout.placement import Arrangement, Placement
from celosia.sw.compiler.layout.stripes import joint_cycles
from celosia.sw.compiler.layout.tile import tile
from celosia.sw.compiler.schedule.pace import layer_cycles, overlap_gains
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.network import Network

#: Choices of bands, each for the stripes of the one before it.
_TURNS = 3
#: Cycles from one stripe to the next, besides its work.
_STRIPE = 40


def arrange(network: Network, config: Config, batch: int) -> Arrangement | CompileError:
    """Return the tiles and addresses of a network, or the error of a layer that does not fit.

    If some values are outside the unified buffer, bands are chosen again for the row stripes that
    follow from the choice before. The best of these arrangements is taken, or the one with bands
    inside the unified buffer alone. Raises CompileError if external memory is too small.
    """
    error = misfit(network, lay_out(network, {}, config), config)
    if error:
        return error
    first = choose(network, config)
    result = whole = _arranged(network, first, config, batch)
    bands, found = first, []
    while isinstance(result, Arrangement) and result.placement.stripe_rows and len(found) < _TURNS:
        found.append(result)
        following = choose(network, config, result.placement)
        if following == bands and len(found) > 1:
            break
        bands, result = following, _arranged(network, following, config, batch, result.placement)
    bands, result = first, whole
    while True:
        if isinstance(result, CompileError):
            outside = bands.keys()
        else:
            outside = result.placement.in_turns
        if not outside & bands.keys():
            break
        bands = {number: band for number, band in bands.items() if number not in outside}
        result = _arranged(network, bands, config, batch)
    return result if isinstance(result, CompileError) else min((result, *found), key=_cycles)


def _cycles(about: Arrangement) -> int:
    """Return about the cycles of an arrangement, to compare those of one network.

    While one stripe is computed, others are loaded and stored. Loads wait for the drains, which
    write the unified buffer, too.
    """
    network, tiling, placement, config = about
    total, pending = 0, (0, 0, 0)
    for number, (layer, tiled) in enumerate(zip(network.layers, tiling.layers, strict=True)):
        stripes = placement.cuts(network, number)
        source = placement.layouts[layer.source]
        array, vector = layer_cycles(layer, tiled, source, config, stripes)
        loads, stores = placement.beats(network, number, config)
        tiles = (tiled.periods - tiled.resident) * tiled.period if tiled.streams else 0
        tiles *= stripes * config.tile_bytes // config.bus_bytes
        if number in placement.direct:
            # Rows that two laps read are drained twice.
            height = network.values[layer.result].height
            vector = vector * placement.direct[number].written // height
        units = array, vector + loads, loads + stores + tiles
        pending = tuple(map(sum, zip(pending, units, strict=True)))
        total += _STRIPE * (stripes - 1)
        if number not in placement.direct:
            total, pending = total + joint_cycles(*pending), (0, 0, 0)
    return total


def _arranged(
    network: Network,
    bands: Mapping[int, Band],
    config: Config,
    batch: int,
    before: Placement | None = None,
) -> Arrangement | CompileError:
    """Return the tiles and addresses for some bands; ``before``: row stripes, about."""
    layouts = lay_out(network, bands, config)
    stripes = None
    if before:
        numbers = range(len(network.layers))
        stripes = [
            (before.cuts(network, n), sum(before.beats(network, n, config))) for n in numbers
        ]
    tiling = tile(network, layouts, bands, config, stripes)
    gains = overlap_gains(network, tiling, layouts, config)

    def cycles(number: int, stripes: int) -> tuple[int, int]:
        layer = network.layers[number]
        return layer_cycles(layer, tiling.layers[number], layouts[layer.source], config, stripes)

    placement = allocate(network, layouts, tiling, gains, cycles, config, batch)
    if isinstance(placement, CompileError):
        return placement
    return Arrangement(network, tiling, placement, config)
