"""Graph of a training step of a network: forward pass, loss, backward pass, update."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Tensor
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.shapes import RESHAPES
from celosia.sw.layers.step import IMAGE_EXPONENT, Backward, Choose, Step
from celosia.sw.layers.sums import Weights
from celosia.sw.layers.weight_bytes import MOST
from celosia.sw.operators.host import evaluate
from celosia.sw.operators.registry import OPERATORS
from celosia.sw.operators.step_errors import MOST_CLASSES
from celosia.sw.training.balance import Aims, balance

#: Losses: softmax cross-entropy, and half of the mean squared error.
LOSSES = ("softmax", "squares")

#: Activations that sums may have.
_ACTIVATIONS = ("RELU", "RELU6")

#: Ends of a network that are part of the loss.
_SOFTMAX = ("SOFTMAX", "LOG_SOFTMAX")

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
    - ``dropouts``: inputs of -128 for results that are left out, else 0.
    - ``exponents``: by tensor. ``gradients``: those of the steps of weights, by high bytes.
    - ``loss``: one of ``LOSSES``.
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
    dropouts: Collection[str]
    loss: str = "softmax"

    @property
    def last(self) -> str:
        """Role of the sums of the last layer with weights."""
        operations = self.network.operations
        layer = [o for o in operations if OPERATORS[o.kind].weighted][-1]
        return f"{layer.kind.lower()}_{layer.place}/sum"

    def update_exponent(self, weights: Weights) -> int:
        """Return the exponent of the updates of a matrix: of its gradients' sums, shifted."""
        return self.gradients[weights.highs[0]] - self.shifts[f"{weights.name}/step"]


def ending(network: Graph) -> Operation | None:
    """Return the softmax at the end, its logarithm, or the logistic function of one output."""
    for operation in reversed(network.operations):
        if operation.kind not in RESHAPES:
            is_one = network.tensors[operation.outputs[0]].elements == 1
            kinds = (*_SOFTMAX, "LOGISTIC") if is_one else _SOFTMAX
            return operation if operation.kind in kinds else None
    return None


def trained(network: Graph, loss: str = "softmax") -> Graph:
    """Return a network without what is part of the loss: see ``ending``.

    Activations of sums that nothing else reads are part of the operation before: results that they
    clamp want no steps.

    Raises CompileError if it has not one input and one output, or a softmax and another loss.
    """
    if end := ending(network):
        if loss != "softmax":
            raise CompileError(
                f"wanted no {end.kind} at the end with the loss {loss}, got one",
                layer=network.name,
            )
        renamed = {end.outputs[0]: end.inputs[0]}
        operations = tuple(
            replace(o, inputs=tuple(renamed.get(n, n) for n in o.inputs))
            for o in network.operations
            if o is not end
        )
        outputs = tuple(renamed.get(number, number) for number in network.outputs)
        network = replace(network, operations=operations, outputs=outputs)
    counts = len(network.inputs), len(network.outputs)
    if counts != (1, 1) or not network.operations:
        got = f"{counts[0]} and {counts[1]}" if network.operations else "no layers"
        raise CompileError(f"wanted one input and one output, got {got}", layer=network.name)
    return _fused(network)


def _fused(network: Graph) -> Graph:
    """Return a network whose sums have the activations that alone read them."""
    operations: list[Operation] = []
    readers = Counter(number for o in network.operations for number in set(o.inputs))
    for operation in network.operations:
        makers = [o for o in operations if o.outputs == operation.inputs]
        if operation.kind not in _ACTIVATIONS or not makers:
            operations.append(operation)
            continue
        (before,), fields = makers, makers[0].attributes
        is_sum = before.kind == "ADD" or OPERATORS[before.kind].weighted
        if not is_sum or fields["activation"] != "NONE" or readers[before.outputs[0]] > 1:
            operations.append(operation)
            continue
        fields = fields | {"activation": operation.kind}
        together = replace(before, outputs=operation.outputs, attributes=fields)
        operations[operations.index(before)] = together
    return replace(network, operations=tuple(operations))


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
    dropout: bool = False,
) -> StepGraph:
    """Return the graph of a step of a network.

    - ``network``: a graph with a batch of 1 whose weights are the first ones.
    - ``batch``: images of a step. ``width``: columns of noise, and of a block of weights.
    - ``most``: elements of a matrix of weights that is not divided into blocks.
    - ``choose``: returns shifts. ``loss``: one of ``LOSSES``.
    - ``last``: layers with weights that train, counted from the end; all with None.
    - ``exponent``: of the images.
    - ``dropout``: whether half of the hidden results of dense layers are left out.

    Raises CompileError if layers do not train; the message names all of them.
    """
    step = Step(trained(network, loss), batch, width, most, choose)
    step.has_dropout = dropout
    logits = _extend(step, loss, last, exponent)
    return StepGraph(
        graph=step.graph((logits,)),
        network=step.network,
        values=step.values,
        weights=step.trained,
        shifts=step.shifts,
        noises=step.noises,
        records=step.records,
        exponents=step.exponents,
        gradients=step.gradients,
        loss=loss,
        dropouts=tuple(step.dropouts.values()),
    )


