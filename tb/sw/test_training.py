"""Training steps on the core: machine model and RTL against exact integers."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import prerequisites
import pytest
import training_reference as reference
from training_steps import OPTION, core, part_lengths

from celosia.hw.arch.presets import preset
from celosia.sw.driver.core import RunResult
from celosia.sw.runtime.arrays import InputError
from celosia.sw.runtime.pods import Cores
from celosia.sw.training import batches, export, weights
from celosia.sw.training.epochs import Images, split
from celosia.sw.training.networks import NETWORKS
from celosia.sw.training.scheme import Conv, Dense, TrainableNetwork
from celosia.sw.training.state import State
from celosia.sw.training.step.layout import Layout
from celosia.sw.training.trainer import Trainer

_IMAGE: dict[str, Any] = {"height": 6, "width": 5, "inputs": 1}
#: No count is a multiple of the array; shifts above and below the bits of noise.
SMALL = TrainableNetwork(
    name="small",
    text="",
    dataset="mnist",
    layers=(
        Conv(**_IMAGE, outputs=5, kernel=3, pool=2, shift=6, update_shift=9, spread=20.0),
        Dense(inputs=10, outputs=18, shift=7, error_shift=5, update_shift=6, spread=20.0),
        Dense(inputs=18, outputs=7, shift=6, error_shift=9, update_shift=8, spread=30.0),
    ),
)
#: Values of an image of it.
PIXELS = 30


@pytest.mark.parametrize(
    ("device", "cores", "epochs"),
    [("machine", 4, 2), pytest.param("rtl", 2, 1, marks=pytest.mark.thorough)],
)
def test_cores_add_their_changes(device: str, cores: int, epochs: int, seed, request) -> None:
    """Each core does a step from the same weights; the last steps of an epoch are fewer.

    All cores have the sums afterwards, those too that did no step: a second epoch shows it.
    """
    if device == "rtl":
        request.getfixturevalue("verilator")
    trainer = Trainer(SMALL, core("nano,weight_tiles=1024"), device, {"cores": cores}, seed)
    layout, rng = Layout(SMALL.at(0, cores), trainer.config), np.random.default_rng(seed)
    assert [layer.update_shift for layer in layout.network.layers] == [10, 7, 9]
    count = layout.batch * (cores + 1)
    images = Images(rng.integers(0, 128, (count, PIXELS), np.int8), rng.integers(0, 7, count))
    # Some weights reach their limits.
    known = [weights.limited(60 * each) for each in weights.random(SMALL, seed)]
    state, steps = State(weights=known), list[int]()
    with trainer.opened(state, images) as pod:
        for _ in range(epochs):
            trainer.epoch(state, pod, images, lambda _, some: steps.append(some))
    assert steps == [cores, 1] * epochs and state.steps == (cores + 1) * epochs
    most = 127 * 64 + 31
    for epoch, some in itertools.product(range(epochs), (range(cores), range(cores, cores + 1))):
        shuffled, changes = batches.order(seed, epoch, count), []
        for step in some:
            chosen = shuffled[step * layout.batch : (step + 1) * layout.batch]
            noise = batches.generator(seed, epoch, step, batches.NOISE)
            batch = batches.draw(layout, images.images[chosen], images.labels[chosen], noise)
            after, _ = reference.train_step(layout.network, known, batch, part_lengths(layout))
            changes.append([new - old for new, old in zip(after, known, strict=True)])
        sums = [old + sum(parts) for old, *parts in zip(known, *changes, strict=True)]
        known = [np.clip(each, -most - 1, most) for each in sums]
    for one, two in zip(state.weights, known, strict=True):
        np.testing.assert_array_equal(one, two)
    assert max(each.max() for each in known) == most


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("edge,activation_weights=false", "a core with activation_weights=true"),
        ("edge,columns=8", "a square array, got 16x8"),
        ("edge,accumulator_depth=16", "a batch of a multiple of 16, at most 16, got 32"),
    ],
)
def test_refusals(name: str, wanted: str) -> None:
    config = preset(name) if OPTION[:18] in name else core(name)
    with pytest.raises(InputError, match=wanted):
        Layout(SMALL, config)


def test_a_network_refuses_what_noise_cannot_reach() -> None:
    one, two, three = SMALL.layers
    for layers, wanted in (
        ((one, three), "wanted 10 inputs, got 18"),
        ((two, three), "wanted a convolution as the first one, got a matrix product"),
        ((one, replace(two, error_shift=15), three), "error_shift: wanted 1 to 14, got 15"),
        ((replace(one, update_shift=0), two), "update_shift: wanted 1 to 30, got 0"),
        ((one, replace(two, outputs=129)), "wanted 2 to 128 classes, got 129"),
        ((one, replace(two, shift=0)), "shift: wanted 1 to 31, got 0"),
        ((one, replace(two, dropout=True)), "wanted dropout in hidden layers, got it in the last"),
    ):
        with pytest.raises(InputError, match=wanted):
            replace(SMALL, layers=layers)


def test_half_of_the_results_are_left_out(seed: int) -> None:
    layout = Layout(replace(SMALL, batch=128).with_dropout(), core("edge"))
    images, labels = np.zeros((128, PIXELS), np.int8), np.zeros(128, int)
    drawn = [batches.draw(layout, images, labels, batches.generator(seed, n)) for n in (0, 1)]
    first, second = (batch.dropped[0] for batch in drawn)
    assert first.shape == (128, 18)
    assert 0.45 < first.mean() < 0.55
    assert 0.45 < (first == second).mean() < 0.55


def test_cycles_are_those_of_the_slowest_core(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Of cores that work at the same time."""
    trainer = Trainer(SMALL, core("nano,weight_tiles=1024"), "machine", {"cores": 4}, seed)
    run_each = Cores.run_each

    def counted(pod: Cores, address: int, count: int, cores: Sequence[int]) -> list[RunResult]:
        results = run_each(pod, address, count, cores)
        return [
            replace(result, cycles=100 * (number + 1))
            for number, result in zip(cores, results, strict=True)
            if isinstance(result, RunResult)
        ]

    monkeypatch.setattr(Cores, "run_each", counted)
    count = 5 * SMALL.batch
    images = Images(np.zeros((count, PIXELS), np.int8), np.zeros(count, np.int64))
    state = State(weights=weights.random(SMALL, seed))
    with trainer.opened(state, images) as pod:
        trainer.epoch(state, pod, images, lambda *_: None)
    # Four cores at once, then one.
    assert (state.steps, state.cycles) == (5, 400 + 100)


