"""Banks of the large memories: one write port, one read port."""

from typing import Any

from amaranth.lib.memory import Memory

from celosia.hw.lib import race


def bank_of(shape: Any, *, depth: int) -> Memory:
    """Return a bank of a memory, whose words have a ``shape``."""
    return Memory(shape=shape, depth=depth, init=[], attrs=race.UNDEFINED)
