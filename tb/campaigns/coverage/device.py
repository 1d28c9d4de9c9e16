"""A core and the machine model beside it, for directed programs."""

import ctypes
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sim.check import footprint
from celosia.sim.check.vector import feeds_itself
from celosia.sim.model.machine import Machine, MachineError
from celosia.sim.rtl.core import RtlDevice
from celosia.sw.driver.core import Driver
from celosia.sw.fuzz.expectation import elements
from celosia.sw.fuzz.images import channels_image

#: Bytes of external memory, which repeats over all addresses; the upper half is for programs.
MEMORY = 1 << 23
HALF = MEMORY >> 1


class Wrong(RuntimeError):
    """Difference between the core and the machine model; the message is one line."""


class CheckedDevice(RtlDevice, Driver):
    """A core and the machine model beside it, both with all that earlier programs left.

    ``config``: the core; ``rng``: for contents of external memory, and pauses of the bus;
    ``calm``: without pauses.
    """

    def __init__(self, config: Config, rng: random.Random, *, calm: bool = False) -> None:
        super().__init__(config, latency=8, memory_bytes=MEMORY)
        library, number = self._library, ctypes.c_uint32
        library.celosia_repeat.argtypes = [ctypes.c_void_p]
        library.celosia_write_part.argtypes = [ctypes.c_void_p, *[number] * 3, ctypes.c_int]
        library.celosia_read_late.argtypes = [
            ctypes.c_void_p,
            number,
            ctypes.POINTER(number),
            ctypes.c_int,
        ]
        library.celosia_repeat(self._device)
        self.memory_bytes = 1 << 32
        chances = [0 if calm else rng.choice((0, 0, 1 << 13, 1 << 15)) for _ in range(5)]
        self._library.celosia_pause(
            self._device, rng.getrandbits(32), (ctypes.c_uint32 * 5)(*chances)
        )
        self.machine = Machine(config, memory_bytes=MEMORY)
        numbers = np.random.default_rng(rng.getrandbits(32))
        self._memory[:] = numbers.integers(0, 256, MEMORY, np.uint8)
        # Half of the possible parameters have common values.
        self._memory[: HALF >> 1] = channels_image(HALF >> 5, numbers)
        self.machine.memory[:] = self._memory

    def play(self, program: Sequence[Instruction], address: int, *, loose: bool = False) -> None:
        """Run a program on both.

        ``program``: program without races; ``address``: address of the program; it lies in the
        upper half of memory; ``loose``: compare unit and index of an error, but neither its code
        nor memory: an instruction with two errors may report either, after some of its work.
        Raises ``Wrong`` if core and machine model differ.
        """
        code = commands.encode(program)
        offset = address % MEMORY
        self.write(offset, code)
        self.machine.memory[offset : offset + len(code)] = np.frombuffer(code, np.uint8)
        result = self.run(address, len(code) // WORD_BYTES)
        expected = None
        try:
            self.machine.run([_near(i) for i in program])
        except MachineError as error:
            expected = (error.error, error.unit, error.index)
        first = 1 if loose else 0
        if (result.error or ())[first:] != (expected or ())[first:]:
            raise Wrong(f"directed: wanted {expected}, got {result.error}")
        if not loose and not np.array_equal(self._memory, self.machine.memory):
            first = int(np.flatnonzero(self._memory != self.machine.memory)[0])
            raise Wrong(f"directed: memory differs, first at {first:#x}")

    def refuse(self, word: int) -> None:
        """Run a program of one word that is neither an opcode nor a register."""
        self.write(HALF, word.to_bytes(WORD_BYTES, "little"))
        error = self.run(HALF, 1).error
        if error != (isa.Error.OPCODE, isa.Unit.SEQUENCER, 0):
            raise Wrong(f"directed: wanted no such opcode, got {error}")

    def access(self, offset: int, value: int | None, strobes: int = 15, rest: int = 0) -> int:
        """Write a register, or read it without a value; return the response of AXI4-Lite."""
        if value is not None:
            return self._library.celosia_write_part(self._device, offset, value, strobes, rest)
        got = ctypes.c_uint32()
        return self._library.celosia_read_late(self._device, offset, ctypes.byref(got), rest)

    def rest(self, cycles: int) -> None:
        """Advance the core by some cycles."""
        self._library.celosia_quiet(self._device, cycles)


def _near(i: Instruction) -> Instruction:
    """Return an instruction for a memory that does not repeat."""
    if "external" not in i.fields:
        return i
    return Instruction(i.opcode, **(i.fields | {"external": i.external % MEMORY}))


def good(i: Instruction, config: Config, most: int) -> bool:
    """Return True if an instruction is legal, playable, and moves at most ``most`` elements."""
    try:
        isa.check(i, config)
        return elements(i) <= most and playable(i, config)
    except (isa.Illegal, footprint.OutOfRange):
        return False


def playable(i: Instruction, config: Config) -> bool:
    """Return True if an instruction neither races with itself nor writes over programs."""
    touches = footprint.touches(i, config)
    if feeds_itself(i, config):
        return False
    for touch in touches:
        pattern = touch.pattern
        if touch.memory is footprint.Memory.EXTERNAL:
            first, last = pattern.base, pattern.last
            if first // MEMORY != last // MEMORY or (touch.write and last % MEMORY >= HALF):
                return False
    return True


def apart(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Return a program in which each waits for all before."""
    fence = Instruction(Opcode.FENCE)
    return [*(one for i in instructions for one in (i, fence)), Instruction(Opcode.HALT)]


def far(rng: random.Random) -> int:
    """Return an address of a program, anywhere in 32 bits."""
    return rng.getrandbits(32) // MEMORY * MEMORY + HALF + rng.randrange(0, HALF // 2, 64)


class Run(NamedTuple):
    """A directed run: its core, and the function that plays it with a source of random numbers."""

    config: Config
    play: Callable[[random.Random], None]
