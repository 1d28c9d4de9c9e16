"""Directed programs of the coverage: great sizes, addresses, counts; accesses of the host."""

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np

from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import CODE_BITS, WORD_BYTES, padded
from celosia.hw.arch.config import EXPONENTIAL_TABLES, MOST_COUNT, SEMAPHORES, TABLE_BYTES
from celosia.hw.arch.isa import Instruction, Kind, Opcode
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import (
    COUNTERS_PER_UNIT,
    OFFSETS,
    REGISTER_ADDRESS_BITS,
    Control,
    Status,
)
from celosia.sim.check import footprint
from celosia.sim.rtl.core import RtlError
from celosia.sw.fuzz.expectation import elements
from coverage.corners import CORNERS
from coverage.device import HALF, MEMORY, CheckedDevice, Run, Wrong, apart, far, good

#: A core with more memory than those of the fuzzer. Amaranth writes a line for each word of one.
VAST = replace(
    preset(
        "tpu_v1,rows=4,columns=4,unified_bytes=131072,weight_tiles=2048,lanes=1,bus_bytes=4,"
        "tables=64,burst_beats=256,dsp_columns=0,activation_weights=true,"
        "elementwise_products=true,softmax=true"
    ),
    name="vast",
)

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
    (Opcode.SOFTMAX, "x_count"): _APART,
}
_EVERY = (1 << SEMAPHORES) - 1
_MOVING = tuple(opcode for opcode in Opcode if opcode.value >= Opcode.LOAD.value)


def _field(limit: isa.Limit, rng: random.Random) -> int:
    """Return a value within a limit: of any number of bits, each as likely."""
    low, high, multiple = limit
    bits = (high - low).bit_length()
    value = rng.getrandbits(bits + 1) >> rng.randrange(bits + 1)
    return low + min(value, high - low) // multiple * multiple


def rich(opcode: Opcode, rng: random.Random, most: int = _WORK) -> Instruction:
    """Return a legal instruction of ``VAST``; of a few of random fields, that with most ones."""
    found = [_drawn(opcode, rng, most) for _ in range(_DRAWS)]
    return max(found, key=lambda i: int.from_bytes(commands.encode([i]), "little").bit_count())


def _drawn(opcode: Opcode, rng: random.Random, most: int) -> Instruction:
    limits = isa.limits(VAST)[opcode]
    for _ in range(100_000):
        names = rng.sample(list(limits), rng.randint(1, len(limits)))
        i = Instruction(opcode, **{name: _field(limits[name], rng) for name in names})
        if good(i, VAST, most):
            return i
    raise RuntimeError(f"no legal {opcode.name} in 100,000 draws")


