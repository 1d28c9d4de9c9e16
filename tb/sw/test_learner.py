"""Training of any network: shifts without settings, carriers, files."""

import numpy as np
import prerequisites
import pytest
from float_networks import NETWORKS, network

from celosia.sw.ir.graph import Graph
from celosia.sw.training.learner import Learner
from celosia.sw.training.state import State

BATCH = 4


def samples(graph: Graph, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images of four classes, which a pattern and noise make, and their classes."""
    rng = np.random.default_rng(seed)
    shape = graph.tensors[graph.inputs[0]].shape[1:]
    patterns, labels = rng.integers(0, 128, (4, *shape)), rng.integers(0, 4, count)
    noisy = patterns[labels] + rng.normal(0, 24, (count, *shape))
    return np.clip(noisy, 0, 127).astype(np.int8), labels


def learner(graph: Graph, seed: int, **options) -> Learner:
    return Learner(graph, batch=BATCH, seed=seed, exponent=-7, **options)


@pytest.mark.parametrize("name", NETWORKS)
def test_files_have_the_logits_of_the_step(name: str, seed: int) -> None:
    graph = network(name, seed)
    images, labels = samples(graph, 40, seed)
    trainer, state = learner(graph, seed), State(weights=[])
    trainer.start(state, images, labels)
    expected = []
    trainer.host.weights = state.weights
    for first in range(0, 40, BATCH):
        expected.append(trainer.host.forward(images[first : first + BATCH]))
    logits = np.concatenate(expected)
    assert np.unique(logits).size > 8
    (outputs,) = prerequisites.litert_outputs(trainer.file(state.weights), images)
    np.testing.assert_array_equal(outputs.reshape(40, -1), logits)
