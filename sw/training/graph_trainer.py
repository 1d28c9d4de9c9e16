"""Training of any network on a device."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.program import Program
from celosia.sw.operators.registry import OPERATORS
from celosia.sw.runtime.arrays import InputError
from celosia.sw.runtime.opening import open_session
from celosia.sw.runtime.session import Session
from celosia.sw.training import batches
from celosia.sw.training.balance import least_deviation
from celosia.sw.training.carriers import Carrier, CoreSteps
from celosia.sw.training.epochs import EpochTrainer, Images
from celosia.sw.training.graph import StepGraph
from celosia.sw.training.groups import Groups
from celosia.sw.training.learner import Learner
from celosia.sw.training.measures import share
from celosia.sw.training.pipeline import ahead, augmented
from celosia.sw.training.state import State

#: Elements of a matrix of weights that is not divided into blocks of columns.
_BLOCK = 1 << 14


class GraphTrainer(EpochTrainer):
    """Trains a network by step graphs.

    - ``network``: in real numbers. ``exponent``: of the images.
    - ``config``, ``device``, ``options``, ``seed``: see ``EpochTrainer``.
    - ``batch``: images of a step. ``epochs``: of the whole training.
    - ``last``: layers that train, counted from the end; all with None. ``loss``: see ``Learner``.
    - ``changes``: of the images, at random: see ``augmented``.
    - ``dropout``: whether half of the hidden results of dense layers are left out.

    Raises InputError if the core cannot train; CompileError if layers do not train.
    """

    def __init__(
        self,
        network: Graph,
        exponent: int,
        config: Config,
        device: str,
        options: dict[str, Any],
        seed: int,
        *,
        batch: int,
        epochs: int,
        last: int | None = None,
        loss: str = "softmax",
        changes: Collection[str] = (),
        dropout: bool = False,
    ) -> None:
        super().__init__(config, device, options, seed)
        if not config.activation_weights:
            requirement = "wanted a core with activation_weights=true"
            raise InputError(f"training: {requirement}, got {config.name}")
        weighted = [o for o in network.operations if o.kind in OPERATORS]
        layers = sum(OPERATORS[operation.kind].weighted for operation in weighted)
        if not layers:
            raise InputError("training: wanted layers with weights, got none")
        if last and last > layers:
            raise InputError(f"training: wanted 1 to {layers} last layers, got {last}")
        self.batch, self.epochs, self.cores = batch, epochs, options.get("cores", 1)
        shape = network.tensors[network.inputs[0]].shape[1:]
        if changes and len(shape) != 3:
            requirement = "wanted images of rows, columns and channels"
            raise InputError(f"augment: {requirement}, got samples of shape {list(shape)}")
        self.changes = changes
        self.groups: Groups | None = None
        self.learner = Learner(
            network,
            batch=batch,
            seed=seed,
            exponent=exponent,
            last=last,
            loss=loss,
            cores=self.cores,
            width=config.columns,
            most=_BLOCK,
            opened=self._carrier,
            dropout=dropout,
        )
        if dropout and not self.learner.step.dropouts:
            requirement = "wanted a dense layer with ReLU before another dense layer"
            raise InputError(f"dropout: {requirement}, got none")
        self.macs = self.learner.macs

    def _carrier(self, step: StepGraph) -> Carrier:
        steps = CoreSteps(step, self.config, self._session, self.groups)
        self.groups = steps.groups
        return steps

    def _session(self, program: Program) -> Session:
        """Open a session of steps; those with operations of the host run on one core."""
        pod = ("cores", "ports") if program.host else ()
        options = {name: value for name, value in self.options.items() if name not in pod}
        return open_session(program, device=self.device_name, **options)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the matrices of weights."""
        return [matrix.shape[1:] for matrix in self.learner.step.weights]

    @property
    def roles(self) -> set[str]:
        """Roles of shifts."""
        return set(self.learner.step.shifts)

    @contextmanager
    def opened(self, state: State, training: Images) -> Iterator[Learner]:
        """Open the device to go on from a state, which gets first weights if it has none.

        Raises InputError if targets differ by less than a step of int8.
        """
        targets = training.labels
        if targets.ndim == 2 and self.learner.options["loss"] == "squares":
            least, deviation = least_deviation(targets), float(targets.std(axis=0).max())
            if deviation < least:
                got = f"{deviation:.3g} around {targets.mean():.6g}"
                requirement = f"wanted targets with a deviation of {least:.3g} at least"
                raise InputError(f"labels: {requirement}, got {got} (subtract their mean)")
        try:
            self.learner.start(state, training.images, training.labels)
            yield self.learner
        finally:
            self.learner.close()

    def drawn(
        self, state: State, device: Learner, training: Images
    ) -> Iterator[list[tuple[int, np.ndarray, np.ndarray]]]:
        """Yield number, images and labels of the step of each core: see ``EpochTrainer``."""
        self.total = self.epochs * self.steps(training)
        self.variance = float(np.var(training.labels, axis=0).mean())
        epoch, order = state.epoch, batches.order(self.seed, state.epoch, len(training))

        def prepare(step: int) -> tuple[int, np.ndarray, np.ndarray]:
            chosen = order[step * self.batch : (step + 1) * self.batch]
            images = training.images[chosen]
            if self.changes:
                random = batches.generator(self.seed, epoch, step, batches.CHANGES)
                images = augmented(images, self.changes, random)
            return step, images, training.labels[chosen]

        steps = ahead(range(state.step, self.steps(training)), prepare)
        while some := list(islice(steps, self.cores)):
            yield some

    def _step(self, state: State, device: Learner, some: Sequence[Any]) -> None:
        numbers, *parts = zip(*some, strict=True)
        images, labels = (np.concatenate(arrays) for arrays in parts)
        before, keys = device.cycles, [(state.epoch, number) for number in numbers]
        results = device.train(state.steps, images, labels, self.total, keys)
        right = share(device.real(np.concatenate(results)), labels, self.variance) * len(labels)
        state.right += round(right) if labels.ndim == 1 else max(right, 0.0)
        state.seen += len(labels)
        state.cycles += device.cycles - before

    def fetch(self, state: State, device: Learner) -> None:
        """Read the weights of a state from the device."""
        assert device.carrier
        state.weights = device.carrier.weights

    def file(self, weights: list[np.ndarray], shifts: Mapping[str, int]) -> bytes:
        """Return the ``.tflite`` file of the network with some weights and shifts."""
        return self.learner.file(weights, shifts)
