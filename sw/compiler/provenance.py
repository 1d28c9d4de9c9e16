"""Every byte that is read is still what is wanted there.

Places of values are chosen by when they live, the order of work by what keeps the units busy; the
semaphores keep that order, right or wrong. So what both came to is gone over once more: which bytes of
the unified buffer each instruction reads and writes is taken from its fields, as the machine model
does, and not from what the passes before believe. Rows of a value are told apart
by the strips they are in; items that one instruction writes are not.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.emit.access import Owner, Step
from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.spec import Network

__all__ = ["Displaced", "follow"]

#: Numbers of bytes that nobody wrote, of those that are left of a run before, and of the first owner.
_NOBODY, _EARLIER, _FIRST = 0, 1, 2
#: Margins are for all items.
_ALL = (0, 1 << 62)
#: Bytes that are wrong, right, or right and left by a run before.
_WRONG, _CARRIED = 0, 2
#: Tables of what is right for an owner are kept for so many owners.
_MOST_TABLES = 64


class Displaced(ValueError):
    """An instruction reads bytes of something else than it wants."""


class _Bytes:
    """Whose each byte of the unified buffer is, as numbers of owners.

    A number below ``carried`` is of this run; the same owner's bytes of a run before have a number
    that is ``carried`` higher.
    """

    def __init__(self, steps: Iterable[Step], config: Config) -> None:
        from celosia.sim.footprint import Memory, footprints

        self.touches = partial(footprints(config).touches, only=Memory.UNIFIED)
        owners = dict.fromkeys(step.writes for step in steps if step.writes)
        self.numbers = {owner: _FIRST + n for n, owner in enumerate(owners)}
        self.owners = tuple(owners)
        items = [_ALL if owner.margins else owner.items for owner in owners]
        self.values = np.array([-1] * _FIRST + [owner.value for owner in owners], np.int64)
        self.items = np.array([(0, 0)] * _FIRST + items, np.int64)
        strips = dict.fromkeys(owner.strip for owner in owners)
        self.strips = {strip: number for number, strip in enumerate(strips)}
        numbers = [self.strips[owner.strip] for owner in owners]
        self.strip_of = np.array([-1] * _FIRST + numbers, np.int64)
        self.carried = len(self.values)
        self.bytes = np.full(config.unified_bytes, _NOBODY, np.int32)
        self.before = self.bytes.copy()
        self.needed = np.zeros(config.unified_bytes, np.bool_)
        self.tables: dict[Owner, np.ndarray] = {}

    def do(self, step: Step) -> None:
        """Check what an instruction reads, and note what it writes."""
        for _, write, pattern in self.touches(step.instruction):
            if write:
                assert step.writes
                pattern.mark(self.bytes, self.numbers[step.writes])
            else:
                assert step.reads
                self._read(pattern, step.reads)

    def _table(self, wanted: Owner) -> np.ndarray:
        """Return for the number of each owner whether its bytes are right for a reader."""
        found = self.tables.get(wanted)
        if found is None:
            if len(self.tables) == _MOST_TABLES:
                self.tables.clear()
            (first, last), (low, high) = self.items.T, wanted.items
            right = (self.values == wanted.value) & (first < high) & (last > low)
            right &= self.strip_of == self.strips.get(wanted.strip, -1)
            found = np.concatenate((right, _CARRIED * right)).astype(np.int8)
            self.tables[wanted] = found
        return found

    def _read(self, pattern: Any, wanted: Owner) -> None:
        table = self._table(wanted)
        found = [table[owners] for owners in pattern.covered(self.bytes)]
        if min(each.min() for each in found) == _WRONG:
            bitmap = pattern.bitmap(pattern.base, pattern.last)
            wrong = table[self.bytes[pattern.base : pattern.last + 1]] == _WRONG
            place = pattern.base + int(np.argmax(bitmap & wrong))
            raise Displaced(
                f"reads byte {place} of the unified buffer for {_text(wanted)}, "
                f"where {self._text(place)} is"
            )
        if max(each.max() for each in found) == _CARRIED:
            for needed, each in zip(pattern.covered(self.needed), found, strict=True):
                needed |= each == _CARRIED

    def _text(self, place: int) -> str:
        number = int(self.bytes[place]) % self.carried
        return "nothing of this run" if number < _FIRST else _text(self.owners[number - _FIRST])

    def end(self) -> bool:
        """Let a run end: of the next, margins alone are left.

        Returns
        -------
        bool
            Whether bytes that the run needed from before it are as they were.
        """
        kept = self.bytes % self.carried
        margins = np.concatenate(([False] * _FIRST, self.items[_FIRST:, 1] == _ALL[1]))
        left = np.where(margins[kept], kept + self.carried, np.minimum(kept, _EARLIER))
        same = bool(np.all((self.before == left) | ~self.needed))
        self.bytes = left.astype(np.int32)
        self.before = self.bytes.copy()
        return same


def _text(owner: Owner) -> str:
    if owner.margins:
        return f"a margin of value {owner.value}"
    return f"value {owner.value} of items {owner.items[0]} to {owner.items[1] - 1}"


def follow(setup: Iterable[Step], main: Iterable[Step], network: Network, config: Config) -> None:
    """Refuse a program in which something is read that is not what it should be.

    ``main`` is followed once, and once more only if it leaves other margins than it found: else
    every run after the first reads what the first did.

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
    setup, main = tuple(setup), tuple(main)
    state = _Bytes((*setup, *main), config)
    for steps in (setup, main, main):
        for step in steps:
            try:
                state.do(step)
            except ValueError as error:
                name = step.instruction.opcode.name
                where = f"program, {name} of {network.layers[step.layer].name}"
                raise CompileError(str(error), layer=where) from error
        if state.end() and steps is main:
            return
