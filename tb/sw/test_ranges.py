"""Weights and biases of any size: the first step of a training, and files, compute the network."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import prerequisites
import pytest
from float_networks import BATCH, Layers, learner, network, samples, train, with_large_logits
from real_network import real_outputs

from celosia.sw.frontend.source import load
from celosia.sw.ir.graph import Graph
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.weight_bytes import MOST, bias_exponent, weight_exponent
from celosia.sw.training.calibration import Calibration, bounded
from celosia.sw.training.carriers import HostSteps
from celosia.sw.training.graph import StepGraph, trained
from celosia.sw.training.learner import Learner
from celosia.sw.training.origin import with_random_weights
from celosia.sw.training.quantized import quantized
from celosia.sw.training.state import State

#: Changes weights and biases of a layer, which has a number.
Change = Callable[[int, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def _one(number: int, change: Change) -> Change:
    """Return a change of one layer alone."""
    return lambda n, w, b: change(n, w, b) if n == number else (w, b)


def _identity(number: int, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a kernel of few ones, as somebody sets by hand."""
    few = np.zeros_like(w)
    few.reshape(-1)[:: max(1, w.size // 4)] = 1
    return few, b


CHANGES: dict[str, Change] = {
    "plain": lambda _, w, b: (w, b),
    "zeros": _one(0, lambda _, w, b: (0 * w, b)),
    "zeros-inside": _one(1, lambda _, w, b: (0 * w, b + 1)),
    "zeros-everywhere": lambda _, w, b: (0 * w, b),
    "tiny": _one(0, lambda _, w, b: (1e-6 * w, b + 1)),
    "tiny-everywhere": lambda _, w, b: (1e-5 * w, 1e-5 * b),
    "biases": lambda _, w, b: (w, 40 * b),
    "bias-before-the-last": _one(1, lambda _, w, b: (w, b + 20)),
    "weights": lambda _, w, b: (10 * w, b),
    "few-ones": _one(1, _identity),
    "one-channel": _one(0, lambda _, w, b: (w, b + 50 * (np.arange(b.size) == 0))),
}


def changed(graph: Graph, change: Change) -> Graph:
    """Return a network with other weights."""
    tensors, number = list(graph.tensors), 0
    for operation in graph.operations:
        if len(operation.inputs) == 3 and tensors[operation.inputs[2]].data is not None:
            pair = [tensors[n] for n in operation.inputs[1:]]
            arrays = change(number, *(np.asarray(tensor.data) for tensor in pair))
            for n, tensor, data in zip(operation.inputs[1:], pair, arrays, strict=True):
                tensors[n] = replace(tensor, data=data.astype(np.float32))
            number += 1
    return replace(graph, tensors=tuple(tensors))


def require_near(outputs: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Check that outputs differ by a part of the greatest at most."""
    assert np.abs(outputs - expected).max() <= tolerance * np.abs(expected).max()


def file_outputs(content: bytes, images: np.ndarray) -> np.ndarray:
    """Return the outputs of a file in LiteRT, in real numbers."""
    (outputs,) = prerequisites.litert_outputs(content, images)
    tensor = (file := load(content)).tensors[file.outputs[0]]
    assert tensor.quantization
    return outputs.reshape(len(images), -1) * float(tensor.quantization.scale)


@pytest.mark.parametrize("name", ["dense", "conv", "depthwise", "branches"])
@pytest.mark.parametrize("change", CHANGES)
def test_networks_of_any_size(name: str, change: str) -> None:
    """The file of the weights, and that of the first step of a training."""
    graph = changed(network(name, 1), CHANGES[change])
    images, _ = samples(graph, 64, 1)
    expected = real_outputs(graph, images * 2.0**-7)
    assert np.abs(expected).max() > 0
    require_near(file_outputs(quantized(graph, images, -7), images), expected, 0.06)
    trainer, state = learner(graph, 1, loss="squares"), State(weights=[])
    trainer.start(state, images, expected)
    content = trainer.file(state.weights, trainer.calibration.shifts)
    require_near(file_outputs(content, images), expected, 0.1)
    trainer.close()


@pytest.mark.parametrize("is_fixed", [False, True])
@pytest.mark.parametrize("greatest", [1e-9, 0.3, 1.0, 127.4, 5e6])
def test_biases_do_not_saturate(greatest: float, is_fixed: bool, seed: int) -> None:
    """Half of a step of a bias is at most 1/127 of the greatest one, or of the least range."""
    rng = np.random.default_rng(seed)
    weights, bias = rng.normal(0, 1, (9, 5)), rng.uniform(-1, 1, 5)
    bias *= greatest / np.abs(bias).max()
    source = -7
    sums = weight_exponent(weights, bias, source, is_fixed=is_fixed) + source
    exponent = bias_exponent(bias, sums, is_fixed=is_fixed)
    high = np.rint(bias * 2.0**-exponent)
    assert np.abs(high).max() <= MOST
    # Factors of a bias are small, so that the sums of all have 32 bits.
    assert 1 <= exponent - sums <= 10
    if greatest > 1:
        assert np.abs(high * 2.0**exponent - bias).max() <= greatest / MOST


def test_weights_of_fresh_networks_have_their_spread(seed: int) -> None:
    """Weights that train have space to grow; a weight that is far greater is kept."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, 0.1, (100, 20))
    exponent = weight_exponent(weights, None, 0)
    assert 16 < (weights * 2.0**-exponent).std() < 36
    weights[0, 0] = 4.0
    assert 64 <= 4.0 * 2.0 ** -weight_exponent(weights, None, 0) <= 128


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(number: float) -> None:
    graph = changed(network("dense", 1), lambda _, w, b: (w, b * number))
    with pytest.raises(CompileError, match="wanted finite weights, got infinity or NaN"):
        learner(graph, 1)


def test_activations_are_part_of_the_sums_that_they_alone_read() -> None:
    """A sum that something else reads keeps its steps."""
    layers = Layers((4, 4, 2))
    first = layers.conv(3, activation="NONE")
    layers.add("RELU6", [first], layers.shape)
    layers.add("ADD", [layers.last, first], layers.shape, activation="NONE")
    layers.add("RELU", [layers.last], layers.shape)
    layers.flat()
    layers.dense(4)
    operations = trained(layers.graph()).operations
    kinds = [(o.kind, o.attributes.get("activation")) for o in operations]
    assert kinds[:3] == [("CONV_2D", "NONE"), ("RELU6", None), ("ADD", "RELU")]


@pytest.mark.parametrize(("name", "layer"), [("conv", "conv_2d_0"), ("branches", "conv_2d_1")])
@pytest.mark.parametrize("more", [1, -1])
def test_the_network_stays_where_shifts_change(name: str, layer: str, more: int) -> None:
    """Biases of later layers and steps of the logits follow the results of a layer."""
    graph = with_large_logits(changed(network(name, 2), lambda _, w, b: (w, 2 * b)))
    images, labels = samples(graph, BATCH, 2)
    trainer, state = learner(graph, 2), State(weights=[])
    trainer.start(state, images, labels)
    trainer.host.weights = state.weights
    logits = trainer.host.forward(images).astype(int)
    assert np.abs(logits).max() > 30
    before = dict(trainer.calibration.shifts)
    trainer.calibration.shifts[f"{layer}/sum"] += more
    weights = trainer._rescaled(state.weights, before)
    trainer._build(weights)
    trainer.host.weights = weights
    assert np.abs(trainer.host.forward(images) - logits).max() <= 6
    trainer.close()


def rates(trainer: Learner) -> dict[str, tuple[int, float]]:
    """Return the real size of an update per gradient, and that of gradients, by matrix."""
    step, calibration, result = trainer.step, trainer.calibration, {}
    for matrix in step.weights:
        role, high = f"{matrix.name}/step", matrix.highs[0]
        sums = step.gradients[high] - step.shifts[role]
        exponent = step.exponents[high] - sums - calibration.shifts[role]
        result[role] = exponent, calibration.sizes[role] * 2.0**sums
    return result


@pytest.mark.parametrize("name", ["conv", "dense"])
def test_updates_keep_their_size_when_shifts_change(name: str, seed, monkeypatch) -> None:
    """Finer errors and coarser results make other sums of the same gradients."""
    graph = network(name, seed)
    images, labels = samples(graph, 40, seed)
    trainer = learner(graph, seed)
    trainer.start(State(weights=[]), images, labels)
    trainer.train(0, images[:BATCH], labels[:BATCH], 100, [(0, 0)])
    before = rates(trainer)

    def changed(calibration: Calibration, step: StepGraph, host: HostSteps, ratio: float) -> bool:
        errors = [role for role in calibration.shifts if role.endswith("/error")]
        sums = [role for role in calibration.shifts if role.endswith("/sum")]
        for role in errors:
            calibration.shifts[role] -= 1
        calibration.shifts[sums[0]] += 1
        for role in before:
            # As when gradients have been looked at: no step was made since.
            calibration.shifts[role] += 1
        return True

    monkeypatch.setattr(Calibration, "watch", changed)
    trainer.train(1, images[:BATCH], labels[:BATCH], 100, [(0, 1)])
    expected = {role: (exponent - 1, size) for role, (exponent, size) in before.items()}
    assert rates(trainer) == expected


@pytest.mark.parametrize("is_fresh", [True, False])
@pytest.mark.parametrize("size", [1e-3, 1e4])
def test_targets_may_have_any_size(size: float, is_fresh: bool) -> None:
    """Before: nothing of their variance was explained with either size."""
    layers, rng = Layers((1, 1, 8), 1), np.random.default_rng(1)
    layers.flat()
    for outputs, activation in ((32, "RELU"), (1, "NONE")):
        layers.dense(outputs, activation)
    graph, images = layers.graph(), rng.integers(-80, 81, (640, 1, 1, 8), np.int8)
    rows = images.reshape(640, 8).T / 80
    targets = size * (2 + np.abs(rows[0]) + rows[1] * rows[2] + rows[3])[:, None]
    if is_fresh:
        graph = with_random_weights(graph, 1)
    trainer = Learner(graph, batch=16, seed=1, exponent=-7, loss="squares")
    train(trainer, images[:512], targets[:512], 120)
    assert trainer.accuracy(images[512:], targets[512:]) > 0.6


def test_a_loss_far_over_the_mean_makes_updates_small(seed: int) -> None:
    """Labels that are all wrong have large gradients: shifts follow before the next step."""
    graph = network("conv", 1)
    images, labels = samples(graph, 200, seed)
    trainer = Learner(graph, batch=16, seed=seed, exponent=-7)
    train(trainer, images, labels, 101)
    images, wrong = images[:16], (labels[:16] + 1) % 4

    def shifts() -> int:
        roles = trainer.calibration.shifts.items()
        return sum(shift for role, shift in roles if role.endswith("/step"))

    before = shifts()
    trainer.train(101, images, labels[:16], 101, [(0, 101)])
    trainer.train(102, images, wrong, 101, [(0, 102)])
    assert shifts() == before
    trainer.train(103, images, wrong, 101, [(0, 103)])
    assert shifts() > before


def test_a_matrix_out_of_bounds_takes_its_bias_with_it() -> None:
    """Its sums keep their direction."""
    trainer, state = learner(network("dense", 1), 1), State(weights=[])
    trainer.start(state, *samples(trainer.network, 40, 1))
    names = [matrix.name for matrix in trainer.step.weights]
    weights = [np.full(array.shape, 6000, np.int32) for array in state.weights]
    small = names.index("fully_connected_2")
    weights[small][:] = 50
    factors = [array.mean() / 6000 for array in bounded(trainer.step, weights)]
    for name, factor in zip(names, factors, strict=True):
        if name.startswith(names[small]):
            assert factor == (1 if name.endswith("/bias") else 50 / 6000)
        else:
            assert factor == pytest.approx(48 * 64 / 6000, rel=1e-3), name
