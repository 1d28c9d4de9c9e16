"""Simulated core with a flip of one bit of its memories during a run."""

import random
import re
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_uint32, c_uint64, c_void_p, create_string_buffer
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Error, Unit
from celosia.sim.check.footprint import Memory
from celosia.sim.rtl.core import RtlDevice
from celosia.sw.driver.core import Driver, RunResult

#: Paths of the memories in the core's Verilog.
_PATHS = {
    r"unified_buffer\.bank_": Memory.UNIFIED,
    r"matrix\.buffer\.bank_": Memory.WEIGHTS,
    r"accumulators\.column_\d+\.half_": Memory.ACCUMULATORS,
    r"store\.memory\.lane_": Memory.PARAMETERS,
    r"store\.tables\.lane_": Memory.TABLES,
}
_NAME_BYTES = 256


@dataclass(frozen=True)
class Array:
    """Memory of the Verilog: a bank, or the words of one column or lane of a memory of the core.

    ``name`` is its path; ``numbers`` are those at its end, for instance segment and column.
    """

    name: str
    memory: Memory
    numbers: tuple[int, ...]
    words: int
    bits: int


class Flip(NamedTuple):
    """One bit: number of the array, word, bit of the word, and the cycle in which it changes."""

    array: int
    word: int
    bit: int
    cycle: int


def _array(name: str, words: int, bits: int) -> Array:
    memory = next(memory for path, memory in _PATHS.items() if re.search(path, name))
    numbers = re.findall(r"\d+", ".".join(name.split(".")[-2:]))
    return Array(name, memory, tuple(map(int, numbers)), words, bits)


def drawn(arrays: Sequence[Array], rng: random.Random, cycles: int) -> Flip:
    """Return a flip: all bits of all memories are as likely, and so are the ``cycles``."""
    ends = list(accumulate(array.words * array.bits for array in arrays))
    position = rng.randrange(ends[-1])
    number = next(n for n, end in enumerate(ends) if position < end)
    array = arrays[number]
    word, bit = divmod(position - ends[number] + array.words * array.bits, array.bits)
    return Flip(number, word, bit, rng.randrange(cycles))


class FlipDevice(RtlDevice, Driver):
    """Core from power-up with a flip of one bit of its memories during a run.

    ``config``: sizes of the core; ``**options``: ``latency``, ``bandwidth``, ``memory_bytes``,
    ``cycles_limit``: see ``RtlDevice``.
    Raises ``SimulatorNotFound``, ``RtlError`` see ``RtlDevice``.
    """

    def __init__(self, config: Config, **options: Any) -> None:
        super().__init__(config, arrays=True, **options)
        array = [c_void_p, c_uint32, POINTER(c_uint64), POINTER(c_uint32), c_char_p, c_uint32]
        self._library.celosia_array.argtypes = array
        self._library.celosia_flip.argtypes = [c_void_p, c_uint32, c_uint64, c_uint32]
        self._library.celosia_flip.restype = None
        #: Of the next run: ``flip.cycle`` cycles after its start a bit changes.
        self.pending: Flip | None = None
        #: Of the last run.
        self.last_error: tuple[Error, Unit, int] | None = None
        #: All memories of the core, parity included.
        self.arrays = tuple(self._arrays())

    def _arrays(self) -> list[Array]:
        words, bits = c_uint64(), c_uint32()
        name = create_string_buffer(_NAME_BYTES)
        found: list[Array] = []
        while self._library.celosia_array(
            self._device, len(found), byref(words), byref(bits), name, _NAME_BYTES
        ):
            found.append(_array(name.value.decode(), words.value, bits.value))
        return found

    def flip(self, array: int, word: int, bit: int) -> None:
        """Change one bit now.

        Raises ``ValueError`` if there is no such bit.
        """
        if not 0 <= array < len(self.arrays):
            raise ValueError(f"array: wanted 0 to {len(self.arrays) - 1}, got {array}")
        of = self.arrays[array]
        if not (0 <= word < of.words and 0 <= bit < of.bits):
            raise ValueError(
                f"{of.name}: wanted words below {of.words}, bits below {of.bits}, "
                f"got {word} and {bit}"
            )
        self._library.celosia_flip(self._device, array, word, bit)

    def run(self, address: int, count: int) -> RunResult:
        """Run a program, and flip the bit that waits."""
        result = super().run(address, count)
        self.last_error = result.error
        return result

    def started(self) -> None:
        """Flip the bit that waits."""
        flip, self.pending = self.pending, None
        if flip is not None:
            self._library.celosia_wait(self._device, flip.cycle)
            self.flip(flip.array, flip.word, flip.bit)
