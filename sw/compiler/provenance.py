"""Every byte that is read is still what is wanted there.

Places of values are chosen by when they live, the order of work by what keeps the units busy; the
semaphores keep that order, right or wrong. So what both came to is gone over once more: which bytes of
the unified buffer each instruction reads and writes is taken from its fields, as the machine model
does, and not from what the passes before believe. Not told apart are rows of a value, and the items
that one instruction writes.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.access import Owner, Step
from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.spec import Network

__all__ = ["Displaced", "follow"]

#: Of bytes that nobody wrote, and of those that are left of a run before.
_NOBODY, _EARLIER = -1, -2
#: Margins are for all items.
_ALL = (0, 1 << 62)


class Displaced(ValueError):
    """An instruction reads bytes of something else than it wants."""


class _Bytes:
    """Whose each byte of the unified buffer is."""

    def __init__(self, config: Config) -> None:
        self.value = np.full(config.unified_bytes, _NOBODY, np.int32)
        self.first = np.zeros(config.unified_bytes, np.int64)
        self.last = np.zeros(config.unified_bytes, np.int64)
        self.config = config

    def do(self, step: Step) -> None:
        """Check what an instruction reads, and note what it writes."""
        from celosia.sim.footprint import Memory, touches

        found = [t for t in touches(step.instruction, self.config) if t.memory is Memory.UNIFIED]
        for _, write, pattern in found:
            if not write:
                assert step.reads
                self._read(pattern, step.reads)
        for _, write, pattern in found:
            if write:
                assert step.writes
                first, last = _ALL if step.writes.margins else step.writes.items
                pattern.mark(self.value, step.writes.value)
                pattern.mark(self.first, first)
                pattern.mark(self.last, last)

    def _read(self, pattern: Any, wanted: Owner) -> None:
        low, high = pattern.base, pattern.last + 1
        right = self.value[low:high] == wanted.value
        right &= (self.first[low:high] < wanted.items[1]) & (self.last[low:high] > wanted.items[0])
        if right.all():
            return
        wrong = pattern.bitmap(low, high - 1) & ~right
        if wrong.any():
            place = low + int(np.argmax(wrong))
            raise Displaced(
                f"reads byte {place} of the unified buffer for {_text(wanted)}, "
                f"where {self._text(place)} is"
            )

    def _text(self, place: int) -> str:
        value, first, last = (int(a[place]) for a in (self.value, self.first, self.last))
        if value in (_NOBODY, _EARLIER):
            return "nothing of this run"
        return _text(Owner(value, (first, last), margins=(first, last) == _ALL))

    def end(self) -> None:
        """Let a run end: of the next, margins alone are left."""
        self.value[(self.last != _ALL[1]) & (self.value != _NOBODY)] = _EARLIER


def _text(owner: Owner) -> str:
    if owner.margins:
        return f"a margin of value {owner.value}"
    return f"value {owner.value} of items {owner.items[0]} to {owner.items[1] - 1}"


def follow(setup: Iterable[Step], main: Iterable[Step], network: Network, config: Config) -> None:
    """Refuse a program in which something is read that is not what it should be.

    Two runs are followed, since what one leaves the next finds. Rows of one value are not told apart.

    Parameters
    ----------
    setup, main : iterable of Step
        The program; ``main`` may run again and again.
    network : Network
        Its layers have names.
    config : Config
        The core.

    Raises
    ------
    CompileError
        Naming the layer. It means that the compiler has a fault; the cause is ``Displaced``,
        or another ``ValueError`` for a place outside the memory.
    """
    main = tuple(main)
    state = _Bytes(config)
    for steps in (tuple(setup), main, main):
        for step in steps:
            try:
                state.do(step)
            except ValueError as error:
                name = step.instruction.opcode.name
                where = f"program, {name} of {network.layers[step.layer].name}"
                raise CompileError(str(error), layer=where) from error
        state.end()
