"""Check that every byte read still has the contents wanted.

Addresses of values follow from their lifetimes, the order of work from the load of the units, and
semaphores only keep that order. This check takes the bytes of the unified buffer that each
instruction reads and writes from its fields, as the machine model does, and not from the passes
before. It distinguishes rows of a value by their stripes, but not the samples of one instruction.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.emit.access import Owner, Step
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.network import Network

#: Numbers of unwritten bytes, of bytes left by an earlier run, and of the first owner.
_NOBODY, _EARLIER, _FIRST = 0, 1, 2
#: Margins belong to all samples.
_ALL = (0, 1 << 62)
#: Bytes that are wrong, right, or right and left by an earlier run.
_WRONG, _CARRIED = 0, 2
#: Number of owners whose tables of right bytes are kept.
_MOST_TABLES = 64


class Displaced(ValueError):
    """An instruction reads bytes of another owner than it wants."""


class _Bytes:
    """Owner of each byte of the unified buffer, by number.

    A number below ``carried`` belongs to this run; the same owner's bytes of an earlier run have a
    number that is ``carried`` higher.
    """

    def __init__(self, steps: Iterable[Step], config: Config) -> None:
        from celosia.sim.check.footprint import Memory, footprints

        self.touches = partial(footprints(config).touches, only=Memory.UNIFIED)
        owners = dict.fromkeys(step.writes for step in steps if step.writes)
        self.numbers = {owner: _FIRST + n for n, owner in enumerate(owners)}
        self.owners = tuple(owners)
        samples = [_ALL if owner.margins else owner.samples for owner in owners]
        self.values = np.array([-1] * _FIRST + [owner.value for owner in owners], np.int64)
        self.samples = np.array([(0, 0)] * _FIRST + samples, np.int64)
        stripes = dict.fromkeys(owner.stripe for owner in owners)
        self.stripes = {stripe: number for number, stripe in enumerate(stripes)}
        numbers = [self.stripes[owner.stripe] for owner in owners]
        self.stripe_of = np.array([-1] * _FIRST + numbers, np.int64)
        self.carried = len(self.values)
        # Of the narrowest type: a memory has millions of bytes.
        kind = np.min_scalar_type(2 * self.carried)
        self.bytes = np.full(config.unified_bytes, _NOBODY, kind)
        self.before = self.bytes.copy()
        self.needed = np.zeros(config.unified_bytes, np.bool_)
        self.tables: dict[Owner, np.ndarray] = {}

    def do(self, step: Step) -> None:
        """Check the reads of an instruction, and record its writes."""
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
            (first, last), (low, high) = self.samples.T, wanted.samples
            right = (self.values == wanted.value) & (first < high) & (last > low)
            right &= self.stripe_of == self.stripes.get(wanted.stripe, -1)
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
        """End a run: only its margins stay for the next one.

        Returns true if the bytes that the run needed from before it are unchanged.
        """
        numbers = np.arange(self.carried, dtype=np.int32)
        margins = np.concatenate(([False] * _FIRST, self.samples[_FIRST:, 1] == _ALL[1]))
        left = np.where(margins, numbers + self.carried, np.minimum(numbers, _EARLIER))
        # By number of an owner, in this run or an earlier one.
        self.bytes = np.tile(left, 2).astype(self.bytes.dtype)[self.bytes]
        same = not np.any((self.before != self.bytes) & self.needed)
        self.before = self.bytes.copy()
        return same


def _text(owner: Owner) -> str:
    if owner.margins:
        return f"a margin of value {owner.value}"
    return f"value {owner.value} of items {owner.samples[0]} to {owner.samples[1] - 1}"


def follow(setup: Iterable[Step], main: Iterable[Step], network: Network, config: Config) -> None:
    """Refuse a program in which an instruction reads bytes of a wrong owner.

    ``main`` is followed once, and a second time only if it changes margins: otherwise every run
    after the first reads the same bytes.

    - ``setup``, ``main``: the program; ``main`` may run repeatedly.
    - ``network``: network with the names of layers.

    Raises CompileError if a read is wrong, naming the layer: a fault of the compiler. The cause is
    ``Displaced``, or another ``ValueError`` for an address outside the memory.
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
