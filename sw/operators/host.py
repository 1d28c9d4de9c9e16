"""Operators on the host: built from a graph, checked, and run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Operation, Tensor, short_name
from celosia.sw.ir.labels import layer_name
from celosia.sw.ir.parts import MOST_ELEMENTS, HostOperator, Operand
from celosia.sw.ir.program import ProgramError
from celosia.sw.layers.node import ModelError, Node, require_per_tensor
from celosia.sw.layers.record import Attributes, Mismatch, require
from celosia.sw.operators.registry import OPERATORS

_QUANTIZED = (np.int8, np.uint8, np.int16)


class OperandError(ValueError):
    """Contents of tensors that an operator of the host cannot process; the message is one line."""


def unit_shape(shape: tuple[int, ...], batch: int) -> tuple[int, ...]:
    """Return the shape of one sample's share of a tensor, batch of 1 included."""
    return (shape[0] // batch, *shape[1:]) if batch > 1 else shape


def host_operator(
    tensors: Sequence[Tensor] | Mapping[int, Tensor],
    operation: Operation,
    batch: int = 1,
    note: str = "",
) -> HostOperator:
    """Return the operator of the host for an operation.

    - ``tensors``: of the graph, by number.
    - ``operation``: of a kind that has a record.
    - ``batch``: the model's own batch.
    - ``note``: reason why the core does not run it.
    """
    record = OPERATORS[operation.kind]
    attributes = dict(operation.attributes)
    if "count" in attributes and isinstance(attributes["count"], tuple):
        # A slice takes all samples.
        attributes["count"] = unit_shape(attributes["count"], batch)
    return HostOperator(
        name=layer_name(tensors, operation),
        kind=operation.kind,
        place=operation.place,
        sources=tuple(_operand(tensors, n, batch) for n in record.inputs(operation) if n != -1),
        results=tuple(_operand(tensors, n, batch) for n in operation.outputs),
        attributes={name: _plain(value) for name, value in attributes.items()},
        note=note,
    )


def _operand(tensors: Sequence[Tensor] | Mapping[int, Tensor], number: int, batch: int) -> Operand:
    tensor = tensors[number]
    quantization, data = tensor.quantization, tensor.data
    several = quantization is not None and len(quantization.scales) > 1
    return Operand(
        tensor=number,
        name=tensor.name,
        shape=tensor.shape if data is not None else unit_shape(tensor.shape, batch),
        dtype=tensor.dtype.name,
        scale=quantization.scale if quantization else 1.0,
        zero_point=quantization.zero_point if quantization else 0,
        data=None if data is None else np.ascontiguousarray(data).tobytes(),
        scales=tuple(quantization.scales.tolist()) if several and quantization else (),
    )


def _plain(value: Any) -> Any:
    """Return an attribute as JSON gives it back."""
    return [_plain(element) for element in value] if isinstance(value, (tuple, list)) else value


def infer(tensors: Sequence[Tensor], operation: Operation, node: Node) -> list[tuple[int, ...]]:
    """Return the shapes of an operation's results, independent of those that the model records.

    - ``tensors``: of the model.
    - ``operation``: with its inputs and outputs; its attributes are not read.
    - ``node``: the same operator as readers see it.

    Raises ModelError with the requirement.
    """
    record = OPERATORS[operation.kind]
    if record.infer is not None:
        return [tuple(shape) for shape in record.infer(node)]
    operator = host_operator(tensors, replace(operation, attributes=record.read(node)))
    try:
        return [tuple(shape) for shape in record.shapes(operator, Attributes(operator))]
    except (IndexError, ValueError) as error:
        reason = str(error) if isinstance(error, Mismatch) else "wanted other inputs"
        raise ModelError(reason) from None


def check_operation(tensors: Sequence[Tensor], operation: Operation) -> None:
    """Refuse an operation of a model whose types, quantisation or shapes do not match.

    Raises ModelError with the requirement.
    """
    record = OPERATORS[operation.kind]
    numbers = [number for number in record.inputs(operation) if number != -1]
    sources = [tensors[number] for number in (numbers[:1] if record.weighted else numbers)]
    sources = [source for place, source in enumerate(sources) if place not in record.aside]
    results = [tensors[number] for number in operation.outputs]
    if not (record.moves or record.plain or "channel_scales" in operation.attributes):
        for tensor in (*sources, *results):
            if tensor.dtype in _QUANTIZED:
                require_per_tensor(tensor)
    try:
        if record.moves or record.keeps_scale:
            pairs = ((source, result) for source in sources for result in results)
            same = all(_same_meaning(source, result) for source, result in pairs)
            require(same, "the same scale and zero point on both sides")
        record.check(host_operator(tensors, operation))
    except Mismatch as mismatch:
        raise ModelError(str(mismatch)) from None


def _same_meaning(source: Tensor, result: Tensor) -> bool:
    if source.quantization is None:
        return result.quantization is None
    return source.quantization.equals(result.quantization)


def check(operator: HostOperator) -> None:
    """Refuse an operator of a program file that no kernel can run.

    Raises ProgramError naming the operator.
    """
    record = OPERATORS.get(operator.kind)
    try:
        if record is None or record.kernel is None:
            raise Mismatch("an operator that the host runs")
        computed = any(operand.data is None for operand in operator.sources)
        require(computed, "something computed among the inputs")
        record.check(operator)
    except Mismatch as mismatch:
        label = f"operator {operator.place} {operator.kind[:40]} ({short_name(operator.name)!r})"
        raise ProgramError(f"{label} of the host: {mismatch}") from None


def evaluate(
    tensors: Sequence[Tensor] | Mapping[int, Tensor], operation: Operation
) -> list[np.ndarray] | None:
    """Return the results of an operation whose operands are constant; None where they are not.

    Operations whose results follow from shapes alone have results in any case. Raises ModelError if
    there are too many elements, or the operation refuses its inputs.
    """
    record = OPERATORS[operation.kind]
    numbers = [number for number in record.inputs(operation) if number != -1]
    constants = [tensors[number].data for number in numbers]
    if record.kernel is None or (not record.static and any(data is None for data in constants)):
        return None
    # Layers with weights check themselves which operands are constant.
    computed = {*(numbers[:1] if record.weighted else numbers), *operation.outputs}
    arrays = [
        np.empty(0) if data is None else data[None] if number in computed else data
        for number, data in zip(numbers, constants, strict=True)
    ]
    used = {
        n: _computed(tensors[n]) if n in computed else tensors[n] for n in {*numbers, *computed}
    }
    plain = host_operator(used, operation)
    if any(math.prod(result.shape) > MOST_ELEMENTS for result in plain.results):
        got = [result.shape for result in plain.results]
        raise ModelError(f"wanted constants of at most {MOST_ELEMENTS} elements, got {got}")
    try:
        return [array[0] for array in record.compute(plain, arrays)]
    except Mismatch as mismatch:
        raise ModelError(str(mismatch)) from None


def _computed(tensor: Tensor) -> Tensor:
    """Return a tensor without contents."""
    if tensor.data is None:
        return tensor
    return Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.quantization)


