"""Random cases with an error of the program, the bus, or the host."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import (
    CODE_BITS,
    REGISTERS,
    VALUE_BITS,
    WORD_BYTES,
    register_limits,
)
from celosia.hw.arch.config import (
    ADDRESS_BITS,
    MOST_COUNT,
    PROGRAM_BYTES,
    SEMAPHORES,
    SOFTMAX_ELEMENTS,
    SOFTMAX_ROWS,
    Config,
)
from celosia.hw.arch.isa import Instruction, Kind, Opcode, Space, Unit
from celosia.hw.arch.registers import BOUND_BITS
from celosia.sim.check import footprint
from celosia.sw.fuzz import stage
from celosia.sw.fuzz.case import Case, CaseFault
from celosia.sw.fuzz.expectation import WORK, elements
from celosia.sw.fuzz.programs.generator import Generator
from celosia.sw.fuzz.programs.legal import legal

_SLVERR_DECERR = (2, 3)
_CODES = (1 << CODE_BITS) - 1
_MOST_VALUE = (1 << VALUE_BITS) - 1


def _word(code: int, value: int) -> bytes:
    return (code | value << CODE_BITS).to_bytes(WORD_BYTES, "little")


def _inserted(case: Case, rng: random.Random, item: Instruction | bytes) -> Case:
    """Return the case with one more item, at a random index before HALT."""
    index = rng.randrange(len(case.items))
    return replace(case, items=(*case.items[:index], item, *case.items[index:]))


def _opcode(case: Case, rng: random.Random) -> Case:
    known = {opcode.value for opcode in Opcode if isa.has(opcode, case.config)}
    known |= {register.code for registers in REGISTERS.values() for register in registers}
    code = rng.choice([value for value in range(_CODES + 1) if value not in known])
    return _inserted(case, rng, _word(code, rng.randint(0, _MOST_VALUE)))


def _field(case: Case, rng: random.Random) -> Case:
    """Return the case with a word, or an instruction, with a value out of its limits."""
    unit = rng.choice(list(REGISTERS))
    items: list[Instruction | bytes] = []
    for register in REGISTERS[unit]:
        low, high, multiple = register_limits(case.config)[register.code]
        values = [low - 1] if low else []
        if high < _MOST_VALUE:
            values += [high + 1, rng.randint(high + 1, _MOST_VALUE), _MOST_VALUE]
        if multiple > 1:
            values.append(low + rng.randrange(1, multiple))
        items += [_word(register.code, value) for value in values]
    twice = _twice(case.config, rng)
    # A GO whose last bit is set.
    reserved = _word(rng.choice(list(Opcode)).value, 1 << VALUE_BITS - 1)
    items += [twice, reserved] * 2
    match unit:
        case Unit.VECTOR:
            items += _crossed(case.config, rng)
            if isa.has(Opcode.SOFTMAX, case.config):
                items += _too_large(rng)
        case Unit.LOAD:
            items += _unaligned(case.config, rng)
        case Unit.MATRIX if isa.has(Opcode.MOVE_WEIGHTS, case.config):
            taps = rng.choice([case.config.columns + 1, rng.randrange(1 << 16, 1 << 20)])
            items += [Instruction(Opcode.MOVE_WEIGHTS, taps=taps)] * 2
    return _inserted(case, rng, rng.choice(items))


def _twice(config: Config, rng: random.Random) -> bytes:
    """Return words that set registers of a unit twice, or in the wrong order."""
    registers = rng.choice(list(REGISTERS.values()))
    codes = sorted(rng.choices([register.code for register in registers], k=2), reverse=True)
    return b"".join(_word(code, register_limits(config)[code].low) for code in codes)


def _unaligned(config: Config, rng: random.Random) -> list[Instruction]:
    candidates = []
    for opcode in (Opcode.LOAD_WEIGHTS, Opcode.LOAD_PARAMS):
        multiple = isa.limits(config)[opcode]["external"].multiple
        candidates.append(Instruction(opcode, external=rng.randrange(1, multiple)))
    return candidates


def _crossed(config: Config, rng: random.Random) -> list[Instruction]:
    """Return VECTORs with conflicting fields, see ``isa.cross_check``."""
    inside = {"destination": Space.ACCUMULATORS}
    wide = Instruction(Opcode.VECTOR, **inside, channels=config.columns + 1)
    both = Instruction(
        Opcode.VECTOR, **inside, source=Space.ACCUMULATORS, mode=rng.choice(list(isa.Mode)[1:])
    )
    return [wide, both]


def _too_large(rng: random.Random) -> list[Instruction]:
    """Return SOFTMAXes with too many rows, or too many elements in a row."""
    rows, elements = (rng.randint(n + 1, (1 << 16) - 1) for n in (SOFTMAX_ROWS, SOFTMAX_ELEMENTS))
    return [
        Instruction(Opcode.SOFTMAX, x_count=rows),
        Instruction(Opcode.SOFTMAX, channels=rng.choice([SOFTMAX_ELEMENTS + 1, elements])),
    ]


def _range(case: Case, rng: random.Random) -> Case:
    """Return the case with an instruction whose range ends outside a memory."""
    config = case.config
    generator = Generator(
        config, rng, source=stage.SOURCE, target=stage.TARGET, parameters=stage.PARAMETERS
    )
    draws = (
        generator.load,
        generator.store,
        generator.load_weights,
        generator.load_params,
        generator.matmul,
        generator.vector,
        generator.fill,
        *[generator.move_weights] * isa.has(Opcode.MOVE_WEIGHTS, config),
        *[generator.softmax] * isa.has(Opcode.SOFTMAX, config),
    )
    while True:
        draw = rng.choice(draws)
        i = draw()
        limits = isa.limits(config)[i.opcode]
        for name in rng.sample(list(limits), min(len(limits), 6)):
            low, high, multiple = limits[name]
            # External addresses out of range are another error.
            if name.startswith("external"):
                continue
            limit = min(high, low + (1 << rng.randrange(14)))
            value = low + rng.randint(0, (limit - low) // multiple) * multiple
            i = Instruction(i.opcode, **(i.fields | {name: value}))
            # A store must not overwrite the program.
            if i.opcode is Opcode.STORE and footprint.external_block(i).last >= stage.CODE:
                continue
            # The instruction must end soon.
            if elements(i) <= WORK // 4 and _out_of_range(i, config):
                return _inserted(case, rng, i)


def _out_of_range(i: Instruction, config: Config) -> bool:
    try:
        isa.check(i, config)
        footprint.touches(i, config)
    except footprint.OutOfRange:
        return True
    except isa.Illegal:
        pass
    return False


def _address(case: Case, rng: random.Random) -> Case:
    """Return the case with an instruction that accesses external addresses without memory."""
    end = case.memory_bytes
    far = rng.choice([end, end + rng.randrange(1 << 16), rng.randrange(end, (1 << 32) - (1 << 14))])
    near = max(0, end - rng.randrange(1, 64))
    step = max(16, case.config.bus_bytes)
    wrong = [
        Instruction(Opcode.LOAD, external=far, length=rng.randint(1, 64)),
        Instruction(Opcode.LOAD, external=near, length=64),
        Instruction(Opcode.LOAD, external=(1 << 32) - 4, length=5),
        Instruction(Opcode.LOAD_WEIGHTS, external=far // step * step),
        Instruction(Opcode.LOAD_PARAMS, external=far // step * step),
        Instruction(Opcode.LOAD_PARAMS, external=far // step * step, kind=Kind.TABLES),
        Instruction(Opcode.STORE, external=far, length=rng.randint(1, 64)),
        Instruction(Opcode.STORE, external=near, length=64),
        Instruction(Opcode.STORE, external=near, rows=3, external_pitch=64, length=8),
        Instruction(Opcode.STORE, external=(1 << 32) - 1, rows=2, external_pitch=1),
    ]
    return _inserted(case, rng, rng.choice(wrong))


def _bounds(case: Case, rng: random.Random) -> Case:
    """Return the case within bounds, with one external address moved out of them."""
    step = 1 << BOUND_BITS
    first = rng.choice([1, 3, rng.randrange(1, 9)]) * step
    last = max(first + stage.SIZE, case.address + first + commands.padded(case.words)) - 1
    last |= step - 1
    items = [
        item.but(external=item.external + first)
        if isinstance(item, Instruction) and "external" in item.fields
        else item
        for item in case.items
    ]
    moved = [
        (index, other)
        for index, item in enumerate(items)
        if isinstance(item, Instruction)
        for other in _moved(item, case.config, first, last, rng)
    ]
    index, other = rng.choice(moved)
    items[index] = other
    return replace(case, items=tuple(items), bounds=(first, last))


def _moved(
    i: Instruction, config: Config, first: int, last: int, rng: random.Random
) -> list[Instruction]:
    """Return an instruction with other external addresses, out of bounds in each of its ways."""
    span = isa.external_span(i, config)
    if span is None:
        return []
    size = span[1] - span[0]
    multiple = isa.limits(config)[i.opcode]["external"].multiple
    highest = (1 << ADDRESS_BITS) - size
    places = [
        first - size,
        first - rng.randint(1, size),
        last + 1 - rng.randint(0, size - 1),
        rng.randint(last + 1, highest),
        # One bit of the page.
        i.external ^ 1 << rng.randrange(max(last.bit_length(), BOUND_BITS), ADDRESS_BITS - 1),
    ]
    aligned = {max(0, place) // multiple * multiple for place in places}
    candidates = [
        i.but(external=place)
        for place in sorted(aligned)
        if place <= highest and not first <= place <= place + size - 1 <= last
    ]
    if i.opcode in (Opcode.LOAD, Opcode.STORE):
        # The second row leaves; or it wraps at 4 GiB.
        away = rng.choice([last - i.external + 1, (1 << ADDRESS_BITS) - rng.randint(1, first)])
        candidates.append(i.but(rows=max(2, i.rows), external_pitch=away))
    return candidates


def _beyond(case: Case, rng: random.Random) -> Case:
    """Return a case whose program ends with the memory, but not with HALT."""
    block = PROGRAM_BYTES // WORD_BYTES
    items = (Instruction(Opcode.NOP),) * (block * rng.randint(1, 2))
    return replace(case, items=items, fault=CaseFault("beyond", rng.randint(1, 20)))


def _no_halt(case: Case, rng: random.Random) -> Case:
    return replace(case, items=case.items[:-1])


def _stuck(case: Case, rng: random.Random) -> Case:
    """Return the case with an instruction that waits for a semaphore that is never posted."""
    generator = Generator(case.config, rng, source=stage.SOURCE, target=stage.TARGET)
    posted = 0
    for item in case.items:
        posted |= item.post if isinstance(item, Instruction) else 0
    free = [s for s in range(SEMAPHORES) if not posted >> s & 1]
    if not free:
        return _no_halt(case, rng)
    i = rng.choice([generator.any(), Instruction(Opcode.NOP), Instruction(Opcode.FENCE)])
    return _inserted(case, rng, i.but(wait=1 << rng.choice(free)))


def _overflow(case: Case, rng: random.Random) -> Case:
    """Return a case that posts a semaphore up to its limit, or past it."""
    post = Instruction(Opcode.NOP, post=1 << rng.randrange(SEMAPHORES))
    halt = Instruction(Opcode.HALT)
    return replace(case, items=(*[post] * (MOST_COUNT + rng.randrange(3)), halt))


def _flipped(case: Case, rng: random.Random) -> Case:
    """Return the case with some flipped bits in its program."""
    bits = int.from_bytes(case.code, "little")
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        bits ^= 1 << rng.randrange(8 * len(case.code))
    return replace(case, items=(bits.to_bytes(len(case.code), "little"),))


def _bus_error(kind: str, case: Case, rng: random.Random) -> Case:
    limit = rng.choice([40, 400, 4000]) // (10 if kind == "answer" else 1)
    return replace(case, fault=CaseFault(kind, rng.randint(1, limit), rng.choice(_SLVERR_DECERR)))


def _host(kind: str, case: Case, rng: random.Random) -> Case:
    return replace(case, fault=CaseFault(kind, rng.randint(1, rng.choice([100, 1000, 10_000]))))


#: Kinds of errors, with their weights.
KINDS: dict[str, tuple[Callable[[Case, random.Random], Case], int]] = {
    "opcode": (_opcode, 2),
    "field": (_field, 8),
    "range": (_range, 12),
    "address": (_address, 8),
    "bounds": (_bounds, 10),
    "beyond": (_beyond, 1),
    "no_halt": (_no_halt, 1),
    "stuck": (_stuck, 4),
    "overflow": (_overflow, 1),
    "flip": (_flipped, 30),
    "beat": (partial(_bus_error, "beat"), 10),
    "answer": (partial(_bus_error, "answer"), 8),
    "reset": (partial(_host, "reset"), 10),
    "doorbell": (partial(_host, "doorbell"), 5),
}


def faulty(config: Config, rng: random.Random, kind: str | None = None) -> tuple[str, Case]:
    """Return the kind of an error, one of ``KINDS`` or that which is given, and a case with it."""
    (name,) = [kind] if kind else rng.choices(list(KINDS), [weight for _, weight in KINDS.values()])
    return name, KINDS[name][0](legal(config, rng, 12), rng)
