"""A compiled program: code, constants and what the host needs to use it, in one file.

The file is the magic bytes, a version and the length of the header (little-endian uint32 each), the
header as JSON, the blobs that it lists one after the other, and a CRC-32 of all of that.
"""

import binascii
import json
import os
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from celosia.hw.arch import isa
from celosia.hw.arch.config import INSTRUCTION_BYTES, Config

__all__ = [
    "HostOperator",
    "Layer",
    "Port",
    "Program",
    "ProgramError",
    "Section",
    "Segment",
    "write_atomically",
]

MAGIC = b"CELOSIA\x1a"
VERSION = 2


class ProgramError(ValueError):
    """A program file that cannot be used; the message is one line."""


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
    """An input or output: int8, the items of the batch one after the other.

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
        Byte address of the first item in external memory.
    """

    name: str
    shape: tuple[int, ...]
    items: int
    scale: float
    zero_point: int
    address: int

    @property
    def bytes_per_item(self) -> int:
        """Bytes of one item."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class Layer:
    """What a report says about a layer, and messages call it.

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
class HostOperator:
    """An operator that the host runs on an output of the core.

    Parameters
    ----------
    name, kind : str
        Result of the operator, and the operator.
    place : int
        Number of the operator in the model.
    output : int
        Number of the output that it takes and gives.
    attributes : dict of str to float
        What else it says.
    """

    name: str
    kind: str
    place: int
    output: int
    attributes: dict[str, float]


