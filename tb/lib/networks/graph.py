"""Networks as ``.tflite`` files describe them: tensors, operators with their options, graphs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Quantization

__all__ = ["RESOURCE", "Graph", "Operation", "Quantization", "Tensor"]

#: Type of the handles of variables.
RESOURCE = np.dtype(object)


@dataclass(frozen=True, eq=False)
class Tensor:
    """Tensor; only constants have ``data``.

    ``signature`` is the shape with -1 for each dynamic extent. A ``variable`` keeps its contents
    from one invocation to the next.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    quantization: Quantization | None = None
    data: np.ndarray | None = None
    signature: tuple[int, ...] | None = None
    variable: bool = False

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Operation:
    """An operator.

    ``kind`` is a name of ``tflite.BuiltinOperator``, or else the code of a custom operator.
    ``inputs`` and ``outputs`` are numbers of tensors; -1 is an input left out. ``options`` are the
    fields of the operator's table of options in the schema, for instance ``strideW``; values of
    enumerations may be names. ``customOptions`` are the bytes of a custom operator,
    ``intermediates`` the numbers of tensors that it uses within.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Graph:
    """A subgraph."""

    tensors: tuple[Tensor, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str = "model"

    def label(self, operation: Operation) -> str:
        """Return the name of an operation in messages: number, kind and name of its result."""
        number = self.operations.index(operation)
        result = self.tensors[operation.outputs[0]].name if operation.outputs else ""
        return f"operator {number} {operation.kind} ({result!r})"

    def retensored(self, name: str, **changes: Any) -> "Graph":
        """Return a graph with one tensor changed."""
        tensors = tuple(replace(t, **changes) if t.name == name else t for t in self.tensors)
        assert any(tensor.name == name for tensor in tensors)
        return replace(self, tensors=tensors)

    def rewired(self, **changes: Any) -> "Graph":
        """Return a graph with its only operator changed."""
        (operation,) = self.operations
        return replace(self, operations=(replace(operation, **changes),))
