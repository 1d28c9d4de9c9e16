"""Carriers of training steps: NumPy on the host, and a program on a device."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.ir.program import Program
from celosia.sw.layers.weight_bytes import LOW_BITS, high_bytes, limited
from celosia.sw.operators import host
from celosia.sw.operators.shifted import finished, product_sums
from celosia.sw.runtime.session import Session
from celosia.sw.training.graph import StepGraph
from celosia.sw.training.groups import Groups, compile_step

#: Inputs of a step by name, int8.
Inputs = Mapping[str, np.ndarray]


class Carrier:
    """Runs steps of a graph; keeps the weights from one to the next."""

    step: StepGraph
    #: Cycles so far, where the carrier counts them.
    cycles = 0

    def states(self) -> list[dict[str, np.ndarray]]:
        """Return the states by name, of each core."""
        raise NotImplementedError

    def assign(self, states: Mapping[str, np.ndarray]) -> None:
        """Give the states other contents, on all cores."""
        raise NotImplementedError

    def one(self, inputs: Inputs) -> np.ndarray:
        """Run a step on the first core; return the logits, int8, one row for each image."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what runs the steps."""

    @property
    def weights(self) -> list[np.ndarray]:
        """Weights of all matrices, int32."""
        return weights_of(self.step, self.states()[0])

    @weights.setter
    def weights(self, weights: Sequence[np.ndarray]) -> None:
        self.assign(states_of(self.step, weights))

    def run(self, batches: Sequence[Inputs]) -> list[np.ndarray]:
        """Run a step for each batch, all from the same weights; add all changes to them.

        Returns the logits of each.
        """
        if len(batches) == 1:
            return [self.one(batches[0])]
        before, results, after = self.weights, [], []
        for inputs in batches:
            self.weights = before
            results.append(self.one(inputs))
            after.append(self.weights)
        self.weights = summed(before, after)
        return results


