"""Celosia in Keras: models train, and are evaluated, on the core."""

from celosia.sw.keras.training import evaluate, fit, predict

__all__ = ["evaluate", "fit", "predict"]
