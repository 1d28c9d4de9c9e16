"""Tiles and addresses of a part, or the layer that does not fit."""

from collections.abc import Mapping

from celosia.hw.arch.config import Config
from celosia.sw.compiler.layout.allocate import allocate
from celosia.sw.compiler.layout.bands import Band
from celosia.sw.compiler.layout.choose import choose
from celosia.sw.compiler.layout.limits import misfit
from celosia.sw.compiler.layout.pitches import lay_out
from celosia.sw.compiler.layout.placement import Arrangement
from celosia.sw.compiler.layout.tile import tile
from celosia.sw.compiler.schedule.pace import overlap_gains
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.network import Network


def arrange(network: Network, config: Config, batch: int) -> Arrangement | CompileError:
    """Return the tiles and addresses of a network, or the error of a layer that does not fit.

    Bands are only for layers whose values the unified buffer holds: candidates have fewer and fewer
    of them. Raises CompileError if external memory is too small.
    """
    error = misfit(network, lay_out(network, {}, config), config)
    if error:
        return error
    bands = choose(network, config)
    while True:
        result = _arranged(network, bands, config, batch)
        if isinstance(result, CompileError):
            outside = bands.keys()
        else:
            outside = result.placement.stripe_rows.keys() | result.placement.direct
        if not outside & bands.keys():
            return result
        bands = {number: band for number, band in bands.items() if number not in outside}


def _arranged(
    network: Network, bands: Mapping[int, Band], config: Config, batch: int
) -> Arrangement | CompileError:
    """Return the tiles and addresses for some bands."""
    layouts = lay_out(network, bands, config)
    tiling = tile(network, layouts, bands, config)
    gains = overlap_gains(network, tiling, layouts, config)
    placement = allocate(network, layouts, tiling, gains, config, batch)
    if isinstance(placement, CompileError):
        return placement
    return Arrangement(network, tiling, placement, config)
