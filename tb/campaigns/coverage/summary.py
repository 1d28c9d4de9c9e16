"""Lines and bits of each file: met, missed, explained."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coverage.explained import Key

#: Lines by ``file:number`` and signals by ``file:number`` and name: live, toggled, constant bits.
Lines = Mapping[str, bool]
Signals = Mapping[tuple[str, str], tuple[int, int, int]]


class Line(NamedTuple):
    """Line in a branch: True if it was covered, and the reason if that is explained."""

    met: bool
    why: str | None


class Signal(NamedTuple):
    """A signal by masks of its bits; ``why`` has the reasons for those that are explained."""

    name: str
    number: int
    live: int
    toggled: int
    constant: int
    explained: int
    why: tuple[str, ...]

    @property
    def missing(self) -> int:
        """Bits that are neither met nor explained."""
        return self.live & ~self.toggled & ~self.explained


class Met(NamedTuple):
    """Counts of points: covered, all, and the explained ones of the rest."""

    met: int
    total: int
    explained: int

    def __add__(self, other: "Met") -> "Met":  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the sums of both."""
        return Met(*(one + more for one, more in zip(self, other, strict=True)))

    @property
    def percent(self) -> float:
        """Share of covered points in percent; 100 if there are none."""
        return 100 * self.met / self.total if self.total else 100.0

    @property
    def missing(self) -> int:
        """Points that are neither met nor explained."""
        return self.total - self.met - self.explained


class Counts(NamedTuple):
    """Lines and bits of one or more files."""

    lines: Met
    bits: Met

    def __add__(self, other: "Counts") -> "Counts":  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the sums of both."""
        return Counts(self.lines + other.lines, self.bits + other.bits)


_NOTHING = Counts(Met(0, 0, 0), Met(0, 0, 0))


class File(NamedTuple):
    """A source file: its text, its lines in branches by number, and the signals it declares."""

    path: str
    text: tuple[str, ...]
    lines: dict[int, Line]
    signals: tuple[Signal, ...]

    @property
    def counts(self) -> Counts:
        """Lines and bits."""
        met = sum(line.met for line in self.lines.values())
        explained = sum(not line.met and line.why is not None for line in self.lines.values())
        bits = Met(
            sum(signal.toggled.bit_count() for signal in self.signals),
            sum(signal.live.bit_count() for signal in self.signals),
            sum(signal.explained.bit_count() for signal in self.signals),
        )
        return Counts(Met(met, len(self.lines), explained), bits)


class Summary(NamedTuple):
    """All files, and stale entries of the table of reasons."""

    files: tuple[File, ...]
    stale: tuple[Key, ...]

    @property
    def blocks(self) -> dict[str, list[File]]:
        """Files by the folder they are in."""
        found: dict[str, list[File]] = {}
        for file in self.files:
            found.setdefault(file.path.rpartition("/")[0], []).append(file)
        return found

    @property
    def counts(self) -> Counts:
        """Of all files."""
        return sum((file.counts for file in self.files), _NOTHING)


def _location(text: str) -> tuple[str, int]:
    file, _, number = text.rpartition(":")
    return file, int(number)


def summary(
    lines: Lines, signals: Signals, texts: Mapping[str, str], keys: Sequence[Key]
) -> Summary:
    """Return the coverage, file by file.

    ``lines``, ``signals``: as ``sim.rtl.counting.Tally`` has them; ``texts``: sources by the
    files that ``lines`` and ``signals`` name; ``keys``: entries of the table of reasons.
    """
    used: set[Key] = set()
    found: dict[str, tuple[dict[int, Line], list[Signal]]] = {}
    for location, met in lines.items():
        file, number = _location(location)
        text = texts[file].splitlines()[number - 1]
        why = next((key for key in keys if key.line(file, text)), None) if not met else None
        if why:
            used.add(why)
        found.setdefault(file, ({}, []))[0][number] = Line(met, why.why if why else None)
    for (location, name), (live, toggled, constant) in signals.items():
        file, number = _location(location)
        matching = {key: key.signal(file, name) & live & ~toggled for key in keys if key.bits}
        matching = {key: mask for key, mask in matching.items() if mask}
        used |= set(matching)
        explained = 0
        for mask in matching.values():
            explained |= mask
        why = tuple(dict.fromkeys(key.why for key in matching))
        signal = Signal(name, number, live, toggled, constant, explained, why)
        found.setdefault(file, ({}, []))[1].append(signal)
    files = tuple(
        File(
            path,
            tuple(texts[path].splitlines()),
            dict(sorted(found[path][0].items())),
            tuple(sorted(found[path][1], key=lambda signal: (signal.number, signal.name))),
        )
        for path in sorted(found)
    )
    return Summary(files, tuple(key for key in keys if key not in used))
