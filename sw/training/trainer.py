"""Training of a network on a device, epoch by epoch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import PROGRAM_BYTES, Config
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.device import Device, DeviceError
from celosia.sw.runtime.session import Session
from celosia.sw.training import batches, weights
from celosia.sw.training.export import image_shape, tflite_of
from celosia.sw.training.scheme import Network
from celosia.sw.training.state import State
from celosia.sw.training.step import constants
from celosia.sw.training.step.layout import Layout
from celosia.sw.training.step.program import encoded

#: Points of the curve in an epoch, at most.
_POINTS = 20

#: Images of one run of an inference.
_INFERENCE_BATCH = 64


@dataclass(frozen=True)
class Images:
    """Images as the network takes them, int8 of shape ``(N, inputs)``, and their labels."""

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


class Trainer:
    """Trains a network on a device.

    ``network``, ``config``: what to train, and the core; ``device``: name of the device;
    ``options``: those of ``open_device``; ``seed``: of order and noise.
    Raises InputError if the core cannot train the network.
    """

    def __init__(
        self, network: Network, config: Config, device: str, options: dict[str, Any], seed: int
    ) -> None:
        self.network = network
        self.config = config
        self.device_name = device
        self.options = options
        self.seed = seed
        self.layout = Layout(network, config)
        self.code = encoded(self.layout)

    @contextmanager
    def opened(self, state: State) -> Iterator[Device]:
        """Open the device, with program, constants and the weights of a state in memory."""
        memory = self.layout.program + len(self.code) + PROGRAM_BYTES
        device = open_device(self.device_name, self.config, memory, **self.options)
        try:
            contents = {self.layout.program: self.code, **constants.contents(self.layout)}
            for address, content in contents.items():
                device.write(address, content)
            weights.write(self.layout, device, state.weights)
            yield device
        finally:
            device.close()

    def epoch(
        self, state: State, device: Device, training: Images, after: Callable[[State], None]
    ) -> None:
        """Train from the next step of a state to the end of its epoch.

        ``after``: called after each step; the weights of the state are then those before it,
        unless it calls ``fetch``.
        """
        # The shifts of updates, which depend on the epoch, are among the bytes of a batch.
        layout = Layout(self.network.at(state.epoch), self.config)
        steps = self.steps(training)
        drawn = batches.epoch_batches(
            layout, training.images, training.labels, self.seed, state.epoch, state.step
        )
        for labels, packed in drawn:
            device.write(layout.host, packed)
            self._step(state, device, labels)
            if _ends_point(state.step, steps):
                passed = state.epoch + state.step / steps
                state.curve.append((passed, state.right / state.seen))
                state.right = state.seen = 0
            after(state)
        state.epoch, state.step = state.epoch + 1, 0
        self.fetch(state, device)

    def steps(self, training: Images) -> int:
        """Return the steps of an epoch."""
        return len(training) // self.network.batch

    def _step(self, state: State, device: Device, labels: np.ndarray) -> None:
        """Run one step, and count the images that the logits had right."""
        result = device.run(self.layout.program, len(self.code) // WORD_BYTES)
        if result.error is not None:
            code, unit, index = result.error
            raise DeviceError(f"{code.name} in {unit.name}: instruction {index} of a step")
        shape = len(labels), self.layout.classes
        raw = device.read(self.layout.scores, shape[0] * shape[1])
        guesses = np.frombuffer(raw, np.int8).reshape(shape).argmax(1)
        state.right += int((guesses == labels).sum())
        state.seen += len(labels)
        state.step += 1
        state.steps += 1
        state.cycles += result.cycles or 0

    def fetch(self, state: State, device: Device) -> None:
        """Read the weights of a state from the device."""
        state.weights = weights.read(self.layout, device)

    def accuracy(self, values: list[np.ndarray], images: Images) -> float:
        """Return the share of images that the exported file has right, on the device."""
        graph = load(tflite_of(self.network, values))
        program = compile_graph(graph, self.config, min(_INFERENCE_BATCH, len(images)))
        memory = program.memory_bytes
        device = open_device(self.device_name, self.config, memory, **self.options)
        with Session(program, device) as session:
            (scores,) = session.run([images.images.reshape(-1, *image_shape(self.network))])
        return float((scores.reshape(len(images), -1).argmax(1) == images.labels).mean())

    def validate(self, state: State, validation: Images) -> float:
        """Measure a state at the end of an epoch; keep its weights if they are the best."""
        accuracy = self.accuracy(state.weights, validation)
        if accuracy > state.best_accuracy or not state.best:
            state.best = [array.copy() for array in state.weights]
        state.validations.append((float(state.epoch), accuracy))
        return accuracy


def _ends_point(step: int, steps: int) -> bool:
    """Return True if a point of the curve ends with a step, counted from 1."""
    points = min(_POINTS, steps)
    return step * points // steps > (step - 1) * points // steps


def split(images: np.ndarray, labels: np.ndarray, seed: int) -> tuple[Images, Images]:
    """Return images to train and to validate with: one in twelve, in an order by the seed."""
    shuffled = batches.generator(seed, batches.SPLIT).permutation(len(labels))
    count = max(1, len(labels) // 12)
    pixels = batches.pixels(images)
    parts = shuffled[count:], shuffled[:count]
    first, second = (Images(pixels[part], labels[part]) for part in parts)
    return first, second
