"""Epochs of a training: steps, points of the curve, validations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.runtime.opening import open_session
from celosia.sw.training import batches
from celosia.sw.training.measures import share
from celosia.sw.training.state import State

#: Points of the curve in an epoch, at most.
_POINTS = 20

#: Images of one run of an inference.
_INFERENCE_BATCH = 64


@dataclass(frozen=True)
class Images:
    """Images as the network takes them, int8 with the samples first, and their labels.

    ``labels``: classes, or rows of real numbers, the targets of squares.
    """

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


class EpochTrainer:
    """Trains on a device, epoch by epoch.

    ``config``: the core; ``device_name``: of the device; ``options``: those of ``open_cores``;
    ``batch``: images of a step; ``macs``: multiplications of a step.
    """

    batch: int
    macs: int

    def __init__(self, config: Config, device: str, options: dict[str, Any], seed: int) -> None:
        self.config, self.device_name, self.options, self.seed = config, device, options, seed

    def opened(self, state: State, training: Images) -> AbstractContextManager[Any]:
        """Open the device to go on from a state, which gets first weights if it has none."""
        raise NotImplementedError

    def drawn(self, state: State, device: Any, training: Images) -> Iterator[Sequence[Any]]:
        """Yield batches for the cores from the next step of a state to the end of its epoch."""
        raise NotImplementedError

    def _step(self, state: State, device: Any, some: Sequence[Any]) -> None:
        """Run a step on one core for each batch, and count the images that the logits had right."""
        raise NotImplementedError

    def fetch(self, state: State, device: Any) -> None:
        """Read the weights of a state from the device."""
        raise NotImplementedError

    def file(self, weights: list[np.ndarray], shifts: Mapping[str, int]) -> bytes:
        """Return the ``.tflite`` file of the network with some weights and shifts."""
        raise NotImplementedError

    def epoch(
        self, state: State, device: Any, training: Images, after: Callable[[State, int], None]
    ) -> None:
        """Train from the next step of a state to the end of its epoch.

        ``after``: called with the number of steps that were done at once; the weights of the state
        are then older ones, unless it calls ``fetch``.
        """
        steps = self.steps(training)
        for some in self.drawn(state, device, training):
            self._step(state, device, some)
            state.step += len(some)
            state.steps += len(some)
            if _ends_point(state.step, len(some), steps):
                passed = state.epoch + state.step / steps
                state.curve.append((passed, state.right / state.seen))
                state.right = state.seen = 0
            after(state, len(some))
        state.epoch, state.step = state.epoch + 1, 0
        self.fetch(state, device)

    def steps(self, training: Images) -> int:
        """Return the steps of an epoch."""
        return len(training) // self.batch

    def accuracy(
        self, weights: list[np.ndarray], shifts: Mapping[str, int], images: Images
    ) -> float:
        """Return the ``share`` of images that the exported file has right, on the device."""
        batch = min(_INFERENCE_BATCH, len(images))
        program = compile_graph(load(self.file(weights, shifts)), self.config, batch)
        with open_session(program, device=self.device_name, **self.options) as session:
            (scores,) = session.run([images.images.reshape(-1, *program.inputs[0].shape)])
        (port,) = program.outputs
        real = (scores.reshape(len(images), -1) - float(port.zero_point)) * (port.scale or 1)
        if images.labels.ndim == 1 and real.shape[1] == 1:
            # Logits have the zero point 0, probabilities -128.
            real = np.concatenate([np.full_like(real, 0.5 * (port.zero_point < 0)), real], 1)
        return share(real, images.labels)

    def validate(self, state: State, validation: Images) -> float:
        """Measure a state at the end of an epoch; keep its weights if they are the best."""
        shifts = state.calibration.shifts
        accuracy = self.accuracy(state.weights, shifts, validation)
        if accuracy > state.best_accuracy or not state.best:
            state.best = [array.copy() for array in state.weights]
            state.best_shifts = dict(shifts)
        state.validations.append((float(state.epoch), accuracy))
        return accuracy


def _ends_point(step: int, count: int, steps: int) -> bool:
    """Return True if a point of the curve ends in the last ``count`` steps before ``step``."""
    points = min(_POINTS, steps)
    return step * points // steps > (step - count) * points // steps


def split(images: np.ndarray, labels: np.ndarray, seed: int) -> tuple[Images, Images]:
    """Return images to train and to validate with: one in twelve, in an order by the seed."""
    shuffled = batches.generator(seed, batches.SPLIT).permutation(len(labels))
    count = max(1, len(labels) // 12)
    first, second = (
        Images(images[part], labels[part]) for part in (shuffled[count:], shuffled[:count])
    )
    return first, second
