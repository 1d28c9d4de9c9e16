"""Keras models that train on the core: an unchanged model, unchanged callbacks."""

from pathlib import Path
from typing import Any

import numpy as np
import prerequisites
import pytest

from celosia.sw.keras.training import evaluate, fit, predict

# Of Keras itself, with some versions of NumPy.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def keras() -> Any:
    return prerequisites.package("keras")


def model(keras: Any) -> Any:
    """Return a network with a normalisation, two branches and a dropout."""
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
        keras.callbacks.EarlyStopping(patience=8, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint(tmp_path / "net.keras"),
        keras.callbacks.CSVLogger(log),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate),
    ]
    held = x[320:], y[320:]
    history = fit(
        network,
        x[:320],
        y[:320],
        epochs=6,
        verbose=0,
        callbacks=callbacks,
        validation_data=held,
    )
    assert isinstance(history, keras.callbacks.History)
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= set(history.history)
    assert len(log.read_text().splitlines()) == 7 and (tmp_path / "net.keras").exists()
    loss, accuracy = evaluate(network, *held)
    assert accuracy == max(history.history["val_accuracy"]) > 0.8
    assert loss == pytest.approx(network.evaluate(*held, verbose=0)[0], abs=0.1)
    outputs = predict(network, x[320:]), network.predict(x[320:], verbose=0)
    np.testing.assert_allclose(*outputs, atol=0.15)


def test_refusals(keras: Any) -> None:
    layers = keras.layers
    x, y = samples()
    stack = [keras.Input((8, 8, 1)), layers.Conv2D(4, 3, activation="tanh"), layers.UpSampling2D()]
    network = keras.Sequential([*stack, layers.Flatten(), layers.Dense(4)])
    network.compile("sgd", "sparse_categorical_crossentropy")
    with pytest.raises(ValueError, match=r"conv2d.*got tanh; up_sampling2d.*does not train"):
        fit(network, x, y)
    network = model(keras)
    with pytest.raises(ValueError, match="labels: wanted 0 to 3, got 1 to 4"):
        fit(network, x, y + 1)
    network.compile("sgd", "mse")
    with pytest.raises(ValueError, match="wanted compile"):
        fit(network, x, y)
