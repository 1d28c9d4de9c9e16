"""Reads ``.tflite`` files into the compiler's graph."""

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tflite

from celosia.sw.files import read_file
from celosia.sw.frontend import control
from celosia.sw.frontend.signatures import entry_of, read_signatures
from celosia.sw.frontend.subgraphs import Subgraph, read_subgraph
from celosia.sw.frontend.tables import File, index_in, refusal, require_extents, unsupported
from celosia.sw.frontend.unsigned import centred, require_one_sign, rescaling
from celosia.sw.frontend.variables import KINDS, Variables
from celosia.sw.ir.graph import Graph, Operation, Signature, Tensor, short_name
from celosia.sw.ir.names import printable, with_names
from celosia.sw.layers.node import ModelError, Node, described, require_per_tensor
from celosia.sw.layers.record import Operator as OperatorRecord
from celosia.sw.operators.host import check_operation, evaluate, infer
from celosia.sw.operators.registry import OPERATORS

_IDENTIFIER = b"TFL3"
#: Operators that a refusal names by number.
_MOST_NAMED = 6
#: Types of inputs and outputs.
_ENDS = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool")
# Raised by the flatbuffers package on files with invalid offsets.
_BROKEN = (
    struct.error,
    TypeError,
    IndexError,
    KeyError,
    OverflowError,
    AttributeError,
    MemoryError,
    ValueError,
)


def load(source: str | Path | bytes, signature: str | None = None) -> Graph:
    """Return the graph of a quantised model: int8, uint8 or int16, with operators in float32.

    ``source``: path of a ``.tflite`` file, or its contents; ``signature``: signature, or subgraph
    without one, that is read instead of the first subgraph. Raises ModelError if there is no such
    file, it is damaged, not quantised, or uses something unsupported. One line
    that names the file and the tensor or operator.
    """
    with _opened(source) as (name, content):
        return with_names(Reader(content, name).graph(signature))


def signatures_of(source: str | Path | bytes) -> dict[str, Signature]:
    """Return the signatures of a ``.tflite`` file by their keys; raises ModelError as ``load``."""
    with _opened(source) as (_, content):
        return read_signatures(File(content))


