"""Directed programs of the coverage: great sizes, addresses and counts, and accesses of the host."""

import ctypes
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import CODE_BITS, WORD_BYTES, padded
from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import (
    COUNTERS_PER_UNIT,
    OFFSETS,
    REGISTER_ADDRESS_BITS,
    Control,
    Status,
)
from celosia.sim import footprint
from celosia.sim.fuzz.expectation import elements
from celosia.sim.fuzz.programs.images import channels_image
from celosia.sim.machine import Machine, MachineError
from celosia.sim.rtl import RtlDevice, RtlError
from celosia.sim.schedule import COUNT_LIMIT
from celosia.sim.vector import feeds_itself

#: A core with more memory than those of the fuzzer. Amaranth writes a line for each word of one.
VAST = replace(
    preset(
        "tpu_v1,rows=4,columns=4,unified_bytes=131072,weight_tiles=2048,lanes=1,bus_bytes=4,"
        "tables=64,burst_beats=256,dsp_columns=0,activation_weights=true"
    ),
    name="vast",
)

#: Bytes of external memory, which repeats over all addresses; the upper half is for programs.
_MEMORY = 1 << 23
_HALF = _MEMORY >> 1
_LONGEST = (1 << 16) - 1
#: Elements that an instruction moves, mostly and now and then.
_WORK, _MUCH = 3000, 140_000
#: Legal instructions drawn, of which the one with the most work is taken.
_DRAWS = 8
#: Cycles of the longest wait: counters have 32 bits.
_REST = 1 << 20
#: Fields beside a greatest value: a jump needs segments, and a VECTOR may not write its source.
_APART = {"destination_base": 1 << 16}
_BESIDE = {
    (Opcode.MATMUL, "skip"): {"run": 1, "taps": 4},
    (Opcode.MOVE_WEIGHTS, "skip"): {"run": 1, "taps": 4},
    (Opcode.VECTOR, "source_skip"): {"source_run": 1, "channels": 4},
    (Opcode.VECTOR, "destination_skip"): {"destination_run": 1, "channels": 4},
    (Opcode.FILL, "destination_skip"): {"destination_run": 1, "channels": 4},
    **{(Opcode.VECTOR, f"{axis}_count"): _APART for axis in "xyz"},
}
_EVERY = (1 << SEMAPHORES) - 1
_MOVING = tuple(opcode for opcode in Opcode if opcode.value >= Opcode.LOAD.value)


class Wrong(RuntimeError):
    """Difference between the core and the machine model; the message is one line."""


class CheckedDevice(RtlDevice):
    """A core of ``VAST`` and the machine model beside it, both with all that earlier programs left.

    ``rng``: for contents of external memory, and pauses of the bus; ``calm``: without pauses.
    """

    def __init__(self, rng: random.Random, *, calm: bool = False) -> None:
        super().__init__(VAST, latency=8, memory_bytes=_MEMORY)
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
        self.machine = Machine(VAST, memory_bytes=_MEMORY)
        numbers = np.random.default_rng(rng.getrandbits(32))
        self._memory[:] = numbers.integers(0, 256, _MEMORY, np.uint8)
        # Half of the possible parameters have common values.
        self._memory[: _HALF >> 1] = channels_image(_HALF >> 5, numbers)
        self.machine.memory[:] = self._memory

    def play(self, program: Sequence[Instruction], address: int, *, loose: bool = False) -> None:
        """Run a program on both.

        ``program``: program without races; ``address``: address of the program; it lies in the
        upper half of memory; ``loose``: compare unit and index of an error, but neither its code
        nor memory: an instruction with two errors may report either, after some of its work.
        Raises ``Wrong`` if core and machine model differ.
        """
        code = commands.encode(program)
        offset = address % _MEMORY
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
        self.write(_HALF, word.to_bytes(WORD_BYTES, "little"))
        error = self.run(_HALF, 1).error
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
    return Instruction(i.opcode, **(i.fields | {"external": i.external % _MEMORY}))


def _field(limit: isa.Limit, rng: random.Random) -> int:
    """Return a value within a limit: of any number of bits, each as likely."""
    low, high, multiple = limit
    bits = (high - low).bit_length()
    value = rng.getrandbits(bits + 1) >> rng.randrange(bits + 1)
    return low + min(value, high - low) // multiple * multiple


def rich(opcode: Opcode, rng: random.Random, most: int = _WORK) -> Instruction:
    """Return a legal instruction of ``VAST`` with fields of any size: of a few, the one with most ones."""
    found = [_drawn(opcode, rng, most) for _ in range(_DRAWS)]
    return max(found, key=lambda i: int.from_bytes(commands.encode([i]), "little").bit_count())


def _drawn(opcode: Opcode, rng: random.Random, most: int) -> Instruction:
    limits = isa.limits(VAST)[opcode]
    for _ in range(100_000):
        names = rng.sample(list(limits), rng.randint(1, len(limits)))
        i = Instruction(opcode, **{name: _field(limits[name], rng) for name in names})
        if _good(i, most):
            return i
    raise RuntimeError(f"no legal {opcode.name} in 100,000 draws")


