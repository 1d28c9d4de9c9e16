"""Cost of each layer: one row a layer, as text, CSV or JSON."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from os.path import commonprefix
from typing import NamedTuple

from celosia.hw.arch.config import PARAMETER_BYTES, TABLE_BYTES, Config
from celosia.hw.arch.isa import Instruction, Kind, Opcode, Unit
from celosia.sw.ir.parts import HostOperator, Section
from celosia.sw.ir.program import Program

__all__ = ["Alone", "Measured", "Row", "as_csv", "as_json", "as_text", "rows"]

#: Longest name of a layer in the table for people.
_NAME = 32


class Alone(NamedTuple):
    """Cycles of one layer's sections, run one at a time: estimated, and counted by the RTL."""

    estimated: int
    counted: int


@dataclass(frozen=True)
class Measured:
    """Cycles that the RTL has counted for one batch, beside the estimates.

    Parameters
    ----------
    layers : tuple of Alone
        By layer, each on its own.
    whole : Alone
        The whole program, layers overlapping.
    setup : Alone
        The one-time load.
    """

    layers: tuple[Alone, ...]
    whole: Alone
    setup: Alone


@dataclass(frozen=True)
class Row:
    """One layer, or all of them together.

    Parameters
    ----------
    layer, operator : str
        Name and operator; ``total`` and nothing for the sum.
    runs_on : str
        ``core`` or ``host``.
    macs : int
        Multiplications for each input.
    cycles : int
        Estimated, for one batch, with what its part loads again. A cycle counts for the layer whose
        instruction of the array, the vector unit or the store unit ends next.
    cycles_per_input : float
        The same divided by the batch.
    utilisation : float
        Share of the multipliers' cycles that the model has. Above 1 where the core leaves out
        pixels that no window of a pooling reads.
    bytes : int
        Moved over the bus for one batch.
    setup_bytes : int
        Moved once, of constants that stay.
    weights : str
        ``resident`` or ``streamed``; nothing where there are none.
    bound : int
        Cycles for one batch that the array takes at least.
    note : str
        What people should know about how it runs.
    estimated_alone, counted_alone : int, optional
        Cycles for one batch of the layer on its own, estimated and counted by the RTL.
    difference : float, optional
        By how much the former is above the latter, as a share of it.
    """

    layer: str
    operator: str = ""
    runs_on: str = ""
    macs: int = 0
    cycles: int = 0
    cycles_per_input: float = 0.0
    utilisation: float = 0.0
    bytes: int = 0
    setup_bytes: int = 0
    weights: str = ""
    bound: int = 0
    note: str = ""
    estimated_alone: int | None = None
    counted_alone: int | None = None
    difference: float | None = None


def rows(
    program: Program,
    finishes: Sequence[int],
    bounds: Sequence[int] = (),
    measured: Measured | None = None,
) -> list[Row]:
    """Return a row for each layer and each operator of the host, in order, and the total last.

    Parameters
    ----------
    program : Program
        What to report on.
    finishes : sequence of int
        For each instruction that runs for a batch the estimated cycle of its last effect; of
        several sections, ``Program.each``, one after the other.
    bounds : sequence of int
        For each layer the cycles that the array takes at least; 0 unless given.
    measured : Measured, optional
        What the RTL has counted.
    """
    cycles = _by_layer(program, finishes)
    moved, once = _moved(program, program.each), _moved(program, program.once)
    bounds = bounds or [0] * len(program.layers)
    figures = list(zip(cycles, moved, once, bounds, strict=True))
    table = [
        replace(
            _row(program, layer.name, layer.macs, *numbers),
            operator=layer.kind,
            runs_on=layer.runs_on,
            weights=_weights(layer.weight_bytes, layer.resident),
            note=layer.note,
        )
        for layer, numbers in zip(program.layers, figures, strict=True)
    ]
    sums = [sum(each[n] for each in figures) for n in range(4)]
    total = _row(program, "total", program.macs, *sums)
    if measured:
        table = [_with(row, alone) for row, alone in zip(table, measured.layers, strict=True)]
        total = _with(total, Alone(*map(sum, zip(*measured.layers, strict=True))))
    return [*_in_order(program, table), total]


