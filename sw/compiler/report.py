"""Cost of each layer: one row a layer, as CSV or JSON."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

from celosia.hw.arch.isa import Unit
from celosia.sw.ir.parts import HostOperator, Section, moved_bytes
from celosia.sw.ir.program import Program
from celosia.sw.operators.work import host_work, macs


class Alone(NamedTuple):
    """Cycles of one layer's sections, run one at a time: estimated, and counted by the RTL."""

    estimated: int
    counted: int


@dataclass(frozen=True)
class Measured:
    """Cycles that the RTL has counted for one batch, besides the estimates."""

    layers: tuple[Alone, ...]  #: Cycles of each layer alone.
    whole: Alone  #: Cycles of the whole program, with layers that overlap.
    setup: Alone  #: Cycles of the one-time load.


@dataclass(frozen=True)
class Row:
    """One layer, or the total."""

    #: Name and operator; ``total`` and nothing for the total. No two layers have the same name.
    layer: str
    operator: str = ""
    runs_on: str = ""  #: ``core`` or ``host``.
    macs: int = 0  #: Multiplications for each input; of the total those of the core.
    cycles: int = 0  #: Estimated, for one batch, with repeated loads of its part, see ``spans``.
    cycles_per_input: float = 0.0  #: The same divided by the batch.
    #: Share of the multipliers' cycles that the model uses. Above 1 if the core leaves out pixels
    #: that no window of a pooling reads.
    utilisation: float = 0.0
    bytes: int = 0  #: Moved over the bus for one batch.
    setup_bytes: int = 0  #: Resident constants, moved once.
    weights: str = ""  #: ``resident`` or ``streamed``; empty if there are none.
    bound: int = 0  #: Least cycles for one batch in the array.
    note: str = ""  #: Remark for people on how it runs.
    place: int = -1  #: Number of the operator in the model; −1 of the total.
    #: Cycles for one batch of the layer alone, estimated and counted by the RTL.
    estimated_alone: int | None = None
    counted_alone: int | None = None
    difference: float | None = None  #: Estimate above the count, as a share of the count.


def rows(
    program: Program,
    finishes: Sequence[int],
    bounds: Sequence[int] = (),
    measured: Measured | None = None,
) -> list[Row]:
    """Return a row for each layer and each operator of the host, in order, and the total last.

    - ``finishes``: for each instruction that runs for a batch the estimated cycle of its last
      effect; for several sections, ``Program.per_batch``, one after the other.
    - ``bounds``: for each layer the least cycles in the array; 0 unless given.
    - ``measured``: counts of the RTL.
    """
    cycles = _by_layer(program, finishes)
    moved, once = _moved(program, program.per_batch), _moved(program, program.once)
    bounds = bounds or [0] * len(program.layers)
    figures = list(zip(cycles, moved, once, bounds, strict=True))
    table = [
        replace(
            _row(program, layer.name, layer.macs, *numbers),
            operator=layer.kind,
            runs_on=layer.runs_on,
            weights=_weights(layer.weight_bytes, layer.resident),
            note=layer.note,
            place=layer.place,
        )
        for layer, numbers in zip(program.layers, figures, strict=True)
    ]
    sums = [sum(each[n] for each in figures) for n in range(4)]
    total = _row(program, "total", program.macs, *sums)
    if measured:
        table = [_with(row, alone) for row, alone in zip(table, measured.layers, strict=True)]
        total = _with(total, Alone(*map(sum, zip(*measured.layers, strict=True))))
    return [*_distinct(_in_order(program, table)), total]


def _distinct(table: Sequence[Row]) -> list[Row]:
    """Return the rows with a number after each name that an earlier row has."""
    result: list[Row] = []
    taken = {row.layer for row in table}
    seen: set[str] = set()
    for row in table:
        name, number = row.layer, 1
        while name in seen or (number > 1 and name in taken):
            number += 1
            name = f"{row.layer} ({number})"
        seen.add(name)
        result.append(replace(row, layer=name))
    return result


def _in_order(program: Program, table: Sequence[Row]) -> list[Row]:
    """Return the rows of layers, with those of the host's operators between them."""
    result: list[Row] = []
    left = list(table)
    for step in program.steps:
        if isinstance(step, HostOperator):
            texts = step.name, step.kind, "host"
            result.append(Row(*texts, macs=macs(step), note=step.note, place=step.place))
            continue
        count = len({n for s in (*step.setups, *step.mains) for n in s.layers} - {-1})
        result += left[:count]
        left = left[count:]
    return result + left


