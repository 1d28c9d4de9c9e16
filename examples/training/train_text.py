"""Trains and quantises the shipped language model on a text.

Needs the extra ``train`` of ``celosia-examples``, and a text, of which the last part is kept out of
training. The shipped model was made with that of Debian's packages bible-kjv and bible-kjv-text:

    bible -f gen1:1-rev22:21 | cut -d' ' -f2- > kjv.txt
    python -m celosia_examples.training.train_text kjv.txt

Writes ``kjv_text.tflite`` and ``kjv_text.json``.
"""

import argparse
import hashlib
import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from celosia.sw.quantize.tensorflow import of_keras
from celosia_examples.training.language import LanguageModel
from celosia_examples.training.recipe import optimiser, reference

NAME = "kjv_text"
#: ``length``: characters of one sample of training; ``batch``: samples of one step;
#: ``calibration`` and ``held_out``: characters; others as those of ``training.Network``.
SETTINGS = {
    **{"seed": 27, "epochs": 3, "batch": 32, "length": 128, "learning_rate": 3e-3},
    **{"warmup_steps": 500, "weight_decay": 0.05, "average_momentum": 0.999},
    **{"width": 64, "heads": 2, "hidden": 256, "blocks": 2, "window": 64},
    **{"calibration": 2000, "held_out": 100_000},
}
_SIZES = ("width", "heads", "hidden", "blocks", "window")


def fit(model: Any, numbers: np.ndarray, settings: Mapping[str, Any]) -> None:
    """Train a float model.

    ``model``: the model of whole texts; ``numbers``: int32, the characters of the text in order.
    """
    keras: Any = importlib.import_module("keras")
    rng = np.random.default_rng(settings["seed"])
    batch, length, epochs = settings["batch"], settings["length"], settings["epochs"]
    steps = (len(numbers) - 1) // (length * batch)
    model.compile(
        optimizer=optimiser(settings, steps * epochs),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    for epoch in range(epochs):
        starts = rng.integers(0, len(numbers) - length, (steps * batch, 1))
        samples = numbers[starts + np.arange(length + 1)]
        history = model.fit(samples[:, :-1], samples[:, 1:], batch_size=batch, verbose=0)
        print(f"epoch {epoch + 1}/{epochs}: loss {history.history['loss'][0]:.4f}", flush=True)
    model.optimizer.finalize_variable_values(model.trainable_variables)


def quantise(model: Any, numbers: np.ndarray) -> bytes:
    """Return the ``.tflite`` file of a float model of one character, its variables in int8, too.

    ``numbers``: int32, characters in order, for the ranges of the activations.
    """
    converted = of_keras(model, variables=True)
    (port,) = converted.ports
    ones = np.eye(port.shape[-1], dtype=np.float32)[numbers]
    return converted.quantize([{port.name: one[None, None]} for one in ones])


def float_figures(model: Any, numbers: np.ndarray, length: int) -> tuple[float, float]:
    """Return share of right next characters, and bits per character, of the model of texts."""
    texts = numbers[: (len(numbers) - 1) // length * length + 1]
    logits = model.predict(texts[:-1].reshape(-1, length), verbose=0)
    return _figures(logits.reshape(-1, logits.shape[-1]), texts[1:])


def int8_figures(content: bytes, numbers: np.ndarray) -> tuple[float, float]:
    """Return the same of the reference kernels, character by character."""
    interpreter, source, result = reference(content)
    scale, zero = result["quantization"]
    logits = []
    for number in numbers[:-1]:
        one = np.full(source["shape"], -128, np.int8)
        one[0, 0, number] = 127
        interpreter.set_tensor(source["index"], one)
        interpreter.invoke()
        logits.append((interpreter.get_tensor(result["index"])[0, 0] - np.float64(zero)) * scale)
    return _figures(np.array(logits), numbers[1:])


def _figures(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    above = logits - logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(above).sum(axis=1)) - above[np.arange(len(labels)), labels]
    right = float((logits.argmax(axis=1) == labels).mean())
    return right, float(losses.mean() / np.log(2))


def ship(text: str, folder: Path) -> None:
    """Train, quantise, evaluate and write the model and its figures."""
    keras: Any = importlib.import_module("keras")
    keras.utils.set_random_seed(SETTINGS["seed"])
    characters = "".join(sorted(set(text)))
    numbers = np.array([characters.index(one) for one in text], np.int32)
    known, unknown = numbers[: -SETTINGS["held_out"]], numbers[-SETTINGS["held_out"] :]
    sizes = {name: SETTINGS[name] for name in _SIZES}
    model, streaming = LanguageModel(characters=len(characters), **sizes).build(SETTINGS["length"])
    fit(model, known, SETTINGS)
    packed = quantise(streaming, known[: SETTINGS["calibration"]])
    accuracy, bits = float_figures(model, unknown, SETTINGS["length"])
    int8_accuracy, int8_bits = int8_figures(packed, unknown)
    figures = {
        "network": "language model: 2 blocks of 64 channels, 2 heads over 64 characters, int8",
        "characters": characters,
        **{"float_accuracy": accuracy, "float_bits_per_character": bits},
        **{"int8_accuracy": int8_accuracy, "int8_bits_per_character": int8_bits},
        **{"training_characters": len(known), "test_characters": len(unknown)},
        "sha256": hashlib.sha256(packed).hexdigest(),
        "settings": SETTINGS,
    }
    (folder / f"{NAME}.tflite").write_bytes(packed)
    (folder / f"{NAME}.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2), flush=True)


def main() -> None:
    """Train, quantise, evaluate and write the model."""
    parser = argparse.ArgumentParser(description="Train and quantise the shipped language model.")
    parser.add_argument("text", type=Path, metavar="TEXT", help="file of ASCII characters")
    parser.add_argument("--folder", type=Path, default=Path(), help="to write to (.)")
    arguments = parser.parse_args()
    ship(arguments.text.read_text(encoding="ascii"), arguments.folder)


if __name__ == "__main__":
    main()