@pytest.mark.parametrize("cores", [1, 2, 4, 16])
@pytest.mark.parametrize("steps", [1, 3, 20, 21, 47, 160])
def test_points_of_the_curve(cores: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 20, evenly over the epoch, of all images since the point before."""
    trainer = Trainer(SMALL, core("nano,weight_tiles=1024"), "machine", {}, 0)
    device: Any = SimpleNamespace(cores=range(cores))

    def step(_: Trainer, state: State, __: object, some: list[int]) -> None:
        state.seen += len(some)
        state.right += sum(some)

    monkeypatch.setattr(Trainer, "_step", step)
    monkeypatch.setattr(Trainer, "steps", lambda *_: steps)
    monkeypatch.setattr(Trainer, "fetch", lambda *_: None)
    monkeypatch.setattr(batches, "epoch_batches", lambda *_: iter(range(steps)))
    state, nothing = State(weights=[], epoch=3), Images(np.zeros((0, PIXELS)), np.zeros(0))
    trainer.epoch(state, device, nothing, lambda *_: None)
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
    monkeypatch.setattr(Trainer, "accuracy", lambda *_: next(accuracies))
    trainer = Trainer(SMALL, core("edge"), "machine", {}, 0)
    state = State(weights=[])
    nothing = Images(np.zeros((0, PIXELS), np.int8), np.zeros(0, np.int64))
    for number in range(4):
        state.weights = [np.full(1, number)]
        trainer.validate(state, nothing)
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


def require_uniform(noise: np.ndarray, bits: int) -> None:
    """Check that noise takes all whole numbers of so many bits, each as often."""
    half = 1 << (bits - 1)
    values = noise.astype(np.int64).ravel()
    assert values.min() >= -half and values.max() < half
    classes = 1 << min(bits, 3)
    counts = np.bincount((values + half) * classes >> bits, minlength=classes)
    share = values.size / classes
    assert np.abs(counts - share).max() < 5 * np.sqrt(share)
    # The mean of the rounded sums is the quotient, for each remainder.
    for exact in (0, half - 1, half, 2 * half - 1):
        mean = reference.up(exact + values, bits).mean()
        assert abs(mean - exact / (2 * half)) < 5 * 0.5 / np.sqrt(values.size)


def test_noise_is_as_wide_as_what_a_shift_drops(seed: int) -> None:
    """Uniform from -2 ** (s - 1) to 2 ** (s - 1) - 1 for a shift s, as the page on training has it.

    That of gradients has all bits; that of products has eight at most, which the core widens.
    """
    small = replace(SMALL, layers=(*SMALL.layers[:2], replace(SMALL.layers[2], error_shift=12)))
    mixed = replace(NETWORKS["mnist_cnn_3x3"], batch=16)
    for network in (small, replace(small, batch=64), mixed):
        layout = Layout(network, core("edge"))
        images = np.zeros((layout.batch, network.layers[0].values), np.int8)
        labels = np.zeros(layout.batch, int)
        random = batches.generator(seed, 5)
        drawn = [batches.draw(layout, images, labels, random) for _ in range(200)]
        layers, first = network.layers, len(network.convs)
        for number, layer in enumerate(layers):
            parts = np.stack([batch.gradient[number] for batch in drawn])
            assert parts.dtype == np.int32
            require_uniform(parts, layer.update_shift)
        # Products with the softmax and its error, then errors of the inputs of products.
        shifts = [7, 7, *(layer.error_shift for layer in layers[max(first, 1) :])]
        for kind, shift in enumerate(shifts):
            require_uniform(np.stack([batch.rows[kind] for batch in drawn]), min(shift, 8))
        assert len(drawn[0].rows) == len(shifts) and len(drawn[0].pixels) == first
        for kind, layer in enumerate(layers[1:first], 1):
            require_uniform(np.stack([batch.pixels[kind] for batch in drawn]), layer.error_shift)


def test_halvings_raise_the_shifts_of_updates() -> None:
    updates = [[layer.update_shift for layer in SMALL.at(n).layers] for n in (0, 4, 5, 6, 7, 20)]
    assert updates == [[9 + n, 6 + n, 8 + n] for n in (0, 0, 1, 1, 2, 2)]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_exported_file_equals_the_forward_pass(name: str, rng: np.random.Generator) -> None:
    """LiteRT's reference kernels give the logits of the reference."""
    network = NETWORKS[name]
    values = weights.random(network, 3)
    images = rng.integers(0, 128, (40, network.layers[0].values), np.int8)
    shaped = images.reshape(-1, *export.image_shape(network))
    (found,) = prerequisites.litert_outputs(export.tflite_of(network, values), shaped)
    wanted = reference.forward(network.layers, values, images)[-1]
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
