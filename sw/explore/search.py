"""Cores that fit, and the cycles of networks on them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from celosia.hw.arch.config import REQUANTIZERS, Config
from celosia.hw.arch.presets import PRESETS
from celosia.sw.explore.area import Area, Model
from celosia.sw.ir.graph import Graph

#: Rows and columns of the arrays that are tried.
_ARRAYS = ((4, 4), (4, 8), (8, 8), (8, 16), (16, 8), (16, 16), (16, 32), (32, 32))

#: Lanes that are tried.
_LANES = (1, 2, 4, 8, 16)

#: Sizes of the memories that are tried, the largest first: bytes of the unified buffer, tiles and
#: channels of parameters.
_MEMORIES = (
    (256 << 10, 512, 1024),
    (128 << 10, 512, 1024),
    (64 << 10, 512, 1024),
    (64 << 10, 256, 512),
    (32 << 10, 256, 512),
    (16 << 10, 128, 256),
)

#: LUTs, block RAMs and multipliers of an ECP5, by its multipliers.
_ECP5 = {28: (24_288, 56), 72: (43_848, 108), 156: (83_640, 208)}

#: LUTs and block RAMs of a system with memory controller and bridge (``docs/reference/boards.md``).
SYSTEM = (3_200, 1)

#: Cells that nextpnr counts for each LUT: it adds those of carry chains and of ways through.
COMB = 1.15

#: Share of the LUTs of a part beyond which placement or routing fails.
MOST = 0.9

#: Clocks in MHz of builds by part and share of its cells, see ``docs/reference/boards.md``.
_CLOCKS = {
    "LFE5U-25F-CABGA381": ((0.63, 92.4),),
    "LFE5U-12F-CABGA381": ((0.63, 92.4),),
    "LFE5U-25F-CSFBGA285": ((0.75, 104.2),),
    "LFE5U-45F-CABGA381": ((0.55, 92.3),),
    "LFE5U-85F": ((0.27, 88.9), (0.60, 88.4)),
    "LFE5UM5G-85F": ((0.63, 108.5),),
}


@dataclass(frozen=True)
class Room:
    """Cells that a core may take: those of a part less those of the rest of the design."""

    luts: float
    multipliers: int
    memories: int

    def holds(self, area: Area) -> bool:
        """Return whether a core fits."""
        return (
            COMB * area.luts <= self.luts
            and area.multipliers <= self.multipliers
            and area.memories <= self.memories
        )


@dataclass(frozen=True)
class Candidate:
    """A core, its area, cycles of one inference of each network, and the clock."""

    config: Config
    area: Area
    cycles: tuple[int, ...]
    megahertz: float

    @property
    def seconds(self) -> float:
        """Geometric mean of the times of the networks."""
        logarithms = [math.log(max(1, cycles)) for cycles in self.cycles]
        return math.exp(sum(logarithms) / len(logarithms)) / (self.megahertz * 1e6)


def room_of(multipliers: int, *, has_system: bool) -> Room:
    """Return the room on an ECP5 with so many multipliers; raises KeyError for another part."""
    luts, memories = _ECP5[multipliers]
    system = SYSTEM if has_system else (0, 0)
    return Room(MOST * luts - system[0], multipliers, memories - system[1])


def clock_of(part: str, share: float) -> float:
    """Return the clock in MHz of the built core whose share of the part is nearest.

    A part of which no core was built has the lowest clock of all.
    """
    builds = next((rows for name, rows in _CLOCKS.items() if part.startswith(name)), ())
    if not builds:
        return min(clock for rows in _CLOCKS.values() for _, clock in rows)
    return min(builds, key=lambda build: abs(build[0] - share))[1]


def text_of(config: Config) -> str:
    """Return the preset and the changes that make a core, as ``--preset`` takes them."""
    texts = []
    for name, base in PRESETS.items():
        fields = asdict(config).items() - asdict(base).items()
        changes = [f"{key}={str(value).lower()}" for key, value in fields if key != "name"]
        texts.append(",".join([name, *sorted(changes)]))
    return min(texts, key=len)


def configurations(base: Config) -> Iterator[Config]:
    """Yield the cores that are tried, those of one array with the largest memories first.

    Other fields than sizes of arrays and memories are those of ``base``. Arrays of four rows have
    the links and skips of ``nano``.
    """
    nano = PRESETS["nano"]
    small = {name: getattr(nano, name) for name in ("links", "skips", "outstanding")}
    choices = product(_ARRAYS, _LANES, REQUANTIZERS, _MEMORIES, ("units", "luts"))
    for (rows, columns), lanes, requantizer, (unified, tiles, channels), counters in choices:
        # With fewer lanes the array waits for its results.
        if lanes > min(rows, columns) or lanes < rows // 8:
            continue
        with suppress(ValueError):
            yield replace(
                base,
                rows=rows,
                columns=columns,
                lanes=lanes,
                unified_bytes=unified,
                weight_tiles=tiles,
                accumulator_depth=256 if rows == nano.rows else 512,
                parameter_channels=channels,
                requantizer=requantizer,
                counters=counters,
                bus_bytes=min(rows, 16),
                dsp_columns=min(base.dsp_columns, columns),
                **(small if rows == nano.rows else {}),
            )


def fitting(base: Config, part: Any, room: Room, model: Model) -> list[tuple[Config, Area]]:
    """Return the cores that fit, of each array, lanes and requantiser those with most memory.

    ``part`` is the ``FpgaPart`` whose multipliers the cells are made of.
    """
    largest: dict[tuple[Any, ...], tuple[Config, Area]] = {}
    for config in configurations(base):
        area = model.area(part.suited(config))
        key = (config.rows, config.columns, config.lanes, config.requantizer)
        if key not in largest and room.holds(area):
            largest[key] = (config, area)
    return [*largest.values()]


def cycles_of(
    core: tuple[Config, Mapping[str, Any]], *, graphs: Sequence[Graph]
) -> tuple[int, ...] | str:
    """Return the cycles of one inference of each network; the reason if the core cannot run one.

    - ``core``: its sizes, and latency and bandwidth of its memory.
    """
    from celosia.sw.compiler.compile import compile_steps
    from celosia.sw.profile.estimates import estimates

    config, memory = core
    try:
        steps = [compile_steps(graph, config, 1) for graph in graphs]
    except ValueError as error:
        return str(error)
    return tuple(estimates(one, **memory).rows[-1].cycles for one in steps)


def front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return those that no other one beats in both time and LUTs, the fastest first."""
    result: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda one: (one.seconds, one.area.luts)):
        if not result or candidate.area.luts < result[-1].area.luts:
            result.append(candidate)
    return result
