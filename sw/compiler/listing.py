"""Layers of a program as reports list them."""

from collections.abc import Iterator

from celosia.hw.arch.config import TABLE_BYTES, Config
from celosia.sim.timing.costs import pass_cycles
from celosia.sw.compiler.layout.pitches import least_steps
from celosia.sw.compiler.layout.placement import Arrangement
from celosia.sw.compiler.layout.scratch import spreads
from celosia.sw.compiler.layout.tile import Tiling
from celosia.sw.ir.parts import Layer
from celosia.sw.layers.spec import DynamicProduct, MatrixLayer


def layers_of(about: Arrangement, sizes: list[tuple[int, int]], items: int) -> tuple[Layer, ...]:
    """Return the layers of a part as reports list them, with remarks.

    - ``sizes``: bytes of the weights and of the parameters of each layer.
    - ``items``: samples of the network for each sample of the program.
    """
    network, tiling, placement, config = about
    layers = []
    for number, (layer, tiled) in enumerate(zip(network.layers, tiling.layers, strict=True)):
        ends = (network.values[layer.source], network.values[layer.result])
        notes = []
        least = least_steps(layer, config) if isinstance(layer, MatrixLayer) else 0
        if tiled.band:
            each = f"{tiled.band.count} results of {tiled.band.channels}"
            notes.append(f"in bands: {each} channel{'s' * (tiled.band.channels > 1)} a vector")
        elif isinstance(layer, MatrixLayer) and tiled.steps > least:
            more = (tiled.steps - least) * tiled.tiles * pass_cycles(layer.pixels, config)
            notes.append(f"{tiled.steps} reduction steps instead of {least}, {more:,} cycles more")
        if isinstance(layer, DynamicProduct):
            notes += _passes(layer, tiling, config)
        if number in placement.stripe_rows:
            rows = placement.stripe_rows[number]
            unit = "row" if rows == 1 else "rows"
            way = (
                "from the layer before"
                if number - 1 in placement.direct
                else "through external memory"
            )
            notes.append(f"{way}, {rows} {unit} of results at a time")
        scalings = (layer.scaling,) if isinstance(layer, MatrixLayer) else layer.scalings
        notes += [scaling.note for scaling in scalings if scaling.note]
        layers.append(
            Layer(
                name=layer.name,
                kind=layer.kind,
                place=layer.place,
                runs_on="core",
                macs=items * layer.macs,
                weight_bytes=sizes[number][0],
                parameter_bytes=sizes[number][1] + TABLE_BYTES * (number in tiling.tables.of),
                activation_bytes=items * sum(value.bytes_per_item for value in ends),
                resident=not tiled.streams,
                note="; ".join(notes),
            )
        )
    return tuple(layers)


def _passes(layer: DynamicProduct, tiling: Tiling, config: Config) -> Iterator[str]:
    """Yield remarks on a product of two computed matrices."""
    yield "weights from activations"
    passes = layer.passes
    if layer.columns and spreads(layer, tiling.scratch, config):
        yield "sums of columns are copied"
        passes -= layer.columns.times
    if passes > 1:
        yield f"{passes} passes of each tile, for zero points"
