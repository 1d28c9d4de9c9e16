"""Training and evaluation of Keras models on the core."""

from hashlib import sha256
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.keras.losses import Loss, loss_of
from celosia.sw.keras.network import (
    KerasNetwork,
    last_layers,
    numbers,
    read,
    require_ends,
    write,
)
from celosia.sw.layers.weight_bytes import LOW_BITS
from celosia.sw.runtime.arrays import InputError
from celosia.sw.runtime.opening import core_of, open_session
from celosia.sw.training import batches
from celosia.sw.training.calibration import IMAGES
from celosia.sw.training.epochs import Images
from celosia.sw.training.graph import STEPS
from celosia.sw.training.graph_trainer import GraphTrainer
from celosia.sw.training.origin import exponent_of, integers
from celosia.sw.training.quantized import quantized
from celosia.sw.training.state import State

_CORE = "edge,activation_weights=true"
#: Values of further arguments of Keras's ``fit`` that change nothing, besides None.
_DEFAULTS = {"initial_epoch": 0, "validation_freq": 1}
#: Samples of one run of an evaluation.
_BATCH = 64
#: Least part of the first learning rate that counts: a schedule may end at 0.
_LEAST_RATE = 1e-6


class _Training:
    """A model and what trains it; ``files``: those of epochs, by the digest of the weights."""

    def __init__(self, trainer: GraphTrainer, network: KerasNetwork, exponent: int) -> None:
        self.trainer, self.network, self.exponent = trainer, network, exponent
        self.state = State(weights=[])
        self.files: dict[bytes, bytes] = {}

    def units(self) -> dict[str, float]:
        """Return the factors of the real weights of a step that make them those of the model."""
        step = self.trainer.learner.step
        last = step.network.operations[-1]
        units = dict.fromkeys((matrix.name for matrix in step.weights), 1.0)
        if last.kind == "FULLY_CONNECTED" and step.loss == "softmax":
            # Softmax wants logits in which e^x grows by e in one.
            name = f"{last.kind.lower()}_{last.place}"
            exponent = step.exponents[step.values[last.outputs[0]]]
            for key in (name, f"{name}/bias"):
                units[key] = 2.0**-exponent / STEPS
        return units

    def write(self, model: Any) -> None:
        """Give the model the weights of the state, and keep their file."""
        learner, weights, units = self.trainer.learner, self.state.weights, self.units()
        matrices = {}
        for matrix, array in zip(learner.step.weights, weights, strict=True):
            exponent = learner.step.exponents[matrix.highs[0]] - LOW_BITS
            matrices[matrix.name] = array * (units[matrix.name] * 2.0**exponent)
        write(self.network, matrices)
        self.files[_digest(model)] = learner.file(weights, learner.calibration.shifts)


def _digest(model: Any) -> bytes:
    """Return a digest of the weights of a model."""
    return sha256(b"".join(array.tobytes() for array in model.get_weights())).digest()


_TRAININGS: WeakKeyDictionary[Any, _Training] = WeakKeyDictionary()


