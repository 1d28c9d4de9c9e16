"""Measures of outputs in real numbers: losses, and the share that is right."""

import numpy as np

#: Least probability whose logarithm counts, as in Keras.
_LEAST = 1e-7


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of rows of logits."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def cross_entropy(probabilities: np.ndarray, shares: np.ndarray) -> float:
    """Return the mean cross-entropy of rows of probabilities; ``shares``: of the classes."""
    return float(-(shares * np.log(np.maximum(probabilities, _LEAST))).sum(1).mean())


def share(outputs: np.ndarray, labels: np.ndarray, variance: float | None = None) -> float:
    """Return the share of rows of outputs whose greatest is that of the class.

    Of targets, the share of their variance that the outputs explain; ``variance``: another one.
    """
    if labels.ndim == 1:
        return float((outputs.argmax(1) == labels).mean())
    error = float(np.square(outputs - labels).mean())
    variance = float(np.var(labels, axis=0).mean()) if variance is None else variance
    return 1 - error / max(variance, 1e-30)