def run(operator: HostOperator, values: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Return the results of an operator, by number of tensor.

    ``values``: tensors computed so far, by number: of the operand's type, shape ``(N, ...)`` with
    as many elements in each as the operand has. Returns results, shape ``(N, *operand.shape)``.
    Raises OperandError if the operator refuses its inputs, for instance an index past the end, or
    this machine lacks the memory for it.
    """
    arrays = [_array(operand, values) for operand in operator.sources]
    label = f"operator {operator.place} {operator.kind} ({short_name(operator.name)!r})"
    try:
        computed = OPERATORS[operator.kind].compute(operator, arrays)
    except Mismatch as mismatch:
        raise OperandError(f"{label}: {mismatch}") from None
    except MemoryError:
        text = "no memory for its results; fewer samples at once take less"
        raise OperandError(f"{label}: {text}") from None
    results = {}
    for operand, array in zip(operator.results, computed, strict=True):
        assert array.dtype == operand.dtype and array.shape[1:] == operand.shape, operator.name
        results[operand.tensor] = array
    return results


def _array(operand: Operand, values: Mapping[int, np.ndarray]) -> np.ndarray:
    if operand.data is not None:
        return np.frombuffer(operand.data, operand.dtype).reshape(operand.shape)
    array = values[operand.tensor]
    return array.reshape(len(array), *operand.shape)
