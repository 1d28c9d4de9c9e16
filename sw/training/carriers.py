"""Carriers of training steps: NumPy on the host, and a program on a device."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.ir.program import Program
from celosia.sw.layers.step import LOW_BITS, high_bytes
from celosia.sw.operators import host
from celosia.sw.operators.shifted import finished, product_sums
from celosia.sw.runtime.session import Session
from celosia.sw.training.graph import StepGraph

#: Inputs of a step by name, int8.
Inputs = Mapping[str, np.ndarray]


class Carrier(Protocol):
    """Runs steps; keeps the weights from one to the next.

    - ``weights``: of all matrices of a step, int32.
    - ``cycles``: counted so far, where the carrier counts them.
    """

    weights: list[np.ndarray]
    cycles: int

    def run(self, inputs: Inputs) -> np.ndarray:
        """Run a step; return the logits, int8, one row for each image."""
        ...

    def close(self) -> None:
        """Release what runs the steps."""
        ...


def bytes_of(step: StepGraph, weights: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
    """Return the states of a step that weights are, by tensor."""
    states = {}
    for matrix, values in zip(step.weights, weights, strict=True):
        highs, start = high_bytes(values), 0
        lows = values - (highs << LOW_BITS)
        for high, low in zip(matrix.highs, matrix.lows, strict=True):
            end = start + step.graph.tensors[high].shape[2]
            for number, array in ((high, highs), (low, lows)):
                states[number] = array[None, :, start:end].astype(np.int8)
            start = end
    return states


def weights_of(step: StepGraph, states: Mapping[int, np.ndarray]) -> list[np.ndarray]:
    """Return the weights that the states of a step are: see ``bytes_of``."""
    matrices = []
    for matrix in step.weights:
        high, low = (
            np.concatenate([states[n].reshape(matrix.shape[1], -1) for n in numbers], axis=1)
            for numbers in (matrix.highs, matrix.lows)
        )
        matrices.append((high.astype(np.int32) << LOW_BITS) + low)
    return matrices


class HostSteps:
    """Steps in NumPy.

    ``values``: tensors of the last step by number; ``sums``: sums of products of the gradients of
    its weights, by role of the shift.
    """

    def __init__(self, step: StepGraph) -> None:
        graph = step.graph
        self.step, self.cycles = step, 0
        self.operators = [host.host_operator(graph.tensors, o) for o in graph.operations]
        self.states = {state.tensor: state.initial for state in graph.states}
        self.names = {graph.tensors[number].name: number for number in graph.inputs}
        tensors = enumerate(graph.tensors)
        self.constants = {n: tensor.data for n, tensor in tensors if tensor.data is not None}
        self.values: dict[int, np.ndarray] = {}
        self.sums: dict[str, list[np.ndarray]] = {}

    @property
    def weights(self) -> list[np.ndarray]:
        """Weights of all matrices, int32."""
        return weights_of(self.step, self.states)

    @weights.setter
    def weights(self, weights: Sequence[np.ndarray]) -> None:
        self.states = bytes_of(self.step, weights)

    def run(self, inputs: Inputs) -> np.ndarray:
        """Run a step; return the logits."""
        self._evaluate(inputs, len(self.operators))
        graph, values = self.step.graph, self.values
        self.states = {state.tensor: values[state.successor] for state in graph.states}
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
        graph, values = self.step.graph, self.constants | self.states
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

    def close(self) -> None:
        """Release nothing."""


class CoreSteps:
    """Steps of a program on a device.

    - ``step``: the graph; ``config``: the core.
    - ``opened``: returns a session of a program.
    """

    def __init__(
        self, step: StepGraph, config: Config, opened: Callable[[Program], Session]
    ) -> None:
        self.step = step
        self.program = compile_graph(step.graph, config)
        self.session = opened(self.program)

    @property
    def cycles(self) -> int:
        """Cycles of the core so far, where the device counts them."""
        return self.session.statistics.cycles or 0

    @property
    def weights(self) -> list[np.ndarray]:
        """Weights of all matrices, int32."""
        return weights_of(self.step, self.session.variables)

    @weights.setter
    def weights(self, weights: Sequence[np.ndarray]) -> None:
        self.session.variables = bytes_of(self.step, weights)

    def run(self, inputs: Inputs) -> np.ndarray:
        """Run a step; return the logits."""
        ports = self.program.inputs
        arrays = [inputs[port.name].reshape(1, *port.shape) for port in ports]
        (logits,) = self.session.run(arrays)
        return logits.reshape(-1, logits.shape[-1])

    def close(self) -> None:
        """Close the session."""
        self.session.close()
