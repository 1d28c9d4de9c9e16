"""Activations between the layers of a model: a second program that also stores them."""

from dataclasses import dataclass, replace

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.compiler.compiled import Compiled
from celosia.sw.ir.graph import Graph
from celosia.sw.runtime.interpreter import open_session


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
    the same bytes and stores them; its cycles do not count. ``compiled``: the program that is
    shown, whose layers are numbered. Raises CompileError if the results cannot be stored.
    """

    def __init__(self, graph: Graph, compiled: Compiled, config: Config) -> None:
        made = [number for operation in graph.operations for number in operation.outputs]
        numbers = {graph.tensors[number].name: number for number in made}
        outputs = list(graph.outputs)
        self._sources: list[_Source] = []
        for part in compiled.parts:
            for number, value in enumerate(part.network.values):
                makers, tensor = part.network.makers[number], numbers.get(value.name)
                if not makers or tensor is None:
                    continue
                if tensor not in outputs:
                    outputs.append(tensor)
                shape = (value.height, value.width, value.channels)
                source = _Source(part.first + makers[-1], shape, outputs.index(tensor))
                self._sources.append(source)
        program = compile_graph(replace(graph, outputs=tuple(outputs)), config)
        self._ports = program.outputs
        self._session = open_session(program)

    def read(self, x: np.ndarray) -> tuple[np.ndarray, list[FeatureMap]]:
        """Return the first output of the model, and the results of layers in their order.

        ``x``: one input, shape ``(1, *shape of the input)``.
        """
        results = self._session.run([x])
        maps = []
        for source in sorted(self._sources, key=lambda each: each.layer):
            port = self._ports[source.output]
            contents = results[source.output].reshape(source.shape)
            maps.append(FeatureMap(source.layer, contents, port.scale, port.zero_point))
        return results[0], maps
