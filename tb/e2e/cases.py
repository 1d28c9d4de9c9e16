"""Random small models.

``case(seed)`` is always the same model with the same inputs: operators whose shapes, geometry and
quantisation are drawn from the seed. Seeds below 10,000 are of the operators that came first, those
below 20,000 have DEPTHWISE_CONV_2D or ADD, those below 30,000 are graphs of 3 to 12 operators whose
branches meet in sums, those below 40,000 have operators of the host, those below 50,000 are graphs
of 3 to 12 of these and of the core's, some with floating point at their ends, those below 60,000 have
DEPTHWISE_CONV_2D between other layers. A change here gives other cases to the same seeds, those that stand for past
bugs included.
"""

from dataclasses import dataclass, replace

import numpy as np
from draw import Draw
from graphs import FAMILIES

from celosia.sw.frontend.writer import serialize
from celosia.sw.graph import Graph

__all__ = ["FAMILY", "Case", "case"]

#: Seeds of one family of graphs.
FAMILY = 10_000


@dataclass(frozen=True, eq=False)
class Case:
    """A model and what it is run on.

    Parameters
    ----------
    seed : int
        What it is drawn from.
    name : str
        Its operators.
    graph : Graph
        What the file says.
    inputs : int8 array of shape (invocations, ...)
        Contents of the model's input.
    batch : int
        Items of one run to compile for.
    """

    seed: int
    name: str
    graph: Graph
    inputs: np.ndarray
    batch: int

    @property
    def content(self) -> bytes:
        """The ``.tflite`` file."""
        return serialize(self.graph)


def case(seed: int) -> Case:
    """Return the case of a seed: 0 to 59,999."""
    # The last family draws as it did when its seeds were smaller.
    draw = Draw(seed if seed < 5 * FAMILY else seed - 2 * FAMILY)
    family = FAMILIES[seed // FAMILY]
    shares = np.array([share for _, share in family]) / sum(share for _, share in family)
    family[int(draw.rng.choice(len(family), p=shares))][0](draw)
    graph = draw.chain.graph()
    results = [number for operation in graph.operations for number in operation.outputs]
    between = [number for number in results if number not in graph.outputs]
    if between and draw.chance(0.15):
        graph = replace(graph, outputs=(int(draw.rng.choice(between)), *graph.outputs))
    return Case(
        seed=seed,
        name=" ".join(operation.kind for operation in graph.operations),
        graph=graph,
        inputs=draw.inputs,
        batch=draw.integer(1, 4),
    )
