"""Host registers on AXI4-Lite: one table for gateware, driver and documentation.

Registers are 32 bits wide; addresses are in bytes. Access is ``r``, ``rw`` or ``w1`` (writing ones
acts, reads give the state).
"""

from typing import NamedTuple

from amaranth.hdl import Shape
from amaranth.lib import enum

from celosia.hw.arch.config import SEMAPHORES

MAGIC = 0x43454C4F
VERSION = 0x00020001

#: Bits of the length of a program.
LENGTH_BITS = 24

#: Instructions from one start to HALT, at most: the core numbers them in 16 bits.
MOST_INSTRUCTIONS = (1 << 16) - 1

#: Bounds of external memory are multiples of ``1 << BOUND_BITS`` bytes; no burst crosses one.
BOUND_BITS = 12


class Register(NamedTuple):
    """One 32-bit register; bits below ``lowest`` always read as those of ``init``."""

    name: str
    offset: int
    access: str
    init: int
    text: str
    lowest: int = 0


REGISTERS = (
    Register("magic", 0x00, "r", MAGIC, "'CELO'"),
    Register("version", 0x04, "r", VERSION, "major << 16 | minor"),
    Register("fingerprint", 0x08, "r", 0, "constant: number of the configuration"),
    Register(
        "control", 0x0C, "w1", 0, "bit 0 starts the program, 1 resets softly, 2 clears counters"
    ),
    Register(
        "status",
        0x10,
        "r",
        0,
        "bit 0 busy, from start to end; 1 done, 2 error, 3 bus transfers under way",
    ),
    Register("interrupt_enable", 0x14, "rw", 0, "bit 0 done, 1 error"),
    Register("interrupt", 0x18, "w1", 0, "bit 0 done, 1 error; writing ones clears"),
    Register(
        "program_address",
        0x1C,
        "rw",
        0,
        "byte address of the first word; bits 5:0 are zero",
        6,
    ),
    Register(
        "program_length", 0x20, "rw", 0, "words of 32 bits in the program, at most 16,777,215"
    ),
    Register("error_code", 0x24, "r", 0, "code of the first error"),
    Register("error_unit", 0x28, "r", 0, "unit that noticed it"),
    Register("error_index", 0x2C, "r", 0, "index of the instruction in the program"),
    Register("watchdog", 0x30, "rw", 1 << 20, "cycles without progress before WATCHDOG; 0: none"),
    Register("cycles", 0x34, "r", 0, "cycles in which a program was running"),
    Register(
        "memory_base",
        0x38,
        "rw",
        0,
        "first byte of external memory that the core may touch; bits 11:0 are zero",
        BOUND_BITS,
    ),
    Register(
        "memory_limit",
        0x3C,
        "rw",
        (1 << 32) - 1,
        "last byte of external memory that the core may touch; bits 11:0 are ones",
        BOUND_BITS,
    ),
)

#: Counter of activity ``a`` of unit ``u``: COUNTERS + (u * COUNTERS_PER_UNIT + a) * 4.
COUNTERS = 0x400
COUNTERS_PER_UNIT = 32
REGISTER_ADDRESS_BITS = 12

OFFSETS = {register.name: register.offset for register in REGISTERS}


class Control(enum.Flag, shape=3):
    """Bits of ``control``."""

    START = 1
    RESET = 2
    CLEAR = 4


class Status(enum.Flag, shape=4):
    """Bits of ``status``."""

    BUSY = 1
    DONE = 2
    ERROR = 4
    DRAINING = 8


class Interrupt(enum.Flag, shape=2):
    """Bits of ``interrupt_enable`` and ``interrupt``."""

    DONE = 1
    ERROR = 2


#: Registers that consist of single bits.
FLAGS: dict[str, type[enum.Flag]] = {
    "control": Control,
    "status": Status,
    "interrupt_enable": Interrupt,
    "interrupt": Interrupt,
}


def width(register: Register) -> int:
    """Return the bits of a register, up to the highest that a write can change."""
    return Shape.cast(FLAGS[register.name]).width if register.name in FLAGS else 32


def written(register: Register, value: int) -> int:
    """Return what a register of access ``rw`` reads as after a write of 32 bits."""
    below = (1 << register.lowest) - 1
    return value & (1 << width(register)) - 1 & ~below | register.init & below


class Activity(enum.Enum, shape=5):
    """Activity of a unit in one cycle; exactly one for each cycle and unit.

    Units report the first five; their queues put the others, or DRAIN, in the place of IDLE, see
    ``Issue``. ``SEMAPHORE + s`` is waiting for semaphore ``s``, the lowest one that has no count.
    """

    IDLE = 0
    BUSY = 1
    MEMORY = 2
    WEIGHTS = 3
    DRAIN = 4
    EMPTY = 5
    SEMAPHORE = 16


def activity_names() -> dict[int, str]:
    """Return the name of each counter class of a unit, by its number."""
    names = {
        a.value: a.name.lower() for a in Activity if a not in (Activity.IDLE, Activity.SEMAPHORE)
    }
    return names | {Activity.SEMAPHORE.value + s: f"semaphore_{s}" for s in range(SEMAPHORES)}