def _row(
    program: Program, name: str, count: int, cycles: int, moved: int, once: int, bound: int
) -> Row:
    """Return a row with its numbers and the figures computed from them."""
    most = cycles * program.config.rows * program.config.columns
    return Row(
        name,
        macs=count,
        cycles=cycles,
        cycles_per_input=cycles / program.batch,
        utilisation=count * program.batch / most if most else 0.0,
        bytes=moved,
        setup_bytes=once,
        bound=bound,
    )


def _with(row: Row, alone: Alone) -> Row:
    """Return a row with the counts of its layer."""
    return replace(
        row,
        estimated_alone=alone.estimated,
        counted_alone=alone.counted,
        difference=difference(alone),
    )


def _weights(count: int, resident: bool) -> str:
    return ("resident" if resident else "streamed") if count else ""


def difference(cycles: Alone) -> float:
    """Return the estimate less the count, as a share of the count."""
    return cycles.estimated / cycles.counted - 1 if cycles.counted else 0.0


class Span(NamedTuple):
    """Cycles of one batch that count for a layer."""

    section: int  #: Index in ``Program.per_batch``.
    layer: int  #: Number of the layer.
    #: From the start of the section; ``last`` is the first cycle after the span.
    first: int
    last: int


def spans(program: Program, finishes: Sequence[int]) -> Iterator[Span]:
    """Yield the cycles that count for each layer, in order; arguments as in ``rows``.

    A cycle counts for the layer whose instruction of the array, the vector unit or the store unit
    ends next.
    """
    first = 0
    of = {s.address: part for part in program.parts for s in (*part.setups, *part.mains)}
    for number, section in enumerate(program.per_batch):
        part, ends = of[section.address], finishes[first : first + section.count]
        first += section.count
        before = 0
        loads = section in part.setups
        last = max(*section.layers, *(part.mains[-1].layers if loads else ()))
        work = (n for n, x in enumerate(section.instructions) if loads or x.unit is not Unit.LOAD)
        for index in sorted(work, key=lambda index: ends[index]):
            # HALT belongs to no layer and counts for the last one.
            layer = section.layers[index]
            yield Span(number, layer if layer >= 0 else last, before, ends[index])
            before = ends[index]


def _by_layer(program: Program, finishes: Sequence[int]) -> list[int]:
    """Return the estimated cycles of each layer."""
    cycles = [0] * len(program.layers)
    for span in spans(program, finishes):
        cycles[span.layer] += span.last - span.first
    return cycles


def _moved(program: Program, sections: Sequence[Section]) -> list[int]:
    """Return the bytes that instructions of each layer move over the bus."""
    moved = [0] * len(program.layers)
    for section in sections:
        for instruction, layer in zip(section.instructions, section.layers, strict=True):
            if layer >= 0:
                moved[layer] += moved_bytes(instruction, program.config)
    return moved


def as_csv(table: Sequence[Row]) -> str:
    """Return the rows as CSV, with a line of names first; cells without a count are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in table)
    return text.getvalue()


def as_dict(
    program: Program,
    table: Sequence[Row],
    setup_cycles: int,
    measured: Measured | None = None,
    *,
    peak: int,
    again: int = 0,
    clock_hz: float | None = None,
) -> dict[str, Any]:
    """Return the rows and the figures of the program; without a count, they are None.

    ``peak`` are the bytes of the unified buffer that the program uses, ``again`` the cycles that
    load constants again. Fields: ``docs/reference/json.md``.
    """
    total = table[-1]
    cycles = measured.whole.counted if measured else total.cycles
    pace = clock_hz * program.batch / cycles if clock_hz and cycles else None
    return {
        "model": program.name,
        "preset": program.config.name,
        "batch": program.batch,
        "cycles": cycles,
        "cycles_estimated": total.cycles,
        "cycles_measured": measured.whole.counted if measured else None,
        "cycles_per_input": total.cycles_per_input,
        "setup_cycles": setup_cycles,
        "reload_cycles": again,
        "bound": total.bound,
        "macs": total.macs,
        "utilisation": total.utilisation,
        "bytes": total.bytes,
        "setup_bytes": total.setup_bytes,
        "peak_bytes": peak,
        "clock_hz": clock_hz,
        "inferences_per_second": pace,
        "host": host_work(program)._asdict(),
        "layers": [asdict(row) for row in table[:-1]],
        "total": asdict(total),
        "whole": measured.whole._asdict() if measured else None,
        "setup": measured.setup._asdict() if measured else None,
    }