def fit(
    model: Any,
    x: Any,
    y: Any = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: int | str = "auto",
    callbacks: Any = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
    shuffle: bool = True,
    *,
    cores: int = 1,
    config: Config | str = _CORE,
    device: str = "machine",
    seed: int = 0,
    **others: Any,
) -> Any:
    """Train a compiled Keras model on the core; return its ``History``.

    Parameters
    ----------
    model : keras.Model
        The model; it has the trained weights after each epoch.
    x, y : array_like
        Samples, and classes, one-hot labels, or targets of squares; or ``x`` alone, which yields
        batches of both.
    batch_size, epochs, verbose, callbacks, validation_split, validation_data, shuffle
        As ``keras.Model.fit`` takes them.
    cores : int
        Cores of a pod, which do steps at the same time.
    config : Config or str
        The core, or a preset.
    device : str
        Device that runs the steps.
    seed : int
        Of the order of the samples, and of noise.
    **others
        Further arguments of ``keras.Model.fit``, which may have their defaults alone.

    Raises
    ------
    ValueError
        If other arguments are given, layers do not train, the loss is another than cross-entropy
        or mean squared error, or samples do not match.
    """
    keras: Any = import_module("keras")
    if getattr(model, "loss", None) is None:
        raise InputError(f"model {model.name}: wanted compile(loss=...) before fit, got none")
    loss = loss_of(model)
    for name, value in others.items():
        if value is not None and (not isinstance(value, int) or value != _DEFAULTS.get(name)):
            raise InputError(f"fit: wanted no {name}, got a {type(value).__name__}")
    batch_size = 32 if batch_size is None else batch_size
    if min(batch_size, epochs) < 1 or not 0 <= validation_split < 1:
        got = f"{batch_size}, {epochs} and {validation_split}"
        requirement = "wanted batch_size and epochs from 1 and validation_split below 1"
        raise InputError(f"fit: {requirement}, got {got}")
    rate = _rate(model)
    if rate <= 0:
        raise InputError(f"fit: wanted a learning rate above 0 at the first step, got {rate}")
    samples, labels = _arrays(model, x, y)
    held = _validation(model, validation_data)
    if held is None and validation_split:
        # As Keras: the last samples, before they are shuffled.
        count = int(len(labels) * (1 - validation_split))
        held = samples[count:], labels[count:]
        samples, labels = samples[:count], labels[:count]
    if len(labels) < batch_size:
        raise InputError(f"fit: wanted {batch_size} samples or more, got {len(labels)}")
    last = last_layers(read(model), model.name)
    training, images = _opened(
        model, samples, labels, batch_size, epochs, cores, config, device, seed, last, loss
    )
    trainer, state = training.trainer, training.state
    steps = trainer.steps(images)
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = callbacks.callbacks
    chain = keras.callbacks.CallbackList(
        callbacks,
        add_history=True,
        add_progbar=verbose != 0,
        verbose=1 if verbose == "auto" else verbose,
        epochs=epochs,
        steps=steps,
        model=model,
    )
    _build_metrics(model, loss, samples[:1], labels[:1])
    model.stop_training = False
    chain.on_train_begin()
    logs: dict[str, float] = {}
    with trainer.opened(state, images) as learner:
        for epoch in range(epochs):
            chain.on_epoch_begin(epoch)
            order = batches.order(seed, epoch, len(images))
            order = order if shuffle else np.arange(len(images))
            parts: list[dict[str, float]] = []
            for first in range(0, steps, cores):
                numbers = range(first, min(first + cores, steps))
                chosen = order[numbers[0] * batch_size : (numbers[-1] + 1) * batch_size]
                chain.on_train_batch_begin(first)
                learner.rate = max(_rate(model) / rate, _LEAST_RATE)
                keys = [(epoch, step) for step in numbers]
                some = images.images[chosen], images.labels[chosen]
                logits = np.concatenate(learner.train(state.steps, *some, steps * epochs, keys))
                state.steps += len(numbers)
                model.optimizer.iterations.assign_add(len(numbers))
                outputs = loss.outputs(learner.real(logits))
                parts += [loss.logs(outputs, labels[chosen])] * len(numbers)
                logs = {name: float(np.mean([part[name] for part in parts])) for name in parts[0]}
                chain.on_train_batch_end(first, logs)
            trainer.fetch(state, learner)
            training.write(model)
            if held is not None:
                scores = predict(model, held[0], config=config, device=device)
                held_logs = loss.logs(loss.probabilities(model, scores), held[1])
                logs |= {f"val_{name}": value for name, value in held_logs.items()}
            chain.on_epoch_end(epoch, logs)
            if model.stop_training:
                break
    chain.on_train_end(logs)
    return model.history


def evaluate(
    model: Any,
    x: Any,
    y: Any = None,
    batch_size: int | None = None,
    verbose: int | str = "auto",
    *,
    return_dict: bool = False,
    config: Config | str = _CORE,
    device: str = "machine",
) -> Any:
    """Return loss and accuracy of a Keras model on the core, as its ``evaluate`` does.

    Parameters are those of ``predict``. A mean squared error has no accuracy: the loss alone is
    returned.
    """
    loss = loss_of(model)
    samples, labels = _arrays(model, x, y)
    scores = predict(model, samples, batch_size, verbose, config=config, device=device)
    logs = loss.logs(loss.probabilities(model, scores), labels)
    values = [*logs.values()]
    return logs if return_dict else values if len(values) > 1 else values[0]


def predict(
    model: Any,
    x: Any,
    batch_size: int | None = None,
    verbose: int | str = "auto",
    *,
    config: Config | str = _CORE,
    device: str = "machine",
) -> np.ndarray:
    """Return the outputs of a Keras model on the core, as its ``predict`` does.

    Parameters are those of ``fit``; there is nothing to print. A model that ``fit`` did not train
    is calibrated with ``x``.
    """
    samples = _samples(model, x)
    exponent, content = _file(model, samples)
    batch = min(batch_size or _BATCH, len(samples))
    core = core_of(config)
    program = compile_graph(load(content), core, batch)
    with open_session(program, device=device) as session:
        port = program.inputs[0]
        (outputs,) = session.run([integers(samples, exponent).reshape(-1, *port.shape)])
    port = program.outputs[0]
    real = (outputs.astype(np.float32) - port.zero_point) * np.float32(port.scale)
    return real.reshape(len(samples), *model.output_shape[1:])


def _file(model: Any, samples: np.ndarray) -> tuple[int, bytes]:
    """Return the exponent of the samples of a model, and its ``.tflite`` file.

    Weights that are not those of an epoch of ``fit`` are calibrated with the samples.
    """
    if training := _TRAININGS.get(model):
        if content := training.files.get(_digest(model)):
            return training.exponent, content
    graph, exponent = read(model).graph, exponent_of(samples[:IMAGES])
    assert graph
    return exponent, quantized(graph, integers(samples[:IMAGES], exponent), exponent)


