"""Operands of units, and the units: operators on integers, or on floats that the host computes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.file.nodes import OnnxAttributes, OnnxNode
from celosia.sw.ir.graph import Quantization
from celosia.sw.layers.node import ModelError


@dataclass(frozen=True, eq=False)
class Operand:
    """Operand or result of a unit."""

    name: str  #: Of the tensor.
    dtype: np.dtype  #: As in the model.
    quantization: Quantization | None = None  #: Of int8 and uint8, zero points as in the model.
    data: np.ndarray | None = None  #: Contents of a constant.
    #: Whether ONNX Runtime has a DequantizeLinear right before it.
    dequantised: bool = True


class Operands(tuple[Operand | None, ...]):
    """Operands of a unit; those that were looked up are remembered.

    - ``read``: their positions.
    """

    def __init__(self, _: Iterable[Operand | None] = ()) -> None:
        self.read: set[int] = set()

    def __getitem__(self, number: Any) -> Any:
        positions = range(len(self))[number]
        self.read.update(positions if isinstance(positions, range) else [positions])
        return super().__getitem__(number)

    def __iter__(self) -> Iterator[Operand | None]:
        self.read.update(range(len(self)))
        return super().__iter__()


@dataclass(frozen=True, eq=False)
class Unit:
    """One operator on integers."""

    kind: str  #: Of the float operator.
    node: OnnxNode  #: Source of the unit.
    inputs: Operands  #: Operands, and constants that act as parameters.
    outputs: tuple[Operand, ...]  #: Results.
    #: Bounds of the result's real value.
    low: float = -np.inf
    high: float = np.inf
    #: From float32 to float32, of a unit whose result depends on one element.
    function: Callable[[np.ndarray], np.ndarray] | None = None
    attributes: OnnxAttributes = field(default_factory=OnnxAttributes)

    def require_read(self) -> None:
        """Refuse an input with contents that its reader did not look up."""
        for number, operand in enumerate(tuple.__iter__(self.inputs)):
            if operand is None or number in self.inputs.read:
                continue
            if operand.data is None or operand.data.size:
                raise ModelError(f"input {number} ({operand.name!r}) is not supported")
