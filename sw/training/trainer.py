"""Training of a network on a device, epoch by epoch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import PROGRAM_BYTES, Config
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.driver.device import DeviceError, PodDevice
from celosia.sw.frontend.source import load
from celosia.sw.runtime.backends import open_cores
from celosia.sw.runtime.opening import open_session
from celosia.sw.training import batches, weights
from celosia.sw.training.export import image_shape, tflite_of
from celosia.sw.training.scheme import TrainableNetwork
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

    Each core of a pod does one step; then the sum of their changes is added to the weights.

    ``network``, ``config``: what to train, and the core; ``device``: name of the device;
    ``options``: those of ``open_cores``; ``seed``: of order and noise.
    Raises InputError if the core cannot train the network.
    """

    def __init__(
        self,
        network: TrainableNetwork,
        config: Config,
        device: str,
        options: dict[str, Any],
        seed: int,
    ) -> None:
        self.network = network
        self.config = config
        self.device_name = device
        self.options = options
        self.seed = seed
        self.layout = Layout(network, config)
        self.code = encoded(self.layout)

    @contextmanager
    def opened(self, state: State) -> Iterator[PodDevice]:
        """Open the device, with program, constants and the weights of a state in memory."""
        layout = self.layout
        memory = layout.program + len(self.code) + PROGRAM_BYTES
        device = open_cores(self.device_name, self.config, memory, **self.options)
        try:
            # Weights, inputs and results of a step lie between the constants and the program.
            device.keep_private(layout.weights[0][0], layout.program)
            contents = {layout.program: self.code, **constants.contents(layout)}
            for address, content in contents.items():
                device.write_shared(address, content)
            weights.write(layout, state.weights, *device.cores)
            yield device
        finally:
            device.close()

    def epoch(
        self, state: State, device: PodDevice, training: Images, after: Callable[[State, int], None]
    ) -> None:
        """Train from the next step of a state to the end of its epoch.

        ``after``: called with the number of steps that were done at once; the weights of the state
        are then older ones, unless it calls ``fetch``.
        """
        # The shifts of updates, which depend on the epoch, are among the bytes of a batch.
        layout = Layout(self.network.at(state.epoch, len(device.cores)), self.config)
        steps = self.steps(training)
        drawn = batches.epoch_batches(
            layout, training.images, training.labels, self.seed, state.epoch, state.step
        )
        while some := list(islice(drawn, len(device.cores))):
            self._step(state, device, some)
            if _ends_point(state.step, len(some), steps):
                passed = state.epoch + state.step / steps
                state.curve.append((passed, state.right / state.seen))
                state.right = state.seen = 0
            after(state, len(some))
        state.epoch, state.step = state.epoch + 1, 0
        self.fetch(state, device)

    def steps(self, training: Images) -> int:
        """Return the steps of an epoch."""
        return len(training) // self.network.batch

    def _step(self, state: State, device: PodDevice, some: list[tuple[np.ndarray, bytes]]) -> None:
        """Run a step on one core for each batch, and count the images that the logits had right."""
        for core, (_, packed) in zip(device.cores, some, strict=False):
            core.write(self.layout.host, packed)
        count = len(self.code) // WORD_BYTES
        results = device.run_each(self.layout.program, count, range(len(some)))
        cycles = 0
        for number, result in enumerate(results):
            name = f"core {number}: " if len(device.cores) > 1 else ""
            if isinstance(result, RuntimeError):
                raise DeviceError(f"{name}{result}")
            if result.error is not None:
                code, unit, index = result.error
                text = f"{code.name} in {unit.name}: instruction {index} of a step"
                raise DeviceError(f"{name}{text}")
            cycles = max(cycles, result.cycles or 0)
        for core, (labels, _) in zip(device.cores, some, strict=False):
            shape = len(labels), self.layout.classes
            raw = core.read(self.layout.scores, shape[0] * shape[1])
            guesses = np.frombuffer(raw, np.int8).reshape(shape).argmax(1)
            state.right += int((guesses == labels).sum())
            state.seen += len(labels)
        if len(device.cores) > 1:
            self._add(state, device, len(some))
        state.step += len(some)
        state.steps += len(some)
        state.cycles += cycles

    def _add(self, state: State, device: PodDevice, count: int) -> None:
        """Add the changes of the weights of the first cores, and give all cores the sums."""
        results = [weights.read(self.layout, core) for core in device.cores[:count]]
        state.weights = [
            weights.limited(before + sum(weight - before for weight in after))
            for before, *after in zip(state.weights, *results, strict=True)
        ]
        weights.write(self.layout, state.weights, *device.cores)

    def fetch(self, state: State, device: PodDevice) -> None:
        """Read the weights of a state from the device."""
        state.weights = weights.read(self.layout, device.cores[0])

    def accuracy(self, values: list[np.ndarray], images: Images) -> float:
        """Return the share of images that the exported file has right, on the device."""
        graph = load(tflite_of(self.network, values))
        program = compile_graph(graph, self.config, min(_INFERENCE_BATCH, len(images)))
        with open_session(program, device=self.device_name, **self.options) as session:
            (scores,) = session.run([images.images.reshape(-1, *image_shape(self.network))])
        return float((scores.reshape(len(images), -1).argmax(1) == images.labels).mean())

    def validate(self, state: State, validation: Images) -> float:
        """Measure a state at the end of an epoch; keep its weights if they are the best."""
        accuracy = self.accuracy(state.weights, validation)
        if accuracy > state.best_accuracy or not state.best:
            state.best = [array.copy() for array in state.weights]
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
    pixels = batches.pixels(images)
    parts = shuffled[count:], shuffled[:count]
    first, second = (Images(pixels[part], labels[part]) for part in parts)
    return first, second
