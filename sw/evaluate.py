"""Accuracy of a model on labelled data, its mistakes, and a picture of them."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from celosia.sw.files import png_bytes
from celosia.sw.ir.graph import short_name
from celosia.sw.ir.parts import Port
from celosia.sw.runtime.arrays import quantized
from celosia.sw.runtime.session import InputError, Statistics

_INK = "#22303c"
_RIGHT = "#1f6f8b"
_WRONG = "#c0392b"

_NOTE_CHARACTERS = 110


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Labels of the samples that a model is evaluated on."""

    name: str  #: One of ``celosia.sw.data.DATASETS``, or a file or folder.
    labels: np.ndarray  #: Integers, shape ``(N,)``, from 0.
    #: Names of the classes; empty where labels are numbers of the model's outputs.
    classes: tuple[str, ...] = ()
    note: str = ""  #: Reason why the accuracy is not one on test data; empty if there is none.


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Result of a model on labelled data."""

    dataset: str  #: Name of the data.
    device: str  #: Name of the device.
    classes: tuple[str, ...]  #: Names of the classes.
    #: int64, shape ``(classes, classes)``: samples by label and by predicted class.
    confusion: np.ndarray
    statistics: Statistics  #: Costs of the runs.
    note: str = ""  #: See ``Labelled``.

    @property
    def images(self) -> int:
        """Number of samples."""
        return int(self.confusion.sum())

    @property
    def right(self) -> int:
        """Number of samples whose predicted class is their label."""
        return int(self.confusion.trace())

    @property
    def accuracy(self) -> float:
        """Share of samples whose predicted class is their label, 0 to 1."""
        return self.right / self.images

    @property
    def images_per_second(self) -> float:
        """Speed on the host's clock, without set-up."""
        return self.images / self.statistics.seconds

    def as_dict(self) -> dict[str, Any]:
        """Return all figures under their names."""
        return {
            "dataset": self.dataset,
            "note": self.note,
            "device": self.device,
            "images": self.images,
            "right": self.right,
            "accuracy": self.accuracy,
            "images_per_second": self.images_per_second,
            "classes": list(self.classes),
            "confusion": self.confusion.tolist(),
            **self.statistics.as_dict(),
        }


def confusion_matrix(labels: np.ndarray, guesses: np.ndarray, classes: int) -> np.ndarray:
    """Count the samples of each class by predicted class.

    - ``labels``, ``guesses``: integers, shape ``(N,)``, 0 to ``classes - 1``.
    - ``classes``: number of classes.

    Returns int64, shape ``(classes, classes)``: row the label, column the guess.

    Examples
    --------
    >>> confusion_matrix(np.array([0, 1, 1]), np.array([0, 0, 1]), 2).tolist()
    [[1, 0], [1, 1]]
    """
    pairs = labels.astype(np.int64) * classes + guesses
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def inputs_of(name: str, ports: Sequence[Port], dataset: str, images: np.ndarray) -> np.ndarray:
    """Return images as inputs of a classifier of the data set.

    - ``name``, ``ports``: of a model that takes pixels scaled to 0 … 1, and its inputs.
    - ``dataset``: one of ``celosia.sw.data.DATASETS``.
    - ``images``: uint8, shape ``(N, 28, 28)``.

    Returns shape ``(N, *ports[0].shape)``. Raises InputError if the model has other inputs.
    """
    size, got = images[0].size, [port.elements for port in ports]
    if got != [size]:
        numbers = " and ".join(map(str, got))
        raise InputError(f"{name}: wanted {size} numbers in, as {dataset} has, got {numbers}")
    return quantized((images / np.float32(255)).reshape(-1, *ports[0].shape), ports[0])


def classes_of(port: Port, labelled: Labelled) -> tuple[str, ...]:
    """Return the names of the classes that an output distinguishes.

    Raises InputError if these differ from the classes of the labels.
    """
    numbers, labels = _is_class_number(port), labelled.labels
    names = labelled.classes
    if not names:
        names = tuple(map(str, range(1 + int(labels.max()) if numbers else port.elements)))
    where = f"output {short_name(port.name)!r}"
    if not numbers and len(names) != port.elements:
        requirement = f"{len(names)} numbers, one for each class of {labelled.name}"
        raise InputError(f"{where}: wanted {requirement}, got {port.elements}")
    if len(names) < 2:
        raise InputError(f"{where}: wanted scores of 2 classes or more, got {len(names)}")
    if labels.min() < 0 or labels.max() >= len(names):
        requirement = f"labels of 0 to {len(names) - 1}"
        raise InputError(
            f"{labelled.name}: wanted {requirement}, got {labels.min()} to {labels.max()}"
        )
    return names


def _is_class_number(port: Port) -> bool:
    """Return whether an output is the number of a class, as that of ARG_MAX."""
    return port.elements == 1 and port.dtype in ("int32", "int64")


