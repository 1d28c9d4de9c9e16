"""Balance of first weights: all channels of a layer have results of the same mean and deviation.

Random weights give channels of a layer results of very different size. One scale fits all channels
of a tensor, so int8 leaves small ones few steps, and few channels are left above 0 after some
layers. See docs/design/training.md.
"""

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
#: Deviation of logits.
_LOGITS = 0.5


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


def balance(step: Step, operation: Operation, matrix: np.ndarray, sums: Sums) -> np.ndarray:
    """Return weights with which the results of each channel have mean 0 and deviation 1.

    A layer without bias keeps its means; fixed weights stay. ``sums``: of the inputs. The new
    contents are recorded in the step.
    """
    if step.is_fixed:
        return matrix
    results = _sums(step, matrix, sums).reshape(-1, matrix.shape[1])
    means, sizes = results.mean(axis=0), results.std(axis=0)
    factors = 1 / (np.maximum(sizes, _LEAST * sizes.max(initial=0)) + (sizes.max(initial=0) == 0))
    if operation.outputs == step.network.outputs:
        factors *= _LOGITS
    first = step.contents(operation, 1)
    extents = np.ones(first.ndim, int)
    extents[-1 if sums.attributes.get("depthwise") else 0] = -1
    changed = {1: first * factors.reshape(extents)}
    if has_bias(operation):
        changed[2] = (-means * factors).reshape(step.contents(operation, 2).shape)
    for position, data in changed.items():
        step.contents_of[operation.inputs[position]] = data.astype(np.float32)
    return (matrix * factors).astype(np.float32)


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
