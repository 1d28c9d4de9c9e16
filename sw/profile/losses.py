"""Cycles of each layer by the reason why the array works or waits."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from celosia.hw.arch.config import Config
from celosia.sim.check.schedule import bits
from celosia.sim.timing.costs import Costs
from celosia.sw.compiler.report import Row, Span
from celosia.sw.profile.events import Event

#: Reasons by name, with their words. Every cycle of a batch has one of them.
CAUSES = {
    "array": "the array multiplies",
    "other": "the array multiplies for another layer",
    "passes": "the array waits between two passes",
    "activations": "the array waits for activations from external memory",
    "weights": "the array waits for weights, parameters or tables",
    "vector": "the array waits for the vector unit",
    "store": "the array waits for the store unit",
    "bus": "no instruction is ready: data takes the bus before it",
    "instructions": "no instruction is ready, or the program begins or ends",
}

#: Changes that may take cycles of a reason away, by its name; none where nothing is lost.
REMEDIES = {
    "array": "a larger array",
    "passes": "a larger batch",
    "activations": "a faster memory",
    "weights": "a larger batch or weight buffer",
    "vector": "more lanes",
    "store": "a faster memory",
    "bus": "a faster memory",
    "instructions": "a larger batch",
}

#: Cycles of each reason, by name.
Causes = dict[str, int]

_OF_LANE = {"load": "activations", "weights": "weights", "vector": "vector", "store": "store"}


class Stretch(NamedTuple):
    """Cycles with one reason."""

    first: int
    last: int
    cause: str
    event: Event | None = None  #: The array's instruction, if the array multiplies.

    @property
    def cycles(self) -> int:
        """Number of cycles."""
        return self.last - self.first


def causes(
    events: Sequence[Event], spans: Sequence[Span], layers: int, config: Config, costs: Costs
) -> list[Causes]:
    """Return the cycles of each layer by reason; those of a layer sum to its cycles.

    - ``events``: instructions of a batch.
    - ``spans``: cycles that count for each layer, from the start of the batch.
    - ``config``, ``costs``: sizes of the core, constants of the estimate.
    """
    result: list[Causes] = [dict.fromkeys(CAUSES, 0) for _ in range(layers)]
    for span, stretch, cycles in _overlaps(spans, stretches(events, config, costs)):
        other = stretch.event is not None and stretch.event.layer != span.layer
        result[span.layer]["other" if other else stretch.cause] += cycles
    return result


def stretches(events: Sequence[Event], config: Config, costs: Costs) -> list[Stretch]:
    """Return the cycles of a batch, in order and without a gap, each with its reason."""
    sections: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        sections[event.section].append(event)
    result: list[Stretch] = []
    for section in sections.values():
        result += _stretches(section, result[-1].last if result else 0, config, costs)
    return result


def _overlaps(
    spans: Sequence[Span], stretches: Sequence[Stretch]
) -> Iterator[tuple[Span, Stretch, int]]:
    """Yield spans and stretches that share cycles, with their number; both are in order."""
    index = 0
    for span in spans:
        while index < len(stretches) and stretches[index].last <= span.first:
            index += 1
        at = index
        while at < len(stretches) and stretches[at].first < span.last:
            cycles = min(span.last, stretches[at].last) - max(span.first, stretches[at].first)
            if cycles > 0:
                yield span, stretches[at], cycles
            at += 1


def _stretches(section: Sequence[Event], start: int, config: Config, costs: Costs) -> list[Stretch]:
    """Return the cycles of a section, in order and without a gap, each with its reason."""
    # From the last vector that enters the array to the last sum.
    latency = config.rows + config.columns + costs.matrix
    posted = _posters(section)
    loads = [event for event in section if event.lane in ("load", "weights")]
    stretches: list[Stretch] = []
    at = start
    for event in (e for e in section if e.lane == "matrix"):
        if event.begin > at:
            cause = _cause(event, at - latency, posted[event.number], costs)
            fetched = cause == "instructions"
            gap = Stretch(at, event.begin, cause)
            stretches += _fetches(at, event.begin, loads) if fetched else [gap]
        stretches.append(Stretch(event.begin, event.end, "array", event))
        at = event.end
    # After the last pass, the unit that is done next is the reason.
    later = sorted((e for e in section if e.end > at and e.lane != "matrix"), key=lambda e: e.end)
    for event in later:
        if event.end > at and event.lane not in ("load", "weights"):
            stretches.append(Stretch(at, event.end, _OF_LANE.get(event.lane, "instructions")))
            at = event.end
    return stretches


def _cause(event: Event, before: int, posted: Sequence[Event], costs: Costs) -> str:
    """Return why a pass began later than ``before``, the end of the vectors of the last pass.

    ``posted`` are the instructions that posted the semaphores it waited for.
    """
    if event.taken <= before:
        return "passes"
    latest = max(posted, key=lambda poster: poster.end, default=None)
    # From the semaphore to the unit it takes one cycle to grant, and one to take.
    if latest and event.taken <= latest.end + costs.post + 2:
        return _OF_LANE.get(latest.lane, "passes")
    return "instructions"


def _fetches(first: int, last: int, loads: Sequence[Event]) -> Iterator[Stretch]:
    """Yield the stretches of cycles without an instruction: with data on the bus, and without."""
    for load in loads:
        begin, end = max(first, load.begin), min(last, load.end)
        if begin < end:
            if first < begin:
                yield Stretch(first, begin, "instructions")
            yield Stretch(begin, end, "bus")
            first = end
    if first < last:
        yield Stretch(first, last, "instructions")


def _posters(section: Sequence[Event]) -> dict[int, list[Event]]:
    """Return for each instruction those that posted the semaphores it waited for."""
    posts: dict[int, list[Event]] = defaultdict(list)
    waits: dict[int, list[Event]] = defaultdict(list)
    for event in section:
        for semaphore in bits(event.instruction.post):
            posts[semaphore].append(event)
        for semaphore in bits(event.instruction.wait):
            waits[semaphore].append(event)
    result: dict[int, list[Event]] = defaultdict(list)
    for semaphore, waiting in waits.items():
        posters = sorted(posts[semaphore], key=lambda event: event.end)
        waiting.sort(key=lambda event: event.taken)
        for event, poster in zip(waiting, posters, strict=False):
            result[event.number].append(poster)
    return result


def reason(row: Row, cycles_of: Causes) -> str:
    """Return the reason why a layer takes more cycles than its bound, in one line."""
    if row.runs_on == "host":
        return "runs on the host, which takes no cycles of the core"
    if row.bound and row.cycles <= row.bound:
        return "none: at its bound or below"
    lost = {CAUSES[cause]: cycles for cause, cycles in cycles_of.items() if cause != "array"}
    if row.bound:
        lost["the array makes more passes than the bound counts"] = cycles_of["array"] - row.bound
    words, cycles = max(lost.items(), key=lambda item: item[1])
    return f"{words}: {cycles:,} cycles" if cycles > 0 else "none"