def calibrated(
    network: Graph,
    choose: Choose,
    images: np.ndarray,
    labels: Callable[[int], np.ndarray],
    *,
    loss: str,
    width: int,
    most: int,
    last: int | None,
    exponent: int,
    balanced: Aims | None = None,
) -> tuple[Graph, dict[str, int]]:
    """Return a network, perhaps with balanced weights, and the shifts of its steps.

    - ``choose``: returns shifts by the results of the images.
    - ``images``: int8. ``labels``: returns those of the images by the exponent of the logits.
    - ``balanced``: results to which the first weights that train are balanced by the images.
    - others: see ``step_graph``.
    """
    step = Step(trained(network, loss), len(images), width, most, choose, _compute)
    if balanced:
        step.balance = partial(balance, step, balanced)
    _extend(step, loss, last, exponent, images, labels)
    tensors = _with(network.tensors, step.contents_of)
    return replace(network, tensors=tensors), step.shifts


def _extend(
    step: Step,
    loss: str,
    last: int | None,
    exponent: int,
    images: np.ndarray | None = None,
    labels: Callable[[int], np.ndarray] | None = None,
) -> int:
    """Add all operations of a step; return the logits. ``images``, ``labels``: to compute with."""
    (source,), (output,) = step.network.inputs, step.network.outputs
    shape = step.extents(source)
    contents = None if images is None else images.reshape(shape)
    step.values[source] = step.input("images", shape, contents)
    step.exponents[step.values[source]] = exponent
    backwards = _forward(step, last)
    result = step.values[output]
    logits = step.matrix(result)
    rows = labels(step.exponents[logits]) if labels else None
    shape = step.shape(logits)
    if loss == "softmax" and shape[2] == 1:
        shape = (*shape[:2], 2)
    errors = _loss(step, logits, step.input("labels", shape, rows), loss)
    step.errors[output] = [step.reshaped(errors, step.shape(result))]
    for operation, backward in reversed(backwards):
        backward(step.error(operation.outputs[0]))
    return logits


def _forward(step: Step, last: int | None) -> list[tuple[Operation, Backward]]:
    """Add the forward pass; return the operations that errors pass, with their backward passes."""
    operations = step.network.operations
    weighted = [o for o in operations if o.kind in OPERATORS and OPERATORS[o.kind].weighted]
    training = weighted if last is None else weighted[max(0, len(weighted) - last) :]
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
    """Add the errors of logits; one alone stands beside a 0."""
    shape = step.shape(logits)
    if loss == "squares":
        addends = ((labels, 1), (logits, -1))
        sums = step.sum_of("loss", addends, step.exponents[logits])
        return step.shifted(sums, shift=0, low=-MOST)
    if shape[2] == 1:
        return _one_logit(step, logits, labels)
    if not 2 <= shape[2] <= MOST_CLASSES:
        raise CompileError(f"wanted 2 to {MOST_CLASSES} classes, got {shape[2]}", layer="loss")
    rows = (*shape[:2], min(step.width, shape[2]))
    noises = [step.input(name, rows) for name in ("softmax/noise", "mean/noise")]
    step.noises |= {"softmax/noise": 7, "mean/noise": 7}
    errors = step.operate("SoftmaxErrors", (logits, labels, *noises), shape, "loss", steps=STEPS)
    step.exponents[errors] = 0
    return errors


def _one_logit(step: Step, logit: int, labels: int) -> int:
    """Add the errors of the only logit: softmax with a 0 is the logistic function of it."""
    shape = step.shape(logit)
    both = (*shape[:2], 2)
    sums = step.sum_of("loss/zeros", ((logit, 1), (logit, -1)), step.exponents[logit])
    zeros = step.shifted(sums, shift=0)
    pair = step.operate("CONCATENATION", (zeros, logit), both, "loss/pair", axis=2)
    errors = _loss(step, pair, labels, "softmax")
    return step.part(errors, (0, 0, 1), shape, "loss/logit")


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