def _good(i: Instruction, most: int) -> bool:
    try:
        isa.check(i, VAST)
        return elements(i) <= most and _playable(i)
    except (isa.Illegal, footprint.OutOfRange):
        return False


def _playable(i: Instruction) -> bool:
    """Return True if an instruction neither races with itself nor writes over programs."""
    touches = footprint.touches(i, VAST)
    if i.opcode is Opcode.VECTOR and feeds_itself(i, VAST):
        return False
    for touch in touches:
        pattern = touch.pattern
        if touch.memory is footprint.Memory.EXTERNAL:
            first, last = pattern.base, pattern.last
            if first // _MEMORY != last // _MEMORY or (touch.write and last % _MEMORY >= _HALF):
                return False
    return True


def _apart(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Return a program in which each waits for all before."""
    fence = Instruction(Opcode.FENCE)
    return [*(one for i in instructions for one in (i, fence)), Instruction(Opcode.HALT)]


def _far(rng: random.Random) -> int:
    """Return an address of a program, anywhere in 32 bits."""
    return rng.getrandbits(32) // _MEMORY * _MEMORY + _HALF + rng.randrange(0, _HALF // 2, 64)


def _corner(opcode: Opcode, name: str, less: int) -> Instruction | None:
    """Return an instruction of which one field is as great as can be, but for ``less``; None if it is small."""
    low, high, multiple = isa.limits(VAST)[opcode][name]
    value = high
    while value > low:
        most = {name: low + max(value - less - low, 0) // multiple * multiple}
        i = Instruction(opcode, **most, **_BESIDE.get((opcode, name), {}))
        if _good(i, _MUCH):
            return i
        value = low + (value - low) // 2
    return None


def _great(rng: random.Random) -> None:
    """Instructions of any size, the rare ones as often as the others; each field at its greatest."""
    fields = [(opcode, name) for opcode in _MOVING for name in isa.limits(VAST)[opcode]]
    corners = [_corner(*field, less) for field in fields for less in (0, 1)]
    with closing(CheckedDevice(rng)) as device:
        for _ in range(30):
            chosen = [rng.choice(_MOVING) for _ in range(40)]
            device.play(_apart([rich(one, rng) for one in chosen]), _far(rng))
        # Also in reverse order, so that values set by the last ones change back.
        device.play(_apart([i for i in (*corners, *reversed(corners)) if i]), _far(rng))


def _faults(rng: random.Random) -> None:
    """Wrong fields, ends of memories passed in each way, and semaphores past their limit by each unit."""
    with closing(CheckedDevice(rng)) as device:
        for opcode in (*_MOVING, Opcode.NOP):
            one = 1 << rng.randrange(SEMAPHORES)
            post = Instruction(opcode, post=_EVERY if opcode is Opcode.NOP else one)
            device.play([*[post] * (COUNT_LIMIT + 1), Instruction(Opcode.HALT)], _far(rng))
        for opcode in _MOVING:
            for i in _beyond(opcode, rng):
                device.play(_apart([i]), _far(rng), loose=True)
        ones = (1 << 8 * WORD_BYTES) - (1 << CODE_BITS)
        for code in (0, 15, 31, 47, 63, 127):
            device.refuse(code | ones)
        device.refuse(0)


def _beyond(opcode: Opcode, rng: random.Random) -> Iterator[Instruction]:
    """Yield illegal instructions: one field past its limit, or an end past a memory's."""
    limits = isa.limits(VAST)[opcode]
    for field in isa.FORMATS[opcode]:
        low, high, _ = limits[field.name]
        least, greatest = field.representable
        yield from (Instruction(opcode, **{field.name: n}) for n in {least, greatest} - {low, high})
    if opcode is Opcode.MATMUL:
        yield Instruction(opcode, tile=VAST.weight_tiles - 1, taps=VAST.rows + 1)
    if opcode is Opcode.MOVE_WEIGHTS:
        yield Instruction(opcode, tile=VAST.weight_tiles - 1, y_count=VAST.rows + 1)
    found = 0
    while limits and found < 40:
        names = rng.sample(list(limits), rng.randint(1, len(limits)))
        i = Instruction(opcode, **{name: _field(limits[name], rng) for name in names})
        try:
            isa.check(i, VAST)
            if elements(i) <= _WORK:
                footprint.touches(i, VAST)
        except isa.Illegal:
            pass
        except footprint.OutOfRange:
            found += 1
            yield i


def _late(rng: random.Random) -> None:
    """Programs of full length, the last instruction of which fails in each of the units."""
    wrong = {
        Opcode.LOAD: {"unified": VAST.unified_bytes - 1, "length": 2},
        Opcode.STORE: {"unified": VAST.unified_bytes - 1, "length": 2},
        Opcode.MATMUL: {"unified": VAST.unified_bytes - 1, "taps": 2},
        Opcode.MOVE_WEIGHTS: {"unified": VAST.unified_bytes - 1, "taps": 2},
        Opcode.FILL: {"destination_base": VAST.unified_bytes - 1, "channels": 2},
    }
    with closing(CheckedDevice(rng, calm=True)) as device:
        for opcode, fields in wrong.items():
            program = [Instruction(Opcode.NOP)] * (_LONGEST - 3)
            for _ in range(100):
                program[rng.randrange(len(program))] = rich(opcode, rng, 8)
            device.play([*program, *_apart([Instruction(opcode, **fields)])], _HALF)
            device.play(_apart([rich(opcode, rng, 8) for _ in range(3)]), _far(rng))


def _counts(rng: random.Random) -> None:
    """All semaphores up to their limit and down again; a long wait that the watchdog ends."""
    posts = [Instruction(Opcode.NOP, post=_EVERY)] * COUNT_LIMIT
    waits = [Instruction(Opcode.NOP, wait=_EVERY)] * COUNT_LIMIT
    with closing(CheckedDevice(rng)) as device:
        device.play([*posts, *waits, Instruction(Opcode.HALT)], _far(rng))
        device.set_register("watchdog", _REST + 1)
        device.play([Instruction(Opcode.NOP, wait=1), Instruction(Opcode.HALT)], _far(rng))


def _host(rng: random.Random) -> None:
    """Accesses to all registers and beside them, while the core is idle and while it runs."""
    every = range(0, 1 << REGISTER_ADDRESS_BITS, 2)
    known = [*OFFSETS.values(), *rng.sample(every, 40)]
    with closing(CheckedDevice(rng)) as device:
        for offset in every:
            device.access(offset, None, rest=rng.choice((0, 0, 3)))
        for offset in OFFSETS.values():
            for value in (0, (1 << 32) - 1) * 2:
                start = Control.START.value if offset == OFFSETS["control"] else 0
                device.access(offset, value & ~start)
        for _ in range(400):
            offset = rng.choice(known) + rng.choice((0, 0, 1, 2, 3))
            value = rng.choice((0, (1 << 32) - 1, rng.getrandbits(32)))
            if offset // 4 * 4 == OFFSETS["control"]:
                value &= ~Control.START.value
            device.access(offset, value, rng.randrange(16), rng.choice((0, 0, 3)))
            device.access(offset, None, rest=rng.choice((0, 0, 3)))
        for _ in range(40):
            _interrupted(device, rng)
        for cycles in range(0, 120, 3):
            _rung(device, cycles)


def _interrupted(device: CheckedDevice, rng: random.Random) -> None:
    """Start a program, and disturb it by a doorbell, a clear, or a soft reset."""
    program = _apart([rich(rng.choice(_MOVING), rng) for _ in range(4)])
    code = commands.encode(program)
    count = len(code) // WORD_BYTES
    address = rng.getrandbits(32) // padded(1) * padded(1)
    address -= address % _MEMORY // _HALF * padded(count)
    device.write(address % _MEMORY, code)
    device.set_register("watchdog", rng.choice((0, 5000)))
    device.set_register("program_address", address)
    device.set_register("program_length", rng.choice((count, count - 1)))
    device.set_register("interrupt_enable", rng.randrange(4))
    device.set_register("control", Control.CLEAR.value)
    device.rest(COUNTERS_PER_UNIT)
    device.set_register("control", Control.START.value)
    device.rest(rng.choice((0, 1, 10, 300)))
    for _ in range(rng.randrange(3)):
        device.set_register("control", rng.randrange(8))
        device.rest(rng.randrange(4))
    device.rest(20_000)
    device.set_register("control", Control.RESET.value)
    device.rest(2000)
    if device.register("status") & ~2:
        raise RtlError("reset: wanted the core to become idle, it does not")
    device.set_register("interrupt", 3)


def _rung(device: CheckedDevice, cycles: int) -> None:
    """Ring the doorbell again at about the time when instructions after HALT are dropped."""
    program = [Instruction(Opcode.HALT), *[Instruction(Opcode.NOP)] * 60]
    code = commands.encode(program)
    device.write(_HALF, code)
    device.set_register("program_address", _HALF)
    device.set_register("program_length", len(code) // WORD_BYTES)
    device.set_register("control", Control.START.value)
    device.rest(cycles)
    device.set_register("control", Control.START.value)
    device.rest(4000)
    if device.register("status") & 15 != Status.DONE.value:
        raise Wrong("directed: wanted an end after two doorbells, got none")


#: Directed runs by name; each takes a source of random numbers.
RUNS: dict[str, Callable[[random.Random], None]] = {
    "great": _great,
    "faults": _faults,
    "late": _late,
    "counts": _counts,
    "host": _host,
}

assert 8 * WORD_BYTES * _LONGEST < _HALF
