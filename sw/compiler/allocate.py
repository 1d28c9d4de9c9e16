"""Third pass: how many items at a time, and an address for everything.

Activations lie packed, rows of a layer one after the other. A batch that does not fit into the
unified buffer runs in parts; while one part is computed the input of the next is loaded, where
there is room for both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from celosia.hw.arch.config import ADDRESS_BITS, Config
from celosia.sw.compiler.spec import CompileError, Network
from celosia.sw.compiler.tile import Tiling

__all__ = ["ALIGNMENT", "Placement", "allocate"]

#: External addresses of tables start at multiples of this: no burst crosses a 4 KiB page early.
ALIGNMENT = 4096


@dataclass(frozen=True)
class Placement:
    """Where everything lies.

    Parameters
    ----------
    parts : tuple of (int, int)
        First item and number of items of each part of the batch.
    prefetch : bool
        Whether inputs have two places, used in turn.
    unified : dict
        (value, turn) to byte address in the unified buffer; turn 1 for inputs with prefetch alone.
    external : dict
        Value to byte address of the batch in external memory, of inputs and outputs.
    weights, parameters : tuple of int
        External address of each layer's tiles and channel parameters.
    code : int
        External address from which on code may lie.
    """

    parts: tuple[tuple[int, int], ...]
    prefetch: bool
    unified: Mapping[tuple[int, int], int]
    external: Mapping[int, int]
    weights: tuple[int, ...]
    parameters: tuple[int, ...]
    code: int

    def address(self, value: int, part: int) -> int:
        """Return where a value lies in the unified buffer while a part of the batch is computed."""
        return self.unified.get((value, part % 2), self.unified[value, 0])


@dataclass(frozen=True)
class _Span:
    """A value's bytes and the layers during which it is needed."""

    key: tuple[int, int]
    count: int
    birth: int
    death: int


def allocate(
    network: Network,
    tiling: Tiling,
    config: Config,
    batch: int,
    constants: Sequence[tuple[int, int]],
) -> Placement:
    """Place values and constants.

    Parameters
    ----------
    network, tiling, config
        Results of the passes before, and the core.
    batch : int
        Items of one run of the program, at least 1.
    constants : sequence of (int, int)
        Bytes of the weights and of the parameters of each layer.

    Raises
    ------
    CompileError
        If one item alone does not fit, naming the layer.
    """
    for value in network.values:
        if value.is_input and value.is_output:
            raise CompileError(
                f"{value.name}: wanted an output that a layer computes, got an input"
            )
    items, prefetch, unified = _choose(network, config, batch)
    address = 0

    def take(count: int) -> int:
        nonlocal address
        start = address
        address = -(-(address + count) // ALIGNMENT) * ALIGNMENT
        return start

    weights, parameters = [], []
    for weight_bytes, parameter_bytes in constants:
        weights.append(take(weight_bytes))
        parameters.append(take(parameter_bytes))
    external = {
        number: take(batch * value.bytes_per_item)
        for number, value in enumerate(network.values)
        if value.is_input or value.is_output
    }
    if address >> ADDRESS_BITS:
        raise CompileError(f"network: wanted at most 4 GiB of external memory, got {address} bytes")
    parts = tuple((first, min(items, batch - first)) for first in range(0, batch, items))
    return Placement(parts, prefetch, unified, external, tuple(weights), tuple(parameters), address)


def _choose(
    network: Network, config: Config, batch: int
) -> tuple[int, bool, dict[tuple[int, int], int]]:
    """Return items of a part, whether to prefetch, and the addresses in the unified buffer."""
    whole = _fit(network, config, batch, prefetch=False)
    if whole is not None:
        return batch, False, whole
    alone = _largest(lambda items: _fit(network, config, items, prefetch=False), batch)
    if alone is None:
        raise CompileError(_why(network, config))
    double = _largest(lambda items: _fit(network, config, items, prefetch=True), batch)
    # Fewer pixels than a tile has rows leave the array waiting for weights.
    if double is not None and (double[0] >= config.rows or double[0] == alone[0]):
        return double[0], True, double[1]
    return alone[0], False, alone[1]


def _largest(
    fit: Callable[[int], dict[tuple[int, int], int] | None], batch: int
) -> tuple[int, dict[tuple[int, int], int]] | None:
    """Return the largest even part of the batch that fits."""
    low, high = 0, batch
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) is not None else (low, middle)
    if low == 0:
        return None
    items = -(-batch // -(-batch // low))
    addresses = fit(items)
    return None if addresses is None else (items, addresses)


def _spans(network: Network, items: int) -> list[_Span]:
    end = len(network.layers)
    spans = []
    for number, value in enumerate(network.values):
        uses = [n for n, layer in enumerate(network.layers) if layer.source == number]
        births = [n for n, layer in enumerate(network.layers) if layer.result == number]
        if not uses and not births:
            continue
        birth = births[0] if births else uses[0]
        death = end if value.is_output else max([birth, *uses])
        spans.append(_Span((number, 0), items * value.bytes_per_item, birth, death))
    return spans


def _fit(
    network: Network, config: Config, items: int, *, prefetch: bool
) -> dict[tuple[int, int], int] | None:
    """Return addresses of all values of a part of the batch, or None if they do not fit."""
    spans = _spans(network, items)
    if prefetch:
        end = len(network.layers)
        inputs = [span for span in spans if network.values[span.key[0]].is_input]
        spans = [span for span in spans if span not in inputs]
        for span in inputs:
            spans += [_Span((span.key[0], turn), span.count, 0, end) for turn in (0, 1)]
    by_birth = sorted(spans, key=lambda span: span.birth)
    by_count = sorted(spans, key=lambda span: -span.count)
    for order, alternate in ((by_birth, False), (by_count, False), (by_birth, True)):
        addresses = _first_fit(order, config, alternate)
        if addresses is not None:
            return addresses
    return None


def _first_fit(
    spans: Sequence[_Span], config: Config, alternate: bool
) -> dict[tuple[int, int], int] | None:
    """Place spans one by one at the lowest free address, or in turn at the lowest and highest."""
    placed: list[tuple[int, _Span]] = []
    for turn, span in enumerate(spans):
        busy = [
            (address, address + other.count)
            for address, other in placed
            if other.birth <= span.death and span.birth <= other.death
        ]
        room = config.unified_bytes - span.count
        starts = [0, *(end for _, end in busy)]
        starts = [-(-start // config.rows) * config.rows for start in starts]
        if alternate and turn % 2:
            ends = [config.unified_bytes, *(begin for begin, _ in busy)]
            starts = sorted((end - span.count) // config.rows * config.rows for end in ends)
            starts.reverse()
        else:
            starts.sort()
        free = [
            start
            for start in starts
            if 0 <= start <= room
            and all(start + span.count <= begin or end <= start for begin, end in busy)
        ]
        if not free:
            return None
        placed.append((free[0], span))
    return {span.key: address for address, span in placed}


def _why(network: Network, config: Config) -> str:
    """Return which layer needs most, for a network of which one item does not fit."""

    def need(number: int) -> int:
        layer = network.layers[number]
        return sum(network.values[v].bytes_per_item for v in (layer.source, layer.result))

    worst = max(range(len(network.layers)), key=need)
    return (
        f"{network.layers[worst].name}: activations of one item take {need(worst)} bytes "
        f"beside others still needed, wanted at most unified_bytes = {config.unified_bytes}"
    )
