"""Addresses in external memory."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from celosia.hw.arch.config import ADDRESS_BITS, TABLE_BYTES, Config
from celosia.sw.compiler.layout.pack import packed_bytes
from celosia.sw.compiler.layout.tile import Tiling
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct, MatrixLayer

#: External addresses of tables start at multiples of this: no burst crosses a 4 KiB page early.
ALIGNMENT = 4096


class External(NamedTuple):
    """Addresses in external memory: fields of ``Placement``."""

    external: dict[int, int]
    weights: tuple[int, ...]
    parameters: tuple[int, ...]
    stepped: dict[int, int]
    tables: int
    code: int


def external_memory(
    network: Network, tiling: Tiling, spilled: Collection[int], batch: int, config: Config
) -> External:
    """Return the addresses of values and constants; raises CompileError if they do not fit.

    ``spilled``: values that pass only through buffers.
    """
    address = 0

    def take(count: int) -> int:
        nonlocal address
        start = address
        address = -(-(address + count) // ALIGNMENT) * ALIGNMENT
        return start

    constants = [packed_bytes(*p, config) for p in zip(network.layers, tiling.layers, strict=True)]
    pairs = [(take(weights), take(parameters)) for weights, parameters in constants]
    tables = take(TABLE_BYTES * (tiling.tables.size + tiling.exponentials.size))
    external = _values(network, spilled, batch, take)
    if address >> ADDRESS_BITS:
        got = f"wanted at most 4 GiB of external memory, got {address} bytes"
        raise CompileError(got, layer="network")
    return External(
        external=external,
        weights=tuple(
            external[layer.stored]
            if isinstance(layer, MatrixLayer) and layer.stored >= 0
            else first
            for layer, (first, _) in zip(network.layers, pairs, strict=True)
        ),
        parameters=tuple(parameters for _, parameters in pairs),
        stepped={
            number: external[layer.stepped]
            for number, layer in enumerate(network.layers)
            if isinstance(layer, DynamicProduct) and layer.stepped >= 0
        },
        tables=tables,
        code=address,
    )


def _values(
    network: Network, spilled: Collection[int], batch: int, take: Callable[[int], int]
) -> dict[int, int]:
    """Return the addresses of values; ``take``: reserves some bytes."""
    external = dict[int, int]()
    # Constants come first: the cores of a pod share them.
    for number, value in sorted(enumerate(network.values), key=lambda one: one[1].contents is None):
        if value.original < 0 and (value.is_input or value.is_output):
            samples = 1 if value.contents is not None else batch
            external[number] = take(samples * value.bytes_per_item)
    copies = {n: v for n, v in enumerate(network.values) if v.original >= 0}
    external |= {number: external[v.original] + v.offset for number, v in copies.items()}
    for number, value in enumerate(network.values):
        # Samples follow one another in external memory.
        if number in spilled and number not in external:
            external[number] = take(value.bytes_per_item)
    return external
