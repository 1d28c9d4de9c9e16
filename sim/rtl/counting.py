"""Coverage of models: branches of source lines that were taken, bits that have changed."""

import ctypes
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

#: Changes of a bit from 0 to 1 and back, or from 1 to 0 and back.
_BOTH_WAYS = 2


class Toggles(NamedTuple):
    """Masks of a signal's bits: those that can change, those toggled both ways, constant ones."""

    live: int
    toggled: int
    constant: int


class Tally:
    """Coverage of the sources of several cores.

    A source line or a bit is covered if it is in any of them. Bits are those of the widest core;
    one that is constant in each of them does not count.

    - ``lines``: for each ``file:line`` in a branch, True if the branch was taken.
    - ``signals``: bits of each signal and field, by ``file:line`` of its declaration and its name.
    """

    def __init__(self) -> None:
        self.lines: dict[str, bool] = {}
        self.signals: dict[tuple[str, str], Toggles] = {}

    def add_line(self, line: str, taken: bool) -> None:
        """Add a branch that contains a ``file:line``."""
        self.lines[line] = self.lines.get(line, False) or taken

    def add_bits(self, line: str, name: str, bits: Toggles) -> None:
        """Add the bits of one copy of a signal declared at a ``file:line``."""
        known = self.signals.get((line, name), Toggles(0, 0, 0))
        live = known.live | bits.live
        constant = (known.constant | bits.constant) & ~live
        self.signals[line, name] = Toggles(live, known.toggled | bits.toggled, constant)

    def add(self, other: "Tally") -> None:
        """Add the coverage of another one."""
        for line, taken in other.lines.items():
            self.add_line(line, taken)
        for (line, name), bits in other.signals.items():
            self.add_bits(line, name, bits)


def origins_of(library: Path) -> Path:
    """Return the file with the sources of the lines of a model's Verilog."""
    return library.with_suffix(".json")


def _lines(text: str) -> Iterator[int]:
    """Yield the lines of ``3,5-7``."""
    for interval in filter(None, text.split(",")):
        first, _, last = interval.partition("-")
        yield from range(int(first), int(last or first) + 1)


def tally(origins: dict[str, Any], points: str, maxima: Iterable[int]) -> Tally:
    """Return the coverage of a model.

    - ``origins``: ``celosia.hw.verilog.origins.Origins``, its keys as text.
    - ``points``: one line for each point, as ``points.h`` gives them.
    - ``maxima``: count of each point.
    """
    total = Tally()
    masks: dict[int, tuple[int, int]] = {}
    for line, count in zip(points.splitlines(), maxima, strict=True):
        words = line.split("\t")
        point = dict(zip(words[::2], words[1::2], strict=False))
        if not point["page"].startswith("v_toggle"):
            for number in _lines(point.get("linescov", "")):
                for source in origins["branches"].get(str(number), ()):
                    total.add_line(source, count > 0)
        elif point["lineno"] in origins["signals"]:
            bit = 1 << int(point["comment"].partition("[")[2].rstrip("]") or 0)
            number = int(point["lineno"])
            seen, toggled = masks.get(number, (0, 0))
            masks[number] = (seen | bit, toggled | bit * (count >= _BOTH_WAYS))
    for number, masks_of in masks.items():
        for source, name, low, width, constant in origins["signals"][str(number)]:
            seen, toggled = (mask >> low & (1 << width) - 1 for mask in masks_of)
            live = seen & ~constant
            total.add_bits(source, name, Toggles(live, toggled & live, seen & constant))
    return total


class Counting:
    """Libraries of models that count, each used by devices of this process.

    ``toggles``: also count changes of bits; compilation and runs take several times as long.
    """

    def __init__(self, *, toggles: bool = True) -> None:
        self.toggles = toggles
        self._libraries: dict[Path, Any] = {}

    def note(self, path: Path, library: Any) -> None:
        """Register a library that a device uses."""
        library.celosia_points.restype = ctypes.c_char_p
        library.celosia_take.argtypes = [ctypes.POINTER(ctypes.c_uint32)]
        self._libraries[path] = library

    def take(self) -> Tally:
        """Return the coverage of all devices closed since the last call."""
        total = Tally()
        for path, library in self._libraries.items():
            points = library.celosia_points().decode()
            maxima = np.zeros(points.count("\n"), np.uint32)
            library.celosia_take(maxima.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32)))
            total.add(tally(json.loads(origins_of(path).read_text()), points, maxima.tolist()))
        return total


_current: Counting | None = None


def current() -> Counting | None:
    """Return the collector of the devices' counts, or None."""
    return _current


@contextmanager
def counting(*, toggles: bool = True) -> Iterator[Counting]:
    """Make all devices count that are created inside this context."""
    global _current
    before, _current = _current, Counting(toggles=toggles)
    try:
        yield _current
    finally:
        _current = before
