"""Training of a network on a device, epoch by epoch."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import PROGRAM_BYTES, Config
from celosia.sw.driver.device import DeviceError, PodDevice
from celosia.sw.runtime.backends import open_cores
from celosia.sw.training import batches, weights
from celosia.sw.training.epochs import EpochTrainer, Images
from celosia.sw.training.export import tflite_of
from celosia.sw.training.scheme import TrainableNetwork
from celosia.sw.training.state import State
from celosia.sw.training.step import constants
from celosia.sw.training.step.layout import Layout
from celosia.sw.training.step.program import encoded


class Trainer(EpochTrainer):
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
        super().__init__(config, device, options, seed)
        self.network, self.batch, self.macs = network, network.batch, network.macs
        self.layout = Layout(network, config)
        self.code = encoded(self.layout)

    @contextmanager
    def opened(self, state: State, training: Images) -> Iterator[PodDevice]:
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

    def drawn(
        self, state: State, device: PodDevice, training: Images
    ) -> Iterator[list[tuple[np.ndarray, bytes]]]:
        """Yield labels and packed bytes of the steps of the cores: see ``EpochTrainer``."""
        # The shifts of updates, which depend on the epoch, are among the bytes of a batch.
        layout = Layout(self.network.at(state.epoch, len(device.cores)), self.config)
        packed = batches.epoch_batches(
            layout, training.images, training.labels, self.seed, state.epoch, state.step
        )
        while some := list(islice(packed, len(device.cores))):
            yield some

    def _step(
        self, state: State, device: PodDevice, some: Sequence[tuple[np.ndarray, bytes]]
    ) -> None:
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

    def file(self, weights: list[np.ndarray], shifts: Mapping[str, int]) -> bytes:
        """Return the ``.tflite`` file of the network with some weights; its shifts stay."""
        return tflite_of(self.network, weights)
