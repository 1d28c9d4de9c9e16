"""``celosia eval``: how often a model is right on a data set, and where it goes wrong."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from celosia.sw.data import DATASETS
from celosia.sw.ir.program import Program
from celosia.sw.runtime.session import InputError, Session, Statistics, quantized

__all__ = ["Evaluation", "confusion_matrix", "draw", "evaluate", "inputs_of", "summary"]

_INK = "#22303c"
_RIGHT = "#1f6f8b"
_WRONG = "#c0392b"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a model made of a data set.

    Attributes
    ----------
    dataset : str
        One of ``celosia.sw.data.DATASETS``.
    device : str
        Where it ran.
    confusion : numpy.ndarray
        int64, shape ``(10, 10)``: images by what they show and by what they were taken for.
    statistics : Statistics
        What the runs have cost.
    """

    dataset: str
    device: str
    confusion: np.ndarray
    statistics: Statistics

    @property
    def images(self) -> int:
        """Number of images."""
        return int(self.confusion.sum())

    @property
    def right(self) -> int:
        """Number of images taken for what they show."""
        return int(self.confusion.trace())

    @property
    def accuracy(self) -> float:
        """Share of images taken for what they show, 0 to 1."""
        return self.right / self.images

    @property
    def images_per_second(self) -> float:
        """Speed on the host's clock, without set-up."""
        return self.images / self.statistics.seconds

    def as_dict(self) -> dict[str, Any]:
        """Return all figures under their names."""
        return {
            "dataset": self.dataset,
            "device": self.device,
            "images": self.images,
            "right": self.right,
            "accuracy": self.accuracy,
            "images_per_second": self.images_per_second,
            "classes": list(DATASETS[self.dataset].classes),
            "confusion": self.confusion.tolist(),
            **self.statistics.as_dict(),
        }


def confusion_matrix(labels: np.ndarray, guesses: np.ndarray, classes: int) -> np.ndarray:
    """Count the images of each class by what they were taken for.

    Parameters
    ----------
    labels, guesses : numpy.ndarray
        Integers, shape ``(N,)``, 0 to ``classes - 1``.
    classes : int
        Number of classes.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(classes, classes)``: row the label, column the guess.

    Examples
    --------
    >>> confusion_matrix(np.array([0, 1, 1]), np.array([0, 0, 1]), 2).tolist()
    [[1, 0], [1, 1]]
    """
    pairs = labels.astype(np.int64) * classes + guesses
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def inputs_of(program: Program, dataset: str, images: np.ndarray) -> np.ndarray:
    """Return images as a classifier of the data set takes them.

    Parameters
    ----------
    program : Program
        A model that takes pixels scaled to 0 … 1, and gives a number for each class.
    dataset : str
        One of ``celosia.sw.data.DATASETS``.
    images : numpy.ndarray
        uint8, shape ``(N, 28, 28)``.

    Returns
    -------
    numpy.ndarray
        int8, shape ``(N, *program.inputs[0].shape)``.

    Raises
    ------
    InputError
        If the model has other inputs or outputs.
    """
    wanted = [images[0].size], [len(DATASETS[dataset].classes)]
    given = tuple([port.elements for port in side] for side in (program.inputs, program.outputs))
    if given != wanted:
        names = [" and ".join(map(str, side)) for side in (*wanted, *given)]
        raise InputError(
            f"{program.name}: wanted {names[0]} numbers in and {names[1]} out, as {dataset} has, "
            f"got {names[2]} in and {names[3]} out"
        )
    return quantized(images / np.float32(255), program.inputs[0])


def evaluate(
    session: Session, dataset: str, x: np.ndarray, labels: np.ndarray, *, device: str
) -> Evaluation:
    """Run a classifier on labelled images; show a progress bar where it takes long.

    Parameters
    ----------
    session : Session
        The model on its device.
    dataset : str
        What the images are of: one of ``celosia.sw.data.DATASETS``.
    x : numpy.ndarray
        int8, shape ``(N, ...)``: the images as ``inputs_of`` returns them.
    labels : numpy.ndarray
        uint8, shape ``(N,)``.
    device : str
        Name of the device, for the record.

    Returns
    -------
    Evaluation
        With the greatest output taken for the guess, the first of equals.

    Raises
    ------
    DeviceError
        If the device fails.
    """
    (y,) = session.run([x], progress=True)
    guesses = y.reshape(len(y), -1).argmax(axis=1)
    counts = confusion_matrix(labels, guesses, len(DATASETS[dataset].classes))
    return Evaluation(
        dataset=dataset, device=device, confusion=counts, statistics=session.statistics
    )


def summary(evaluation: Evaluation) -> dict[str, str]:
    """Return what was reached, a text for each figure."""
    costs, config = evaluation.statistics, evaluation.statistics.program.config
    images, right = evaluation.images, evaluation.right
    lines = {
        "core": f"{config.name}, {config.rows} x {config.columns} multipliers",
        "accuracy": f"{right / images:.2%} of {images:,} images, {images - right:,} wrong",
    }
    mistakes = evaluation.confusion * (1 - np.eye(len(evaluation.confusion), dtype=np.int64))
    if mistakes.any():
        label, guess = np.unravel_index(mistakes.argmax(), mistakes.shape)
        names = DATASETS[evaluation.dataset].classes
        lines["most frequent mistake"] = (
            f"{names[label]} taken for {names[guess]}, {mistakes.max():,} of "
            f"{evaluation.confusion[label].sum():,}"
        )
    lines["speed"] = f"{evaluation.images_per_second:,.1f} images/s, batch {costs.program.batch}"
    if costs.cycles_per_input and costs.utilisation:
        lines["cycles per image"] = f"{costs.cycles_per_input:,.1f}"
        lines["multipliers in use"] = f"{costs.utilisation:.1%}"
    return lines


def draw(evaluation: Evaluation) -> bytes:
    """Return the confusion matrix as a picture, PNG.

    Rows are what the images show, with the share that was recognised; columns what they were
    taken for. Right answers are blue, wrong ones red, the more the darker.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 8.8), dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.subplots(gridspec_kw={"left": 0.17, "right": 0.9, "top": 0.82, "bottom": 0.03})
    facts = summary(evaluation)
    first = f"{evaluation.statistics.program.name}  ·  {evaluation.dataset}  ·  {facts['accuracy']}"
    second = [f"{evaluation.device}: {facts['core']}"]
    if "cycles per image" in facts:
        second.append(f"{facts['cycles per image']} cycles per image")
        second.append(f"{facts['multipliers in use']} of the multipliers in use")
    figure.text(0.5, 0.96, first, ha="center", color=_INK, fontsize=13)
    figure.text(0.5, 0.932, "  ·  ".join(second), ha="center", color=_INK, fontsize=10)
    _cells(axes, evaluation.confusion)
    _label(axes, evaluation)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _cells(axes: Any, confusion: np.ndarray) -> None:
    """Colour the cells by their share of the row, and write the counts into them."""
    from matplotlib.colors import to_rgb

    diagonal = np.eye(len(confusion), dtype=bool)
    share = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    # Mistakes are rare: each kind has a scale of its own, and the root lifts single ones.
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
    names = DATASETS[evaluation.dataset].classes
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
    for place in range(1, count):
        axes.axhline(place - 0.5, color="#ecf0f1", linewidth=1)
        axes.axvline(place - 0.5, color="#ecf0f1", linewidth=1)
    for side in axes.spines.values():
        side.set_color("#ecf0f1")
