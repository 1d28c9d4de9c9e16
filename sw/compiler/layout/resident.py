"""Resident constants of all parts of a program at the same time."""

from collections.abc import Sequence
from dataclasses import replace

from celosia.hw.arch.config import Config
from celosia.sw.compiler.layout.tile import Tiling


def all_resident(tilings: Sequence[Tiling], config: Config) -> list[Tiling] | None:
    """Return the tilings of all parts with separate slots for each constant.

    None if there is only one part, if one of them streams constants, or if they do not fit.
    """
    if len(tilings) < 2 or not all(map(_stays, tilings)):
        return None
    tiles = channels = tables = 0
    result = []
    for tiling in tilings:
        result.append(_shifted(tiling, tiles, channels, tables))
        tiles += tiling.weights.first
        channels += -(-tiling.parameters.first // config.columns) * config.columns
        tables += tiling.tables.ring.first
    exponentials = {each for tiling in tilings for each in tiling.exponentials.contents}
    fits = (
        tiles <= min(tiling.scratch.first for tiling in tilings)
        and channels <= config.parameter_channels
        and tables <= config.tables
        and len(exponentials) <= 1
    )
    return result if fits else None


def _stays(tiling: Tiling) -> bool:
    """Return whether all constants of a part are resident."""
    layers = tiling.layers
    return (
        not any(layer.streams or layer.first_channel is None for layer in layers)
        and None not in tiling.tables.slots + tiling.exponentials.slots
    )


def _shifted(tiling: Tiling, tiles: int, channels: int, tables: int) -> Tiling:
    """Return a tiling with resident constants, moved up by some slots."""
    layers = tuple(
        replace(
            layer,
            first_tile=layer.first_tile + tiles,
            first_channel=(layer.first_channel or 0) + channels,
        )
        for layer in tiling.layers
    )
    slots = tuple((slot or 0) + tables for slot in tiling.tables.slots)
    return replace(tiling, layers=layers, tables=replace(tiling.tables, slots=slots))
