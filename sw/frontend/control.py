"""IF and WHILE of ``.tflite`` files: their subgraphs replace them.

Operators of a subgraph are read once for each call, with the tensors that the call gives as inputs.
Constants stay constants, so that counters of loops, and values that depend on them, are known: a
WHILE is unrolled. Of an IF whose condition is computed, both branches run, and SELECT_V2 takes
results of one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import tflite

from celosia.sw.frontend.subgraphs import Subgraph, read_subgraph
from celosia.sw.ir.graph import Operation, Tensor, short_name
from celosia.sw.layers.node import ModelError, Node, described
from celosia.sw.operators.host import check_operation

if TYPE_CHECKING:
    from celosia.sw.frontend.tflite import Reader

__all__ = ["KINDS", "Control"]

#: Operators that this module reads.
KINDS = ("IF", "WHILE")

#: Operators that all calls together read, at most.
_MOST_OPERATORS = 1 << 12

#: Operations and the numbers of results.
_Called = tuple[list[Operation], tuple[int, ...]]


class Control:
    """Calls of subgraphs.

    ``reader``: reads the operators.
    """

    def __init__(self, reader: "Reader") -> None:
        self.reader = reader
        self._subgraphs: dict[int, Subgraph] = {}
        #: Constants and variables of subgraphs, the same for all calls.
        self._shared: dict[tuple[int, int], int] = {}
        self._calling: list[int] = []
        self._calls = self._operators = 0

    def follow(self, kind: str, operator: Any, tensors: list[Tensor]) -> list[Operation]:
        """Return the operations that replace an IF or WHILE.

        Raises ModelError if its subgraphs do not match, or the number of rounds depends on the
        model's inputs.
        """
        inputs = self.reader.inputs(operator, tensors)
        outputs = self.reader.outputs(operator)
        if -1 in inputs:
            raise ModelError("wanted inputs that have elements")
        first = len(tensors)
        called = self._loop if kind == "WHILE" else self._branches
        operations, results = called(Node(operator, (), ()), inputs, tensors)
        recorded, ends = [tensors[n] for n in outputs], [tensors[n] for n in results]
        _require_alike(recorded, ends, "results")
        for tensor, end, number in zip(recorded, ends, results, strict=True):
            if number >= first and end.data is None:
                tensors[number] = replace(end, name=tensor.name)
            if tensor.shape != end.shape:
                self.reader.open.add(number)
        self.reader.variables.alias.update(zip(outputs, results, strict=True))
        return [
            replace(operation, place=self.reader.count + operation.outputs[0])
            for operation in operations
        ]

    def _loop(self, node: Node, inputs: tuple[int, ...], tensors: list[Tensor]) -> _Called:
        options = node.require_options(tflite.WhileOptions)
        unrolled: list[Operation] = []
        while True:
            _, (condition, *more) = self._call(options.CondSubgraphIndex(), inputs, tensors)
            goes_on = self._condition(condition, tensors)
            if goes_on is None or more:
                raise ModelError(
                    "wanted one condition that follows from constants, got "
                    f"{described(tensors[condition])}; a loop whose number of steps depends on "
                    "the input cannot run: give the model a fixed number of steps"
                )
            if not goes_on:
                return unrolled, inputs
            operations, results = self._call(options.BodySubgraphIndex(), inputs, tensors)
            before, after = ([tensors[n] for n in numbers] for numbers in (inputs, results))
            _require_alike(before, after, "results of the body")
            unrolled, inputs = unrolled + operations, results

    def _branches(self, node: Node, inputs: tuple[int, ...], tensors: list[Tensor]) -> _Called:
        options = node.require_options(tflite.IfOptions)
        numbers = (options.ThenSubgraphIndex(), options.ElseSubgraphIndex())
        if not inputs:
            raise ModelError("wanted a condition, got none")
        condition, *arguments = inputs
        taken = self._condition(condition, tensors)
        if taken is not None:
            return self._call(numbers[not taken], tuple(arguments), tensors)
        before = dict(self.reader.variables.values)
        calls = [self._call(number, tuple(arguments), tensors) for number in numbers]
        if before != self.reader.variables.values:
            raise ModelError("wanted branches without variables where the condition is computed")
        (first, one), (second, other) = calls
        ends = [[tensors[n] for n in numbers] for numbers in (one, other)]
        _require_alike(ends[0], ends[1], "results of the second branch")
        operations, results = first + second, []
        for pair in zip(one, other, strict=True):
            tensors.append(replace(tensors[pair[0]], data=None))
            results.append(len(tensors) - 1)
            if pair[0] in self.reader.unsigned:
                self.reader.unsigned.add(results[-1])
            operations.append(Operation("SELECT_V2", 0, (condition, *pair), (results[-1],)))
            check_operation(tensors, operations[-1])
        return operations, tuple(results)

    @staticmethod
    def _condition(number: int, tensors: Sequence[Tensor]) -> bool | None:
        """Return a condition, or None of one that is computed."""
        tensor = tensors[number]
        if tensor.dtype != np.bool_ or tensor.elements != 1:
            raise ModelError(f"wanted one bool as condition, got {described(tensor)}")
        return None if tensor.data is None else bool(tensor.data.reshape(()))

    def _call(self, number: int, arguments: tuple[int, ...], tensors: list[Tensor]) -> _Called:
        """Return operations and results of a subgraph for some inputs."""
        if number in self._calling:
            raise ModelError(f"wanted no subgraph that calls itself, got {number}")
        if number not in self._subgraphs:
            self._subgraphs[number] = read_subgraph(self.reader.file, number)
        subgraph, outer = self._subgraphs[number], self.reader.numbers
        self._calls += 1
        self._operators += 1 + len(subgraph.operators)
        if self._operators > _MOST_OPERATORS:
            raise ModelError(
                f"wanted loops of at most {_MOST_OPERATORS} operators in all their rounds; "
                "give the model fewer steps"
            )
        placed = self._placed(number, subgraph, arguments, tensors)
        self.reader.numbers = placed
        self._calling.append(number)
        try:
            operations = self.reader.operations(subgraph.operators, tensors)
            alias = self.reader.variables.alias
            return operations, tuple(alias.get(placed[n], placed[n]) for n in subgraph.outputs)
        except ModelError as error:
            raise ModelError(f"subgraph {number}: {error}") from None
        finally:
            self.reader.numbers = outer
            self._calling.pop()

    def _placed(
        self, number: int, subgraph: Subgraph, arguments: tuple[int, ...], tensors: list[Tensor]
    ) -> list[int]:
        """Add the tensors of a subgraph to those of the graph; return their numbers there."""
        inputs, reader = subgraph.inputs, self.reader
        recorded, ends = [subgraph.tensors[n] for n in inputs], [tensors[n] for n in arguments]
        _require_alike(recorded, ends, f"inputs of subgraph {number}")
        known = dict(zip(inputs, arguments, strict=True))
        changed = any(a.shape != b.shape for a, b in zip(recorded, ends, strict=True))
        placed = []
        for local, tensor in enumerate(subgraph.tensors):
            key, fresh = (number, local), len(tensors)
            stays = tensor.data is not None or local in subgraph.variables
            place = known.get(local, self._shared.get(key, fresh))
            placed.append(place)
            if place != fresh:
                continue
            if stays:
                self._shared[key] = fresh
            elif changed or local in subgraph.dynamic:
                reader.open.add(fresh)
            name = tensor.name if stays else f"{tensor.name}/{self._calls}"
            tensors.append(replace(tensor, name=name))
            if local in subgraph.unsigned:
                reader.unsigned.add(fresh)
            if local in subgraph.variables:
                reader.persistent.add(fresh)
        return placed


def _require_alike(first: Sequence[Tensor], second: Sequence[Tensor], subject: str) -> None:
    """Refuse tensors of other numbers, types or scales: their bytes are copied."""
    if len(first) != len(second):
        raise ModelError(f"wanted {len(first)} {subject}, got {len(second)}")
    for one, other in zip(first, second, strict=True):
        meaning, other_meaning = one.quantization, other.quantization
        same = other_meaning is None if meaning is None else meaning.equals(other_meaning)
        if one.dtype != other.dtype or not same:
            raise ModelError(
                f"{subject}: wanted {_typed(one)}, got {_typed(other)} ({short_name(other.name)!r})"
            )


def _typed(tensor: Tensor) -> str:
    """Return the type of a tensor, with scale and zero point."""
    meaning = tensor.quantization
    if meaning is None or len(meaning.scales) > 1:
        return tensor.dtype.name
    return f"{tensor.dtype.name} of scale {meaning.scale:.9g}, zero point {meaning.zero_point}"
