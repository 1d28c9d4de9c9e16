"""Training of any network: shifts without settings, carriers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import float_networks
import numpy as np
import prerequisites
import pytest
from float_networks import BATCH, NETWORKS, Layers, learner, network, samples, train
from networks import Chain, serialize
from turns import in_turn

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.ir.graph import Graph
from celosia.sw.runtime.arrays import quantized
from celosia.sw.runtime.opening import open_session
from celosia.sw.training import batches, origin
from celosia.sw.training.carriers import CoreSteps, HostSteps
from celosia.sw.training.graph import StepGraph
from celosia.sw.training.graph_trainer import GraphTrainer
from celosia.sw.training.learner import Learner
from celosia.sw.training.origin import with_random_weights
from celosia.sw.training.pipeline import augmented
from celosia.sw.training.real import real_network
from celosia.sw.training.state import State


@pytest.mark.parametrize("name", NETWORKS)
def test_files_have_the_logits_of_the_step(name: str, seed: int) -> None:
    graph = float_networks.with_large_logits(network(name, seed))
    images, labels = samples(graph, 40, seed)
    trainer, state = learner(graph, seed), State(weights=[])
    trainer.start(state, images, labels)
    trainer.host.weights = state.weights
    parts = (images[first : first + BATCH] for first in range(0, 40, BATCH))
    logits = np.concatenate([trainer.host.forward(part) for part in parts])
    assert np.unique(logits).size > 8
    content = trainer.file(state.weights, trainer.calibration.shifts)
    (outputs,) = prerequisites.litert_outputs(content, images)
    np.testing.assert_array_equal(outputs.reshape(40, -1), logits)


def trained(trainer: Learner, images: np.ndarray, labels: np.ndarray, steps: int) -> State:
    """Return the state after some steps."""
    state = State(weights=[])
    trainer.start(state, images, labels)
    assert trainer.carrier
    for step in range(steps):
        chosen = batches.order(0, step, len(labels))[: BATCH * trainer.cores]
        keys = [(0, step, core) for core in range(trainer.cores)]
        trainer.train(step, images[chosen], labels[chosen], steps, keys)
    state.weights = trainer.carrier.weights
    return state


@pytest.mark.parametrize("kind", ["SOFTMAX", "LOG_SOFTMAX"])
def test_the_softmax_at_the_end_is_part_of_the_loss(kind: str, seed: int) -> None:
    """Its file has it again, as LiteRT computes it."""
    layers = Layers((5,), seed)
    layers.add(kind, [layers.dense(4)], (1, 4))
    graph = layers.graph()
    images, labels = samples(graph, BATCH, seed)
    trainer, state = learner(graph, seed), State(weights=[])
    trainer.start(state, images, labels)
    content = trainer.file(state.weights, trainer.calibration.shifts)
    assert load(content).operations[-1].kind == kind
    with open_session(compile_graph(load(content), preset("edge"), BATCH)) as session:
        (scores,) = session.run([images])
    (outputs,) = prerequisites.litert_outputs(content, images)
    np.testing.assert_array_equal(scores.reshape(BATCH, 4), outputs.reshape(BATCH, 4))
    assert len(np.unique(scores)) > 4


@pytest.mark.parametrize("name", ["dense", "conv", "depthwise", "branches"])
def test_it_learns_without_settings(name: str) -> None:
    """Of samples that it has not seen, three in four are right; by chance one in four."""
    graph = network(name, 1)
    images, labels = samples(graph, 400, 1)
    trainer = Learner(graph, batch=16, seed=1, exponent=-7)
    train(trainer, images[:300], labels[:300], 100)
    assert trainer.accuracy(images[300:], labels[300:]) > 0.75


@pytest.mark.parametrize("kind", ["classes", "shares", "targets"])
def test_it_learns_other_labels(kind: str) -> None:
    """Squares of classes, cross-entropy with shares of classes, squares of real numbers."""
    graph = network("conv", 1)
    images, classes = samples(graph, 200, 1)
    shares, targets = 0.9 * np.eye(4)[classes] + 0.025, 3.0 * np.eye(4)[:, [1, 0, 3, 2]][classes]
    labels = {"classes": classes, "shares": shares, "targets": targets - 1.5}[kind]
    loss = "softmax" if kind == "shares" else "squares"
    trainer = Learner(graph, batch=16, seed=1, exponent=-7, loss=loss)
    train(trainer, images[:150], labels[:150])
    assert trainer.accuracy(images[150:], labels[150:]) > 0.75
    if kind == "targets":
        # The file has the scale of the targets.
        assert trainer.carrier
        content = trainer.file(trainer.carrier.weights, trainer.calibration.shifts)
        (outputs,) = prerequisites.litert_outputs(content, images[150:])
        file = load(content)
        quantization = file.tensors[file.outputs[0]].quantization
        assert quantization
        errors = outputs.reshape(50, 4) * quantization.scale - labels[150:]
        assert np.square(errors).mean() < 0.25 * labels.var()


@pytest.mark.parametrize("is_logistic", [False, True])
def test_one_logit_tells_two_classes_apart(is_logistic: bool) -> None:
    """Both carriers have the same weights, and LiteRT has the classes of the host."""
    layers = Layers((7, 6, 2), 1)
    layers.conv(4)
    layers.flat()
    layers.dense(1)
    if is_logistic:
        layers.add("LOGISTIC", [layers.last], (1, 1))
    graph, config = layers.graph(), preset("edge,activation_weights=true")
    images, labels = samples(graph, 300, 1)
    labels = labels % 2
    trainer, on_core = (
        Learner(graph, batch=16, seed=1, exponent=-7, opened=opened)
        for opened in (HostSteps, lambda step: CoreSteps(step, config, open_session))
    )
    for one in (trainer, on_core):
        train(one, images[:200], labels[:200], 30)
    for one, other in zip(trainer.host.weights, on_core.host.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    share = trainer.accuracy(images[200:], labels[200:])
    content = trainer.file(trainer.host.weights, trainer.calibration.shifts)
    (outputs,) = prerequisites.litert_outputs(content, images[200:])
    # int8 of a half, or of 0: ties are class 0.
    classes = outputs.reshape(-1) > 0
    assert share == (classes == labels[200:]).mean() > 0.8


@pytest.mark.parametrize("last", [1, 2])
def test_the_last_layers_learn_a_class_that_is_new(last: int) -> None:
    """A network that knows three of four classes learns the fourth."""
    graph = network("conv", 1)
    images, labels = samples(graph, 400, 1)
    test, new = (images[300:], labels[300:]), labels[300:] == 3
    old = np.flatnonzero(labels[:300] < 3)
    first = Learner(graph, batch=16, seed=1, exponent=-7)
    train(first, images[old], labels[old])
    assert first.accuracy(*test) > 0.6 and first.accuracy(test[0][new], test[1][new]) < 0.1
    file = first.file(first.host.weights, first.calibration.shifts)
    second = Learner(real_network(load(file)), batch=16, seed=1, exponent=-7, last=last)
    train(second, images[:300], labels[:300])
    assert second.accuracy(*test) > 0.85 and second.accuracy(test[0][new], test[1][new]) > 0.8


def require_rounding(noise: np.ndarray, shift: int, factor: int, bias: int) -> None:
    """Check that noise is as wide as a shift drops bits, uniform, and keeps the mean."""
    half, steps = 1 << shift >> 1, noise.astype(np.int64).ravel() * factor + bias
    assert -half <= steps.min() and steps.max() < half
    classes = 1 << min(shift, 3)
    counts = np.bincount((steps + half) * classes >> shift, minlength=classes)
    share = steps.size / classes
    assert np.abs(counts - share).max() < 5 * share**0.5
    for dropped in (0, half // 2, half, 2 * half - 1):
        mean = ((dropped + steps + half) >> shift).mean()
        assert abs(mean - dropped / (1 << shift)) < 2.5 / steps.size**0.5 + 0.5 / 256


@pytest.mark.parametrize("width", [1, 2])
def test_noise_is_as_wide_as_what_a_shift_drops(width: int, seed: int) -> None:
    """Errors, their softmax and steps of weights; noise of another width does not pass."""
    trainer = learner(network("branches", seed), seed)
    steps = {role: 3 + number % 9 for number, role in enumerate(trainer.step.shifts)}
    trainer.calibration.shifts = steps
    trainer._build(None)
    labels, step = np.zeros(BATCH, np.int64), trainer.step
    images = np.zeros((BATCH, *step.graph.tensors[step.graph.inputs[0]].shape[1:]), np.int8)
    drawn = [trainer._inputs(images, labels, (0, key)) for key in range(100)]
    passed = 0
    for operation in step.graph.operations:
        for number in operation.inputs:
            name, fields = step.graph.tensors[number].name, operation.attributes
            noise = np.stack([inputs[name] for inputs in drawn]) if name in drawn[0] else None
            if name in step.records and noise is not None:
                rows = np.ascontiguousarray(noise.reshape(-1, 16))
                parts = rows[:, :4].copy().view("<i4") * width, steps[step.records[name]], 1, 0
                assert (rows[:, 9] == parts[1]).all()
            elif name in ("softmax/noise", "mean/noise") and noise is not None:
                parts = noise.astype(int) * width, 7, 1, 0
            elif name in step.noises and noise is not None:
                factor = fields["factors"][-1]
                parts = noise.astype(int) * width, fields["shift"], factor, fields["bias"]
            else:
                continue
            passed += 1
            if width == 1:
                require_rounding(*parts)
            else:
                with pytest.raises(AssertionError):
                    require_rounding(*parts)
    assert passed > 12


def test_images_change_at_random() -> None:
    """A half is flipped; a shift is up to an eighth, and zeros come in."""
    images = np.random.default_rng(0).integers(1, 100, (200, 16, 8, 2)).astype(np.int8)
    flipped = augmented(images, ("flip",), np.random.default_rng(1))
    is_turned = (flipped == images[:, :, ::-1]).all((1, 2, 3))
    assert ((flipped == images).all((1, 2, 3)) ^ is_turned).all() and 70 < is_turned.sum() < 130
    shifted = augmented(images, ("shift",), np.random.default_rng(1))
    offsets = set()
    padded = np.pad(images, [(0, 0), (2, 2), (1, 1), (0, 0)])
    for before, after in zip(padded, shifted, strict=True):
        places = [(y, x) for y in range(5) for x in range(3)]
        matches = [(y, x) for y, x in places if (before[y : y + 16, x : x + 8] == after).all()]
        assert len(matches) == 1
        offsets.update(matches)
    assert len(offsets) == 15
    more: Any = {"batch": 2, "epochs": 1, "changes": ("flip",)}
    layers, config = Layers((6,)), preset("edge,activation_weights=true")
    layers.dense(2)
    with pytest.raises(ValueError, match=r"rows, columns and channels, got samples of shape \[6\]"):
        GraphTrainer(layers.graph(), -7, config, "machine", {}, 0, **more)


def _depthwise_blocks(layers: Layers) -> None:
    layers.conv(8, stride=(2, 2))
    for outputs in (8, 16, 16):
        layers.conv(layers.shape[-1], depthwise=True)
        layers.conv(outputs, (1, 1))
    layers.add("MEAN", [layers.last], (1, 16), axes=(1, 2), keepdims=False)


def _residual_blocks(layers: Layers) -> None:
    layers.conv(8)
    for _ in range(2):
        first = layers.last
        layers.conv(8)
        second = layers.conv(8, activation="NONE")
        layers.add("ADD", [first, second], layers.shape, activation="RELU")
    layers.flat()


def deep(blocks: Callable[[Layers], None], seed: int) -> tuple[Graph, np.ndarray, np.ndarray]:
    """Return a deep network with random weights, images of it, and their classes."""
    layers = Layers((12, 12, 1), seed)
    blocks(layers)
    layers.dense(4)
    graph = with_random_weights(layers.graph(), seed)
    return graph, *samples(graph, 400, seed)


@pytest.mark.parametrize("blocks", [_depthwise_blocks, _residual_blocks])
def test_deep_networks_learn_from_random_weights(blocks: Callable[[Layers], None]) -> None:
    """Without balance, and with errors whose halves all go up: 0.64 and 0.80."""
    graph, images, labels = deep(blocks, 1)
    trainer = Learner(graph, batch=16, seed=1, exponent=-7)
    train(trainer, images[:300], labels[:300], 100)
    assert trainer.accuracy(images[300:], labels[300:]) > 0.85


def test_channels_of_first_weights_have_mean_0_and_deviation_1() -> None:
    """Logits have half of it."""
    layers = Layers((7, 6, 2))
    layers.dense(9, "RELU")
    layers.dense(4)
    graph = with_random_weights(layers.graph(), 1)
    images, labels = samples(graph, 128, 1)
    trainer = learner(graph, 1)
    trainer.start(State(weights=[]), images, labels)
    values = images.reshape(128, -1) / np.float32(128)
    for operation, deviation in zip(trainer.network.operations[-2:], (1, 0.5), strict=True):
        weights, bias = (trainer.network.tensors[number].data for number in operation.inputs[1:])
        assert weights is not None and bias is not None
        sums = values @ weights.T + bias
        np.testing.assert_allclose(sums.mean(axis=0), 0, atol=0.05)
        np.testing.assert_allclose(sums.std(axis=0), deviation, atol=0.05)
        values = np.maximum(sums, 0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
def test_samples_are_those_of_the_file_in_real_numbers(dtype: str, tmp_path: Path) -> None:
    chain = Chain((1, 6), *((0, 0) if dtype == "float32" else (0.25, 100)), dtype)
    if dtype == "float32":
        chain.operator("QUANTIZE", (1, 6), scale=0.25, zero_point=100, dtype="int8")
    chain.operator("RELU", (1, 6), scale=0.25, zero_point=100, dtype=chain.last.dtype)
    (tmp_path / "net.tflite").write_bytes(serialize(chain.graph()))
    real = np.arange(-12, 0, dtype=np.float32).reshape(2, 6) / 4
    network = origin.opened(tmp_path / "net.tflite", {}, lambda port: [quantized(real, port)])
    np.testing.assert_array_equal(network.samples[0].reshape(2, 6), real)


@pytest.mark.parametrize(("name", "cores"), in_turn(tuple(NETWORKS), [1, 2]))
def test_carriers_give_the_same_bits(name: str, cores: int, seed: int) -> None:
    """Matrices on the core are divided into blocks, those on the host are not."""
    graph = network(name, seed)
    images, labels = samples(graph, 60, seed)
    config = preset("edge,activation_weights=true")

    def on_core(step: StepGraph) -> CoreSteps:
        return CoreSteps(step, config, lambda p: open_session(p, cores=1 if p.host else cores))

    weights, options = [], ({"most": 1 << 30}, {"most": 1 << 10, "opened": on_core})
    for each in options:
        trainer = learner(graph, seed, cores=cores, **each)
        weights.append(trained(trainer, images, labels, 22).weights)
        trainer.close()
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_last_layers_alone_train(seed: int) -> None:
    graph = network("conv", seed)
    images, labels = samples(graph, 40, seed)
    trainer = learner(graph, seed, last=2)
    state = trained(trainer, images, labels, 3)
    names = [matrix.name for matrix in trainer.step.weights]
    assert names == ["conv_2d_1", "fully_connected_3", "fully_connected_3/bias"]
    content = trainer.file(state.weights, state.calibration.shifts)
    files = [learner(graph, seed).network, load(content)]
    first, after = (real_network(each).tensors for each in files)
    kernels = [
        next(t.data for t in tensors if t.data is not None and t.shape == (4, 3, 3, 2))
        for tensors in (first, after)
    ]
    step = 2.0 ** trainer.step.exponents[trainer.step.weights[0].high]
    assert kernels[0] is not None and kernels[1] is not None
    np.testing.assert_allclose(kernels[0], kernels[1], atol=2 * step)


def test_windows_that_overlap_stay_before_layers_that_train() -> None:
    layers = Layers((7, 7, 2))
    layers.conv(4)
    fields = {"window": (3, 3), "stride": (2, 2), "padding": "VALID", "activation": "NONE"}
    layers.add("AVERAGE_POOL_2D", [layers.last], (1, 3, 3, 4), **fields)
    layers.flat()
    layers.dense(4)
    graph = layers.graph()
    images, labels = samples(graph, 200, 1)
    trainer = Learner(graph, batch=16, seed=1, exponent=-7, last=1)
    train(trainer, images, labels, 30)
    content = trainer.file(trainer.host.weights, trainer.calibration.shifts)
    (outputs,) = prerequisites.litert_outputs(content, images[:16])
    np.testing.assert_array_equal(outputs.reshape(16, 4), trainer.host.forward(images[:16]))
    assert len(np.unique(outputs)) > 2
    with pytest.raises(ValueError, match="operator 1 AVERAGE_POOL_2D .*side by side in the image"):
        learner(graph, 1)


def test_all_layers_that_do_not_train_are_in_one_message(seed: int) -> None:
    layers = Layers((4, 4, 2))
    layers.add("TANH", [layers.last], layers.shape)
    layers.conv(2)
    layers.add("AVERAGE_POOL_2D", [layers.last], (1, 2, 2, 2), window=(3, 3), stride=(1, 1))
    layers.add("SIN", [layers.last], layers.shape)
    layers.flat()
    layers.dense(2)
    pair = replace(layers.graph(), inputs=(0, 0))
    with pytest.raises(ValueError, match="small: wanted one input and one output, got 2 and 1"):
        learner(pair, seed)
    text = r"operator 0 TANH .*does not train; operator 2 AVERAGE_POOL_2D .*side by side.*3 SIN"
    with pytest.raises(ValueError, match=text):
        learner(layers.graph(), seed)
