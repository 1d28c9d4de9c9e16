"""Comparisons of an unsigned number with lanes, without chains of carries.

Synthesis makes a chain of carries for each comparison with a number that is no power of two. Here
the upper bits of all comparisons are one OR.
"""

from amaranth.hdl import Array, Const, Value


def above(value: Value, lanes: int) -> Value:
    """Return ``value > lanes``, for a power of two."""
    bits = lanes.bit_length() - 1
    return value[bits + 1 :].any() | (value[bits : bits + 1].any() & value[:bits].any())


def below(value: Value, lanes: int) -> Value:
    """Return ``value > lane`` for each of ``lanes`` lanes, a power of two."""
    bits = lanes.bit_length() - 1
    inside = Array([Const((1 << count) - 1, lanes) for count in range(lanes)])[value[:bits]]
    return inside | value[bits:].any().replicate(lanes)
