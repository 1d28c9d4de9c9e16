"""Networks: values and layers, checked when they are made."""

from dataclasses import dataclass
from functools import cached_property

from celosia.sw.layers.errors import require_layer
from celosia.sw.layers.spec import DynamicProduct, Layer, MatrixLayer, Padded, Sum
from celosia.sw.layers.values import Value


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """Work for each sample: values and the layers between them, in order."""

    values: tuple[Value, ...]  #: Activations.
    layers: tuple[Layer, ...]  #: Layers of the core, in an order of execution.
    items: int  #: Samples in one invocation of the graph in its file: its own batch.
    #: Tensor of the graph to value.
    inputs: dict[int, int]
    outputs: dict[int, int]

    def __post_init__(self) -> None:
        """Check that sources are made before they are read, and all results are filled."""
        known = {number for number, value in enumerate(self.values) if value.is_input}
        filled: dict[int, int] = {}
        for layer in self.layers:
            there = known.issuperset(layer.sources)
            require_layer(there, layer.name, "sources computed before", layer.sources)
            source, result = self.values[layer.source], self.values[layer.result]
            if isinstance(layer, MatrixLayer | DynamicProduct):
                shape, first = (*layer.output, layer.channels), layer.first
            elif isinstance(layer, Sum):
                shape, first = layer.extents, 0
                for value in map(self.values.__getitem__, layer.sources):
                    extents = (value.height, value.width, value.channels)
                    fits = all(n in (1, m) for n, m in zip(extents[:2], shape, strict=False))
                    fits = fits and extents[2] == shape[2]
                    require_layer(fits, layer.name, f"sources of {shape}", extents)
            else:
                covered = sum(w.count[0] * w.count[1] for w in layer.windows)
                require_layer(
                    covered == result.height * result.width, layer.name, "all results", covered
                )
                channels = layer.seen[2] if layer.seen else source.channels
                channels = result.channels if isinstance(layer, Padded) else channels
                shape, first = (result.height, result.width, channels), layer.first
            got = (result.height, result.width, result.channels)
            inside = got[:2] == shape[:2] and first + shape[2] <= got[2]
            require_layer(inside, layer.name, f"a result of {shape}", got)
            filled[layer.result] = filled.get(layer.result, 0) + shape[2]
            known.add(layer.result)
        for number, channels in filled.items():
            value = self.values[number]
            require_layer(channels == value.channels, value.name, "all channels once", channels)

    def product(self, number: int) -> MatrixLayer:
        """Return a layer that is a matrix layer."""
        layer = self.layers[number]
        assert isinstance(layer, MatrixLayer)
        return layer

    @cached_property
    def repeated(self) -> frozenset[int]:
        """Values of which a sum repeats the rows or columns."""
        return frozenset(
            source
            for layer in self.layers
            if isinstance(layer, Sum)
            for source in layer.sources
            if (self.values[source].height, self.values[source].width) != layer.extents[:2]
        )

    @cached_property
    def reloaded(self) -> dict[int, tuple[int, ...]]:
        """Values whose bytes layers store or that are loaded again, and those that share them."""
        inputs, shared = set(self.inputs.values()), dict[int, list[int]]()
        for number, value in enumerate(self.values):
            if value.original >= 0 and value.original not in inputs:
                shared.setdefault(value.original, [value.original]).append(number)
        return {number: tuple(some) for some in shared.values() for number in some}

    @cached_property
    def stored_by(self) -> dict[int, int]:
        """Last layer before its readers that makes bytes of a value; values that have one."""
        result = {}
        for number, others in self.reloaded.items():
            first = min(self.readers[number], default=0)
            makers = [n for other in others for n in self.makers[other] if n < first]
            if makers:
                result[number] = max(makers)
        return result

    @cached_property
    def in_turn(self) -> frozenset[int]:
        """Values that a product of several pairs loads, one pair after the other."""
        products = (layer for layer in self.layers if isinstance(layer, DynamicProduct))
        ends = (value for layer in products for pair in layer.turns for value in pair)
        return frozenset(value for value in ends if self.values[value].contents is None)

    @cached_property
    def makers(self) -> list[list[int]]:
        """Layers that make each value, each some of its channels."""
        makers: list[list[int]] = [[] for _ in self.values]
        for number, layer in enumerate(self.layers):
            makers[layer.result].append(number)
        return makers

    @cached_property
    def readers(self) -> list[list[int]]:
        """Layers that read each value."""
        readers: list[list[int]] = [[] for _ in self.values]
        for number, layer in enumerate(self.layers):
            for source in dict.fromkeys(layer.sources):
                readers[source].append(number)
        return readers


def attached(network: Network, number: int) -> bool:
    """Return whether a layer runs jointly with the layer before it: it drains the same sums.

    A Sum may run jointly with the matrix layer before it.

    Then each block is added as soon as it is drained, in the same rows of accumulators. A sum that
    is the first reader of an input runs alone, because the input would arrive too late.
    """
    if number == 0:
        return False
    layer, before = network.layers[number], network.layers[number - 1]
    if isinstance(layer, DynamicProduct):
        return layer.shares
    return (
        isinstance(layer, Sum)
        and isinstance(before, MatrixLayer)
        and before.result in layer.sources
        and before.output == layer.output
        and before.channels == layer.channels
        and not any(
            network.values[source].is_input and network.readers[source][0] == number
            for source in layer.sources
        )
    )


def end_of_run(network: Network, number: int) -> int:
    """Return the last layer that runs jointly with a layer."""
    while number + 1 < len(network.layers) and attached(network, number + 1):
        number += 1
    return number
