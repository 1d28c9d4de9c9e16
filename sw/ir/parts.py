"""Parts of a compiled program: sections of instructions, constants, ends, host operators."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from celosia.hw.arch import isa
from celosia.hw.arch.config import INSTRUCTION_BYTES

__all__ = [
    "MOST_BATCH",
    "MOST_ELEMENTS",
    "HostOperator",
    "Layer",
    "Operand",
    "Part",
    "Port",
    "Section",
    "Segment",
    "Variable",
]


#: Items of one run of a program, at most.
MOST_BATCH = 4096

#: Elements of a tensor that the host computes, of one unit, at most: it keeps several copies of
#: eight bytes each.
MOST_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class Section:
    """Instructions that run from one start to HALT.

    Parameters
    ----------
    address : int
        Byte address of the first instruction in external memory, a multiple of 64.
    code : bytes
        Encoded instructions.
    layers : tuple of int
        For each instruction the number of the layer it works for, −1 for none.
    """

    address: int
    code: bytes
    layers: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of instructions."""
        return len(self.code) // INSTRUCTION_BYTES

    def instruction(self, index: int) -> isa.Instruction:
        """Return one instruction, decoded."""
        start = index * INSTRUCTION_BYTES
        return isa.decode(self.code[start : start + INSTRUCTION_BYTES])

    @property
    def instructions(self) -> list[isa.Instruction]:
        """All instructions, decoded."""
        return [self.instruction(index) for index in range(self.count)]


@dataclass(frozen=True)
class Segment:
    """Constants at an address of external memory."""

    name: str
    address: int
    data: bytes


@dataclass(frozen=True)
class Port:
    """An input or output: the items of the batch one after the other.

    Parameters
    ----------
    name : str
        As the model names it.
    shape : tuple of int
        Of one item.
    items : int
        Items in one invocation of the model as it stands in its file.
    scale, zero_point : float, int
        real = scale × (integer − zero point).
    address : int
        Byte address of the first item in external memory; −1 of what the core neither reads nor
        writes.
    tensor : int
        Number in the model.
    dtype : str
        ``int8``; of what the host reads or makes also another.
    """

    name: str
    shape: tuple[int, ...]
    items: int
    scale: float
    zero_point: int
    address: int
    tensor: int = -1
    dtype: str = "int8"

    @property
    def elements(self) -> int:
        """Numbers of one item."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def bytes_per_item(self) -> int:
        """Bytes of one item."""
        return self.elements * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Variable:
    """A tensor that keeps its contents from one invocation to the next.

    Parameters
    ----------
    port : Port
        The tensor that steps read.
    successor : int
        Number of the tensor whose contents it has in the next invocation.
    data : bytes
        Contents in the first invocation.
    """

    port: Port
    successor: int
    data: bytes


@dataclass(frozen=True)
class Layer:
    """A layer in reports and messages.

    Parameters
    ----------
    name, kind : str
        Result of the operator, and the operator.
    place : int
        Number of the operator in the model.
    runs_on : str
        ``core`` or ``host``.
    macs : int
        Multiplications for each item.
    weight_bytes, parameter_bytes, activation_bytes : int
        Constants in external memory, and input and output of one item.
    resident : bool
        Whether the weights are loaded once and stay.
    note : str
        What people should know about how it runs; empty if nothing.
    """

    name: str
    kind: str
    place: int
    runs_on: str
    macs: int
    weight_bytes: int
    parameter_bytes: int
    activation_bytes: int
    resident: bool
    note: str = ""


@dataclass(frozen=True)
class Operand:
    """Input or result of an operator of the host.

    Parameters
    ----------
    tensor : int
        Number in the model.
    name : str
        As the model names it.
    shape : tuple of int
        Of one unit: what the model's batch counts, or all of it where that cannot be distinguished.
    dtype : str
        Type of the elements.
    scale, zero_point : float, int
        real = scale × (integer − zero point); 1 and 0 of floating-point numbers.
    data : bytes, optional
        Contents of a constant.
    scales : tuple of float
        Of a constant that has one for each output channel; else empty.
    """

    tensor: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float
    zero_point: int
    data: bytes | None = None
    scales: tuple[float, ...] = ()


@dataclass(frozen=True)
class HostOperator:
    """An operator that the host runs.

    Parameters
    ----------
    name, kind : str
        Result of the operator, and the operator.
    place : int
        Number of the operator in the model.
    sources, results : tuple of Operand
        What it reads and makes.
    attributes : dict
        Its attributes, in numbers, texts and lists of them.
    note : str
        Why the core does not run it.
    """

    name: str
    kind: str
    place: int
    sources: tuple[Operand, ...]
    results: tuple[Operand, ...]
    attributes: dict[str, Any]
    note: str = ""


@dataclass(frozen=True)
class Part:
    """Work of the core between two operators of the host, or all of it.

    Parameters
    ----------
    setup, main : Section
        One-time loads of constants that stay until another part runs, and the rest.
    inputs, outputs : tuple of Port
        What the host writes before ``main`` and reads after it, all of it int8.
    items : int
        Items of these ports in one unit: see ``Operand``.
    """

    setup: Section
    main: Section
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    items: int
