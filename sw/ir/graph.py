"""The compiler's one intermediate representation: tensors and the operations between them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


def short_name(name: str) -> str:
    """Return a tensor's name for messages: the last of the names that a fused one lists.

    Examples
    --------
    >>> short_name("model/norm/mul;model/relu/Relu6;model/conv/Conv2D")
    'model/conv/Conv2D'
    """
    return name.rstrip(";").rpartition(";")[2]


@dataclass(frozen=True, eq=False)
class Quantization:
    """Affine quantisation: real value = scale × (integer − zero point)."""

    #: float32, shape ``(n,)``: one, or one for each index of ``axis``. They are greater than zero
    #: but for those of weights that count for nothing.
    scales: np.ndarray
    zero_points: np.ndarray  #: int64, shape ``(n,)``.
    #: Dimension of the tensor that ``scales`` belong to; without meaning when ``n`` is 1.
    axis: int = 0

    @property
    def scale(self) -> float:
        """The one scale of a tensor quantised as a whole."""
        return float(self.scales[0])

    @property
    def zero_point(self) -> int:
        """The one zero point of a tensor quantised as a whole."""
        return int(self.zero_points[0])

    def equals(self, other: "Quantization | None") -> bool:
        """Return whether both mean the same numbers."""
        return (
            other is not None
            and np.array_equal(self.scales, other.scales)
            and np.array_equal(self.zero_points, other.zero_points)
        )


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of the graph; only constants have ``data``."""

    name: str  #: Name in the model.
    shape: tuple[int, ...]  #: Extents, all at least 1. The model's own batch is the first.
    dtype: np.dtype  #: Type of the elements.
    quantization: Quantization | None = None  #: Meaning of the integers.
    data: np.ndarray | None = None  #: Constant contents, of ``shape`` and ``dtype``.

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Operation:
    """One operator."""

    #: Name of the operator as TensorFlow Lite spells it, for instance ``FULLY_CONNECTED``.
    kind: str
    place: int  #: Number of the operator in the model, for messages.
    #: Numbers of tensors; −1 is an input left out.
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, Any] = field(default_factory=dict)  #: Its attributes, by name.


@dataclass(frozen=True, eq=False)
class State:
    """Contents of a tensor that are kept from one invocation to the next."""

    tensor: int  #: Number of the tensor that operations read.
    successor: int  #: Number of the tensor whose contents it has in the next invocation.
    initial: np.ndarray  #: Contents in the first invocation.


@dataclass(frozen=True)
class Signature:
    """An entry of a model: a subgraph, with names of its inputs and outputs."""

    key: str
    subgraph: int
    #: Names, and numbers of tensors of the subgraph.
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class Graph:
    """A model: tensors, operations in an order of execution, inputs, outputs and states.

    Raises
    ------
    ValueError
        If a number of a tensor is out of range, or an operation reads a tensor before it is made.
    """

    name: str  #: Name of the model.
    tensors: tuple[Tensor, ...]
    operations: tuple[Operation, ...]
    #: Numbers of tensors.
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    #: Inputs and outputs that are uint8 in the model: 128 more there than the int8 of the graph.
    unsigned: frozenset[int] = frozenset()
    states: tuple[State, ...] = ()
    #: Names of inputs and of outputs, where these are others than the names of tensors.
    names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    signature: str = ""  #: Signature in the file that gives the names.
    choices: tuple[str, ...] = ()  #: Signatures that may be chosen instead, and other subgraphs.

    def __post_init__(self) -> None:
        """Check the numbers of tensors, and that each is made once and before it is read."""
        known = {*self.inputs, *(state.tensor for state in self.states)}
        known |= {n for n, t in enumerate(self.tensors) if t.data is not None}
        for operation in self.operations:
            where = f"operator {operation.place} {operation.kind}"
            for number in operation.inputs:
                if number != -1 and number not in known:
                    raise ValueError(f"{where}: wanted inputs computed before, got tensor {number}")
            for number in operation.outputs:
                if not 0 <= number < len(self.tensors) or number in known:
                    raise ValueError(f"{where}: wanted an output of its own, got tensor {number}")
                known.add(number)
        ends = (n for state in self.states for n in (state.tensor, state.successor))
        for number in (*self.inputs, *self.outputs, *ends):
            if not 0 <= number < len(self.tensors) or number not in known:
                raise ValueError(f"graph: wanted inputs and outputs computed, got tensor {number}")

    def label(self, operation: Operation) -> str:
        """Return the name of an operation in messages: number, kind and name of its result."""
        result = self.tensors[operation.outputs[0]].name if operation.outputs else ""
        return f"operator {operation.place} {operation.kind} ({short_name(result)!r})"
