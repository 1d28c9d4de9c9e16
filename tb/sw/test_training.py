"""Epochs of a training: order, points of the curve, validations, cycles."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from float_networks import Layers

from celosia.hw.arch.presets import preset
from celosia.sw.driver.core import RunResult
from celosia.sw.layers.step import IMAGE_EXPONENT
from celosia.sw.runtime.pods import Cores
from celosia.sw.training import batches
from celosia.sw.training.epochs import Images, split
from celosia.sw.training.graph_trainer import GraphTrainer
from celosia.sw.training.state import State

#: Values of an image, and images of a step.
PIXELS, BATCH = 30, 8


def trainer(cores: int = 1) -> GraphTrainer:
    layers = Layers((PIXELS,), 0)
    layers.dense(18, "RELU")
    layers.dense(7)
    config = preset("edge,activation_weights=true")
    options = {"cores": cores}
    return GraphTrainer(
        layers.graph(), IMAGE_EXPONENT, config, "machine", options, 0, batch=BATCH, epochs=1
    )


def test_cycles_are_those_of_the_slowest_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of cores that work at the same time."""
    run_each = Cores.run_each

    def counted(pod: Cores, address: int, count: int, cores: Sequence[int]) -> list[RunResult]:
        results = run_each(pod, address, count, cores)
        return [
            replace(result, cycles=100 * (number + 1))
            for number, result in zip(cores, results, strict=True)
            if isinstance(result, RunResult)
        ]

    count, rng = 5 * BATCH, np.random.default_rng(0)
    images = Images(rng.integers(0, 128, (count, PIXELS), np.int8), rng.integers(0, 7, count))
    training, state = trainer(4), State(weights=[])
    with training.opened(state, images) as learner:
        before, state.cycles = learner.cycles, 0
        monkeypatch.setattr(Cores, "run_each", counted)
        training.epoch(state, learner, images, lambda *_: None)
    # Four cores at once, then one.
    assert before == 0 and (state.steps, state.cycles) == (5, 400 + 100)


@pytest.mark.parametrize("cores", [1, 2, 4, 16])
@pytest.mark.parametrize("steps", [1, 3, 20, 21, 47, 160])
def test_points_of_the_curve(cores: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 20, evenly over the epoch, of all images since the point before."""
    training, learner = trainer(), SimpleNamespace()

    def drawn(*_: object) -> Any:
        yield from (range(n, min(n + cores, steps)) for n in range(0, steps, cores))

    def step(_: GraphTrainer, state: State, __: object, some: Sequence[int]) -> None:
        state.seen += len(some)
        state.right += sum(some)

    monkeypatch.setattr(GraphTrainer, "drawn", drawn)
    monkeypatch.setattr(GraphTrainer, "_step", step)
    monkeypatch.setattr(GraphTrainer, "steps", lambda *_: steps)
    monkeypatch.setattr(GraphTrainer, "fetch", lambda *_: None)
    state, nothing = State(weights=[], epoch=3), Images(np.zeros((0, PIXELS)), np.zeros(0))
    training.epoch(state, learner, nothing, lambda *_: None)  # type: ignore[arg-type]
    ends = [round((passed - 3) * steps) for passed, _ in state.curve]
    first = np.array([0, *ends[:-1]])
    shares = [np.arange(*one).mean() for one in zip(first, ends, strict=True)]
    np.testing.assert_allclose([share for _, share in state.curve], shares)
    together = -(-steps // cores)
    assert len(ends) == min(20, steps, together) and ends[-1] == steps
    gaps = np.diff([0, *ends])
    assert gaps.max() - gaps[:-1].min(initial=gaps.max()) <= cores


def test_of_equal_validations_the_first_is_best(monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies = iter([0.5, 0.7, 0.7, 0.6])
    monkeypatch.setattr(GraphTrainer, "accuracy", lambda *_: next(accuracies))
    training, state = trainer(), State(weights=[])
    nothing = Images(np.zeros((0, PIXELS), np.int8), np.zeros(0, np.int64))
    for number in range(4):
        state.weights = [np.full(1, number)]
        training.validate(state, nothing)
    assert state.best_accuracy == 0.7 and state.best[0].tolist() == [1]
    assert [accuracy for _, accuracy in state.validations] == [0.5, 0.7, 0.7, 0.6]


@pytest.mark.parametrize("count", [2, 11, 12, 25, 240])
def test_no_image_trains_and_validates(count: int) -> None:
    """One in twelve validates, at least one; which ones depends on the seed."""
    images, labels = np.arange(count, dtype=np.uint8).reshape(-1, 1), np.arange(count)
    chosen = []
    for seed in (0, 1):
        training, validation = split(images, labels, seed)
        assert sorted([*training.labels, *validation.labels]) == list(range(count))
        assert len(validation) == max(1, count // 12)
        for part in (training, validation):
            np.testing.assert_array_equal(part.images, images[part.labels])
        chosen.append(validation.labels.tolist())
    assert count < 100 or chosen[0] != chosen[1]


def test_orders_differ() -> None:
    """Of epochs and seeds; each has every image once."""
    orders = [batches.order(seed, epoch, 100) for seed in (0, 1) for epoch in (0, 1, 2)]
    assert all(np.array_equal(np.sort(order), np.arange(100)) for order in orders)
    assert len({order.tobytes() for order in orders}) == len(orders)
    assert np.array_equal(batches.order(0, 1, 100), orders[1])