def states_of(step: StepGraph, weights: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the states of a step that weights are, by name."""
    states, tensors = {}, step.graph.tensors
    for matrix, values in zip(step.weights, weights, strict=True):
        highs, start = high_bytes(values), 0
        lows = values - (highs << LOW_BITS)
        for high, low in zip(matrix.highs, matrix.lows, strict=True):
            end = start + tensors[high].shape[2]
            for number, array in ((high, highs), (low, lows)):
                states[tensors[number].name] = array[None, :, start:end].astype(np.int8)
            start = end
    return states


def weights_of(step: StepGraph, states: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the weights that the states of a step are: see ``states_of``."""
    matrices, tensors = [], step.graph.tensors
    for matrix in step.weights:
        rows = matrix.shape[1]
        high, low = (
            np.concatenate([states[tensors[n].name].reshape(rows, -1) for n in numbers], axis=1)
            for numbers in (matrix.highs, matrix.lows)
        )
        matrices.append((high.astype(np.int32) << LOW_BITS) + low)
    return matrices


def summed(before: Sequence[np.ndarray], after: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
    """Return weights with the changes of several steps; those beyond the limits become these."""
    return [
        limited(old + sum(new - old for new in several))
        for old, *several in zip(before, *after, strict=True)
    ]


class HostSteps(Carrier):
    """Steps in NumPy.

    ``values``: tensors of the last step by number; ``sums``: sums of products of the gradients of
    its weights, by role of the shift.
    """

    def __init__(self, step: StepGraph) -> None:
        graph = step.graph
        self.step = step
        self.operators = [host.host_operator(graph.tensors, o) for o in graph.operations]
        self._states = {state.tensor: state.initial for state in graph.states}
        self.names = {graph.tensors[number].name: number for number in graph.inputs}
        tensors = enumerate(graph.tensors)
        self.constants = {n: tensor.data for n, tensor in tensors if tensor.data is not None}
        self.values: dict[int, np.ndarray] = {}
        self.sums: dict[str, list[np.ndarray]] = {}

    def states(self) -> list[dict[str, np.ndarray]]:
        """Return the states by name."""
        tensors = self.step.graph.tensors
        return [{tensors[number].name: array for number, array in self._states.items()}]

    def assign(self, states: Mapping[str, np.ndarray]) -> None:
        """Give the states other contents."""
        tensors = self.step.graph.tensors
        self._states = {number: states[tensors[number].name] for number in self._states}

    def one(self, inputs: Inputs) -> np.ndarray:
        """Run a step; return the logits."""
        self._evaluate(inputs, len(self.operators))
        graph, values = self.step.graph, self.values
        self._states = {state.tensor: values[state.successor] for state in graph.states}
        return self._logits()

    def forward(self, images: np.ndarray) -> np.ndarray:
        """Return the logits of images, as many as a step has; weights stay."""
        graph = self.step.graph
        last = next(n for n, o in enumerate(graph.operations) if graph.outputs[0] in o.outputs)
        self._evaluate({"images": images}, last + 1)
        return self._logits()

    def _logits(self) -> np.ndarray:
        logits = self.values[self.step.graph.outputs[0]]
        return logits.reshape(-1, logits.shape[-1])

    def _evaluate(self, inputs: Inputs, count: int) -> None:
        """Run the first operations."""
        graph, values = self.step.graph, self.constants | self._states
        values |= {self.names[name]: array for name, array in inputs.items()}
        sums: dict[int, np.ndarray] = {}
        self.values, self.sums = values, {}
        pairs = zip(graph.operations[:count], self.operators[:count], strict=True)
        for operation, operator in pairs:
            (result,) = operation.outputs
            arrays = [values[operand.tensor] for operand in operator.sources]
            if not operator.attributes.get("stepped"):
                samples = {n: values[n][None] for n in operation.inputs}
                values[result] = host.run(operator, samples)[result][0]
                continue
            # High and low bytes have the same sums.
            records = operation.inputs[-1]
            if records not in sums:
                sums[records] = product_sums(operator, arrays)
                role = self.step.records[graph.tensors[records].name]
                self.sums.setdefault(role, []).append(sums[records])
            values[result] = finished(operator, sums[records], arrays)


class CoreSteps(Carrier):
    """Steps of a program on a device.

    - ``step``: the graph; ``config``: the core.
    - ``opened``: returns a session of a program.
    - ``groups``: those of a step with other shifts; chosen unless given.
    """

    def __init__(
        self,
        step: StepGraph,
        config: Config,
        opened: Callable[[Program], Session],
        groups: Groups | None = None,
    ) -> None:
        self.step = step
        batch = step.graph.tensors[step.graph.outputs[0]].shape[1]
        self.program, self.groups = compile_step(step.graph, batch, config, groups)
        self.session = opened(self.program)

    @property
    def cycles(self) -> int:
        """Cycles of the core so far, where the device counts them."""
        return self.session.statistics.cycles or 0

    def states(self) -> list[dict[str, np.ndarray]]:
        """Return the states by name, of each core."""
        variables = self.session.variables()
        cores = len(next(iter(variables.values())))
        return [{name: array[core] for name, array in variables.items()} for core in range(cores)]

    def assign(self, states: Mapping[str, np.ndarray]) -> None:
        """Give the states other contents, on all cores."""
        self.session.assign(states)

    def one(self, inputs: Inputs) -> np.ndarray:
        """Run a step on the first core; return the logits."""
        return self._run([inputs])[0]

    def run(self, batches: Sequence[Inputs]) -> list[np.ndarray]:
        """Run a step for each batch, on a core each if the program runs on the core alone."""
        if len(batches) == 1 or self.program.host:
            return super().run(batches)
        before = self.weights
        results = self._run(batches, by_core=True)
        after = [weights_of(self.step, states) for states in self.states()[: len(batches)]]
        self.weights = summed(before, after)
        return results

    def _run(self, batches: Sequence[Inputs], *, by_core: bool = False) -> list[np.ndarray]:
        arrays = [
            np.stack([inputs[port.name].reshape(port.shape) for inputs in batches])
            for port in self.program.inputs
        ]
        (logits,) = self.session.run(arrays, by_core=by_core)
        return list(logits.reshape(len(batches), -1, logits.shape[-1]))

    def close(self) -> None:
        """Close the session."""
        self.session.close()
