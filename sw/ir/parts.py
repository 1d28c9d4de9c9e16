"""Parts of a compiled program: sections of instructions, constants, ends, host operators."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from celosia.hw.arch import commands, isa
from celosia.hw.arch.config import PARAMETER_BYTES, TABLE_BYTES, Config

#: Samples of one run of a program, at most.
MOST_BATCH = 4096

#: Elements of a tensor that the host computes, for one invocation, at most: it keeps several
#: copies of eight bytes each.
MOST_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class Section:
    """Instructions that run from one start to HALT."""

    address: int  #: Byte address of the first word in external memory, a multiple of 64.
    code: bytes  #: Words of the instructions.
    layers: tuple[int, ...]  #: For each instruction the number of its layer, −1 for none.

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


def moved_bytes(instruction: isa.Instruction, config: Config) -> int:
    """Return the bytes that an instruction moves over the bus."""
    match instruction.opcode:
        case isa.Opcode.LOAD | isa.Opcode.STORE:
            return instruction.rows * instruction.length
        case isa.Opcode.LOAD_WEIGHTS:
            return instruction.tiles * config.tile_bytes
        case isa.Opcode.LOAD_PARAMS:
            channels = instruction.kind == isa.Kind.CHANNELS.value
            return instruction.count * (PARAMETER_BYTES if channels else TABLE_BYTES)
    return 0


@dataclass(frozen=True)
class Segment:
    """Constants at an address of external memory."""

    name: str
    address: int
    data: bytes


@dataclass(frozen=True)
class Port:
    """An input or output: the samples of the batch one after the other."""

    name: str  #: Name in the model, no other input or output has it.
    shape: tuple[int, ...]  #: Shape of one sample.
    items: int  #: Samples in one invocation of the model's file.
    #: real = scale × (integer − zero point).
    scale: float
    zero_point: int
    #: Byte address of the first sample in external memory; −1 if the core neither reads nor writes.
    address: int
    tensor: int = -1  #: Number of the tensor in the model.
    dtype: str = "int8"  #: ``int8``; the host reads and makes other types, too.
    tensor_name: str = ""  #: Name of the tensor in the model, where a signature has another.

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
    """A tensor that keeps its contents from one invocation to the next."""

    port: Port  #: The tensor that steps read.
    successor: int  #: Number of the tensor whose contents it has in the next invocation.
    data: bytes  #: Contents in the first invocation.


@dataclass(frozen=True)
class Layer:
    """A layer in reports and messages."""

    #: Result of the operator, and the operator.
    name: str
    kind: str
    place: int  #: Number of the operator in the model.
    runs_on: str  #: ``core`` or ``host``.
    macs: int  #: Multiplications for each sample.
    #: Constants in external memory; input and output of one sample.
    weight_bytes: int
    parameter_bytes: int
    activation_bytes: int
    resident: bool  #: True if the weights are loaded once.
    note: str = ""  #: Remark for people on how it runs; empty if there is none.


@dataclass(frozen=True)
class Operand:
    """Input or result of a host operator."""

    tensor: int  #: Number of the tensor in the model.
    name: str  #: Name in the model.
    #: Shape for one invocation of the model's file, or for one sample of its batch.
    shape: tuple[int, ...]
    dtype: str  #: Type of the elements.
    #: real = scale × (integer − zero point); 1 and 0 for floating-point numbers.
    scale: float
    zero_point: int
    data: bytes | None = None  #: Contents if it is a constant.
    #: Scales of a constant with one for each output channel; else empty.
    scales: tuple[float, ...] = ()


@dataclass(frozen=True)
class HostOperator:
    """An operator that the host runs."""

    #: Result of the operator, and the operator.
    name: str
    kind: str
    place: int  #: Number of the operator in the model.
    #: Operands read and made.
    sources: tuple[Operand, ...]
    results: tuple[Operand, ...]
    attributes: dict[str, Any]  #: Attributes of the operator: numbers, texts and lists of them.
    note: str = ""  #: Reason why the core does not run it.


@dataclass(frozen=True)
class Part:
    """Work of the core between two host operators, or all of it."""

    #: One-time loads of constants that stay until another part runs; all other work. Sections run
    #: in order; there are several where the core cannot number the instructions of one.
    setups: tuple[Section, ...]
    mains: tuple[Section, ...]
    #: Tensors that the host writes before ``mains`` and reads after them, all int8.
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    items: int  #: Samples of these ports in one invocation: see ``Operand``.
