"""``.tflite`` file of some operators of a model that LiteRT has read."""

import ctypes
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tflite import BuiltinOperator

from celosia.sw.export import tflite
from celosia.sw.litert import interface
from celosia.sw.litert.interface import Context, Node, Partition, Tensor, numbers
from celosia.sw.litert.options import options_at
from celosia.sw.operators.registry import OPERATORS

#: Names of operators by their numbers.
_KINDS = {code: kind for kind, code in vars(BuiltinOperator).items() if kind[0] != "_"}


class Graph:
    """Operators and tensors of a subgraph, as LiteRT has them.

    Parameters
    ----------
    context : Context
        LiteRT's context, valid during a call of LiteRT.
    address : int
        Its address, the first argument of its functions.
    """

    def __init__(self, context: Context, address: int) -> None:
        self._context, self._address = context, address

    def require_known(self) -> None:
        """Raise RuntimeError if LiteRT's structures are not those that Celosia knows."""
        for number in filter(self.is_constant, range(self._context.tensors_size)):
            tensor = self.tensor(number)
            dtype = interface.DTYPES.get(tensor.type)
            if dtype is None or tensor.sparsity:
                continue
            size = int(np.prod(numbers(tensor.dims), dtype=np.int64)) * dtype.itemsize
            if size != tensor.bytes:
                raise RuntimeError(
                    f"LiteRT's tensor {number}: wanted {size} bytes, got {tensor.bytes}; "
                    "the delegate takes ai-edge-litert 2"
                )

    def tensor(self, number: int) -> Tensor:
        """Return a tensor by its number."""
        return self._context.tensors[number]

    def shapes(self, tensors: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the present shapes of tensors."""
        return [tuple(numbers(self.tensor(number).dims)) for number in tensors]

    def nodes(self) -> list[int]:
        """Return the numbers of the nodes in the order in which they run."""
        plan = ctypes.POINTER(interface.IntArray)()
        self._context.plan(self._address, plan)
        return numbers(plan)

    def operation(self, number: int) -> tflite.Operation | None:
        """Return a node with LiteRT's numbers of tensors; None of one that the core never runs.

        LiteRT allows this in ``Prepare`` and ``init`` alone.
        """
        pointer = ctypes.POINTER(Node)()
        registration = ctypes.POINTER(interface.Registration)()
        self._context.node(self._address, number, pointer, registration)
        node, kind = pointer.contents, _KINDS.get(registration.contents.builtin_code, "")
        ends = tuple(numbers(node.inputs)), tuple(numbers(node.outputs))
        record = OPERATORS.get(kind)
        if record is None or record.lower is None or record.states:
            return None
        if not all(self._is_plain(self.tensor(n)) for n in (*ends[0], *ends[1]) if n >= 0):
            return None
        return tflite.Operation(kind, *ends, options_at(kind, node.builtin_data or 0))

    @staticmethod
    def _is_plain(tensor: Tensor) -> bool:
        """Return whether the core may have a tensor: of a known type, dense, of a fixed shape."""
        return (
            tensor.type in interface.DTYPES
            and tensor.allocation_type != interface.DYNAMIC
            and not tensor.is_variable
            and not tensor.sparsity
            and 0 not in numbers(tensor.dims)
        )

    def is_constant(self, number: int) -> bool:
        """Return whether the file has the contents of a tensor."""
        return self.tensor(number).allocation_type == interface.READ_ONLY

    def ends(self, partition: Partition) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the tensors that a partition reads from others, and those that others read."""
        inputs, outputs = numbers(partition.inputs), numbers(partition.outputs)
        return self._computed(inputs), tuple(outputs)

    def operands(self, operation: tflite.Operation) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the computed operands and the results of an operation."""
        return self._computed(operation.inputs), operation.outputs

    def _computed(self, tensors: Sequence[int]) -> tuple[int, ...]:
        return tuple(n for n in dict.fromkeys(tensors) if n >= 0 and not self.is_constant(n))

    def file(
        self, operations: Sequence[tflite.Operation], inputs: Sequence[int], outputs: Sequence[int]
    ) -> bytes:
        """Return the ``.tflite`` file of operations.

        Parameters
        ----------
        operations : sequence of tflite.Operation
            Operations in order, with LiteRT's numbers of tensors.
        inputs, outputs : sequence of int
            Numbers of the tensors that others make, and that others read.
        """
        index: dict[int, int] = {-1: -1}

        def indices(tensors: Sequence[int]) -> tuple[int, ...]:
            return tuple(index.setdefault(number, len(index) - 1) for number in tensors)

        renumbered = tuple(
            replace(operation, inputs=indices(operation.inputs), outputs=indices(operation.outputs))
            for operation in operations
        )
        ends = indices(inputs), indices(outputs)
        tensors = tuple(self._tensor(number) for number in index if number >= 0)
        return tflite.serialize(tflite.Graph(tensors, renumbered, *ends))

    def _tensor(self, number: int) -> tflite.Tensor:
        """Return a tensor of the file."""
        tensor = self.tensor(number)
        meaning = None
        if tensor.quantization_type == interface.AFFINE and tensor.quantization:
            affine = interface.Affine.from_address(tensor.quantization)
            scales, points = numbers(affine.scale), numbers(affine.zero_point)
            meaning = tflite.Quantization(
                np.array(scales, np.float32), np.array(points, np.int64), affine.quantized_dimension
            )
        return tflite.Tensor(
            f"{number} {(tensor.name or b'').decode(errors='replace')}",
            tuple(numbers(tensor.dims)),
            interface.DTYPES[tensor.type],
            meaning,
            interface.contents(tensor).copy() if self.is_constant(number) else None,
        )
