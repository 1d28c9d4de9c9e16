"""Directed programs on cores of random programs, with values that random fields rarely have."""

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sw.fuzz.programs.configurations import CONFIGURATIONS
from coverage.device import HALF, CheckedDevice, Run, apart, far, good

_LANES, _ADDRESSES = CONFIGURATIONS["square16"], CONFIGURATIONS["odd"]
_SIDES = ((Opcode.FILL, "destination"), (Opcode.VECTOR, "destination"), (Opcode.VECTOR, "source"))
_MOVED = (Opcode.MATMUL, Opcode.MOVE_WEIGHTS)
_EXTERNAL = (Opcode.LOAD, Opcode.LOAD_WEIGHTS, Opcode.LOAD_PARAMS, Opcode.STORE)
_DRAWS = 10_000


def _drawn(opcode: Opcode, config: Config, names: Sequence[str], fields: Any, rng) -> Instruction:
    """Return a legal instruction; values of ``names`` are drawn until it is."""
    limits = isa.limits(config)[opcode]
    for _ in range(_DRAWS):
        more = {}
        for name in names:
            low, high, multiple = limits[name]
            more[name] = rng.randrange(low, high + 1, multiple)
        i = Instruction(opcode, **fields, **more)
        if good(i, config, config.unified_bytes):
            return i
    raise RuntimeError(f"no legal {opcode.name} in {_DRAWS} draws")


def jumping(config: Config, rng: random.Random) -> Iterator[Instruction]:
    """Yield FILLs and VECTORs of one group, with segments shorter than it and every possible jump.

    Jumps are powers of two in rows of the unified buffer, up to half of it.
    """
    half = config.unified_bytes // config.rows // 2
    lengths = [config.lanes >> n for n in range(1, config.lanes.bit_length())]
    for opcode, side in _SIDES:
        bases = [name for name in isa.limits(config)[opcode] if name.endswith("_base")]
        for length in lengths:
            for segments in range(2, config.lanes // length + 1):
                skip = half
                while skip:
                    if (segments - 1) * skip <= half:
                        sizes = {"channels": segments * length, f"{side}_run": length}
                        fields = sizes | {f"{side}_skip": skip}
                        yield _drawn(opcode, config, bases, fields, rng)
                    skip //= 2


def _pixels(config: Config, rng: random.Random) -> Iterator[Instruction]:
    """Yield MATMULs of a few pixels of two segments, half of the unified buffer apart, or none."""
    half = config.unified_bytes // config.rows // 2
    for run in (config.rows // 4, config.rows // 2) * 4:
        for skip in (half, 0):
            fields = {"taps": 2 * run, "run": run, "skip": skip, "x_count": 4}
            yield _drawn(Opcode.MATMUL, config, ["unified"], fields, rng)


def _jumps(rng: random.Random) -> None:
    config = _LANES
    first = [
        Instruction(Opcode.LOAD, external=0, length=config.unified_bytes),
        Instruction(Opcode.LOAD_PARAMS, external=0, count=config.parameter_channels),
    ]
    last = Instruction(Opcode.STORE, external=HALF // 2, length=config.unified_bytes)
    program = [*jumping(config, rng), *_pixels(config, rng)]
    rng.shuffle(program)
    with closing(CheckedDevice(config, rng)) as device:
        device.play(apart([*first, *program, last]), far(rng))


def leaving(config: Config, rng: random.Random) -> Iterator[Instruction]:
    """Yield instructions whose last segment is past the unified buffer, from each of its banks."""
    rows = config.unified_bytes // config.rows
    sides = [(opcode, side, "channels", config.lanes, f"{side}_base") for opcode, side in _SIDES]
    pairs = [(opcode, "", "taps", config.rows, "unified") for opcode in _MOVED]
    for opcode, side, count, most, base in sides + pairs:
        run, skip = (f"{side}_{name}" if side else name for name in ("run", "skip"))
        for bank in range(config.rows):
            fields = {count: most, run: most // 2, skip: rows // 2}
            row = rng.randrange(rows // 2, rows)
            yield Instruction(opcode, **fields, **{base: row * config.rows + bank})


def _leaves(rng: random.Random) -> None:
    with closing(CheckedDevice(_LANES, rng)) as device:
        for i in leaving(_LANES, rng):
            device.play(apart([i]), far(rng), loose=True)


def _addresses(rng: random.Random) -> None:
    with closing(CheckedDevice(_ADDRESSES, rng)) as device:
        for _ in range(20):
            program = [
                _drawn(rng.choice(_EXTERNAL), _ADDRESSES, ["external"], {}, rng) for _ in range(20)
            ]
            device.play(apart(program), far(rng))


#: Directed runs by name.
CORNERS = {
    "jumps": Run(_LANES, _jumps),
    "leaves": Run(_LANES, _leaves),
    "addresses": Run(_ADDRESSES, _addresses),
}
