"""Fourth pass: which items are worked on together, and an address for everything.

The first layers of a network, which have many pixels, run item by item: the head. The last ones,
whose pixels are fewer than a tile has rows, run for many items at once, so that these share the
weights: the tail. What the head leaves for the tail is kept for all items. A batch that does not
fit runs in parts. While one item, or part, is computed, the input of the next is loaded, where
there is room for both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from celosia.hw.arch.config import ADDRESS_BITS, Config
from celosia.sw.compiler.layout import Layout
from celosia.sw.compiler.spec import CompileError, Network, Product

__all__ = ["ALIGNMENT", "Place", "Placement", "allocate", "head_layers"]

#: External addresses of tables start at multiples of this: no burst crosses a 4 KiB page early.
ALIGNMENT = 4096


@dataclass(frozen=True)
class Place:
    """Where a value lies in the unified buffer.

    Parameters
    ----------
    addresses : tuple of int
        Byte addresses of its copies, used in turn by items or parts that follow one another.
    whole : bool
        Whether it holds all items of a part, else one.
    permanent : bool
        Whether nothing else ever lies there.
    """

    addresses: tuple[int, ...]
    whole: bool
    permanent: bool


@dataclass(frozen=True)
class Placement:
    """Where everything lies.

    Parameters
    ----------
    head : int
        Number of layers that run item by item.
    parts : tuple of (int, int)
        First item and number of items of each part of the batch.
    places : dict of int to Place
        By value.
    layouts : tuple of Layout
        By value.
    external : dict
        Value to byte address of the batch in external memory, of inputs and outputs.
    weights, parameters : tuple of int
        External address of each layer's tiles and channel parameters.
    code : int
        External address from which on code may lie.
    """

    head: int
    parts: tuple[tuple[int, int], ...]
    places: Mapping[int, Place]
    layouts: tuple[Layout, ...]
    external: Mapping[int, int]
    weights: tuple[int, ...]
    parameters: tuple[int, ...]
    code: int

    def address(self, value: int, part: int, item: int) -> int:
        """Return where an item of the batch, in a part of it, begins in the unified buffer."""
        place = self.places[value]
        turns = place.addresses
        if not place.whole:
            return turns[item % len(turns)]
        index = item - self.parts[part][0]
        return turns[part % len(turns)] + index * self.layouts[value].item_pitch


@dataclass(frozen=True)
class _Span:
    """A copy of a value: its bytes, and the layers during which it is needed."""

    key: tuple[int, int]
    count: int
    birth: int
    death: int


def head_layers(network: Network, config: Config) -> int:
    """Return how many of the layers have so many pixels that each item runs on its own."""
    head = 0
    for number, layer in enumerate(network.layers):
        source = network.values[layer.source]
        pixels = layer.pixels if isinstance(layer, Product) else source.height * source.width
        if pixels >= config.rows and source.height > 1:
            head = number + 1
    return head


def allocate(
    network: Network,
    layouts: tuple[Layout, ...],
    config: Config,
    batch: int,
    constants: Sequence[tuple[int, int]],
) -> Placement:
    """Place values and constants.

    Parameters
    ----------
    network, layouts, config
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
    head = head_layers(network, config)
    items, places = _Allocator(network, layouts, config, head).choose(batch)
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
    return Placement(
        head=head,
        parts=tuple((first, min(items, batch - first)) for first in range(0, batch, items)),
        places=places,
        layouts=layouts,
        external=external,
        weights=tuple(weights),
        parameters=tuple(parameters),
        code=address,
    )


class _Allocator:
    def __init__(
        self, network: Network, layouts: tuple[Layout, ...], config: Config, head: int
    ) -> None:
        self.network = network
        self.layouts = layouts
        self.config = config
        self.head = head

    def choose(self, batch: int) -> tuple[int, dict[int, Place]]:
        """Return items of a part, and the places of values."""
        for permanent in (True, False):
            found = self.best(batch, permanent)
            if found is not None:
                return found
        raise CompileError(self.why())

    def best(self, batch: int, permanent: bool) -> tuple[int, dict[int, Place]] | None:
        """Return the largest part of the batch that fits, with inputs loaded ahead if possible."""
        whole = self.fit(batch, False, permanent)
        if whole is not None and not self.head:
            return batch, whole
        alone = _largest(lambda items: self.fit(items, False, permanent), batch)
        double = _largest(lambda items: self.fit(items, True, permanent), batch)
        # Fewer pixels than a tile has rows leave the array waiting for weights.
        if double is not None and (
            alone is None or double[0] >= self.config.rows or double[0] == alone[0]
        ):
            return double
        return alone

    def spans(self, items: int, ahead: bool, permanent: bool) -> list[_Span]:
        """Return the copies of all values."""
        end = len(self.network.layers)
        spans = []
        for number, value in enumerate(self.network.values):
            layout = self.layouts[number]
            uses = [n for n, x in enumerate(self.network.layers) if x.source == number]
            births = [n for n, x in enumerate(self.network.layers) if x.result == number]
            if not uses and not births:
                continue
            birth = births[0] if births else uses[0]
            death = end if value.is_output else max([birth, *uses])
            count = layout.item_pitch * (items if self.whole(number) else 1)
            # An input that head and tail read comes item by item, and stays.
            both = self.whole(number) and birth < self.head
            turns = 2 if ahead and value.is_input and not both else 1
            if turns == 2 or (permanent and layout.margins):
                birth, death = 0, end
            elif both:
                # The head goes on with other items after this one was written.
                birth = 0
            spans += [_Span((number, turn), count, birth, death) for turn in range(turns)]
        return spans

    def whole(self, number: int) -> bool:
        """Whether a value is kept for all items of a part: the tail makes or reads it."""
        return any(number in (x.source, x.result) for x in self.network.layers[self.head :])

    def fit(self, items: int, ahead: bool, permanent: bool) -> dict[int, Place] | None:
        """Return places for a part of the batch, or None if they do not fit."""
        spans = self.spans(items, ahead, permanent)
        by_birth = sorted(spans, key=lambda span: span.birth)
        by_count = sorted(spans, key=lambda span: -span.count)
        for order, alternate in ((by_birth, False), (by_count, False), (by_birth, True)):
            addresses = _first_fit(order, self.config, alternate)
            if addresses is not None:
                return self.places(addresses, permanent)
        return None

    def places(self, addresses: dict[tuple[int, int], int], permanent: bool) -> dict[int, Place]:
        """Return the places of values by the addresses of their copies."""
        result = {}
        for number, turn in sorted(addresses):
            if turn == 0:
                copies = [addresses[key] for key in sorted(addresses) if key[0] == number]
                alone = permanent and self.layouts[number].margins
                result[number] = Place(tuple(copies), self.whole(number), alone)
        return result

    def why(self) -> str:
        """Return which layer needs most, for a network of which one item does not fit."""
        network = self.network

        def need(number: int) -> int:
            layer = network.layers[number]
            return sum(self.layouts[v].item_pitch for v in (layer.source, layer.result))

        worst = max(range(len(network.layers)), key=need)
        return (
            f"{network.layers[worst].name}: activations of one item take {need(worst)} bytes "
            f"beside others still needed, wanted at most "
            f"unified_bytes = {self.config.unified_bytes}"
        )


def _largest(
    fit: Callable[[int], dict[int, Place] | None], batch: int
) -> tuple[int, dict[int, Place]] | None:
    """Return the largest even part of the batch that fits."""
    low, high = 0, batch + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) is not None else (low, middle)
    if low == 0:
        return None
    items = -(-batch // -(-batch // low))
    places = fit(items)
    return None if places is None else (items, places)


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