@dataclass(frozen=True)
class Program:
    """A compiled model for a batch of a certain size and cores of one configuration.

    Parameters
    ----------
    name : str
        Name of the model.
    config : Config
        What it was compiled for.
    batch : int
        Items of one run of ``main``.
    setup, main : Section
        One-time loads of constants that stay, and the rest.
    segments : tuple of Segment
        Constants.
    inputs, outputs : tuple of Port
        What the host writes and reads.
    layers : tuple of Layer
        Layers by number.
    host : tuple of HostOperator
        What the host does to outputs, in order.
    memory_bytes : int
        External memory that all of it takes, from address 0.
    """

    name: str
    config: Config
    batch: int
    setup: Section
    main: Section
    segments: tuple[Segment, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    layers: tuple[Layer, ...]
    host: tuple[HostOperator, ...]
    memory_bytes: int

    @property
    def macs(self) -> int:
        """Multiplications for each item."""
        return sum(layer.macs for layer in self.layers)

    def want(self, config: Config) -> None:
        """Refuse a core of another configuration.

        Raises
        ------
        ProgramError
            If ``config`` has another fingerprint.
        """
        if self.config.fingerprint != config.fingerprint:
            raise ProgramError(
                f"{self.name}: program was compiled for {self.config.name} "
                f"({self.config.fingerprint:08x}), the core is {config.name} "
                f"({config.fingerprint:08x})"
            )

    def to_bytes(self) -> bytes:
        """Return the contents of the program's file. The same program gives the same bytes."""
        sections = {"setup": self.setup, "main": self.main}
        blobs = [section.code for section in sections.values()]
        blobs += [segment.data for segment in self.segments]
        header = {
            "name": self.name,
            "config": asdict(self.config),
            "fingerprint": self.config.fingerprint,
            "batch": self.batch,
            "memory_bytes": self.memory_bytes,
            "sections": {
                name: {"address": s.address, "bytes": len(s.code), "layers": _packed(s.layers)}
                for name, s in sections.items()
            },
            "segments": [
                {"name": s.name, "address": s.address, "bytes": len(s.data)} for s in self.segments
            ],
            "inputs": [asdict(port) for port in self.inputs],
            "outputs": [asdict(port) for port in self.outputs],
            "layers": [asdict(layer) for layer in self.layers],
            "host": [asdict(operator) for operator in self.host],
        }
        text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
        content = b"".join([MAGIC, struct.pack("<II", VERSION, len(text)), text, *blobs])
        return content + struct.pack("<I", binascii.crc32(content))

    def save(self, path: str | Path) -> None:
        """Write the program's file: all of it, or nothing."""
        write_atomically({path: self.to_bytes()})

    @classmethod
    def load(cls, path: str | Path) -> "Program":
        """Return the program of a file.

        Raises
        ------
        ProgramError
            If there is none, or it is damaged, naming the file.
        """
        try:
            content = Path(path).read_bytes()
        except FileNotFoundError:
            raise ProgramError(f"{path}: no such file") from None
        except OSError as error:
            raise ProgramError(f"{path}: cannot be read ({error.strerror})") from None
        try:
            return cls.from_bytes(content)
        except ProgramError as error:
            raise ProgramError(f"{path}: {error}") from None

    @classmethod
    def from_bytes(cls, content: bytes) -> "Program":
        """Return the program that ``to_bytes`` gave these bytes of.

        Raises
        ------
        ProgramError
            If they are not, or not all, or changed on the way.
        """
        start = len(MAGIC) + 8
        if not content.startswith(MAGIC):
            raise ProgramError("not a program file")
        if len(content) < start + 4:
            raise ProgramError(f"truncated program file of {len(content)} bytes")
        version, length = struct.unpack_from("<II", content, len(MAGIC))
        if version != VERSION:
            raise ProgramError(f"wanted version {VERSION} of the program file, got {version}")
        (crc,) = struct.unpack_from("<I", content, len(content) - 4)
        if crc != binascii.crc32(content[:-4]):
            raise ProgramError("damaged or truncated program file (checksum differs)")
        try:
            header = json.loads(content[start : start + length])
            return _from_header(header, content[start + length : -4])
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ProgramError(f"program file makes no sense ({error})") from None


def _from_header(header: dict[str, Any], blobs: bytes) -> Program:
    config = Config(**header["config"])
    if config.fingerprint != header["fingerprint"]:
        raise ValueError("fingerprint and configuration disagree")

    def take(count: int) -> bytes:
        nonlocal blobs
        if not 0 <= count <= len(blobs):
            raise ValueError(f"wanted {count} more bytes, got {len(blobs)}")
        taken, blobs = blobs[:count], blobs[count:]
        return taken

    sections = {}
    for name in ("setup", "main"):
        said = header["sections"][name]
        layers = tuple(number for number, count in said["layers"] for _ in range(count))
        section = Section(said["address"], take(said["bytes"]), layers)
        if said["bytes"] % INSTRUCTION_BYTES or len(layers) != section.count:
            raise ValueError(f"{name}: wanted a layer for each instruction")
        sections[name] = section
    segments = tuple(
        Segment(said["name"], said["address"], take(said["bytes"])) for said in header["segments"]
    )
    if blobs:
        raise ValueError(f"{len(blobs)} bytes too many")
    return Program(
        name=header["name"],
        config=config,
        batch=header["batch"],
        setup=sections["setup"],
        main=sections["main"],
        segments=segments,
        inputs=_ports(header["inputs"]),
        outputs=_ports(header["outputs"]),
        layers=tuple(Layer(**layer) for layer in header["layers"]),
        host=tuple(HostOperator(**operator) for operator in header["host"]),
        memory_bytes=header["memory_bytes"],
    )


def _ports(said: list[dict[str, Any]]) -> tuple[Port, ...]:
    return tuple(Port(**{**port, "shape": tuple(port["shape"])}) for port in said)


def _packed(layers: Sequence[int]) -> list[list[int]]:
    """Return runs of equal numbers as (number, count)."""
    runs: list[list[int]] = []
    for number in layers:
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return runs


def write_atomically(contents: Mapping[str | Path, bytes]) -> None:
    """Write files: all of them, or nothing.

    Parameters
    ----------
    contents : mapping of path to bytes
        What each file shall hold. What is not a regular file, a pipe for instance, is written to.

    Raises
    ------
    OSError
        If one cannot be written.
    """
    temporaries: dict[Path, str] = {}
    try:
        for path, content in contents.items():
            final = Path(path).resolve()
            if final.exists() and not final.is_file():
                final.write_bytes(content)
                continue
            handle, temporaries[final] = tempfile.mkstemp(dir=final.parent, prefix=".celosia-")
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporaries[final], 0o666 & ~_umask())
        while temporaries:
            final = next(iter(temporaries))
            os.replace(temporaries[final], final)
            del temporaries[final]
    finally:
        for temporary in temporaries.values():
            os.unlink(temporary)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
