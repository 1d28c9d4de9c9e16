"""Training by step graphs: any network whose operators have gradients."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from celosia.hw.arch.config import PARAMETER_BYTES
from celosia.sw.ir.graph import Graph
from celosia.sw.layers.channel import CHANNEL, LEFT, MULTIPLIER
from celosia.sw.layers.weight_bytes import MOST, limited
from celosia.sw.operators.registry import OPERATORS
from celosia.sw.training import batches
from celosia.sw.training.balance import Aims, is_fresh, least_deviation
from celosia.sw.training.calibration import IMAGES, Calibration, bounded, least
from celosia.sw.training.carriers import Carrier, HostSteps, Inputs
from celosia.sw.training.deployed import tflite_of
from celosia.sw.training.graph import STEPS, StepGraph, calibrated, step_graph
from celosia.sw.training.measures import cross_entropy, share, softmax
from celosia.sw.training.state import State

#: Share of right calibration images below which first weights are balanced, if they are fresh.
_BALANCED_SHARE = 0.5


class Learner:
    """Trains a network, step by step.

    - ``network``: in real numbers, with its first weights.
    - ``batch``: images of a step; ``cores``: steps from the same weights, whose changes add up.
    - ``exponent``: of the images. ``last``: layers that train, counted from the end.
    - ``loss``: one of ``LOSSES``. ``width``: columns of a core.
    - ``most``: elements of a matrix that is not divided into blocks.
    - ``opened``: returns what carries a step.
    - ``dropout``: whether half of the hidden results of dense layers are left out.

    Raises CompileError if layers do not train.
    """

    def __init__(
        self,
        network: Graph,
        *,
        batch: int,
        seed: int,
        exponent: int,
        last: int | None = None,
        loss: str = "softmax",
        cores: int = 1,
        width: int = 16,
        most: int = 1 << 30,
        opened: Callable[[StepGraph], Carrier] = HostSteps,
        dropout: bool = False,
    ) -> None:
        self.network, self.batch, self.seed, self.cores = network, batch, seed, cores
        self.opened, self.dropout = opened, dropout
        self.options: dict[str, Any] = {"width": width, "most": most}
        self.options |= {"last": last, "exponent": exponent, "loss": loss}
        self.calibration = Calibration()
        self.step = step_graph(network, batch, lambda *_: 8, dropout=dropout, **self.options)
        self.host = HostSteps(self.step)
        self.carrier: Carrier | None = None
        self._cycles = 0
        #: Factor of the updates, for schedules of others.
        self.rate = 1.0

    def start(self, state: State, images: np.ndarray, labels: np.ndarray) -> None:
        """Prepare to go on from a state; a new one gets first weights and shifts.

        ``images``: int8; ``labels``: classes, or a row of real numbers for each image: shares of
        the classes, or the targets of squares.
        """
        self.calibration = state.calibration
        some = images[:IMAGES], labels[:IMAGES]
        is_new = not self.calibration.shifts
        if is_new:
            self._calibrate(state, *some)
        if aims := self._aims(some[1]):
            # A state that goes on has its weights, but their exponents are those of first ones.
            before = state.weights, self.calibration.shifts
            self._calibrate(state, *some, balanced=aims)
            if not is_new:
                state.weights, self.calibration.shifts = before
        self._build(state.weights)

    def _aims(self, labels: np.ndarray) -> Aims | None:
        """Return what the weights are balanced to; None if they stay.

        All are if they are fresh, and the last ones if the outputs are farther from their targets
        than the mean of these. Targets that int8 holds as one number tell nothing.
        """
        targets = self._rows(labels) if self.options["loss"] == "squares" else None
        if targets is not None and least_deviation(targets) > targets.std(axis=0).max():
            return None
        if self.calibration.right < _BALANCED_SHARE and is_fresh(self.network):
            return Aims(targets)
        return Aims(targets, True) if self.calibration.right < 0 else None

    def _calibrate(
        self,
        state: State,
        images: np.ndarray,
        labels: np.ndarray,
        *,
        balanced: Aims | None = None,
    ) -> None:
        """Choose the first shifts by the results of some images; balance weights if wanted."""
        last, options = self.step.last, self.options
        targets = self._rows(labels) if options["loss"] == "squares" else np.zeros(1)
        target = float(np.abs(targets).max(initial=0))
        self.network, self.calibration.shifts = calibrated(
            self.network,
            lambda role, results, exponent: least(role, role == last, results, exponent, target),
            images,
            lambda exponent: self._labels(labels, exponent),
            balanced=balanced,
            **options,
        )
        self._build(None)
        state.weights = self.host.weights
        if not balanced:
            self.calibration.right = self.accuracy(images, labels)

    @property
    def cycles(self) -> int:
        """Cycles of all steps so far, where the carrier counts them."""
        return self._cycles + (self.carrier.cycles if self.carrier else 0)

    @property
    def macs(self) -> int:
        """Multiplications of a step: forward, errors and gradients of the layers that train."""
        tensors, layers = self.step.network.tensors, []
        for operation in self.step.network.operations:
            if OPERATORS[operation.kind].weighted:
                result, weights = tensors[operation.outputs[0]], tensors[operation.inputs[1]]
                layers.append(result.elements * weights.elements // result.shape[-1])
        training = layers[-(self.options["last"] or len(layers)) :]
        return self.batch * (sum(layers) + 2 * sum(training) - training[0])

    @property
    def classes(self) -> int:
        """Classes, or numbers of squares, of an image; one logit is for two classes."""
        outputs = self.step.graph.tensors[self.step.graph.outputs[0]].shape[-1]
        return max(outputs, 2) if self.options["loss"] == "softmax" else outputs

    def _shaped(self, images: np.ndarray, count: int) -> np.ndarray:
        shape = self.step.graph.tensors[self.host.names["images"]].shape
        if len(shape) == 3:
            return images.reshape(1, count, shape[2])
        return images.reshape(count, *shape[1:])

    def _build(self, weights: Sequence[np.ndarray] | None) -> None:
        """Make the graph of a step with the present shifts, and open what carries it."""
        trains = weights is not None
        self.step = self._step(self.calibration.shifts, dropout=self.dropout and trains)
        self.host = HostSteps(self.step)
        self.close()
        if weights is not None:
            self.carrier = self.opened(self.step)
            self.carrier.weights = list(weights)

    def close(self) -> None:
        """Close what carries the steps."""
        if self.carrier:
            self._cycles += self.carrier.cycles
            self.carrier.close()
        self.carrier = None

    def train(
        self,
        steps: int,
        images: np.ndarray,
        labels: np.ndarray,
        total: int,
        keys: Sequence[tuple[int, ...]],
    ) -> list[np.ndarray]:
        """Run a step of each core; return the logits of their images.

        - ``steps``: before this one. ``images``, ``labels``: of all cores.
        - ``total``: steps of the training.
        - ``keys``: of the noise, for each core.
        """
        assert self.carrier
        parts = [slice(n * self.batch, (n + 1) * self.batch) for n in range(len(keys))]
        if self.calibration.is_due(steps, len(keys)):
            ratio = self.calibration.ratio(steps, total) * self.rate / self.cores**0.5
            self._watch(images[parts[0]], labels[parts[0]], ratio, keys[0])
        inputs = [
            self._inputs(images[part], labels[part], key)
            for part, key in zip(parts, keys, strict=True)
        ]
        results = self.carrier.run(inputs)
        self.calibration.note(self._loss(np.concatenate(results), labels))
        return results

    def _loss(self, logits: np.ndarray, labels: np.ndarray) -> float:
        """Return the mean loss of images."""
        real, rows = self.real(logits), self._rows(labels)
        if self.options["loss"] == "squares":
            return float(np.square(real - rows).mean())
        return cross_entropy(softmax(real), rows)

    def _watch(
        self, images: np.ndarray, labels: np.ndarray, ratio: float, key: tuple[int, ...]
    ) -> None:
        """Look at the results of a step on the host, and correct shifts and weights."""
        assert self.carrier
        weights = self.carrier.weights
        self.host.weights = weights
        self.host.one(self._inputs(images, labels, key))
        before = dict(self.calibration.shifts)
        changed = self.calibration.watch(self.step, self.host, ratio)
        weights = bounded(self.step, weights)
        if changed:
            self._build(self._rescaled(weights, before))
        else:
            self.carrier.weights = weights

    def _rescaled(
        self, weights: Sequence[np.ndarray], before: Mapping[str, int]
    ) -> list[np.ndarray]:
        """Return weights that are the same real numbers with new shifts; so are logits and updates.

        Where the results of a layer are twice as large a step, the sums of the next ones are half
        as many, and so must be their biases. Softmax takes logits in steps that do not change.
        """
        shifts, last = self.calibration.shifts, self.step.last
        step = self._step(shifts)
        if self.options["loss"] == "softmax":
            new, old = (one.exponents[one.graph.outputs[0]] for one in (step, self.step))
            more = new - old - (shifts[last] - before[last])
            shifts[last] = max(0, shifts[last] - more)
            step = self._step(shifts)
        results = []
        for old, new, array in zip(self.step.weights, step.weights, weights, strict=True):
            less = step.exponents[new.highs[0]] - self.step.exponents[old.highs[0]]
            results.append(limited(np.rint(array * 2.0**-less)))
            sums = step.update_exponent(new) - self.step.update_exponent(old)
            self.calibration.rescale(f"{new.name}/step", sums, less)
        return results

    def _inputs(self, images: np.ndarray, labels: np.ndarray, key: tuple[int, ...]) -> Inputs:
        """Return the inputs of a step, with noise by a key."""
        step, random = self.step, batches.generator(self.seed, *key, batches.NOISE)
        columns = {f"{matrix.name}/step": matrix.shape[2] for matrix in step.weights}
        records: dict[str, np.ndarray] = {}
        inputs = {}
        for number in step.graph.inputs:
            name, shape = step.graph.tensors[number].name, step.graph.tensors[number].shape
            if name == "images":
                inputs[name] = self._shaped(images, self.batch)
            elif name == "labels":
                inputs[name] = self._labels(labels, step.exponents[step.graph.outputs[0]])
            elif role := step.records.get(name):
                # All blocks of a matrix draw at once: noise does not depend on their number.
                if role not in records:
                    shift = self.calibration.shifts[role]
                    records[role] = _records(shift, columns[role], random)
                part, records[role] = np.split(records[role], [shape[1]])
                inputs[name] = part[None]
            elif name in step.dropouts:
                inputs[name] = random.integers(-1, 1, shape, np.int8) << 7
            else:
                half = 1 << step.noises[name] >> 1
                inputs[name] = random.integers(-half, max(half, 1), shape, np.int8)
        return inputs

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Return the ``share`` of images that the present weights of the host have right."""
        parts = [self._shaped(some, self.batch) for some in _batches(images, self.batch)]
        logits = np.concatenate([self.host.forward(some) for some in parts])[: len(labels)]
        is_shares = labels.ndim == 2 and self.options["loss"] == "softmax"
        return share(self.real(logits), labels.argmax(1) if is_shares else labels)

    def real(self, logits: np.ndarray) -> np.ndarray:
        """Return the real numbers that logits are; e^x grows by e in one, where softmax is next.

        One logit of two classes stands beside a 0.
        """
        if self.options["loss"] == "softmax":
            return np.pad(logits / STEPS, [(0, 0), (int(logits.shape[1] == 1), 0)])
        return logits * 2.0 ** self.step.exponents[self.step.graph.outputs[0]]

    def _rows(self, labels: np.ndarray) -> np.ndarray:
        """Return labels as real numbers, one row for each image; classes are 1 and zeros."""
        return labels if labels.ndim == 2 else np.equal.outer(labels, np.arange(self.classes))

    def _labels(self, labels: np.ndarray, exponent: int) -> np.ndarray:
        """Return labels as a step takes them; ``exponent``: of the logits."""
        unit = 2.0**exponent if self.options["loss"] == "squares" else 1 / MOST
        return np.clip(np.rint(self._rows(labels) / unit), -MOST, MOST).astype(np.int8)[None]

    def file(self, weights: Sequence[np.ndarray], shifts: Mapping[str, int]) -> bytes:
        """Return the ``.tflite`` file of the network with some weights and shifts."""
        return tflite_of(self.network, self._step(shifts), weights)

    def _step(self, shifts: Mapping[str, int], *, dropout: bool = False) -> StepGraph:
        return step_graph(
            self.network,
            self.batch,
            lambda role, *_: shifts[role],
            dropout=dropout,
            **self.options,
        )


def _batches(images: np.ndarray, batch: int) -> Iterator[np.ndarray]:
    """Yield batches of images; zeros fill the last one."""
    for first in range(0, len(images), batch):
        some = images[first : first + batch]
        yield np.pad(some, [(0, batch - len(some)), *[(0, 0)] * (images.ndim - 1)])


def _records(shift: int, columns: int, random: np.random.Generator) -> np.ndarray:
    """Return parameters that shift sums, with noise as bias, one row for each column."""
    half = 1 << shift >> 1
    rows = np.zeros(columns, CHANNEL)
    rows["multiplier"], rows["left"] = MULTIPLIER, LEFT
    rows["right"] = shift
    rows["bias"] = random.integers(-half, max(half, 1), columns)
    return rows.view(np.int8).reshape(columns, PARAMETER_BYTES)
