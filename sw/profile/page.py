"""A profile as one HTML page that needs no other file."""

from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from celosia.hw.arch.isa import disassemble
from celosia.sw.profile import pictures
from celosia.sw.profile.events import LANES, Event
from celosia.sw.profile.figures import Profile, ProfiledLayer
from celosia.sw.profile.losses import CAUSES, REMEDIES

#: Instructions that the page lists, and events that its timeline can zoom into, at most.
_MOST_LISTED = 6000
_MOST_EVENTS = 100_000

#: Layers that are listed for their losses, at most.
_MOST_WORST = 5

_FOLDER = Path(__file__).parent

#: A page within another one.
_FRAME = (
    '<iframe srcdoc="{{ page }}" title="Profile of {{ name }}" width="100%" height="900"></iframe>'
)

#: Names of the lanes on the page.
_LANES = {"load": "load: activations", "weights": "load: weights"}


class _Segment(NamedTuple):
    """Part of a bar: a reason, where it starts, and its width, in percent of the longest bar."""

    cause: str
    start: float
    width: float
    cycles: int


class _Row(NamedTuple):
    """A layer in the table: its figures, its bar, and the end of its bound in percent."""

    layer: ProfiledLayer
    segments: list[_Segment]
    bound: float
    instructions: int


class _Listing(NamedTuple):
    """Instructions of one layer as lines, and the number of those left out."""

    lines: list[str]
    left_out: int


def as_html(profile: Profile) -> str:
    """Return the page."""
    of: dict[int, list[Event]] = defaultdict(list)
    for event in profile.events:
        of[event.layer].append(event)
    longest = max([1, *(max(x.row.cycles, x.row.bound) for x in profile.layers)])
    rows = [
        _Row(layer, _bar(layer, longest), 100 * layer.row.bound / longest, len(of[layer.number]))
        for layer in profile.layers
    ]
    blocks, count = pictures.memory_map(profile)
    return (
        environment(_FOLDER)
        .get_template("page.html")
        .render(
            **_figures(profile),
            rows=rows,
            listings=_listings(of),
            totals=_totals(profile),
            worst=_worst(profile),
            causes=CAUSES,
            remedies=REMEDIES,
            roofline=pictures.roofline(profile),
            lanes=[(_LANES.get(name, name), shapes) for name, shapes in pictures.timeline(profile)],
            busy=[_percent(cycles, profile.total.cycles) for cycles in profile.busy.values()],
            ticks=pictures.ticks(profile.total.cycles),
            blocks=blocks,
            block_count=count,
            memory_use=pictures.memory_use(profile),
            array_use=pictures.array_use(profile),
            zoom=_zoom(profile.events),
            wide=pictures.WIDTH,
            high=pictures.HEIGHT,
        )
    )


def as_frame(profile: Profile) -> str:
    """Return a frame that holds the page, for a notebook's cell."""
    frame = environment(_FOLDER).from_string(_FRAME)
    return frame.render(page=as_html(profile), name=profile.program.name)


def environment(folder: Path) -> Any:
    """Return Jinja with the templates of a folder."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["count"] = "{:,}".format
    templates.filters["percent"] = "{:.1%}".format
    return templates


def _figures(profile: Profile) -> dict[str, Any]:
    """Return the figures at the top of the page."""
    program, figures = profile.program, profile.estimates.as_dict()
    labels = {layer.number: layer.label for layer in profile.layers if layer.number >= 0}
    return {
        "program": program,
        "config": program.config,
        "costs": profile.estimates.costs,
        "total": profile.total,
        "setup_cycles": profile.estimates.setup_cycles,
        "clock_hz": profile.estimates.clock_hz,
        "pace": figures["inferences_per_second"],
        "contents": profile.contents,
        "peak": int(profile.contents.used(profile.contents.first).max(initial=0)),
        "instructions": len(profile.events),
        "names": labels | {-1: "no layer"},
    }


def _percent(cycles: int, total: int) -> float:
    return cycles / total if total else 0.0


def _bar(layer: ProfiledLayer, longest: int) -> list[_Segment]:
    """Return the bar of a layer."""
    segments, start = [], 0
    for cause, cycles in layer.causes.items():
        if cycles:
            segments.append(_Segment(cause, 100 * start / longest, 100 * cycles / longest, cycles))
        start += cycles
    return segments


def _totals(profile: Profile) -> list[_Segment]:
    """Return the bar of the whole batch."""
    total = max(profile.total.cycles, 1)
    segments, start = [], 0
    for cause in CAUSES:
        cycles = sum(layer.causes[cause] for layer in profile.layers)
        segments.append(_Segment(cause, 100 * start / total, 100 * cycles / total, cycles))
        start += cycles
    return segments


def _worst(profile: Profile) -> list[ProfiledLayer]:
    """Return the layers with most cycles above their bound."""
    slower = [layer for layer in profile.layers if layer.row.cycles > layer.row.bound]
    return sorted(slower, key=lambda layer: layer.row.bound - layer.row.cycles)[:_MOST_WORST]


def _listings(of: dict[int, list[Event]]) -> dict[int, _Listing]:
    """Return the instructions of each layer; of many the first ones."""
    every = sum(map(len, of.values()))
    limit = _MOST_LISTED if every <= _MOST_LISTED else _MOST_LISTED // len(of)
    return {
        layer: _Listing(
            [
                f"{e.number:6} {e.begin:9,} {e.end:9,}  {disassemble(e.instruction)}"
                for e in events[:limit]
            ],
            len(events[limit:]),
        )
        for layer, events in sorted(of.items(), key=lambda item: (item[0] < 0, item[0]))
    }


def _zoom(events: list[Event]) -> list[list[int]]:
    """Return for each lane (gap before, cycles, layer) of its events, one after the other.

    Empty for a program of too many events: its timeline is the whole run alone.
    """
    if len(events) > _MOST_EVENTS:
        return []
    result: list[list[int]] = []
    for lane in LANES:
        numbers, before = [], 0
        for event in (e for e in events if e.lane == lane and e.cycles):
            numbers += [event.begin - before, event.cycles, event.layer]
            before = event.end
        result.append(numbers)
    return result
