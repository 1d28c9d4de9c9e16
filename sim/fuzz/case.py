"""Fuzzing case: a program, its core, its bus, and a fault."""

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from celosia.hw.arch import isa
from celosia.hw.arch.config import INSTRUCTION_BYTES, Config
from celosia.sim.fuzz.programs import stage

__all__ = ["CHANNELS", "FAULTS", "Bus", "Case", "Fault", "load", "save"]

CHANNELS = ("ar", "r", "aw", "w", "b")

#: A beat read or a burst written is refused; a soft reset or another doorbell after some cycles;
#: the program length exceeds the instructions in memory, which ends there.
FAULTS = ("beat", "answer", "reset", "doorbell", "beyond")

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
        found = tuple(name for name, p in zip(CHANNELS, self.pauses, strict=True) if p)
        return found or ("none",)


class Fault(NamedTuple):
    """Fault outside the program.

    ``kind`` is one of ``FAULTS``; ``place`` counts beats or bursts from 1, cycles from the doorbell,
    or instructions; ``response`` is the AXI4 response.
    """

    kind: str
    place: int
    response: int = 0


@dataclass(frozen=True)
class Case:
    """Program with its core, external memory and fault.

    Parameters
    ----------
    config : Config
        The core.
    seed : int
        Seed of the contents of external memory and of the pauses, 0 to 2**32 - 1.
    words : tuple of bytes
        Instructions, valid or not.
    bus : Bus
        External memory.
    fault : Fault, optional
        Fault outside the program.
    """

    config: Config
    seed: int
    words: tuple[bytes, ...]
    bus: Bus = Bus()
    fault: Fault | None = None

    @property
    def code(self) -> bytes:
        """Concatenated words."""
        return b"".join(self.words)

    @property
    def address(self) -> int:
        """Address of the program in external memory."""
        if self.fault and self.fault.kind == "beyond":
            return stage.SIZE - len(self.code)
        return stage.CODE if len(self.code) <= stage.SIZE - stage.CODE else stage.SIZE

    @property
    def memory_bytes(self) -> int:
        """Size of external memory."""
        return max(stage.SIZE, self.address + len(self.code))

    @property
    def count(self) -> int:
        """Program length as written to the core."""
        more = self.fault.place if self.fault and self.fault.kind == "beyond" else 0
        return len(self.words) + more


@lru_cache(4096)
def decoded(word: bytes) -> isa.Instruction | None:
    """Return the instruction of a word, or None."""
    try:
        return isa.decode(word)
    except isa.Illegal:
        return None


def save(case: Case, remarks: tuple[str, ...] = ()) -> str:
    """Return a case as assembly, with all but the instructions in comments."""
    lines = [f"# {remark}" for remark in remarks]
    header = {
        "config": asdict(case.config),
        "seed": case.seed,
        "bus": case.bus._asdict(),
        "fault": case.fault and case.fault._asdict(),
    }
    lines.append(_MARK + json.dumps(header))
    for word in case.words:
        instruction = decoded(word)
        lines.append(isa.disassemble(instruction) if instruction else _WORD + word.hex())
    return "".join(line + "\n" for line in lines)


def load(text: str) -> Case:
    """Return the case that ``save`` wrote.

    Raises
    ------
    ValueError
        If the text is no such case.
    """
    header: dict[str, Any] | None = None
    words: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.startswith(_MARK):
                header = json.loads(line.removeprefix(_MARK))
            elif line.startswith(_WORD):
                words.append(bytes.fromhex(line.removeprefix(_WORD)))
            elif instruction := isa.assemble_line(line):
                words.append(isa.encode(instruction))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if any(len(word) != INSTRUCTION_BYTES for word in words):
        raise ValueError(f"wanted instructions of {INSTRUCTION_BYTES} bytes")
    if header is None or not words:
        raise ValueError(f"wanted a program, and a line {_MARK.strip()!r} with its configuration")
    try:
        fields = header["bus"]
        bus = Bus(tuple(fields["pauses"]), fields["latency"], fields["bandwidth"])
        fault = Fault(**header["fault"]) if header["fault"] else None
        return Case(Config(**header["config"]), int(header["seed"]), tuple(words), bus, fault)
    except (KeyError, TypeError) as error:
        raise ValueError(f"line {_MARK.strip()!r}: {error}") from None
