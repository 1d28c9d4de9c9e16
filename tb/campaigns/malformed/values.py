"""Numbers that readers stumble over, and changes of bytes that need no knowledge of a format."""

import math
import random
import struct
from collections.abc import Callable, Sequence

_REALS = (0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1e-45, 1e-38, 3.4e38, 1e308, -1.0, 1.0)


def integer(rng: random.Random, bits: int, near: int = 0) -> int:
    """Return an unsigned number of ``bits`` bits: an end, a power of two, or close to ``near``."""
    match rng.randrange(4):
        case 0:
            value = near + rng.choice((-2, -1, 1, 2))
        case 1:
            value = (1 << rng.randrange(bits)) + rng.choice((-1, 0, 0, 1))
        case 2:
            value = rng.choice((0, 1, 2, 3, 4, 7, 127, 128, 255, -1, -2, -128))
        case _:
            value = rng.getrandbits(bits)
    return value % (1 << bits)


def real(rng: random.Random, near: float = 1.0) -> float:
    """Return a floating-point number: one that is hard, or some powers of two off ``near``."""
    if rng.random() < 0.4:
        return rng.choice(_REALS)
    try:
        return math.ldexp(near, rng.randint(-40, 40)) * rng.choice((1, 1, 1, -1))
    except OverflowError:
        return math.inf


def real_bytes(value: float, width: int) -> bytes:
    """Return a number as a float of 4 or 8 bytes; too large ones become infinite."""
    try:
        return struct.pack("<f" if width == 4 else "<d", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _flip(content: bytearray, rng: random.Random, _: bytes) -> None:
    for _bit in range(rng.choice((1, 1, 2, 4, 16))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def _span(content: bytearray, rng: random.Random) -> slice:
    first = rng.randrange(len(content))
    return slice(first, first + 1 + int(rng.expovariate(1 / 24)))


def _truncate(content: bytearray, rng: random.Random, _: bytes) -> None:
    del content[rng.randrange(len(content)) :]


def _remove(content: bytearray, rng: random.Random, _: bytes) -> None:
    del content[_span(content, rng)]


def _repeat(content: bytearray, rng: random.Random, _: bytes) -> None:
    span = _span(content, rng)
    content[span.start : span.start] = content[span]


def _overwrite(content: bytearray, rng: random.Random, other: bytes) -> None:
    """Put some bytes of another file, or of this one, over some of this."""
    source = other if rng.random() < 0.5 else bytes(content)
    span = _span(bytearray(source), rng)
    first = rng.randrange(len(content))
    taken = source[span][: len(content) - first]
    content[first : first + len(taken)] = taken


def _splice(content: bytearray, rng: random.Random, other: bytes) -> None:
    """Continue with another file from a random offset."""
    first = rng.randrange(len(content))
    content[first:] = other[min(first, len(other)) :]


def _fill(content: bytearray, rng: random.Random, _: bytes) -> None:
    span = _span(content, rng)
    content[span] = bytes([rng.choice((0, 0, 255, 128))]) * len(content[span])


_Change = Callable[[bytearray, random.Random, bytes], None]
_CHANGES: Sequence[_Change] = (_flip, _truncate, _remove, _repeat, _overwrite, _splice, _fill)
_WEIGHTS = (6, 1, 1, 1, 2, 1, 2)


def anywhere(content: bytearray, rng: random.Random, other: bytes) -> None:
    """Change bytes anywhere, in one way or another; ``other`` is another file."""
    if content:
        rng.choices(_CHANGES, _WEIGHTS)[0](content, rng, other)