def _in_order(program: Program, table: Sequence[Row]) -> list[Row]:
    """Return the rows of layers, with those of the host's operators between them."""
    result: list[Row] = []
    left = list(table)
    for step in program.steps:
        if isinstance(step, HostOperator):
            result.append(Row(step.name, step.kind, "host", note=step.note))
            continue
        count = len({*step.setup.layers, *step.main.layers} - {-1})
        result += left[:count]
        left = left[count:]
    return result + left


def _row(
    program: Program, name: str, macs: int, cycles: int, moved: int, once: int, bound: int
) -> Row:
    """Return a row with its numbers and what follows from them."""
    most = cycles * program.config.rows * program.config.columns
    return Row(
        name,
        macs=macs,
        cycles=cycles,
        cycles_per_input=cycles / program.batch,
        utilisation=macs * program.batch / most if most else 0.0,
        bytes=moved,
        setup_bytes=once,
        bound=bound,
    )


def _with(row: Row, alone: Alone) -> Row:
    """Return a row with what was measured."""
    return replace(
        row,
        estimated_alone=alone.estimated,
        counted_alone=alone.counted,
        difference=_difference(alone),
    )


def _weights(count: int, resident: bool) -> str:
    return ("resident" if resident else "streamed") if count else ""


def _difference(cycles: Alone) -> float:
    return cycles.estimated / cycles.counted - 1 if cycles.counted else 0.0


def _by_layer(program: Program, finishes: Sequence[int]) -> list[int]:
    """Return the estimated cycles of each layer."""
    cycles = [0] * len(program.layers)
    first = 0
    of = {section.address: part for part in program.parts for section in (part.setup, part.main)}
    for section in program.each:
        part, ends = of[section.address], finishes[first : first + section.count]
        first += section.count
        before = 0
        work = (
            n
            for n, x in enumerate(section.instructions)
            if x.unit is not Unit.LOAD or section is part.setup
        )
        for index in sorted(work, key=lambda index: ends[index]):
            # What is of no layer, HALT, counts for the last one.
            layer = section.layers[index]
            layer = layer if layer >= 0 else max(*section.layers, *part.main.layers)
            cycles[layer] += ends[index] - before
            before = ends[index]
    return cycles


def _moved(program: Program, sections: Sequence[Section]) -> list[int]:
    """Return the bytes that instructions of each layer move over the bus."""
    moved = [0] * len(program.layers)
    for section in sections:
        for instruction, layer in zip(section.instructions, section.layers, strict=True):
            if layer >= 0:
                moved[layer] += _bytes(instruction, program.config)
    return moved


def _bytes(instruction: Instruction, config: Config) -> int:
    match instruction.opcode:
        case Opcode.LOAD | Opcode.STORE:
            return instruction.rows * instruction.length
        case Opcode.LOAD_WEIGHTS:
            return instruction.tiles * config.tile_bytes
        case Opcode.LOAD_PARAMS:
            channels = instruction.kind == Kind.CHANNELS.value
            return instruction.count * (PARAMETER_BYTES if channels else TABLE_BYTES)
    return 0


