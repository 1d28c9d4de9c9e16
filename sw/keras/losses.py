"""Losses of Keras models that train on the core."""

from typing import Any, NamedTuple

import numpy as np

from celosia.sw.runtime.arrays import InputError
from celosia.sw.training.measures import cross_entropy, share, softmax

_ENTROPIES = (
    "categorical_crossentropy",
    "sparse_categorical_crossentropy",
    "binary_crossentropy",
)
_BINARY = _ENTROPIES[2]
_SQUARES = ("mse", "mean_squared_error")


class Loss(NamedTuple):
    """Loss of a model: one of those of a step, and the share of its labels for all classes.

    ``one_hot``: true if Keras takes labels with a 1 and zeros; ``is_binary``: true if the model has
    one output for two classes.
    """

    kind: str
    smoothing: float = 0.0
    one_hot: bool = False
    is_binary: bool = False

    def classes(self, model: Any) -> int:
        """Return the classes that a model has, or its outputs.

        Raises InputError if they do not fit the loss.
        """
        outputs = int(np.prod(model.output_shape[1:]))
        if self.kind == "softmax" and self.is_binary != (outputs == 1):
            requirement = "one output with" if self.is_binary else "two outputs or more without"
            raise InputError(f"model {model.name}: wanted {requirement} {_BINARY}, got {outputs}")
        return 2 if self.is_binary else outputs

    def labels(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """Return labels as a step is trained with them."""
        if self.kind == "squares" or not self.smoothing:
            return labels
        return self.smoothing / classes + (1 - self.smoothing) * np.eye(classes)[labels]

    def outputs(self, logits: np.ndarray) -> np.ndarray:
        """Return probabilities of logits in real numbers; logits themselves of squares."""
        return logits if self.kind == "squares" else softmax(logits)

    def probabilities(self, model: Any, scores: np.ndarray) -> np.ndarray:
        """Return what ``logs`` takes of the outputs of a model: of one, those of both classes."""
        if not _ends_in_probabilities(model):
            return self.outputs(np.pad(scores, [(0, 0), (int(self.is_binary), 0)]))
        return np.concatenate([1 - scores, scores], 1) if self.is_binary else scores

    def logs(self, outputs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        """Return the loss of outputs, and the accuracy of probabilities."""
        if self.kind == "squares":
            return {"loss": float(np.square(outputs.reshape(labels.shape) - labels).mean())}
        shares = self.labels(labels, outputs.shape[1])
        shares = shares if shares.ndim == 2 else np.eye(outputs.shape[1])[labels]
        return {"loss": cross_entropy(outputs, shares), "accuracy": share(outputs, labels)}


def loss_of(model: Any) -> Loss:
    """Return the loss of a model; cross-entropy if it is not compiled."""
    loss = getattr(model, "loss", None)
    if loss is None:
        return Loss("softmax")
    name = loss if isinstance(loss, str) else getattr(loss, "name", getattr(loss, "__name__", loss))
    if name in _SQUARES:
        return Loss("squares")
    if name not in _ENTROPIES:
        losses = " or ".join(f"loss={name!r}" for name in (_ENTROPIES[1], _SQUARES[0]))
        raise InputError(f"model {model.name}: wanted compile({losses}), got {name}")
    smoothing = float(getattr(loss, "label_smoothing", 0.0))
    return Loss("softmax", smoothing, name == _ENTROPIES[0], name == _BINARY)


def _ends_in_probabilities(model: Any) -> bool:
    layer = model.layers[-1]
    activation = getattr(getattr(layer, "activation", None), "__name__", "")
    return bool({"softmax", "sigmoid"} & {activation, type(layer).__name__.lower()})
