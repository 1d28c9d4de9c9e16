"""A compiled program: code, constants and the host's data about them, in one file.

The file is the magic bytes, a version and the length of the header (little-endian uint32 each), the
header as JSON, the blobs that it lists one after the other, and a CRC-32 of everything before it.
"""

import binascii
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from celosia.hw.arch.config import Config
from celosia.sw.files import read_file, write_atomically
from celosia.sw.ir.header import (
    read_ports,
    read_sections,
    read_segment,
    read_step,
    read_variable,
    require_fields,
    section_header,
    step_blobs,
    step_header,
)
from celosia.sw.ir.labels import labelled
from celosia.sw.ir.notebook import ends_table, layers_table
from celosia.sw.ir.parts import HostOperator, Layer, Part, Port, Section, Segment, Variable
from celosia.sw.ir.records import listed, record, require_texts, value
from celosia.sw.ir.validate import validate

MAGIC = b"CELOSIA\x1a"
VERSION = 5


_HEADER = (
    *("name", "config", "fingerprint", "batch", "memory_bytes", "steps", "segments"),
    *("inputs", "outputs", "layers", "variables"),
)


class ProgramError(ValueError):
    """A program file that cannot be used; the message is one line."""


@dataclass(frozen=True)
class Program:
    """A compiled model for a batch of a certain size and cores of one configuration."""

    name: str  #: Name of the model.
    config: Config  #: Configuration of the cores.
    batch: int  #: Samples of one run of ``mains``.
    #: Work for each batch, in order; layers are numbered over all parts.
    steps: tuple[Part | HostOperator, ...]
    segments: tuple[Segment, ...]  #: Constants.
    inputs: tuple[Port, ...]  #: Tensors that the host writes.
    outputs: tuple[Port, ...]  #: Tensors that the host reads.
    layers: tuple[Layer, ...]  #: Layers by number.
    memory_bytes: int  #: External memory of the program, from address 0.
    #: One-time load of constants that stay for all parts. Without it, ``setups`` of each part load
    #: the constants of that part, for each batch again.
    constants: tuple[Section, ...] = ()
    #: Tensors that keep their contents from one invocation to the next; invocations are then
    #: computed one after the other.
    variables: tuple[Variable, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """Work of the core, in order; more than one part if the host has work in between."""
        return tuple(step for step in self.steps if isinstance(step, Part))

    @property
    def sections(self) -> tuple[tuple[str, Section], ...]:
        """All code with names for people: constants for all parts, then setup and main of each."""
        named = [*_named("constants", self.constants)]
        for place, part in enumerate(self.parts):
            which = f" of part {place}" if len(self.parts) > 1 else ""
            named += [*_named(f"setup{which}", part.setups), *_named(f"main{which}", part.mains)]
        return tuple(named)

    @property
    def once(self) -> tuple[Section, ...]:
        """Code that runs once, before the first batch, in order."""
        return (*self.constants, *(s for part in self.parts[:1] for s in self.before(part)))

    @property
    def per_batch(self) -> tuple[Section, ...]:
        """Code that runs for each batch, in order; parts load overwritten constants again."""
        if len(self.parts) == 1:
            return self.parts[0].mains * self.parts[0].items
        mains = ((*self.before(part), *part.mains * part.items) for part in self.parts)
        return tuple(chain.from_iterable(mains))

    def before(self, part: Part) -> tuple[Section, ...]:
        """Return the code that runs before ``mains`` of a part if another part ran last."""
        empty = self.constants and sum(section.count for section in part.setups) == 1
        return () if empty else part.setups

    @property
    def host(self) -> tuple[HostOperator, ...]:
        """Host operators, in order."""
        return tuple(step for step in self.steps if isinstance(step, HostOperator))

    @property
    def in_place(self) -> tuple[Variable, ...]:
        """Variables that stay in external memory: their successors take their place there."""
        if self.host or len(self.parts) != 1:
            return ()
        (part,) = self.parts
        ends = {port.tensor: port.address for port in (*part.inputs, *part.outputs)}
        read = {port.tensor for port in part.inputs} - {port.tensor for port in self.outputs}
        return tuple(
            v
            for v in self.variables
            if v.port.tensor in read and ends[v.port.tensor] == ends.get(v.successor)
        )

    @property
    def setup(self) -> Section:
        """One-time loads of resident constants, of a program of one part and section."""
        return self._only([part.setups for part in self.parts])

    @property
    def main(self) -> Section:
        """All but ``setup``, of a program of one part and section."""
        return self._only([part.mains for part in self.parts])

    def _only(self, sections: Sequence[tuple[Section, ...]]) -> Section:
        if [len(group) for group in sections] != [1]:
            got = f"{len(sections)} of {sum(map(len, sections))}"
            raise ValueError(f"{self.name}: wanted one part of one section, got {got}")
        return sections[0][0]

    @property
    def shifted(self) -> frozenset[int]:
        """Tensors that are uint8 as inputs or outputs of the model, and 128 less inside."""
        inside = {
            operand.tensor
            for step in self.steps
            for operand in (
                (*step.inputs, *step.outputs)
                if isinstance(step, Part)
                else (*step.sources, *step.results)
            )
            if operand.dtype == "int8"
        }
        ends = (*self.inputs, *self.outputs)
        return frozenset(port.tensor for port in ends if port.dtype == "uint8") & inside

    def label(self, index: int) -> str:
        """Return the label of a layer."""
        steps = labelled(self.layers, self.host)
        return next(label for label, step in steps if step is self.layers[index])

    @property
    def macs(self) -> int:
        """Multiplications for each sample."""
        return sum(layer.macs for layer in self.layers)

    def __repr__(self) -> str:
        return (
            f"<Program {self.name!r} on {self.config.name}, batch {self.batch}: "
            f"{len(self.layers)} layers on the core, {len(self.host)} operators on the host, "
            f"{self.macs:,} multiplications for each input>"
        )

    def _repr_html_(self) -> str:
        title = f"{self.name} on {self.config.name}, batch {self.batch}"
        total = f"{self.macs:,} multiplications for each input"
        return ends_table(title, self.inputs, self.outputs) + layers_table(
            total, self.layers, self.host
        )

    def require(self, config: Config, name: str = "") -> None:
        """Refuse a core of another configuration.

        Parameters
        ----------
        config
            Configuration of the core.
        name
            Name of the program in the message, as that of its file; else its model's.

        Raises
        ------
        ProgramError
            If ``config`` has another fingerprint.
        """
        if self.config.fingerprint != config.fingerprint:
            raise ProgramError(
                f"{name or self.name}: program was compiled for {self.config.name} "
                f"({self.config.fingerprint:08x}), the core is {config.name} "
                f"({config.fingerprint:08x})"
            )

    def to_bytes(self) -> bytes:
        """Return the bytes of the program's file. The same program gives the same bytes.

        Raises
        ------
        ProgramError
            If a name has characters that cannot be printed, which ``from_bytes`` refuses.
        """
        blobs = [section.code for section in self.constants]
        blobs += [blob for step in self.steps for blob in step_blobs(step)]
        blobs += [segment.data for segment in self.segments]
        blobs += [variable.data for variable in self.variables]
        header = {
            "name": self.name,
            "config": self.config.given(),
            "fingerprint": self.config.fingerprint,
            "batch": self.batch,
            "memory_bytes": self.memory_bytes,
            "steps": [step_header(step) for step in self.steps],
            "segments": [
                {"name": s.name, "address": s.address, "bytes": len(s.data)} for s in self.segments
            ],
            "inputs": [asdict(port) for port in self.inputs],
            "outputs": [asdict(port) for port in self.outputs],
            "layers": [asdict(layer) for layer in self.layers],
            "variables": [
                {"port": asdict(v.port), "successor": v.successor, "bytes": len(v.data)}
                for v in self.variables
            ],
        }
        if self.constants:
            header["constants"] = [section_header(section) for section in self.constants]
        try:
            require_texts(header, "program")
        except ValueError as error:
            raise ProgramError(str(error)) from None
        text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
        content = b"".join([MAGIC, struct.pack("<II", VERSION, len(text)), text, *blobs])
        return content + struct.pack("<I", binascii.crc32(content))

    def save(self, path: str | Path) -> None:
        """Write the program's file, all of it or nothing."""
        write_atomically({path: self.to_bytes()})

    @classmethod
    def load(cls, path: str | Path) -> "Program":
        """Return the program of a file.

        Raises
        ------
        ProgramError
            If the file is missing or damaged; the message names it.
        """
        content = read_file(path, ProgramError)
        try:
            return cls.from_bytes(content)
        except ProgramError as error:
            raise ProgramError(f"{path}: {error}") from None

    @classmethod
    def from_bytes(cls, content: bytes) -> "Program":
        """Return the program whose ``to_bytes`` gave ``content``.

        Raises
        ------
        ProgramError
            If ``content`` is no program file, truncated or changed.
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
        except (ValueError, RecursionError):
            raise ProgramError("program file makes no sense (its header is no JSON)") from None
        try:
            return _from_header(header, content[start + length : -4])
        except ValueError as error:
            raise ProgramError(f"program file makes no sense ({error})") from None


def _named(name: str, sections: Sequence[Section]) -> Iterator[tuple[str, Section]]:
    """Yield sections with their names: numbered where there are several."""
    for number, section in enumerate(sections):
        yield f"section {number} of {name}" if len(sections) > 1 else name, section


def _from_header(header: Any, blobs: bytes) -> Program:
    shared = isinstance(header, dict) and "constants" in header
    require_fields(header, "header", (*_HEADER, "constants") if shared else _HEADER)
    config = record(Config, header["config"], "config")
    if config.fingerprint != header["fingerprint"]:
        raise ValueError("fingerprint and configuration disagree")

    def take(count: Any, where: str) -> bytes:
        nonlocal blobs
        if not 0 <= value(count, int, where) <= len(blobs):
            raise ValueError(f"{where}: wanted {count} more bytes, got {len(blobs)}")
        taken, blobs = blobs[:count], blobs[count:]
        return taken

    constants = read_sections("constants", header["constants"], take) if shared else ()
    steps = tuple(read_step(entry, take) for entry in listed(header["steps"], "steps"))
    segments = tuple(read_segment(entry, take) for entry in listed(header["segments"], "segments"))
    variables = tuple(
        read_variable(entry, take) for entry in listed(header["variables"], "variables")
    )
    if blobs:
        raise ValueError(f"{len(blobs)} bytes too many")
    program = Program(
        name=value(header["name"], str, "name"),
        config=config,
        batch=value(header["batch"], int, "batch"),
        steps=steps,
        segments=segments,
        inputs=read_ports(header["inputs"], "inputs"),
        outputs=read_ports(header["outputs"], "outputs"),
        layers=tuple(record(Layer, layer, "layer") for layer in listed(header["layers"], "layers")),
        memory_bytes=value(header["memory_bytes"], int, "memory_bytes"),
        constants=constants,
        variables=variables,
    )
    validate(program)
    return program