def as_csv(table: Sequence[Row]) -> str:
    """Return the rows as CSV, with a line of names first; what was not measured stays empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in table)
    return text.getvalue()


def as_json(
    program: Program,
    table: Sequence[Row],
    setup_cycles: int,
    measured: Measured | None = None,
    *,
    peak: int,
    again: int = 0,
) -> str:
    """Return the rows and what they hold for as JSON; what was not measured is null.

    ``peak`` is how many bytes of the unified buffer the program uses, ``again`` how many of the
    cycles load constants again. Fields: ``docs/reference/json.md``.
    """
    total = table[-1]
    content = {
        "model": program.name,
        "preset": program.config.name,
        "batch": program.batch,
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
        "layers": [asdict(row) for row in table[:-1]],
        "total": asdict(total),
        "whole": measured.whole._asdict() if measured else None,
        "setup": measured.setup._asdict() if measured else None,
    }
    return json.dumps(content, indent=2) + "\n"


def _short(name: str) -> str:
    """Return a name of at most ``_NAME`` characters.

    Of a name that a converter has put together from many, ``a/b/Relu;a/b/BiasAdd`` for instance,
    what they have in common is left, ``a/b``; of a long path its end.
    """
    parts = name.split(";")
    if len(parts) > 1:
        name = commonprefix(parts).rpartition("/")[0] or parts[0]
    while len(name) > _NAME and "/" in name:
        name = name.partition("/")[2]
    return name if len(name) <= _NAME else "..." + name[3 - _NAME :]


def as_text(
    program: Program,
    table: Sequence[Row],
    setup_cycles: int,
    measured: Measured | None = None,
    *,
    peak: int,
    again: int = 0,
) -> str:
    """Return the rows as a table for people, with what was measured if there is any.

    ``peak`` and ``again`` are as of ``as_json``.
    """
    title = f"{program.name} on {program.config.name}, batch {program.batch}"
    if measured:
        title += "; cycles of each layer on its own"
        foot = [
            f"{name}: estimated {cycles.estimated:,}, measured {cycles.counted:,} cycles "
            f"({_difference(cycles):+.1%})"
            for name, cycles in (
                ("whole program", measured.whole),
                ("one-time load", measured.setup),
            )
        ]
        lines = _measured_lines(table)
    else:
        title += "; cycles are estimates"
        foot = [f"one-time load: {setup_cycles:,} cycles"]
        lines = _estimated_lines(table)
    notes = [f"{_short(row.layer)}: {row.note}" for row in table if row.note]
    if again:
        notes.append(f"loaded again for each batch, between parts: {again:,} of the cycles")
    notes.append(f"unified buffer: {peak:,} of {program.config.unified_bytes:,} bytes")
    return "\n".join([title, "", *lines, "", *notes, *foot, ""])


def _estimated_lines(table: Sequence[Row]) -> list[str]:
    heads = ["layer", "operator", "runs on", "MACs", "bound", "cycles", "per input", "used"]
    heads += ["bytes", "once", "weights"]
    cells = [
        [
            _short(row.layer),
            row.operator,
            row.runs_on,
            f"{row.macs:,}",
            f"{row.bound:,}",
            f"{row.cycles:,}",
            f"{row.cycles_per_input:,.1f}",
            f"{row.utilisation:.1%}",
            f"{row.bytes:,}",
            f"{row.setup_bytes:,}",
            row.weights,
        ]
        for row in table
    ]
    return _lines(heads, cells, {0, 1, 2, 10})


def _measured_lines(table: Sequence[Row]) -> list[str]:
    heads = ["layer", "operator", "runs on", "MACs", "bound", "estimate", "measured", "difference"]
    cells = [
        [
            _short(row.layer),
            row.operator,
            row.runs_on,
            f"{row.macs:,}",
            f"{row.bound:,}",
            f"{row.estimated_alone or 0:,}",
            f"{row.counted_alone or 0:,}",
            f"{row.difference or 0.0:+.1%}",
        ]
        for row in table
    ]
    return _lines(heads, cells, {0, 1, 2})


def _lines(heads: Sequence[str], cells: Sequence[Sequence[str]], left: set[int]) -> list[str]:
    """Return a table whose last row is set apart; columns ``left`` are aligned to the left."""
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]

    def line(words: Sequence[str]) -> str:
        padded = (
            word.ljust(width) if place in left else word.rjust(width)
            for place, (word, width) in enumerate(zip(words, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    rule = "-" * (sum(widths) + 2 * len(widths) - 2)
    body = [line(row) for row in cells]
    return [line(heads), rule, *body[:-1], rule, body[-1]]
