"""A profile in the Chrome trace-event format, which Perfetto opens."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from celosia.hw.arch.isa import disassemble
from celosia.sw.profile.events import LANES
from celosia.sw.profile.figures import Profile
from celosia.sw.profile.losses import CAUSES

#: Lanes as threads of one process, from the top.
_THREADS = ("layer", "sequencer", *LANES)
_PROCESS = 1
#: Values of a counter, at most.
_MOST_VALUES = 4000


def as_trace(profile: Profile) -> str:
    """Return the trace as JSON: complete events for instructions, counters for the buffer.

    A cycle is a microsecond, unless the profile has a clock: then times are those of the clock.
    """
    clock = profile.estimates.clock_hz
    # Microseconds of a cycle.
    cycle = 1e6 / clock if clock else 1
    unit = f"1 cycle = {cycle:.6g} us" + (f", clock {clock:g} Hz" if clock else "")
    program = profile.program
    name = f"{program.name} on {program.config.name}, batch {program.batch}; {unit}"
    events = [*_names(name), *_layers(profile), *_instructions(profile), *_counters(profile)]
    for event in events:
        if event["ph"] != "M":
            event["ts"] = _rounded(event["ts"] * cycle)
        if event["ph"] == "X":
            event["dur"] = _rounded(event["dur"] * cycle)
    metadata = {"time": unit, "model": program.name, "preset": program.config.name}
    content = {
        "displayTimeUnit": "ns" if clock else "ms",
        "otherData": {**metadata, "batch": program.batch, "cycles": profile.total.cycles},
        "traceEvents": events,
    }
    return json.dumps(content, separators=(",", ":")) + "\n"


def _rounded(time: float) -> float:
    """Return microseconds to a picosecond; whole ones as an integer."""
    rounded = round(time, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def _names(process: str) -> Iterator[dict[str, Any]]:
    """Yield the names of process and threads, and the order of the threads."""
    yield {"ph": "M", "name": "process_name", "pid": _PROCESS, "args": {"name": process}}
    for tid, name in enumerate(_THREADS):
        of = {"ph": "M", "pid": _PROCESS, "tid": tid}
        shown = {"load": "load: activations", "weights": "load: weights, parameters"}
        yield of | {"name": "thread_name", "args": {"name": shown.get(name, name)}}
        yield of | {"name": "thread_sort_index", "args": {"sort_index": tid}}


def _complete(thread: str, name: str, begin: int, end: int, args: dict[str, Any]) -> dict[str, Any]:
    """Return a complete event of a thread."""
    tid = _THREADS.index(thread)
    event = {"ph": "X", "pid": _PROCESS, "tid": tid, "name": name, "cat": thread}
    return event | {"ts": begin, "dur": end - begin, "args": args}


def _layers(profile: Profile) -> Iterator[dict[str, Any]]:
    """Yield an event for each stretch of cycles that count for one layer."""
    by_number = {layer.number: layer for layer in profile.layers}
    stretches: list[list[int]] = []
    for _, layer, first, last in profile.spans:
        if stretches and stretches[-1][0] == layer and stretches[-1][2] == first:
            stretches[-1][2] = last
        elif first < last:
            stretches.append([layer, first, last])
    for number, first, last in stretches:
        layer = by_number[number]
        more = {words: layer.causes[cause] for cause, words in CAUSES.items()}
        row = layer.row
        figures = {"layer": row.layer, "operator": row.operator, "cycles": row.cycles}
        figures |= {"bound": row.bound, "loss": layer.loss}
        yield _complete("layer", layer.label, first, last, figures | more)


def _instructions(profile: Profile) -> Iterator[dict[str, Any]]:
    """Yield an event for the work of each instruction."""
    labels = {layer.number: layer.label for layer in profile.layers}
    for event in profile.events:
        args: dict[str, Any] = {"assembly": disassemble(event.instruction)}
        args |= {"index": event.number, "taken": event.taken, "begin": event.begin}
        if event.layer >= 0:
            args["layer"] = labels[event.layer]
        name = event.instruction.opcode.name
        yield _complete(event.lane, name, event.begin, event.end, args)


def _counters(profile: Profile) -> Iterator[dict[str, Any]]:
    """Yield the bytes of the unified buffer in use, where they change."""
    contents = profile.contents
    times = np.unique(np.concatenate([[0], contents.first, contents.last]))
    times = times[:: -(-len(times) // _MOST_VALUES)]
    before = -1
    for time, used in zip(times.tolist(), contents.used(times).tolist(), strict=True):
        if used != before:
            args = {"bytes": used}
            counter = {"ph": "C", "pid": _PROCESS, "name": "unified buffer in use"}
            yield counter | {"ts": time, "args": args}
        before = used