def _opened(
    model: Any,
    samples: np.ndarray,
    labels: np.ndarray,
    batch: int,
    epochs: int,
    cores: int,
    config: Config | str,
    device: str,
    seed: int,
    last: int | None,
    loss: Loss,
) -> tuple[_Training, Images]:
    """Return what trains a model, and its samples in integers."""
    network, exponent = read(model), exponent_of(samples[:IMAGES])
    core = core_of(config)
    options = {"cores": cores} if cores > 1 else {}
    assert network.graph
    trainer = GraphTrainer(
        network.graph,
        exponent,
        core,
        device,
        options,
        seed,
        batch=batch,
        epochs=epochs,
        last=last,
        loss=loss.kind,
    )
    _TRAININGS[model] = _Training(trainer, network, exponent)
    targets = loss.labels(labels, trainer.learner.classes)
    return _TRAININGS[model], Images(integers(samples, exponent), targets)


def _validation(model: Any, data: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return samples and classes to validate with; None without data."""
    if data is None:
        return None
    pair = data if isinstance(data, list | tuple) and len(data) == 2 else (data, None)
    return _arrays(model, *pair)


def _samples(model: Any, x: Any) -> np.ndarray:
    """Return samples as the input of a model takes them; ``x``: an array, or batches of one."""
    if not (hasattr(x, "__array__") or isinstance(x, list | tuple)):
        # As Keras: labels in the batches are left out.
        parts = (batch[0] if isinstance(batch, tuple) else batch for batch in _finite(x))
        x = np.concatenate([np.asarray(part) for part in parts])
    if type(model).__name__ == "Sequential" and not model.built:
        model.build((None, *np.shape(x)[1:]))
    require_ends(model)
    samples, shape = np.asarray(x, np.float32), model.inputs[0].shape[1:]
    if not len(samples):
        raise InputError("samples: wanted one or more, got none")
    if None in shape or samples.shape[1:] == shape:
        return samples
    # As Keras: one channel may be left out, or be one too many.
    if shape not in ((*samples.shape[1:], 1), samples.shape[1:-1]) or samples[0].size != np.prod(
        shape
    ):
        got = list(samples.shape)
        raise InputError(f"samples: wanted shape {['N', *shape]}, got {got}".replace("'", ""))
    return samples.reshape(-1, *shape)


def _finite(batched: Any) -> Any:
    """Return batches; refuse a data set without an end."""
    if hasattr(batched, "cardinality") and int(batched.cardinality()) == -1:
        raise InputError("wanted batches that end, got a data set that repeats")
    return batched


def _arrays(model: Any, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return samples and classes."""
    if y is None:
        pairs = list(_finite(x))
        if (
            not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs)
            or not pairs
        ):
            raise InputError("wanted samples and labels, or batches of both alone")
        if any(np.ndim(array) == 0 for pair in pairs for array in pair):
            raise InputError("wanted batches of samples and labels, got one of each at a time")
        arrays = zip(*pairs, strict=True)
        x, y = (np.concatenate([np.asarray(array) for array in column]) for column in arrays)
    samples, labels = _samples(model, x), np.asarray(y)
    loss = loss_of(model)
    classes = loss.classes(model)
    if loss.kind == "squares":
        if labels.size != len(samples) * classes or not np.isfinite(labels).all():
            requirement = f"wanted finite targets of shape {[len(samples), classes]}"
            got = list(labels.shape) if np.isfinite(labels).all() else "NaN or infinity"
            raise InputError(f"{requirement}, got {got}")
        return samples, labels.reshape(len(samples), classes).astype(np.float64)
    if labels.ndim == 2 and labels.shape[1] > 1:
        is_one_hot = np.isin(labels, (0, 1)).all() and (labels.sum(1) == 1).all()
        if not is_one_hot or labels.shape[1] != classes:
            got = (
                f"shape {list(labels.shape)}" if is_one_hot else "other numbers than a 1 and zeros"
            )
            raise InputError(f"labels: wanted one-hot ones of {classes} classes, got {got}")
        labels = labels.argmax(1)
    labels = labels.reshape(-1)
    if len(samples) != len(labels):
        raise InputError(f"wanted a label for each sample, got {len(samples)} and {len(labels)}")
    if labels.dtype.kind not in "biuf" or (labels != np.rint(labels)).any():
        raise InputError(f"labels: wanted whole numbers, got {labels.dtype}, {labels[0]} first")
    if labels.min() < 0 or labels.max() >= classes:
        got = f"{labels.min()} to {labels.max()}"
        raise InputError(f"labels: wanted 0 to {classes - 1}, got {got}")
    return samples, labels.astype(np.int64)


def _build_metrics(model: Any, loss: Loss, samples: np.ndarray, labels: np.ndarray) -> None:
    """Build the metrics of ``compile``, in which callbacks look up the direction of a monitor."""
    if loss.kind == "squares":
        labels = labels.reshape(-1, *model.output_shape[1:])
    elif loss.one_hot:
        labels = np.eye(model.output_shape[-1])[labels]
    model.test_on_batch(samples, labels)
    model.reset_metrics()


def _rate(model: Any) -> float:
    """Return the learning rate of a model's optimizer, which callbacks may change."""
    return float(numbers(model.optimizer.learning_rate))
