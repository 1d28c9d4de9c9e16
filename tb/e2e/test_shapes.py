"""Shapes that a file records wrongly (converters, dynamic batches) follow from the inputs."""

from dataclasses import replace

import numpy as np
import pytest
from networks import FullyConnected, Graph, sequential, serialize
from random_networks.cases import FAMILY, case

from celosia.sw.frontend.tflite import ModelError, load

#: Families of single operators, of the host's and of mixed graphs.
SEEDS = [family * FAMILY + number for family in (0, 1, 3, 4) for number in range(60)]


def wrong(graph: Graph, *, dynamic: bool) -> Graph:
    """Return a graph whose results are recorded with other extents."""
    results = {number for operation in graph.operations for number in operation.outputs}
    tensors = tuple(
        replace(
            tensor,
            shape=tuple(extent + 1 for extent in tensor.shape),
            signature=(-1, *tensor.shape[1:]) if dynamic else None,
        )
        if number in results
        else tensor
        for number, tensor in enumerate(graph.tensors)
    )
    return replace(graph, tensors=tensors)


@pytest.mark.parametrize("seed", SEEDS)
def test_dynamic_shapes_are_inferred(seed: int) -> None:
    graph = case(seed).graph
    wanted = load(serialize(graph))
    found = load(serialize(wrong(graph, dynamic=True)))
    assert [t.shape for t in found.tensors] == [t.shape for t in wanted.tensors]
    for one, other in zip(found.operations, wanted.operations, strict=True):
        assert one.attributes == other.attributes


def test_static_shapes_are_checked() -> None:
    """Nothing else than the shapes is wrong: each file is refused for its first operator."""
    kinds = set[str]()
    for seed in SEEDS:
        graph = case(seed).graph
        with pytest.raises(ModelError, match=f"operator 0 {graph.operations[0].kind} "):
            load(serialize(wrong(graph, dynamic=False)))
        kinds.add(graph.operations[0].kind)
    assert len(kinds) > 20


def test_only_what_follows_a_dynamic_tensor_is_inferred() -> None:
    """The first result is dynamic and recorded wrongly; the others follow from it."""
    tried = 0
    for seed in SEEDS:
        graph = case(seed).graph
        wanted = load(serialize(graph))
        (first, *_) = graph.operations[0].outputs
        broken = wrong(graph, dynamic=False)
        tensors = list(broken.tensors)
        for number in graph.operations[0].outputs:
            tensors[number] = wrong(graph, dynamic=True).tensors[number]
        after = {first}
        for operation in graph.operations[1:]:
            if not after.intersection(operation.inputs):
                break
            after.update(operation.outputs)
        else:
            found = load(serialize(replace(broken, tensors=tuple(tensors))))
            assert [t.shape for t in found.tensors] == [t.shape for t in wanted.tensors]
            tried += len(graph.operations) > 2
    assert tried > 20


def test_wrong_inputs_of_a_dynamic_operator_are_refused(rng: np.random.Generator) -> None:
    layer = FullyConnected(
        weights=rng.integers(-9, 9, (5, 7)).astype(np.int8), weight_scale=0.1, output_scale=0.5
    )
    graph = wrong(sequential([layer], input_shape=(1, 7), input_scale=0.1), dynamic=True)
    tensors = (replace(graph.tensors[0], shape=(1, 8)), *graph.tensors[1:])
    with pytest.raises(ModelError, match="operator 0 FULLY_CONNECTED .* wanted 1 rows of 5"):
        load(serialize(replace(graph, tensors=tensors)))