def _corner(opcode: Opcode, name: str, less: int) -> Instruction | None:
    """Return an instruction with one field at its greatest less ``less``; None if it is small."""
    low, high, multiple = isa.limits(VAST)[opcode][name]
    value = high
    while value > low:
        most = {name: low + max(value - less - low, 0) // multiple * multiple}
        i = Instruction(opcode, **most, **_BESIDE.get((opcode, name), {}))
        if good(i, VAST, _MUCH):
            return i
        value = low + (value - low) // 2
    return None


def _great(rng: random.Random) -> None:
    """Instructions of any size, the rare as often as the others; each field at its greatest."""
    fields = [(opcode, name) for opcode in _MOVING for name in isa.limits(VAST)[opcode]]
    corners = [_corner(*field, less) for field in fields for less in (0, 1)]
    with closing(CheckedDevice(VAST, rng)) as device:
        for _ in range(30):
            chosen = [rng.choice(_MOVING) for _ in range(40)]
            device.play(apart([rich(one, rng) for one in chosen]), far(rng))
        # Also in reverse order, so that values set by the last ones change back.
        device.play(apart([i for i in (*corners, *reversed(corners)) if i]), far(rng))


def _faults(rng: random.Random) -> None:
    """Wrong fields; each end of a memory passed; semaphores past their limit, by each unit."""
    with closing(CheckedDevice(VAST, rng)) as device:
        for opcode in (*_MOVING, Opcode.NOP):
            one = 1 << rng.randrange(SEMAPHORES)
            post = Instruction(opcode, post=_EVERY if opcode is Opcode.NOP else one)
            device.play([*[post] * (MOST_COUNT + 1), Instruction(Opcode.HALT)], far(rng))
        for opcode in _MOVING:
            for i in _beyond(opcode, rng):
                device.play(apart([i]), far(rng), loose=True)
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
    if opcode in (Opcode.MATMUL, Opcode.MOVE_WEIGHTS):
        # The matrix unit refuses such counts before any work.
        for name in ("x_count", "y_count", "z_count"):
            yield Instruction(opcode, **{name: limits[name].high})
    if opcode is Opcode.MATMUL:
        yield Instruction(opcode, taps=limits["taps"].high)
        yield Instruction(opcode, tile=VAST.weight_tiles - 1, taps=VAST.rows + 1)
        yield Instruction(opcode, unified=VAST.unified_bytes - VAST.rows, taps=2 * VAST.rows)
        jump = {"taps": VAST.rows, "run": 1, "skip": limits["skip"].high}
        last = range(VAST.unified_bytes - VAST.rows, VAST.unified_bytes)
        yield from (Instruction(opcode, unified=first, **jump) for first in last)
    if opcode is Opcode.MOVE_WEIGHTS:
        yield Instruction(opcode, tile=VAST.weight_tiles - 1, y_count=VAST.rows + 1)
    if opcode is Opcode.VECTOR:
        last = VAST.parameter_channels - VAST.lanes
        yield Instruction(opcode, params=last, per_channel=1, channels=VAST.lanes + 1)
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
    with closing(CheckedDevice(VAST, rng, calm=True)) as device:
        for opcode, fields in wrong.items():
            program = [Instruction(Opcode.NOP)] * (_LONGEST - 3)
            for _ in range(100):
                program[rng.randrange(len(program))] = rich(opcode, rng, 8)
            device.play([*program, *apart([Instruction(opcode, **fields)])], HALF)
            device.play(apart([rich(opcode, rng, 8) for _ in range(3)]), far(rng))


def _counts(rng: random.Random) -> None:
    """All semaphores up to their limit and down again; a long wait that the watchdog ends."""
    posts = [Instruction(Opcode.NOP, post=_EVERY)] * MOST_COUNT
    waits = [Instruction(Opcode.NOP, wait=_EVERY)] * MOST_COUNT
    with closing(CheckedDevice(VAST, rng)) as device:
        device.play([*posts, *waits, Instruction(Opcode.HALT)], far(rng))
        device.set_register("watchdog", _REST + 1)
        device.play([Instruction(Opcode.NOP, wait=1), Instruction(Opcode.HALT)], far(rng))


def _sums(rng: random.Random) -> None:
    """SOFTMAX of rows of any length whose exponentials are all near the greatest."""
    count = EXPONENTIAL_TABLES * TABLE_BYTES // 4
    tables = b"".join((rng.getrandbits(31) | 31 << 26).to_bytes(4, "little") for _ in range(count))
    most = isa.limits(VAST)[Opcode.SOFTMAX]["channels"].high
    lengths = [most, 1, *(rng.randint(1, most) for _ in range(30))]
    load = {"kind": Kind.TABLES.value, "first": VAST.tables, "count": EXPONENTIAL_TABLES}
    with closing(CheckedDevice(VAST, rng)) as device:
        device.write(0, tables)
        device.machine.memory[: len(tables)] = np.frombuffer(tables, np.uint8)
        program = [Instruction(Opcode.LOAD_PARAMS, **load)]
        program += [Instruction(Opcode.SOFTMAX, channels=n, **_APART) for n in lengths]
        program.append(Instruction(Opcode.STORE, unified=_APART["destination_base"], length=most))
        device.play(apart(program), far(rng))


def _host(rng: random.Random) -> None:
    """Accesses to all registers and beside them, while the core is idle and while it runs."""
    every = range(0, 1 << REGISTER_ADDRESS_BITS, 2)
    known = [*OFFSETS.values(), *rng.sample(every, 40)]
    with closing(CheckedDevice(VAST, rng)) as device:
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
        # The accesses above have left numbers in the bounds of external memory.
        device.set_register("memory_base", 0)
        device.set_register("memory_limit", (1 << 32) - 1)
        for _ in range(40):
            _interrupted(device, rng)
        for cycles in range(0, 120, 3):
            _rung(device, cycles)


def _interrupted(device: CheckedDevice, rng: random.Random) -> None:
    """Start a program, and disturb it by a doorbell, a clear, or a soft reset."""
    program = apart([rich(rng.choice(_MOVING), rng) for _ in range(4)])
    code = commands.encode(program)
    count = len(code) // WORD_BYTES
    address = rng.getrandbits(32) // padded(1) * padded(1)
    address -= address % MEMORY // HALF * padded(count)
    device.write(address % MEMORY, code)
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
    device.write(HALF, code)
    device.set_register("program_address", HALF)
    device.set_register("program_length", len(code) // WORD_BYTES)
    device.set_register("control", Control.START.value)
    device.rest(cycles)
    device.set_register("control", Control.START.value)
    device.rest(4000)
    if device.register("status") & 15 != Status.DONE.value:
        raise Wrong("directed: wanted an end after two doorbells, got none")


#: Directed runs by name.
RUNS: dict[str, Run] = {
    "great": Run(VAST, _great),
    "faults": Run(VAST, _faults),
    "late": Run(VAST, _late),
    "counts": Run(VAST, _counts),
    "sums": Run(VAST, _sums),
    "host": Run(VAST, _host),
    **CORNERS,
}

assert 8 * WORD_BYTES * _LONGEST < HALF
