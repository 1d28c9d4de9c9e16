"""Counts of models: source lines whose branches were taken, bits that have changed."""

import ctypes
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Counting", "Tally", "Toggles", "counting", "current", "origins_of", "tally"]

#: From 0 to 1 and back, or the other way round.
_BOTH_WAYS = 2


class Toggles(NamedTuple):
    """Bits of a signal as masks: those that can change, those that did both ways, and constant ones."""

    live: int
    toggled: int
    constant: int


class Tally:
    """Coverage of some cores' sources.

    A source line is met where it is in any of them, a bit likewise. Bits are those of the widest
    core; one that is constant in each of them does not count.

    Attributes
    ----------
    lines : dict of str to bool
        For each ``file:line`` in a branch, whether the branch was taken.
    signals : dict of (str, str) to Toggles
        Of each signal and field, by ``file:line`` of its declaration and its name.
    """

    def __init__(self) -> None:
        self.lines: dict[str, bool] = {}
        self.signals: dict[tuple[str, str], Toggles] = {}

    def add_line(self, place: str, taken: bool) -> None:
        """Take over whether a branch with this line was taken."""
        self.lines[place] = self.lines.get(place, False) or taken

    def add_bits(self, place: str, name: str, bits: Toggles) -> None:
        """Take over what the bits of a copy of a signal did."""
        known = self.signals.get((place, name), Toggles(0, 0, 0))
        live = known.live | bits.live
        constant = (known.constant | bits.constant) & ~live
        self.signals[place, name] = Toggles(live, known.toggled | bits.toggled, constant)

    def add(self, other: "Tally") -> None:
        """Take over what another one has met."""
        for place, taken in other.lines.items():
            self.add_line(place, taken)
        for (place, name), bits in other.signals.items():
            self.add_bits(place, name, bits)


def origins_of(library: Path) -> Path:
    """Return the file that says what the lines of a model's Verilog stand for."""
    return library.with_suffix(".json")


def _lines(text: str) -> Iterator[int]:
    """Give the lines of ``3,5-7``."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def tally(origins: dict[str, Any], points: str, most: Iterable[int]) -> Tally:
    """Return what a model met.

    Parameters
    ----------
    origins : dict
        ``celosia.hw.flow.origins.Origins``, its keys as text.
    points : str
        A line a point, as ``points.h`` gives them.
    most : iterable of int
        What each point has counted.
    """
    found = Tally()
    masks: dict[int, tuple[int, int]] = {}
    for line, count in zip(points.splitlines(), most, strict=True):
        words = line.split("\t")
        point = dict(zip(words[::2], words[1::2], strict=False))
        if not point["page"].startswith("v_toggle"):
            for number in _lines(point.get("linescov", "")):
                for place in origins["branches"].get(str(number), ()):
                    found.add_line(place, count > 0)
        elif point["lineno"] in origins["signals"]:
            bit = 1 << int(point["comment"].partition("[")[2].rstrip("]") or 0)
            number = int(point["lineno"])
            seen, toggled = masks.get(number, (0, 0))
            masks[number] = (seen | bit, toggled | bit * (count >= _BOTH_WAYS))
    for number, masks_of in masks.items():
        for place, name, low, width, constant in origins["signals"][str(number)]:
            seen, toggled = (mask >> low & (1 << width) - 1 for mask in masks_of)
            live = seen & ~constant
            found.add_bits(place, name, Toggles(live, toggled & live, seen & constant))
    return found


class Counting:
    """Libraries of models that count, each used by devices of this process.

    Parameters
    ----------
    toggles : bool
        Count changes of bits, too: several times as much to compile, and to run.
    """

    def __init__(self, *, toggles: bool = True) -> None:
        self.toggles = toggles
        self._libraries: dict[Path, Any] = {}

    def note(self, path: Path, library: Any) -> None:
        """Remember a library that a device uses."""
        library.celosia_points.restype = ctypes.c_char_p
        library.celosia_take.argtypes = [ctypes.POINTER(ctypes.c_uint32)]
        self._libraries[path] = library

    def take(self) -> Tally:
        """Return what all closed devices have met since the last time."""
        found = Tally()
        for path, library in self._libraries.items():
            points = library.celosia_points().decode()
            most = np.zeros(points.count("\n"), np.uint32)
            library.celosia_take(most.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32)))
            found.add(tally(json.loads(origins_of(path).read_text()), points, most.tolist()))
        return found


_current: Counting | None = None


def current() -> Counting | None:
    """Return where devices leave what they count; None where they do not."""
    return _current


@contextmanager
def counting(*, toggles: bool = True) -> Iterator[Counting]:
    """Let all devices that are made from here on count."""
    global _current
    before, _current = _current, Counting(toggles=toggles)
    try:
        yield _current
    finally:
        _current = before
