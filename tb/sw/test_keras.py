"""Keras models that train on the core: an unchanged model, unchanged callbacks."""

from pathlib import Path
from typing import Any

import numpy as np
import prerequisites
import pytest

from celosia.sw.keras.training import evaluate, fit, predict

# The quick tests run without the extra keras. The warnings are of Keras itself, with some versions
# of NumPy.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def keras() -> Any:
    return prerequisites.package("keras")


def model(keras: Any) -> Any:
    """Return a network with a normalisation, two branches and a dropout."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    source = keras.Input((8, 8, 1))
    x = layers.Conv2D(8, 3, padding="same", use_bias=False)(source)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Dropout(0.2)(layers.MaxPooling2D()(x))
    one = layers.Conv2D(6, 1, activation="relu")(x)
    other = layers.DepthwiseConv2D(3, padding="same")(x)
    x = layers.Flatten()(layers.Concatenate()([one, other]))
    result = keras.Model(source, layers.Dense(4, activation="softmax")(x))
    result.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return result


def samples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    patterns, labels = rng.random((4, 8, 8, 1)), rng.integers(0, 4, 400)
    noisy = patterns[labels] + rng.normal(0, 0.2, (400, 8, 8, 1))
    return np.clip(noisy, 0, 1).astype(np.float32), labels


def test_a_model_trains_and_has_the_weights(keras: Any, tmp_path: Path) -> None:
    network, (x, y) = model(keras), samples()
    log = tmp_path / "log.csv"
    callbacks = [
        keras.callbacks.EarlyStopping("val_accuracy", patience=8, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint(tmp_path / "net.keras"),
        keras.callbacks.CSVLogger(log),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate),
    ]
    held = x[320:], y[320:]
    options = {"epochs": 6, "verbose": 0, "callbacks": callbacks, "validation_data": held}
    history = fit(network, x[:320], y[:320], **options)
    assert isinstance(history, keras.callbacks.History)
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= set(history.history)
    assert len(log.read_text().splitlines()) == 7 and (tmp_path / "net.keras").exists()
    loss, accuracy = evaluate(network, *held, verbose=0)
    assert evaluate(network, *held, 20, return_dict=True) == {"loss": loss, "accuracy": accuracy}
    assert accuracy == max(history.history["val_accuracy"]) > 0.8
    assert loss == pytest.approx(network.evaluate(*held, verbose=0)[0], abs=0.1)
    outputs = predict(network, x[320:]), network.predict(x[320:], verbose=0)
    np.testing.assert_allclose(*outputs, atol=0.15)


@pytest.mark.parametrize("callbacks", ["none", "one", "list"])
def test_samples_and_callbacks_are_those_of_keras(callbacks: str, keras: Any) -> None:
    """A stack without a shape, batches with a missing axis, callbacks of all kinds."""
    x, y = samples()
    network = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(4)])
    network.compile("sgd", "sparse_categorical_crossentropy")
    stop = keras.callbacks.EarlyStopping(monitor="val_loss")
    chain = {"none": None, "one": stop, "list": keras.callbacks.CallbackList([stop])}[callbacks]
    pairs = [(x[:80], y[:80]), (x[80:160], y[80:160])]
    options = {"verbose": 0, "batch_size": None, "callbacks": chain}
    history = fit(network, pairs, validation_data=iter(pairs), **options)
    assert {"loss", "val_loss"} <= set(history.history)
    outputs = predict(network, ((part, y) for part in np.split(x[..., 0], 4)), verbose=0)
    np.testing.assert_array_equal(outputs, predict(network, x))


def test_labels_are_smoothed(keras: Any, tmp_path: Path) -> None:
    """The loss is that of Keras; the package ``tensorboard`` reads what its callback wrote."""
    network, (x, y) = model(keras), samples()
    shares = np.eye(4)[y]
    loss = keras.losses.CategoricalCrossentropy(label_smoothing=0.2)
    network.compile("sgd", loss, metrics=["accuracy"])
    callbacks = [keras.callbacks.TensorBoard(tmp_path)]
    history = fit(network, x[:320], shares[:320], epochs=2, verbose=0, callbacks=callbacks)
    held = x[320:], shares[320:]
    own = network.evaluate(*held, verbose=0)
    assert evaluate(network, *held) == pytest.approx(own, abs=0.05) and own[0] > 0.5
    path = "tensorboard.backend.event_processing.event_accumulator"
    events = prerequisites.package(path).EventAccumulator(str(tmp_path / "train")).Reload()
    numbers = prerequisites.package("tensorboard.util.tensor_util").make_ndarray
    losses = [float(numbers(event.tensor_proto)) for event in events.Tensors("epoch_loss")]
    assert losses == pytest.approx(history.history["loss"])


def test_squares_have_targets(keras: Any) -> None:
    x, y = samples()
    targets = np.random.default_rng(0).normal(0, 3, (4, 2))[y]
    network = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()])
    network.add(keras.layers.Dense(16, activation="relu"))
    network.add(keras.layers.Dense(2))
    network.compile("sgd", "mse")
    fit(network, x[:320], targets[:320], epochs=5, verbose=0)
    held = x[320:], targets[320:]
    own = network.evaluate(*held, verbose=0)
    assert evaluate(network, *held) == pytest.approx(own, abs=0.1) and own < 0.2 * targets.var()
    with pytest.raises(ValueError, match=r"finite targets of shape \[400, 2\], got \[400\]"):
        fit(network, x, y)
    with pytest.raises(ValueError, match="finite targets of shape .*, got NaN or infinity"):
        fit(network, x, np.where(targets > 3, np.nan, targets))
    with pytest.raises(ValueError, match="wanted batches of samples and labels, got one of each"):
        fit(network, iter(zip(x, y, strict=True)))
    with pytest.raises(ValueError, match="fit: wanted no class_weight, got a dict"):
        fit(network, x, targets, class_weight={0: 1, 1: 5}, initial_epoch=0, sample_weight=None)
    network.compile("sgd", "hinge")
    with pytest.raises(ValueError, match="_crossentropy'.* or loss='mse'.*, got hinge"):
        fit(network, x, targets)


def test_two_classes_of_one_output(keras: Any) -> None:
    """As tutorials of cats and dogs have it."""
    x, y = samples()
    labels = (y > 1).astype(np.float32)[:, None]
    network = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.ZeroPadding2D(1)])
    network.add(keras.layers.Conv2D(8, 3, strides=2, activation="relu"))
    network.add(keras.layers.Conv2D(16, 3, activation="relu"))
    network.add(keras.layers.GlobalMaxPooling2D())
    network.add(keras.layers.Dense(1, activation="sigmoid"))
    network.compile("sgd", "binary_crossentropy", metrics=["accuracy"])
    held = x[320:], labels[320:]
    history = fit(network, x[:320], labels[:320], epochs=4, verbose=0, validation_data=held).history
    own = network.evaluate(*held, verbose=0)
    assert evaluate(network, *held) == pytest.approx(own, abs=0.05)
    assert own[1] > 0.8 and history["val_accuracy"][-1] == pytest.approx(own[1], abs=0.05)
    scores = predict(network, x[320:])
    assert scores.shape == (80, 1) and 0 <= scores.min() < 0.5 < scores.max() <= 1
    with pytest.raises(ValueError, match="labels: wanted 0 to 1, got 0 to 3"):
        fit(network, x, y)
    network.compile("sgd", "sparse_categorical_crossentropy")
    with pytest.raises(ValueError, match="wanted two outputs or more without binary_cross"):
        fit(network, x, labels)


def test_a_model_in_a_model_may_be_frozen(keras: Any) -> None:
    """As tutorials of transfer learning have it."""
    x, y = samples()
    base = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(8, 3, activation="relu")])
    base.add(keras.layers.MaxPooling2D(2))
    base.trainable = False
    source = keras.Input((8, 8, 1))
    rows = keras.layers.Flatten()(base(source, training=False))
    network = keras.Model(source, keras.layers.Dense(4)(keras.layers.Dropout(0.2)(rows)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile("adam", loss, metrics=["accuracy"])
    before, first = base.get_weights(), network.layers[-1].get_weights()[0]
    fit(network, x[:320], y[:320], epochs=4, verbose=0)
    for old, new in zip(before, base.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    assert (network.layers[-1].get_weights()[0] != first).any()
    held = x[320:], y[320:]
    own = network.evaluate(*held, verbose=0)
    assert evaluate(network, *held) == pytest.approx(own, abs=0.05) and own[1] > 0.6


def test_frozen_layers_stay(keras: Any) -> None:
    network, (x, y) = model(keras), samples()
    frozen, others = network.layers[1], network.layers[-1]
    frozen.trainable = False
    before = frozen.get_weights()[0], others.get_weights()[0]
    fit(network, x[:160], y[:160], verbose=0)
    np.testing.assert_array_equal(frozen.get_weights()[0], before[0])
    assert (others.get_weights()[0] != before[1]).any()
    frozen.set_weights([np.zeros_like(before[0])])
    outputs = predict(network, x), network.predict(x, verbose=0)
    np.testing.assert_allclose(*outputs, atol=0.15)
    frozen.trainable, others.trainable = True, False
    with pytest.raises(ValueError, match="before all others, got dense.* with trainable=False"):
        fit(network, x, y)


MISMATCHES = [
    (lambda x, y: (x, y + 1), {}, "labels: wanted 0 to 3, got 1 to 4"),
    (lambda x, y: (x, y + 0.5), {}, "labels: wanted whole numbers, got float64"),
    (lambda x, y: (x, y.astype(str)), {}, "labels: wanted whole numbers, got <U"),
    (lambda x, y: (x, np.eye(5)[y]), {}, r"one-hot ones of 4 classes, got shape \[400, 5\]"),
    (lambda x, y: (x, np.eye(4)[y] / 2), {}, "one-hot ones of 4 classes, got other numbers"),
    (lambda x, y: (x[:, :7], y), {}, r"shape \[N, 8, 8, 1\], got \[400, 7, 8, 1\]"),
    (lambda x, y: (x.reshape(400, 64), y), {}, r"shape \[N, 8, 8, 1\], got \[400, 64\]"),
    (lambda x, y: (x[:0], y[:0]), {}, "samples: wanted one or more, got none"),
    (lambda x, y: (x, None), {}, "wanted samples and labels, or batches of both"),
    (lambda x, y: ([(x, y, y)], None), {}, "wanted samples and labels, or batches of both"),
    (lambda x, y: (x, y), {"validation_split": 1.0}, "validation_split below 1, got 32, 1 and 1.0"),
    (lambda x, y: (x, y), {"batch_size": 0}, "batch_size and epochs from 1"),
    (lambda x, y: (x, y), {"epochs": 0}, "batch_size and epochs from 1"),
    (lambda x, y: (x[:20], y[:20]), {}, "wanted 32 samples or more, got 20"),
]


@pytest.mark.parametrize(("change", "options", "refusal"), MISMATCHES)
def test_samples_that_do_not_match(change, options, refusal, keras) -> None:
    with pytest.raises(ValueError, match=refusal):
        fit(model(keras), *change(*samples()), **options)


def test_models_of_other_ends(keras: Any) -> None:
    x, y = samples()
    sources = [keras.Input((8, 8, 1)) for _ in range(2)]
    pair = keras.Model(sources, keras.layers.Flatten()(keras.layers.Add()(sources)))
    own = type("Own", (keras.Model,), {})()
    bare = keras.Sequential([keras.Input((4,)), keras.layers.Softmax()])
    for network, inputs, refusal in (
        (pair, [x, x], "wanted one input and one output, got 2 and 1"),
        (own, x, "wanted a Sequential or functional model, got Own"),
        (bare, x[:, 0, :4, 0], "wanted layers with weights, got none"),
    ):
        network.compile("sgd", "sparse_categorical_crossentropy")
        with pytest.raises(ValueError, match=refusal):
            fit(network, inputs, y)


def test_schedules_are_those_of_keras(keras: Any) -> None:
    """A schedule counts steps, and may end at 0; samples may stay in order."""
    x, y = samples()
    weights = {}
    for shuffle, rates in ((True, 0.1), (False, 0.1), (True, [0.1, 0.0]), (True, [0.0, 0.1])):
        if isinstance(rates, list):
            rates = keras.optimizers.schedules.PiecewiseConstantDecay([2], rates)
        keras.utils.set_random_seed(0)
        network = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(4)])
        descent = keras.optimizers.SGD(rates)
        network.compile(descent, "categorical_crossentropy", metrics=["accuracy"])
        if len(weights) == 3:
            with pytest.raises(ValueError, match=r"learning rate above 0 at the first step, got 0"):
                fit(network, x, y)
            break
        fit(network, x, np.eye(4)[y], 8, shuffle=shuffle, verbose=0)
        assert int(network.optimizer.iterations) == 50
        weights[len(weights)] = network.get_weights()[0]
    assert len({array.tobytes() for array in weights.values()}) == 3


def test_layers_that_share(keras: Any) -> None:
    """Noise is left out; a value before a normalisation, and one kernel, have one use."""
    layers, (x, y) = keras.layers, samples()
    source = keras.Input((8, 8, 1))
    noisy = layers.GaussianNoise(0.1)(layers.SpatialDropout2D(0.1)(source))
    before = layers.Conv2D(4, 3, padding="same", use_bias=False)(noisy)
    once = layers.BatchNormalization()(before)
    square = layers.Dense(64)
    for value, refusal in (
        (once, None),
        (layers.Add()([before, once]), "batch_norm.*wanted an input that no other layer has"),
        (layers.BatchNormalization()(once), "batch_norm.*wanted one that follows a layer"),
        (square(square(layers.Flatten()(noisy))), "called once, got dense"),
    ):
        network = keras.Model(source, layers.Dense(4)(layers.Flatten()(value)))
        network.compile("sgd", "sparse_categorical_crossentropy")
        if refusal is None:
            fit(network, x[:64], y[:64], verbose=0)
            continue
        with pytest.raises(ValueError, match=refusal):
            fit(network, x, y)


def test_refusals(keras: Any) -> None:
    layers = keras.layers
    x, y = samples()
    stack = [keras.Input((8, 8, 1)), layers.Conv2D(4, 3, activation="tanh"), layers.UpSampling2D()]
    network = keras.Sequential([*stack, layers.Flatten(), layers.Dense(4)])
    network.compile("sgd", "sparse_categorical_crossentropy")
    with pytest.raises(ValueError, match=r"conv2d.*got tanh; up_sampling2d.*does not train"):
        fit(network, x, y)
    network = model(keras)
    network.compile("sgd", "hinge")
    with pytest.raises(ValueError, match="wanted compile"):
        fit(network, x, y)
