"""Balance of first weights: all channels of a layer have results of the same mean and deviation.

Random weights give channels of a layer results of very different size. One scale fits all channels
of a tensor, so int8 leaves small ones few steps, and few channels are left above 0 after some
layers. See docs/design/training.md.
"""

from typing import NamedTuple

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Quantization, Tensor
from celosia.sw.layers.step import Step
from celosia.sw.layers.sums import Sums, has_bias
from celosia.sw.layers.weight_bytes import MOST
from celosia.sw.operators.host import host_operator
from celosia.sw.operators.registry import OPERATORS
from celosia.sw.operators.shifted import product_sums

#: Part of the greatest deviation of a channel that another's counts as, at least.
_LEAST = 2.0**-4
#: Deviation of logits, and part of the deviation of targets that those of outputs have.
_LOGITS = 0.5


def least_deviation(targets: np.ndarray) -> float:
    """Return the deviation that targets have at least if their int8 differ: a step."""
    return float(np.abs(targets).max(initial=0)) / MOST


class Aims(NamedTuple):
    """Results of the last layer after the balance.

    ``targets``: rows of real numbers that outputs are to come near to; None for logits.
    ``last_alone``: whether other layers keep their weights.
    """

    targets: np.ndarray | None = None
    last_alone: bool = False

    def results(self, channels: int) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and deviation of each channel."""
        if self.targets is None:
            return np.zeros(channels), np.full(channels, _LOGITS)
        columns = self.targets.reshape(-1, channels)
        sizes = columns.std(axis=0)
        return columns.mean(axis=0), _LOGITS * _at_least(sizes)


def is_fresh(network: Graph) -> bool:
    """Return whether no layer has a bias other than 0, as before any training."""
    tensors = network.tensors
    for operation in network.operations:
        record = OPERATORS.get(operation.kind)
        if record and record.weighted:
            biases = [tensors[number].data for number in operation.inputs[2:] if number != -1]
            if any(np.any(data) for data in biases if data is not None):
                return False
    return True


def balance(
    step: Step, aims: Aims, operation: Operation, matrix: np.ndarray, sums: Sums
) -> np.ndarray:
    """Return weights with which the results of each channel have mean 0 and deviation 1.

    A layer without bias keeps its means; fixed weights stay. ``aims``: of the last layer;
    ``sums``: of the inputs. The new contents are recorded in the step.
    """
    is_last = operation.outputs == step.network.outputs
    if step.is_fixed or (aims.last_alone and not is_last):
        return matrix
    results = _sums(step, matrix, sums).reshape(-1, matrix.shape[1])
    means, sizes = results.mean(axis=0), results.std(axis=0)
    middle, deviation = aims.results(matrix.shape[1]) if is_last else (0.0, 1.0)
    factors = deviation / _at_least(sizes)
    first = step.contents(operation, 1)
    extents = np.ones(first.ndim, int)
    extents[-1 if sums.attributes.get("depthwise") else 0] = -1
    changed = {1: first * factors.reshape(extents)}
    if has_bias(operation):
        changed[2] = (middle - means * factors).reshape(step.contents(operation, 2).shape)
    for position, data in changed.items():
        step.contents_of[operation.inputs[position]] = data.astype(np.float32)
    return (matrix * factors).astype(np.float32)


def _at_least(sizes: np.ndarray) -> np.ndarray:
    """Return sizes, of which none is far below the greatest; 1 where all are 0."""
    greatest = sizes.max(initial=0)
    return np.maximum(sizes, _LEAST * greatest) + (greatest == 0)


def _sums(step: Step, matrix: np.ndarray, sums: Sums) -> np.ndarray:
    """Return the results of a layer without bias and activation, in real numbers."""
    unit = float(np.abs(matrix).max(initial=0) or 1) / MOST
    trial = np.rint(matrix / unit)[None].astype(np.int8)
    plain = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
    first, last = len(step.tensors), len(step.tensors) + 1
    tensors = [
        *step.tensors,
        Tensor("", trial.shape, trial.dtype, plain),
        Tensor("", sums.shape, trial.dtype, plain),
    ]
    fields = {"low": -128, "high": 127, "rounding": "UP", "kept_bits": 0, "bias": 0, "shift": 0}
    fields |= {"stepped": False, "factors": ()} | sums.attributes
    operation = Operation(sums.kind, 0, (*sums.operands, first), (last,), fields)
    operator = host_operator(tensors, operation)
    contents = step.tensors[sums.operands[0]].data
    assert contents is not None
    return product_sums(operator, [contents, trial]) * (unit * 2.0**sums.exponent)