@contextmanager
def _opened(source: str | Path | bytes) -> Iterator[tuple[str, bytes]]:
    """Give name and contents of a file; errors in reading these become ModelError with its name."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        name, content = "model", bytes(source)
    else:
        name, content = printable(Path(source).name), read_file(source, ModelError)
    if len(content) < 8 or content[4:8] != _IDENTIFIER:
        raise ModelError(f"{name}: not a .tflite file")
    try:
        yield name, content
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from None
    except _BROKEN:
        raise ModelError(f"{name}: truncated or damaged .tflite file") from None


class Reader:
    """One file being read. Errors other than ModelError mean that the file is damaged."""

    def __init__(self, content: bytes, name: str, *, initial: bool = False) -> None:
        self.file = File(content)
        self.initial = initial
        self.name = name
        self.main = 0
        #: Tensors whose recorded shapes are not relied on.
        self.open: set[int] = set()
        #: Tensors that are uint8 in the file, and weights of these less their zero points.
        self.unsigned: set[int] = set()
        self.centred: dict[int, int] = {}
        # Operations that are not in the file, before the one being read.
        self.added: list[Operation] = []
        self.count = 0
        self.variables = Variables()
        #: Variable tensors.
        self.persistent: set[int] = set()
        #: Numbers in the graph of the tensors of the subgraph being read.
        self.numbers: Sequence[int] = ()
        self.control = control.Control(self)

    def graph(self, signature: str | None) -> Graph:
        """Return a subgraph by its signature; the first one unless another is wanted."""
        self.file.check_buffers()
        if not self.file.count(self.file.model.SubgraphsLength(), 4):
            raise ModelError("wanted a subgraph, got none")
        entry = entry_of(self.file, signature)
        subgraph, tensors, operations = self._begin(entry.subgraph)
        inputs = subgraph.inputs
        outputs = tuple(self.variables.alias.get(number, number) for number in subgraph.outputs)
        if not inputs or not outputs:
            raise ModelError("wanted inputs and outputs, got none")
        for number in (*inputs, *outputs):
            tensor = tensors[index_in(number, tensors)]
            if tensor.data is not None and number in inputs:
                raise refusal(tensor.name, "wanted no constant as input")
            require_extents(tensor.name, tensor.shape, 0)
            if tensor.dtype.name not in _ENDS:
                requirement = f"{', '.join(_ENDS)} as input or output"
                raise refusal(tensor.name, f"wanted {requirement}, got {tensor.dtype}")
            if tensor.quantization is not None:
                require_per_tensor(tensor)
        outputs = tuple(
            self._given_out(number, inputs[0], tensors, operations) for number in outputs
        )
        try:
            states = self.variables.states(tensors)
            unsigned = frozenset(self.unsigned.intersection((*inputs, *outputs)))
            return Graph(
                name=self.name,
                tensors=tuple(tensors),
                operations=tuple(operations),
                inputs=inputs,
                outputs=outputs,
                unsigned=unsigned,
                states=states,
                names=entry.names(inputs, subgraph.outputs),
                signature=entry.signature.key if entry.signature else "",
                choices=entry.choices,
            )
        except ValueError as error:
            raise ModelError(str(error)) from None

    def _begin(self, number: int) -> tuple[Subgraph, list[Tensor], list[Operation]]:
        """Return a subgraph, the tensors of the graph that begins with its own, and operations."""
        self.main = number
        subgraph = read_subgraph(self.file, number)
        tensors = list(subgraph.tensors)
        for tensor in (tensors[index_in(index, tensors)] for index in subgraph.inputs):
            require_extents(tensor.name, tensor.shape)
        self.numbers = range(len(tensors))
        self.count = len(subgraph.operators)
        self.open |= subgraph.dynamic
        self.persistent |= subgraph.variables
        self.unsigned |= subgraph.unsigned
        return subgraph, tensors, self.operations(subgraph.operators, tensors)

    def _initialised(self, operator: Any) -> None:
        """Read the subgraph that gives variables their initial contents."""
        options = Node(operator, (), ()).require_options(tflite.CallOnceOptions)
        number = options.InitSubgraphIndex()
        if not 0 <= number < self.file.model.SubgraphsLength() or number == self.main:
            raise ModelError(f"wanted a subgraph after the main one, got {number}")
        reader = Reader(self.file.content, self.name, initial=True)
        _, tensors, operations = reader._begin(number)
        if operations:
            raise ModelError("wanted variables initialised with constants, got computed ones")
        self.variables.initialise(reader.variables, tensors)

    def _followed(
        self, index: int, kind: str, operator: Any, tensors: list[Tensor]
    ) -> list[Operation] | None:
        """Return the operations that replace IF, WHILE or one of variables; None of others."""
        try:
            if kind in control.KINDS:
                return self.control.follow(kind, operator, tensors)
            if kind == "CALL_ONCE" and not self.initial:
                self._initialised(operator)
            elif kind in KINDS:
                self._variable(kind, operator, tensors)
            else:
                return None
            return []
        except ModelError as error:
            raise ModelError(f"operator {index} {kind}: {error}") from None

    def _variable(self, kind: str, operator: Any, tensors: list[Tensor]) -> None:
        """Follow an operator that names, reads or assigns a variable."""
        inputs = self.inputs(operator, tensors)
        outputs = self.outputs(operator)
        operands = tuple(None if n == -1 else tensors[n] for n in inputs)
        results = tuple(tensors[index_in(n, tensors)] for n in outputs)
        node = Node(operator, operands, results)
        contents = self.variables.follow(kind, node, inputs, outputs)
        if contents is not None and contents.shape != results[0].shape:
            tensors[outputs[0]] = replace(results[0], shape=contents.shape)
            self.open.add(outputs[0])

    def outputs(self, operator: Any) -> tuple[int, ...]:
        """Return the results of an operator."""
        return self._numbers(operator.OutputsLength(), operator.Outputs)

    def _numbers(self, count: int, get: Callable[[int], int]) -> tuple[int, ...]:
        """Return the numbers in the graph of some tensors; -1 stands for none."""
        numbers = self.file.numbers(count, get)
        return tuple(-1 if n == -1 else self.numbers[index_in(n, self.numbers)] for n in numbers)

    def inputs(self, operator: Any, tensors: Sequence[Tensor]) -> tuple[int, ...]:
        """Return the inputs of an operator; -1 of one left out, or that the file leaves empty."""
        numbers = self._numbers(operator.InputsLength(), operator.Inputs)
        numbers = (self.variables.alias.get(number, number) for number in numbers)
        pairs = ((n, None if n == -1 else tensors[index_in(n, tensors)]) for n in numbers)
        return tuple(n if t and (t.elements or t.data is not None) else -1 for n, t in pairs)

    def operations(self, operators: Sequence[Any], tensors: list[Tensor]) -> list[Operation]:
        """Return the operations; results of constants alone become constants in ``tensors``.

        Raises ModelError with the first operator that cannot be used, and number and kind of all
        others; of many others the count of each kind. Those that may only follow are not counted.
        """
        operations, refused, unknown = [], list[tuple[int, str, ModelError]](), set[int]()
        for index, operator in enumerate(operators):
            kind = self.file.kind(operator.OpcodeIndex())
            try:
                followed = self._followed(index, kind, operator, tensors)
                if followed is not None:
                    operations += followed
                    continue
                operation, results = self._operation(index, kind, operator, tensors)
            except ModelError as error:
                # An operator that reads a result of a refused one may lack nothing else.
                if kind not in OPERATORS or unknown.isdisjoint(self.inputs(operator, tensors)):
                    refused.append((index, kind, error))
                unknown.update(self.outputs(operator))
                continue
            operations += self.added
            self.added = []
            if results is None:
                operations.append(operation)
                continue
            for number, data in zip(operation.outputs, results, strict=True):
                tensors[number] = replace(tensors[number], data=data)
        if refused:
            others = [f"{index} {kind}" for index, kind, _ in refused[1:_MOST_NAMED]]
            counts = Counter(kind for _, kind, _ in refused[_MOST_NAMED:])
            others += [f"{count} more {kind}" for kind, count in sorted(counts.items())]
            more = f" (refused too: {', '.join(others)})" if others else ""
            raise ModelError(f"{refused[0][2]}{more}")
        return operations

    def _operation(
        self, index: int, kind: str, operator: Any, tensors: list[Tensor]
    ) -> tuple[Operation, list[np.ndarray] | None]:
        """Return an operation, and its results where these are constant."""
        inputs = self.inputs(operator, tensors)
        outputs = self.outputs(operator)
        label = f"operator {index} {kind}"
        results = tuple(tensors[index_in(number, tensors)] for number in outputs)
        for tensor in results:
            require_extents(tensor.name, tensor.shape, 0)
        if results:
            label += f" ({short_name(results[0].name)!r})"
        if kind not in OPERATORS:
            raise ModelError(f"{label}: {unsupported(kind)}")
        record = OPERATORS[kind]
        if record.weighted:
            offset = kind == "FULLY_CONNECTED"
            inputs = tuple(
                self._weights(n, tensors, offset=offset) if k == 1 else n
                for k, n in enumerate(inputs)
            )
        elif kind == "CONCATENATION":
            inputs = tuple(n for n in inputs if n == -1 or tensors[n].elements) or inputs
        if kind == "CONCATENATION" and self.unsigned.issuperset(outputs):
            inputs = tuple(self._rescaled(number, results[0], tensors) for number in inputs)
        operands = tuple(None if n == -1 else tensors[n] for n in inputs)
        try:
            outputs = self._renewed(record, operator, inputs, outputs, tensors)
            results = tuple(tensors[number] for number in outputs)
            between = self._numbers(operator.IntermediatesLength(), operator.Intermediates)
            intermediates = tuple(tensors[index_in(number, tensors)] for number in between)
            node = Node(operator, operands, results, intermediates)
            node.require_inputs(1, max(1, len(inputs)), results=None)
            operation = Operation(kind, index, inputs, outputs)
            unknown = any(not tensor.shape for tensor in results)
            if unknown or self.open.intersection((*inputs, *outputs)):
                node = self._inferred(operation, node, tensors)
            require_one_sign(operation, record.inputs(operation), tensors, self.unsigned)
            attributes = record.read(node)
            if record.unsigned and self.unsigned.intersection(record.inputs(operation)[:1]):
                attributes["unsigned"] = True
            operation = replace(operation, attributes=attributes)
            check_operation(tensors, operation)
            results = self._without_elements(record, operation, tensors)
            return operation, evaluate(tensors, operation) if results is None else results
        except ModelError as error:
            raise ModelError(f"{label}: {error}") from None

    def _without_elements(
        self, record: OperatorRecord, operation: Operation, tensors: Sequence[Tensor]
    ) -> list[np.ndarray] | None:
        """Return results that are known because they have no elements; None of others."""
        results = [tensors[number] for number in operation.outputs]
        if not any(tensor.elements for tensor in results):
            return [np.empty(tensor.shape, tensor.dtype) for tensor in results]
        looks = not (record.moves or record.static)
        sources = [tensors[n] for n in record.inputs(operation) if looks and n != -1]
        for tensor in (*results, *sources):
            require_extents(tensor.name, tensor.shape)
        return None

    def _renewed(
        self,
        record: OperatorRecord,
        operator: Any,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        tensors: list[Tensor],
    ) -> tuple[int, ...]:
        """Return the results of an operator, and after them one for each state that it renews."""
        for index in record.states:
            if index >= len(inputs) or inputs[index] == -1:
                raise ModelError(f"wanted a variable tensor as input {index}, got none")
            number, before = self.numbers[int(operator.Inputs(index))], inputs[index]
            if number not in self.persistent:
                raise ModelError(f"wanted a variable tensor, got {described(tensors[number])}")
            tensors.append(replace(tensors[before]))
            outputs = (*outputs, len(tensors) - 1)
            self.variables.renew(number, before, outputs[-1], tensors[before])
        return outputs

    def _weights(self, number: int, tensors: list[Tensor], *, offset: bool) -> int:
        """Return the tensor of constant weights less their zero point.

        Those of int8 have one only with ``offset``: other kernels refuse or ignore it.
        """
        if number == -1:
            return number
        tensor = tensors[number]
        meaning = tensor.quantization
        signed = offset and meaning is not None and len(meaning.scales) == 1 and meaning.zero_point
        if tensor.data is None or not (number in self.unsigned or signed):
            return number
        if number not in self.centred:
            require_per_tensor(tensor)
            self.centred[number] = len(tensors)
            tensors.append(centred(tensor))
        return self.centred[number]

    def _rescaled(self, number: int, result: Tensor, tensors: list[Tensor]) -> int:
        """Return a tensor of uint8 brought to the scale of the result, as CONCATENATION does."""
        if number not in self.unsigned:
            return number
        tensor, output = tensors[number], result.quantization
        source = tensor.quantization
        if source is None or output is None or source.equals(output):
            return number
        entries = rescaling(source, output)
        data = None if tensor.data is None else entries[tensor.data.view(np.uint8)]
        tensors.append(replace(tensor, quantization=output, data=data))
        rescaled = len(tensors) - 1
        self.unsigned.add(rescaled)
        if data is None:
            attributes = {"entries": tuple(entries.tolist())}
            self.added.append(
                Operation("LookupTable", self.count + rescaled, (number,), (rescaled,), attributes)
            )
        return rescaled

    def _given_out(
        self, number: int, source: int, tensors: list[Tensor], operations: list[Operation]
    ) -> int:
        """Return an output; a constant becomes the result of an operation, once for each input."""
        if tensors[number].data is None:
            return number
        index = max((operation.place for operation in operations), default=-1) + 1
        tensors.append(replace(tensors[number], data=None))
        copy = len(tensors) - 1
        if number in self.unsigned:
            self.unsigned.add(copy)
        operations.append(Operation("CONSTANT", index, (source, number), (copy,)))
        return copy

    def _inferred(self, operation: Operation, node: Node, tensors: list[Tensor]) -> Node:
        """Return the operator with results of the shapes that follow from its inputs.

        Converters record shapes for a batch of 1, sometimes wrong ones.
        """
        shapes = infer(tensors, operation, node)
        if len(shapes) != len(node.outputs):
            raise ModelError(f"wanted {len(shapes)} results, got {len(node.outputs)}")
        for number, shape in zip(operation.outputs, shapes, strict=True):
            tensor = tensors[number]
            require_extents(tensor.name, shape, 0)
            if shape != tensor.shape:
                tensors[number] = replace(tensor, shape=shape)
                self.open.add(number)
        return replace(node, outputs=tuple(tensors[number] for number in operation.outputs))
