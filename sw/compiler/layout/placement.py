"""Addresses in the unified buffer and in external memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from celosia.hw.arch.config import ADDRESS_BITS, Config
from celosia.sw.compiler.layout.pitches import Layout
from celosia.sw.compiler.layout.stripes import Passage, even_rows, row_beats, source_rows
from celosia.sw.compiler.layout.tile import Tiling
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import MatrixLayer, Range, Sum


def per_image_layers(network: Network, config: Config) -> int:
    """Return the number of layers whose pixels hide the load of a tile: samples run one by one."""
    per_image, least = 0, max(config.rows, config.tile_bytes // config.bus_bytes)  # Cycles.
    for number, layer in enumerate(network.layers):
        # A sum may repeat the rows of one of its sources.
        value = network.values[layer.result if isinstance(layer, Sum) else layer.source]
        pixels = layer.pixels if isinstance(layer, MatrixLayer) else value.height * value.width
        if pixels >= least and value.height > 1:
            per_image = number + 1
    return per_image


@dataclass(frozen=True)
class ValueAddresses:
    """Addresses of a value in the unified buffer."""

    #: Byte addresses of its copies, used in turn by successive samples or sub-batches.
    addresses: tuple[int, ...]
    whole: bool  #: True if it holds all samples of a sub-batch, else one.
    permanent: bool  #: True if no other bytes ever use the addresses.
    since: int = 0  #: Layer from whose begin on the addresses are free for it.


@dataclass(frozen=True)
class Placement:
    """Addresses of values and constants, and the order of samples."""

    per_image: int  #: Number of per-image layers.
    #: First sample and number of samples of each sub-batch.
    sub_batches: tuple[tuple[int, int], ...]
    values: Mapping[int, ValueAddresses]  #: By value.
    layouts: tuple[Layout, ...]  #: By value.
    #: Value to byte address of the batch in external memory, of inputs and outputs.
    external: Mapping[int, int]
    #: External address of each layer's tiles and channel parameters.
    weights: tuple[int, ...]
    parameters: tuple[int, ...]
    #: By layer, external address of the parameters that shift its product in place.
    stepped: Mapping[int, int]
    #: External address of the tables, and the first address free for code.
    tables: int
    code: int
    #: By value and layer, addresses of the stripe buffers through which the layer reads or writes a
    #: value in external memory.
    stripes: Mapping[tuple[int, int], tuple[int, ...]]
    #: By layer, the rows of its result that it makes at a time, if not all.
    stripe_rows: Mapping[int, int]
    overlap: frozenset[int]  #: Layers after which the next one may begin early.
    late: frozenset[int]  #: Layers whose results are stored in parts, while the next one runs.
    #: By layer whose result the next one reads from a buffer, without external memory: its rows.
    direct: Mapping[int, Passage]

    def address(self, value: int, sub_batch: int, sample: int) -> int:
        """Return the address of a sample of the batch, in its sub-batch, in the unified buffer."""
        kept = self.values[value]
        turns = kept.addresses
        if not kept.whole:
            return turns[sample % len(turns)]
        index = sample - self.sub_batches[sub_batch][0]
        return turns[sub_batch % len(turns)] + index * self.layouts[value].sample_pitch

    def outside(self, value: int) -> bool:
        """Return whether a value lies in external memory and only passes through buffers."""
        return value not in self.values

    @property
    def in_turns(self) -> frozenset[int]:
        """Layers that make some rows of their results at a time."""
        return frozenset((*self.stripe_rows, *self.direct))

    def cut(self, network: Network, number: int) -> Sequence[Range]:
        """Return the row stripes in which a layer makes its result."""
        if number in self.direct:
            return self.direct[number].made
        height = network.values[network.layers[number].result].height
        return even_rows(height, self.stripe_rows.get(number, height))

    def cuts(self, network: Network, number: int) -> int:
        """Return the number of row stripes in which a layer makes its result."""
        return len(self.cut(network, number))

    def beats(self, network: Network, number: int, config: Config) -> tuple[int, int]:
        """Return the beats of the bus in which a layer's stripes are loaded, and stored."""

        def moved(value: int, rows: int) -> int:
            return rows * row_beats(network.values[value], self.layouts[value], config)

        layer = network.layers[number]
        passed = network.layers[number - 1].result if number - 1 in self.direct else None
        sources = [v for v in dict.fromkeys(layer.sources) if self.outside(v) and v != passed]
        cut = [rows for rows in self.cut(network, number) if rows[0] < rows[1]]
        spans = [source_rows(layer, rows) for rows in cut] if sources else []
        rows, height = sum(last - first for first, last in spans), 0
        if self.outside(layer.result) and number not in self.direct:
            height = network.values[layer.result].height
        return sum(moved(source, rows) for source in sources), moved(layer.result, height)

    def moved(self, by: int) -> "Placement":
        """Return a placement with all external addresses increased by ``by`` bytes.

        Raises CompileError if its code would begin past the last address.
        """
        moved = replace(
            self,
            external={value: address + by for value, address in self.external.items()},
            weights=tuple(address + by for address in self.weights),
            parameters=tuple(address + by for address in self.parameters),
            stepped={number: address + by for number, address in self.stepped.items()},
            tables=self.tables + by,
            code=self.code + by,
        )
        if moved.code >> ADDRESS_BITS:
            got = f"wanted at most 4 GiB of external memory, got {moved.code} bytes"
            raise CompileError(got, layer="network")
        return moved


class Arrangement(NamedTuple):
    """Layers, their tiles, the addresses, and the core."""

    network: Network
    tiling: Tiling
    placement: Placement
    config: Config


class Arranged:
    """Base of passes over an arrangement, with its fields as attributes."""

    def __init__(self, about: Arrangement) -> None:
        self.about = about
        self.network, self.tiling, self.placement, self.config = about

    def passage(self, value: int) -> Passage | None:
        """Return how a value passes from one layer to the next, if it does."""
        direct = self.placement.direct
        return next((direct[n] for n in self.network.makers[value] if n in direct), None)
