"""Values and layers that fit no memory of a core, whatever else is in it."""

import math
from collections.abc import Iterable, Sequence
from functools import cache

from celosia.hw.arch.config import Config
from celosia.sw.compiler.layout.pitches import Layout, sees_rows
from celosia.sw.compiler.layout.scratch import row_limit, scratch_limit
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct, Layer, MatrixLayer


def addressable(layouts: Iterable[Layout], config: Config) -> bool:
    """Return whether the fields of instructions hold the length of each row."""
    return all(layout.pitch < config.unified_bytes for layout in layouts)


def misfit(network: Network, layouts: Sequence[Layout], config: Config) -> CompileError | None:
    """Return the error of the first value or layer that does not fit, if there is one.

    ``layouts`` are those without bands.
    """
    for number, (value, layout) in enumerate(zip(network.values, layouts, strict=True)):
        # The host runs the last operator that fills the value, or reads an input.
        users = network.makers[number] or network.readers[number]
        if users and not addressable([layout], config):
            wanted = f"rows below unified_bytes = {config.unified_bytes}"
            reason = f"wanted {wanted}, got {layout.pitch}"
            return CompileError(reason, layer=value.name, place=network.layers[users[-1]].place)
        apart = layout.left or layout.right or value.spread
        for reader in network.readers[number] if apart else ():
            layer = network.layers[reader]
            if sees_rows(layer, number, value):
                return _error(layer, "wanted an input whose pixels lie side by side")
    scratch_reason = cache(lambda: scratch_limit(network, config))
    for layer in network.layers:
        if isinstance(layer, MatrixLayer) and layer.stored >= 0:
            if not layer.channels == config.columns == config.tile_row_bytes:
                return _error(layer, f"wanted blocks of {config.columns} columns")
        if isinstance(layer, MatrixLayer) and math.prod(layer.pool.window) > (
            config.accumulator_depth
        ):
            high, wide = layer.pool.window
            wanted = f"windows of at most {config.accumulator_depth} sums"
            return _error(layer, f"wanted {wanted}, got {high} x {wide}")
        if isinstance(layer, DynamicProduct):
            if reason := row_limit(layer, config) or scratch_reason():
                return _error(layer, reason)
    return None


def _error(layer: Layer, reason: str) -> CompileError:
    return CompileError(reason, layer=layer.name, place=layer.place)
