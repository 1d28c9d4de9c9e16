"""Even parity of the words of a memory: made before a write, checked after a read.

A word that was never written is zero, and its parity is correct. The words of a memory without
parity have no such bits.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Shape, ShapeLike, Signal, Value, unsigned

#: Most bits of a word that share one bit of parity.
SPAN = 32


def _parity(word: Value) -> Value:
    return Cat(word[first : first + SPAN].xor() for first in range(0, len(word), SPAN))


def stored_shape(shape: ShapeLike, parity: bool) -> Shape:
    """Return the shape of a stored word of a ``shape``: with parity bits on top if ``parity``."""
    width = Shape.cast(shape).width
    return unsigned(width - -width // SPAN if parity else width)


def stored(word: Any) -> Value:
    """Return the stored word of ``word``; a memory without parity drops the bits on top."""
    value = Value.cast(word)
    return Cat(value, _parity(value))


def is_wrong(word: Any, bits: Value) -> Value:
    """Return True if ``bits`` are not the parity of ``word``; False without any bits."""
    return (_parity(Value.cast(word)) ^ bits).any() if len(bits) else Const(0)


def checked(m: Module, register: Any, word: Value, *, name: str) -> Value:
    """Load a register with a stored word, and return True if the parity of its content is wrong.

    Parameters
    ----------
    m : Module
        Gets the assignments.
    register : signal or view
        Gets the word, without parity bits.
    word : Value
        The word that was read.
    name : str
        Name of the register of the parity bits.
    """
    value = Value.cast(register)
    bits = Signal(len(word) - len(value), name=name, reset_less=True)
    m.d.sync += [value.eq(word[: len(value)]), bits.eq(word[len(value) :])]
    return is_wrong(value, bits)
