"""What each layer takes: one row a layer, as text, CSV or JSON."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from celosia.hw.arch.config import PARAMETER_BYTES, Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sw.program import Program, Section

__all__ = ["Row", "as_csv", "as_json", "as_text", "rows"]


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
        Estimated, for one batch. A cycle counts for the layer whose instruction ends next.
    cycles_per_input : float
        The same divided by the batch.
    utilisation : float
        Share of the multipliers' cycles that the layer asks for, 0 to 1.
    bytes : int
        Moved over the bus for one batch.
    setup_bytes : int
        Moved once, of constants that stay.
    weights : str
        ``resident`` or ``streamed``.
    """

    layer: str
    operator: str
    runs_on: str
    macs: int
    cycles: int
    cycles_per_input: float
    utilisation: float
    bytes: int
    setup_bytes: int
    weights: str


def rows(program: Program, finishes: Sequence[int]) -> list[Row]:
    """Return a row for each layer, and the total last.

    Parameters
    ----------
    program : Program
        What to report on.
    finishes : sequence of int
        For each instruction of ``main`` the estimated cycle of its last effect.
    """
    config = program.config
    cells = config.rows * config.columns
    cycles = [0] * len(program.layers)
    before = 0
    order = sorted(range(program.main.count), key=lambda index: finishes[index])
    for index in order:
        layer = program.main.layers[index]
        cycles[layer if layer >= 0 else -1] += finishes[index] - before
        before = finishes[index]
    moved, once = (_moved(program, s) for s in (program.main, program.setup))

    def row(name: str, operator: str, runs_on: str, weights: str, numbers: list[int]) -> Row:
        macs, spent, each, setup = numbers
        share = macs * program.batch / (spent * cells) if spent else 0.0
        per_input = spent / program.batch
        return Row(name, operator, runs_on, macs, spent, per_input, share, each, setup, weights)

    table = [
        row(
            layer.name,
            layer.kind,
            layer.runs_on,
            "resident" if layer.resident else "streamed",
            [layer.macs, cycles[number], moved[number], once[number]],
        )
        for number, layer in enumerate(program.layers)
    ]
    total = [program.macs, sum(cycles), sum(moved), sum(once)]
    return [*table, row("total", "", "", "", total)]


def _moved(program: Program, section: Section) -> list[int]:
    """Return the bytes that instructions of each layer move over the bus."""
    moved = [0] * len(program.layers)
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
            return instruction.count * PARAMETER_BYTES
    return 0


def as_csv(table: Sequence[Row]) -> str:
    """Return the rows as CSV, with a line of names first."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in table)
    return text.getvalue()


def as_json(program: Program, table: Sequence[Row], setup_cycles: int) -> str:
    """Return the rows and what they hold for as JSON."""
    content = {
        "model": program.name,
        "preset": program.config.name,
        "batch": program.batch,
        "setup_cycles": setup_cycles,
        "layers": [asdict(row) for row in table[:-1]],
        "total": asdict(table[-1]),
    }
    return json.dumps(content, indent=2) + "\n"


def as_text(program: Program, table: Sequence[Row], setup_cycles: int) -> str:
    """Return the rows as a table for people."""
    heads = ["layer", "operator", "runs on", "MACs", "cycles", "per input", "used", "bytes"]
    heads += ["once", "weights"]
    cells = [
        [
            row.layer if len(row.layer) <= 32 else row.layer[:29] + "...",
            row.operator,
            row.runs_on,
            f"{row.macs:,}",
            f"{row.cycles:,}",
            f"{row.cycles_per_input:,.1f}",
            f"{row.utilisation:.1%}",
            f"{row.bytes:,}",
            f"{row.setup_bytes:,}",
            row.weights,
        ]
        for row in table
    ]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    left = {0, 1, 2, 9}

    def line(words: Sequence[str]) -> str:
        padded = (
            word.ljust(width) if place in left else word.rjust(width)
            for place, (word, width) in enumerate(zip(words, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    rule = "-" * (sum(widths) + 2 * len(widths) - 2)
    head = f"{program.name} on {program.config.name}, batch {program.batch}; cycles are estimates"
    foot = f"one-time load: {setup_cycles:,} cycles"
    body = [line(row) for row in cells]
    return "\n".join([head, "", line(heads), rule, *body[:-1], rule, body[-1], "", foot, ""])
