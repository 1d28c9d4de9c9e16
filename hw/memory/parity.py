"""Even parity of the words of a memory: made before a write, checked after a read.

A word that was never written is zero, and its parity is correct.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Shape, ShapeLike, Value, unsigned

#: Most bits of a word that share one bit of parity.
SPAN = 32


def _parity(word: Value) -> Value:
    return Cat(word[first : first + SPAN].xor() for first in range(0, len(word), SPAN))


def stored_shape(shape: ShapeLike, parity: bool) -> Shape:
    """Return the shape of a stored word of a ``shape``: with parity bits on top if ``parity``."""
    width = Shape.cast(shape).width
    return unsigned(width - -width // SPAN if parity else width)


def stored(word: Any, parity: bool) -> Value:
    """Return the stored word of ``word``: with its parity bits on top if ``parity``."""
    value = Value.cast(word)
    return Cat(value, _parity(value)) if parity else value


def is_wrong(word: Any, bits: Value) -> Value:
    """Return True if ``bits`` are not the parity of ``word``; False without any bits."""
    return (_parity(Value.cast(word)) ^ bits).any() if len(bits) else Const(0)
