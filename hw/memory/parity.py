"""Even parity of the words of a memory: made where a word is written, looked at after it was read.

A memory that was never written holds zeros, whose parity is right.
"""

from typing import Any

from amaranth.hdl import Cat, Shape, ShapeLike, Value, unsigned

#: Bits of a word that share one bit of parity, at most.
SPAN = 32


def _parity(word: Value) -> Value:
    return Cat(word[first : first + SPAN].xor() for first in range(0, len(word), SPAN))


def stored_shape(shape: ShapeLike, parity: bool) -> ShapeLike:
    """Return the shape of a memory of words of ``shape``, with their parity bits if ``parity``."""
    width = Shape.cast(shape).width
    return unsigned(width - -width // SPAN) if parity else shape


def stored(word: Any, parity: bool) -> Any:
    """Return what is written for ``word``: with ``parity`` its parity bits on top of it."""
    value = Value.cast(word)
    return Cat(value, _parity(value)) if parity else word


def is_wrong(word: Any, bits: Value) -> Value:
    """Return whether ``bits`` are not the parity of ``word``."""
    return (_parity(Value.cast(word)) ^ bits).any()
