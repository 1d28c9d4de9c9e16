"""Random small models.

``case(seed)`` is always the same model with the same inputs. Shapes, geometry and quantisation of
its operators are drawn from the seed. Each ten thousand seeds are a family:

| seeds from | models |
| --- | --- |
| 0 | the first operators of the core |
| 10,000 | with DEPTHWISE_CONV_2D or ADD |
| 20,000 | graphs of 3 to 12 operators whose branches meet in sums |
| 30,000 | operators of the host |
| 40,000 | graphs of 3 to 12 operators of host and core, some with float inputs or outputs |
| 50,000 | DEPTHWISE_CONV_2D between other layers |
| 60,000 | rests of earlier models, with some inner tensors as inputs |
| 70,000 | single operators of the host of every type |
| 80,000 | nested concatenations |
| 90,000 | products of computed matrices |
| 100,000 | normalisations of rows, attention, transformer blocks |

A change here changes the cases of the same seeds, also of those that reproduce past bugs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from networks import Graph, Operation, serialize

from random_networks.arithmetic import arithmetic
from random_networks.draw import Draw
from random_networks.graphs import FAMILIES
from random_networks.joined import joined
from random_networks.matrices import matrices
from random_networks.transformers import transformers

#: Seeds of one family of graphs.
FAMILY = 10_000

#: Families of which some tensors become inputs, and the family that this makes.
_CUT = (1, 2, 4, 5)
_INPUTS = 6

#: Makers of the graphs of other families, by the number of the family.
_OTHERS: dict[int, Callable[[Draw], None]] = {
    7: arithmetic,
    8: joined,
    9: matrices,
    10: transformers,
}


@dataclass(frozen=True, eq=False)
class Case:
    """Model with its inputs.

    ``seed``: seed of the model and its inputs; ``name``: its operators; ``graph``: contents of the
    file; ``inputs`` (tuple of arrays of shape (invocations, ...)): contents of the model's inputs;
    ``batch``: samples of one run to compile for.
    """

    seed: int
    name: str
    graph: Graph
    inputs: tuple[np.ndarray, ...]
    batch: int

    @property
    def content(self) -> bytes:
        """The ``.tflite`` file."""
        return serialize(self.graph)


def case(seed: int) -> Case:
    """Return the case of a seed: 0 to 109,999."""
    if seed // FAMILY == _INPUTS:
        return _with_inputs(seed)
    if seed // FAMILY in _OTHERS:
        draw = Draw(seed)
        _OTHERS[seed // FAMILY](draw)
        return _drawn(seed, draw, draw.chain.graph())
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
    return _drawn(seed, draw, graph)


def _drawn(seed: int, draw: Draw, graph: Graph) -> Case:
    return Case(
        seed=seed,
        name=" ".join(operation.kind for operation in graph.operations),
        graph=graph,
        inputs=(draw.inputs, *draw.more),
        batch=draw.integer(1, 4),
    )


def _with_inputs(seed: int) -> Case:
    """Return a case with some inner tensors as inputs."""
    rng = np.random.default_rng(seed)
    for number in range(FAMILY):
        before = case(_CUT[seed % len(_CUT)] * FAMILY + (seed // len(_CUT) + 997 * number) % FAMILY)
        graph = _cut(before.graph, rng)
        if graph and len(graph.inputs) > 1:
            break
    else:
        raise AssertionError(f"seed {seed}: no case with tensors that may be inputs")
    count = len(before.inputs[0])
    known = dict(zip(before.graph.inputs, before.inputs, strict=True))
    inputs = tuple(
        known[tensor]
        if tensor in known
        else rng.integers(-128, 127, (count, *graph.tensors[tensor].shape), np.int8, endpoint=True)
        for tensor in graph.inputs
    )
    name = " ".join(operation.kind for operation in graph.operations)
    return Case(seed=seed, name=name, graph=graph, inputs=inputs, batch=before.batch)


def _cut(graph: Graph, rng: np.random.Generator) -> Graph | None:
    """Return a graph with one to three inner tensors as inputs; None if that is impossible."""
    inner = [
        number
        for operation in graph.operations
        for number in operation.outputs
        if graph.tensors[number].dtype == np.int8 and number not in graph.outputs
    ]
    if not inner:
        return None
    cut = {int(number) for number in rng.choice(inner, min(len(inner), int(rng.integers(1, 4))))}
    kept, wanted = list[Operation](), set(graph.outputs)
    for operation in reversed(graph.operations):
        if wanted.difference(cut).intersection(operation.outputs):
            kept.insert(0, operation)
            wanted.update(operation.inputs)
    made = {number for operation in kept for number in operation.outputs}
    read = dict.fromkeys(number for operation in kept for number in operation.inputs if number >= 0)
    inputs = [n for n in read if n not in made and graph.tensors[n].data is None]
    if cut & made or not inputs:
        return None
    return replace(graph, operations=tuple(kept), inputs=tuple(inputs))
