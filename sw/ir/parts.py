"""Parts of a compiled program: sections of instructions, constants, ends, host operators."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from celosia.hw.arch import commands, isa

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


#: Samples of one run of a program, at most.
MOST_BATCH = 4096

#: Elements of a tensor that the host computes, for one invocation, at most: it keeps several
#: copies of eight bytes each.
MOST_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class Section:
    """Instructions that run from one start to HALT.

    Parameters
    ----------
    address : int
        Byte address of the first word in external memory, a multiple of 64.
    code : bytes
        Words of the instructions.
    layers : tuple of int
        For each instruction the number of its layer, −1 for none.
    """

    address: int
    code: bytes
    layers: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of instructions."""
        return len(self.layers)

    @property
    def words(self) -> int:
        """Number of words."""
        return len(self.code) // commands.WORD_BYTES

    @property
    def end(self) -> int:
        """First byte address after the blocks that the core reads."""
        return self.address + commands.padded(self.words)

    @cached_property
    def instructions(self) -> list[isa.Instruction]:
        """All instructions, decoded."""
        return commands.decode(self.code)


@dataclass(frozen=True)
class Segment:
    """Constants at an address of external memory."""

    name: str
    address: int
    data: bytes


@dataclass(frozen=True)
class Port:
    """An input or output: the samples of the batch one after the other.

    Parameters
    ----------
    name : str
        Name in the model.
    shape : tuple of int
        Shape of one sample.
    items : int
        Samples in one invocation of the model's file.
    scale, zero_point : float, int
        real = scale × (integer − zero point).
    address : int
        Byte address of the first sample in external memory; −1 if the core neither reads nor
        writes.
    tensor : int
        Number of the tensor in the model.
    dtype : str
        ``int8``; the host reads and makes other types, too.
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
        """Elements of one sample."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def bytes_per_item(self) -> int:
        """Bytes of one sample."""
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
        Multiplications for each sample.
    weight_bytes, parameter_bytes, activation_bytes : int
        Constants in external memory; input and output of one sample.
    resident : bool
        True if the weights are loaded once.
    note : str
        Remark for people on how it runs; empty if there is none.
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
    """Input or result of a host operator.

    Parameters
    ----------
    tensor : int
        Number of the tensor in the model.
    name : str
        Name in the model.
    shape : tuple of int
        Shape for one invocation of the model's file, or for one sample of its batch.
    dtype : str
        Type of the elements.
    scale, zero_point : float, int
        real = scale × (integer − zero point); 1 and 0 for floating-point numbers.
    data : bytes, optional
        Contents if it is a constant.
    scales : tuple of float
        Scales of a constant with one for each output channel; else empty.
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
        Operands read and made.
    attributes : dict
        Attributes of the operator: numbers, texts and lists of them.
    note : str
        Reason why the core does not run it.
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
    """Work of the core between two host operators, or all of it.

    Parameters
    ----------
    setup, main : Section
        One-time loads of constants that stay until another part runs; all other work.
    inputs, outputs : tuple of Port
        Tensors that the host writes before ``main`` and reads after it, all int8.
    items : int
        Samples of these ports in one invocation: see ``Operand``.
    """

    setup: Section
    main: Section
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    items: int
