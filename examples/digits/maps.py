"""Activations between the layers of a model: a second program that also stores them."""

from dataclasses import dataclass, replace

import numpy as np

from celosia import compile
from celosia.sw.ir.graph import Graph
from celosia.sw.profile import Profile
from celosia.sw.runtime.opening import open_session


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Result of a layer."""

    layer: int  #: Number of the layer in the program that is shown.
    contents: np.ndarray  #: int8, shape ``(height, width, channels)``.
    #: real = scale × (integer − zero point).
    scale: float
    zero_point: int


@dataclass(frozen=True)
class _Source:
    """A layer of the program that is shown, the shape of its result, and the output that has it."""

    layer: int
    shape: tuple[int, int, int]
    output: int


class Maps:
    """A program on the machine model whose outputs are those of a model, then results of layers.

    The program that is shown keeps most results inside the core for a short time. This one makes
    the same bytes and stores them; its cycles do not count.

    Parameters
    ----------
    graph : Graph
        The model.
    profile : Profile
        Of the program that is shown, whose layers are numbered.

    Raises
    ------
    CompileError
        If the results cannot be stored.
    """

    def __init__(self, graph: Graph, profile: Profile) -> None:
        results = [number for operation in graph.operations for number in operation.outputs]
        numbers = {graph.tensors[number].name: number for number in results}
        outputs = list(graph.outputs)
        self._sources: list[_Source] = []
        for layer, name, shape in profile.results:
            if name not in numbers:
                continue
            if numbers[name] not in outputs:
                outputs.append(numbers[name])
            self._sources.append(_Source(layer, shape, outputs.index(numbers[name])))
        program = compile(replace(graph, outputs=tuple(outputs)), profile.program.config)
        self._ports = program.outputs
        self._session = open_session(program)

    def read(self, x: np.ndarray) -> tuple[np.ndarray, list[FeatureMap]]:
        """Return the first output of the model, and the results of layers in their order.

        ``x``: one input, shape ``(1, *shape of the input)``.
        """
        results = self._session.run([x])
        maps = []
        for source in sorted(self._sources, key=lambda source: source.layer):
            port = self._ports[source.output]
            contents = results[source.output].reshape(source.shape)
            maps.append(FeatureMap(source.layer, contents, port.scale, port.zero_point))
        return results[0], maps
