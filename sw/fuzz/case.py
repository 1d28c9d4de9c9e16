"""Fuzzing case: a program, its core, its bus, and a fault."""

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import ADDRESS_BITS, Config
from celosia.hw.arch.isa import Instruction
from celosia.sw.fuzz import stage

CHANNELS = ("ar", "r", "aw", "w", "b")

#: A beat read or a burst written is refused; a soft reset or another doorbell after some cycles;
#: the program length exceeds the words in memory, which ends there.
FAULTS = ("beat", "answer", "reset", "doorbell", "beyond")

#: Bytes of external memory after the bounds of a case.
OUTSIDE = 1 << 13
#: All of external memory.
EVERYWHERE = 0, (1 << ADDRESS_BITS) - 1

_MARK = "#! "
_WORD = "#word "


class Bus(NamedTuple):
    """Speed of external memory, and pauses of its channels.

    ``pauses`` are the probabilities, 0 to 1, that a channel of ``CHANNELS`` pauses for a cycle;
    ``latency`` is in cycles, ``bandwidth`` in beats per cycle.
    """

    pauses: tuple[float, ...] = (0.0,) * len(CHANNELS)
    latency: int = 8
    bandwidth: float = 1.0

    @property
    def stalls(self) -> tuple[str, ...]:
        """Channels with pauses; ``none`` if there are none."""
        channels = tuple(name for name, p in zip(CHANNELS, self.pauses, strict=True) if p)
        return channels or ("none",)


class CaseFault(NamedTuple):
    """Fault outside the program.

    ``kind`` is one of ``FAULTS``; ``place`` counts beats or bursts from 1, cycles from the
    doorbell, or words; ``response`` is the AXI4 response.
    """

    kind: str
    place: int
    response: int = 0


@dataclass(frozen=True)
class Case:
    """Program with its core, external memory and fault.

    ``config``: the core; ``seed``: seed of the contents of external memory and of the pauses, 0 to
    2**32 - 1; ``items``: program: instructions, and whole words as bytes, valid or not; ``bus``:
    external memory; ``fault``: fault outside the program; ``bounds``: first and last byte of
    external memory that the core may touch. The memory map of the program begins at the first; with
    other bounds than ``EVERYWHERE``, there is memory outside them.
    """

    config: Config
    seed: int
    items: tuple[Instruction | bytes, ...]
    bus: Bus = Bus()
    fault: CaseFault | None = None
    bounds: tuple[int, int] = EVERYWHERE

    @cached_property
    def code(self) -> bytes:
        """Words of the program."""
        return commands.encode(self.items)

    @property
    def words(self) -> int:
        """Number of words."""
        return len(self.code) // WORD_BYTES

    def index_at(self, address: int) -> int:
        """Return the index of the instruction that the word at an external address belongs to."""
        before = self.code[: address - self.address]
        return sum(map(commands.starts, commands.words(before)))

    @property
    def address(self) -> int:
        """Address of the program in external memory."""
        if self.fault and self.fault.kind == "beyond":
            return stage.SIZE - commands.padded(self.words)
        size = stage.SIZE - stage.CODE
        first = stage.CODE if commands.padded(self.words) <= size else stage.SIZE
        return self.bounds[0] + first

    @property
    def memory_bytes(self) -> int:
        """Size of external memory."""
        size = max(self.bounds[0] + stage.SIZE, self.address + commands.padded(self.words))
        return size if self.bounds == EVERYWHERE else max(size, self.bounds[1] + 1) + OUTSIDE

    @property
    def count(self) -> int:
        """Program length as written to the core, in words."""
        more = self.fault.place if self.fault and self.fault.kind == "beyond" else 0
        return self.words + more


def save(case: Case, remarks: tuple[str, ...] = ()) -> str:
    """Return a case as assembly, with all but the instructions in comments."""
    lines = [f"# {remark}" for remark in remarks]
    header = {
        "config": asdict(case.config),
        "seed": case.seed,
        "bus": case.bus._asdict(),
        "fault": case.fault and case.fault._asdict(),
        "bounds": case.bounds,
    }
    lines.append(_MARK + json.dumps(header))
    for item in case.items:
        lines.append(_WORD + item.hex() if isinstance(item, bytes) else isa.disassemble(item))
    return "".join(line + "\n" for line in lines)


def load(text: str) -> Case:
    """Return the case that ``save`` wrote.

    Raises ``ValueError`` if the text is no such case.
    """
    header: dict[str, Any] | None = None
    items: list[Instruction | bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.startswith(_MARK):
                header = json.loads(line.removeprefix(_MARK))
            elif line.startswith(_WORD):
                items.append(bytes.fromhex(line.removeprefix(_WORD)))
            elif instruction := isa.assemble_line(line):
                items.append(instruction)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if any(isinstance(item, bytes) and len(item) % WORD_BYTES for item in items):
        raise ValueError(f"wanted words of {WORD_BYTES} bytes")
    if header is None or not items:
        raise ValueError(f"wanted a program, and a line {_MARK.strip()!r} with its configuration")
    try:
        fields = header["bus"]
        bus = Bus(tuple(fields["pauses"]), fields["latency"], fields["bandwidth"])
        fault = CaseFault(**header["fault"]) if header["fault"] else None
        first, last = header.get("bounds", EVERYWHERE)
        config, seed = Config(**header["config"]), int(header["seed"])
        return Case(config, seed, tuple(items), bus, fault, (first, last))
    except (KeyError, TypeError) as error:
        raise ValueError(f"line {_MARK.strip()!r}: {error}") from None