def guesses_of(y: np.ndarray, port: Port, classes: int) -> np.ndarray:
    """Return the class of each sample: the greatest score, the first of equals.

    Raises InputError if the model gives the number of a class itself, and there is no such class.
    """
    if not _is_class_number(port):
        return y.reshape(len(y), -1).argmax(axis=1)
    guesses = y.reshape(-1).astype(np.int64)
    if guesses.min() < 0 or guesses.max() >= classes:
        got = f"{guesses.min()} to {guesses.max()}"
        raise InputError(f"output {short_name(port.name)!r}: wanted 0 to {classes - 1}, got {got}")
    return guesses


def summary(evaluation: Evaluation) -> dict[str, str]:
    """Return a text for each figure of the result."""
    costs, config = evaluation.statistics, evaluation.statistics.program.config
    images, right = evaluation.images, evaluation.right
    lines = {
        "core": f"{config.name}, {config.rows} x {config.columns} multipliers",
        "accuracy": f"{right / images:.2%} of {images:,} samples, {images - right:,} wrong",
    }
    if evaluation.note:
        lines["note"] = evaluation.note
    mistakes = evaluation.confusion * (1 - np.eye(len(evaluation.confusion), dtype=np.int64))
    if mistakes.any():
        label, guess = np.unravel_index(mistakes.argmax(), mistakes.shape)
        names = evaluation.classes
        lines["most frequent mistake"] = (
            f"{names[label]} taken for {names[guess]}, {mistakes.max():,} of "
            f"{evaluation.confusion[label].sum():,}"
        )
    batch = costs.program.batch
    lines["speed"] = f"{evaluation.images_per_second:,.1f} samples/s, batch {batch}"
    if remainder := images % batch:
        lines["speed"] += f", {remainder} in the last one"
    if costs.cycles_per_input and costs.utilisation:
        lines["cycles per sample"] = f"{costs.cycles_per_input:,.1f}"
        lines["multipliers in use"] = f"{costs.utilisation:.1%}"
    return lines


def draw(evaluation: Evaluation) -> bytes:
    """Return the confusion matrix as a picture, PNG.

    Rows are labels, with the share that was recognised; columns are predicted classes. Right
    results are blue, wrong ones red; darker cells have higher counts.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 8.8), dpi=110)
    axes = figure.subplots(gridspec_kw={"left": 0.17, "right": 0.9, "top": 0.82, "bottom": 0.03})
    facts = summary(evaluation)
    first = f"{evaluation.statistics.program.name}  ·  {evaluation.dataset}  ·  {facts['accuracy']}"
    second = [f"{evaluation.device}: {facts['core']}"]
    if "cycles per sample" in facts:
        second.append(f"{facts['cycles per sample']} cycles per sample")
        second.append(f"{facts['multipliers in use']} of the multipliers in use")
    figure.text(0.5, 0.96, first, ha="center", color=_INK, fontsize=13)
    figure.text(0.5, 0.932, "  ·  ".join(second), ha="center", color=_INK, fontsize=10)
    note = textwrap.fill(evaluation.note, _NOTE_CHARACTERS)
    figure.text(0.5, 0.92, note, ha="center", va="top", color=_INK, fontsize=10)
    _cells(axes, evaluation.confusion)
    _label(axes, evaluation)
    return png_bytes(figure)


def _cells(axes: Any, confusion: np.ndarray) -> None:
    """Colour the cells by their share of the row, and write the counts into them."""
    from matplotlib.colors import to_rgb

    diagonal = np.eye(len(confusion), dtype=bool)
    share = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    # Mistakes are rare: right and wrong cells have separate scales; the root raises single ones.
    full = np.where(diagonal, 1.0, max(share[~diagonal].max(), 1e-9))
    depth = np.sqrt(np.clip(share / full, 0, 1))[..., None]
    ink = np.where(diagonal[..., None], to_rgb(_RIGHT), to_rgb(_WRONG))
    axes.imshow(1 - depth * (1 - ink), interpolation="nearest", aspect="auto")
    for (row, column), count in np.ndenumerate(confusion):
        if count:
            axes.text(
                column,
                row,
                f"{count:,}",
                ha="center",
                va="center",
                fontsize=10,
                color="white" if depth[row, column, 0] > 0.6 else _INK,
            )


def _label(axes: Any, evaluation: Evaluation) -> None:
    """Name rows and columns, write the share of each class that was recognised, draw the grid."""
    names = evaluation.classes
    count = len(names)
    long = max(map(len, names)) > 3
    axes.set_xticks(
        range(count), names, rotation=30 if long else 0, ha="left" if long else "center"
    )
    axes.set_yticks(range(count), names)
    axes.set_xlabel("taken for", color=_INK, fontsize=11)
    axes.set_ylabel("shown", color=_INK, fontsize=11)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(colors=_INK, labelsize=10, length=0)
    for row, counts in enumerate(evaluation.confusion):
        text = f"{counts[row] / counts.sum():.1%}" if counts.any() else "none"
        axes.text(count - 0.35, row, text, va="center", fontsize=10, color=_INK)
    for edge in range(1, count):
        axes.axhline(edge - 0.5, color="#ecf0f1", linewidth=1)
        axes.axvline(edge - 0.5, color="#ecf0f1", linewidth=1)
    for side in axes.spines.values():
        side.set_color("#ecf0f1")
