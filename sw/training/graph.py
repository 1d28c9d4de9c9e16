"""Graph of a training step of a network: forward pass, loss, backward pass, update."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Tensor
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.step import IMAGE_EXPONENT, MOST, Backward, Choose, Step
from celosia.sw.operators.host import evaluate
from celosia.sw.operators.registry import OPERATORS

#: Losses: softmax cross-entropy, and half of the mean squared error.
LOSSES = ("softmax", "squares")

#: Steps of the logits in which e^x grows by e.
_STEPS = 6.0


@dataclass(frozen=True, eq=False)
class StepGraph:
    """Graph of a training step.

    - ``graph``: inputs are images, labels and noise; states are the bytes of the weights.
    - ``shifts``: by role. ``noises``: bits of the noise, by the name of its input.
    - ``records``: role of the shift, by the name of an input of parameters.
    - ``exponents``: by tensor. ``gradients``: those of the steps of weights, by high bytes.
    """

    graph: Graph
    shifts: Mapping[str, int]
    noises: Mapping[str, int]
    records: Mapping[str, str]
    exponents: Mapping[int, int]
    gradients: Mapping[int, int]


def trained(network: Graph) -> Graph:
    """Return a network without the softmax at its end, which is part of the loss.

    Raises CompileError if it has not one input and one output, or operators that do not train: all
    of them are named.
    """
    operations = network.operations
    if operations and operations[-1].kind == "SOFTMAX":
        outputs = operations[-1].inputs[:1]
        network = replace(network, operations=operations[:-1], outputs=outputs)
    counts = len(network.inputs), len(network.outputs)
    if counts != (1, 1) or not network.operations:
        raise CompileError(f"wanted one input and one output, got {counts[0]} and {counts[1]}")
    unknown = [
        network.label(operation)
        for operation in network.operations
        if operation.kind not in OPERATORS or OPERATORS[operation.kind].gradient is None
    ]
    if unknown:
        raise CompileError(f"wanted layers that train, got {'; '.join(unknown)}")
    return network


def step_graph(
    network: Graph,
    batch: int,
    choose: Choose,
    *,
    loss: str = "softmax",
    width: int = 16,
    most: int = 1 << 14,
    calibration: Sequence[np.ndarray] = (),
) -> StepGraph:
    """Return the graph of a step of a network.

    - ``network``: a graph with a batch of 1 whose weights are the first ones.
    - ``batch``: images of a step. ``width``: columns of noise, and of a block of weights.
    - ``most``: elements of a matrix of weights that is not divided into blocks.
    - ``choose``: returns shifts.
    - ``calibration``: int8 images and labels, to compute the results that ``choose`` looks at.

    Raises CompileError if a layer does not train; the message names it.
    """
    network = trained(network)
    step = Step(network, batch, width, most, choose, _compute if len(calibration) else None)
    contents = [*calibration, None, None]
    (source,), (output,) = network.inputs, network.outputs
    images = step.input("images", step.extents(source), contents[0])
    step.values[source], step.exponents[images] = images, IMAGE_EXPONENT
    backwards: list[tuple[Operation, Backward]] = []
    for operation in network.operations:
        gradient = OPERATORS[operation.kind].gradient
        assert gradient
        count = len(step.states)
        try:
            backward = gradient(step, operation)
        except CompileError as error:
            raise error.at(network.label(operation), operation.place) from None
        if len(step.states) > count or step.learning.intersection(operation.inputs):
            step.learning.update(operation.outputs)
            backwards.append((operation, backward))
    logits = step.values[output]
    labels = step.input("labels", step.shape(logits), contents[1])
    step.errors[output] = [_loss(step, logits, labels, loss)]
    for operation, backward in reversed(backwards):
        backward(step.error(operation.outputs[0]))
    graph = step.graph((logits,)) if not calibration else network
    return StepGraph(graph, step.shifts, step.noises, step.records, step.exponents, step.gradients)


def _loss(step: Step, logits: int, labels: int, loss: str) -> int:
    """Add the errors of logits."""
    shape = step.shape(logits)
    if loss == "squares":
        addends = ((labels, 1), (logits, -1))
        sums = step.sum_of("loss", addends, step.exponents[logits])
        return step.shifted(sums, shift=0, low=-MOST)
    rows = (*shape[:2], min(step.width, shape[2]))
    noises = [step.input(name, rows) for name in ("softmax/noise", "mean/noise")]
    step.noises |= {"softmax/noise": 7, "mean/noise": 7}
    errors = step.operate("SoftmaxErrors", (logits, labels, *noises), shape, "loss", steps=_STEPS)
    step.exponents[errors] = 0
    return errors


def _compute(tensors: Sequence[Tensor], operation: Operation) -> np.ndarray | None:
    """Return the result of an operation of constant tensors."""
    results = evaluate(tensors, operation)
    return results[0] if results else None
