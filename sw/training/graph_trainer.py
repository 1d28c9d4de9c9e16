"""Training of any network on a device, epoch by epoch."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.program import Program
from celosia.sw.operators.registry import OPERATORS
from celosia.sw.runtime.arrays import InputError
from celosia.sw.runtime.opening import open_session
from celosia.sw.runtime.session import Session
from celosia.sw.training import batches
from celosia.sw.training.balance import least_deviation
from celosia.sw.training.carriers import Carrier, CoreSteps
from celosia.sw.training.epochs import Images, ends_point
from celosia.sw.training.graph import StepGraph
from celosia.sw.training.groups import Groups
from celosia.sw.training.learner import Learner
from celosia.sw.training.measures import share
from celosia.sw.training.pipeline import ahead, augmented
from celosia.sw.training.state import State

#: Elements of a matrix of weights that is not divided into blocks of columns.
_BLOCK = 1 << 14

#: Images of one run of an inference.
_INFERENCE_BATCH = 64


class GraphTrainer:
    """Trains a network by step graphs.

    - ``network``: in real numbers. ``exponent``: of the images.
    - ``config``: the core. ``device``: its name. ``options``: those of ``open_cores``.
    - ``seed``: of order and noise.
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
        self.config, self.device_name, self.options, self.seed = config, device, options, seed
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
        """Yield number, images and labels of a step for each core, to the end of the epoch."""
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
        """Run a step on one core for each batch, and count the images that the logits had right."""
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

    def epoch(
        self, state: State, device: Learner, training: Images, after: Callable[[State, int], None]
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
            if ends_point(state.step, len(some), steps):
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
