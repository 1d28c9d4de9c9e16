"""Graph of a training step of a network: forward pass, loss, backward pass, update."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Tensor
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.step import IMAGE_EXPONENT, MOST, Backward, Choose, Step
from celosia.sw.layers.sums import Weights
from celosia.sw.operators.host import evaluate
from celosia.sw.operators.registry import OPERATORS
from celosia.sw.operators.step_errors import MOST_CLASSES
from celosia.sw.training.balance import balance

#: Losses: softmax cross-entropy, and half of the mean squared error.
LOSSES = ("softmax", "squares")

#: Steps of the logits in which e^x grows by e.
STEPS = 6.0


@dataclass(frozen=True, eq=False)
class StepGraph:
    """Graph of a training step.

    - ``graph``: inputs are images, labels and noise; states are the bytes of the weights.
    - ``network``: what trains, without a softmax at its end.
    - ``values``: tensors of the step by tensor of the network.
    - ``weights``: matrices that train, in the order of the network.
    - ``shifts``: by role. ``noises``: bits of the noise, by the name of its input.
    - ``records``: role of the shift, by the name of an input of parameters.
    - ``exponents``: by tensor. ``gradients``: those of the steps of weights, by high bytes.
    """

    graph: Graph
    network: Graph
    values: Mapping[int, int]
    weights: Sequence[Weights]
    shifts: Mapping[str, int]
    noises: Mapping[str, int]
    records: Mapping[str, str]
    exponents: Mapping[int, int]
    gradients: Mapping[int, int]

    @property
    def last(self) -> str:
        """Role of the sums of the last layer with weights."""
        operations = self.network.operations
        layer = [o for o in operations if OPERATORS[o.kind].weighted][-1]
        return f"{layer.kind.lower()}_{layer.place}/sum"


def trained(network: Graph) -> Graph:
    """Return a network without the softmax at its end, which is part of the loss.

    Raises CompileError if it has not one input and one output.
    """
    operations = network.operations
    if operations and operations[-1].kind == "SOFTMAX":
        outputs = operations[-1].inputs[:1]
        network = replace(network, operations=operations[:-1], outputs=outputs)
    counts = len(network.inputs), len(network.outputs)
    if counts != (1, 1) or not network.operations:
        raise CompileError(f"wanted one input and one output, got {counts[0]} and {counts[1]}")
    return network


def step_graph(
    network: Graph,
    batch: int,
    choose: Choose,
    *,
    loss: str = "softmax",
    width: int = 16,
    most: int = 1 << 14,
    last: int | None = None,
    exponent: int = IMAGE_EXPONENT,
    calibration: Sequence[np.ndarray] = (),
    balanced: bool = False,
) -> StepGraph:
    """Return the graph of a step of a network.

    - ``network``: a graph with a batch of 1 whose weights are the first ones.
    - ``batch``: images of a step. ``width``: columns of noise, and of a block of weights.
    - ``most``: elements of a matrix of weights that is not divided into blocks.
    - ``choose``: returns shifts.
    - ``last``: layers with weights that train, counted from the end; all unless given.
    - ``exponent``: of the images.
    - ``calibration``: int8 images and labels, to compute the results that ``choose`` looks at.
    - ``balanced``: whether the first weights that train are balanced by these images.

    Raises CompileError if layers do not train; the message names all of them.
    """
    network = trained(network)
    step = Step(network, batch, width, most, choose, _compute if len(calibration) else None)
    if balanced:
        step.balance = partial(balance, step)
    contents = [*calibration, None, None]
    (source,), (output,) = network.inputs, network.outputs
    images = step.input("images", step.extents(source), contents[0])
    step.values[source], step.exponents[images] = images, exponent
    backwards = _forward(step, last)
    result = step.values[output]
    logits = step.matrix(result)
    labels = step.input("labels", step.shape(logits), contents[1])
    errors = _loss(step, logits, labels, loss)
    step.errors[output] = [step.reshaped(errors, step.shape(result))]
    for operation, backward in reversed(backwards):
        backward(step.error(operation.outputs[0]))
    return StepGraph(
        graph=step.graph((logits,)) if not calibration else network,
        network=replace(network, tensors=_with(network.tensors, step.contents_of)),
        values=step.values,
        weights=step.trained,
        shifts=step.shifts,
        noises=step.noises,
        records=step.records,
        exponents=step.exponents,
        gradients=step.gradients,
    )


def _forward(step: Step, last: int | None) -> list[tuple[Operation, Backward]]:
    """Add the forward pass; return the operations that errors pass, with their backward passes."""
    operations = step.network.operations
    weighted = [o for o in operations if o.kind in OPERATORS and OPERATORS[o.kind].weighted]
    training = weighted[max(0, len(weighted) - last) :] if last else weighted
    backwards: list[tuple[Operation, Backward]] = []
    refusals = []
    for operation in operations:
        record = OPERATORS.get(operation.kind)
        step.is_fixed = bool(weighted) and operation in weighted and operation not in training
        count = len(step.states)
        try:
            if record is None or record.gradient is None:
                raise CompileError("does not train")
            backward = record.gradient(step, operation)
        except CompileError as error:
            refusals.append(f"{step.network.label(operation)}: {error.reason}")
            # A stand-in: layers after it are checked, too.
            for number in operation.outputs:
                step.values[number] = step.input(f"result {number}", step.extents(number))
                step.exponents[step.values[number]] = 0
            continue
        if len(step.states) > count or step.learning.intersection(operation.inputs):
            step.learning.update(operation.outputs)
            backwards.append((operation, backward))
    if refusals:
        raise CompileError(f"wanted layers that train, got {'; '.join(refusals)}")
    return backwards


def _loss(step: Step, logits: int, labels: int, loss: str) -> int:
    """Add the errors of logits."""
    shape = step.shape(logits)
    if loss == "squares":
        addends = ((labels, 1), (logits, -1))
        sums = step.sum_of("loss", addends, step.exponents[logits])
        return step.shifted(sums, shift=0, low=-MOST)
    if not 2 <= shape[2] <= MOST_CLASSES:
        raise CompileError(f"wanted 2 to {MOST_CLASSES} classes, got {shape[2]}", layer="loss")
    rows = (*shape[:2], min(step.width, shape[2]))
    noises = [step.input(name, rows) for name in ("softmax/noise", "mean/noise")]
    step.noises |= {"softmax/noise": 7, "mean/noise": 7}
    errors = step.operate("SoftmaxErrors", (logits, labels, *noises), shape, "loss", steps=STEPS)
    step.exponents[errors] = 0
    return errors


def _with(tensors: Sequence[Tensor], contents: Mapping[int, np.ndarray]) -> tuple[Tensor, ...]:
    """Return tensors, some of which have other contents."""
    return tuple(
        replace(tensor, data=contents.get(number, tensor.data))
        for number, tensor in enumerate(tensors)
    )


def _compute(tensors: Sequence[Tensor], operation: Operation) -> np.ndarray | None:
    """Return the result of an operation of constant tensors."""
    results = evaluate(tensors, operation)
    return results[0] if results else None
