"""Tables of a program in notebooks: inputs and outputs, layers."""

from collections.abc import Sequence

from celosia.hw.arch.notebook import html_table
from celosia.sw.ir.graph import short_name
from celosia.sw.ir.labels import labels
from celosia.sw.ir.parts import HostOperator, Layer, Port


def ends_table(title: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> str:
    """Return inputs and outputs as an HTML table."""
    rows = [
        (
            way,
            short_name(port.name),
            f"({', '.join(['N', *map(str, port.shape)])})",
            port.dtype,
            *(("", "") if port.dtype == "float32" else (port.scale, port.zero_point)),
        )
        for way, ports in (("input", inputs), ("output", outputs))
        for port in ports
    ]
    return html_table(title, rows, ("", "name", "shape", "type", "scale", "zero point"))


def layers_table(title: str, layers: Sequence[Layer], host: Sequence[HostOperator]) -> str:
    """Return layers and host operators as an HTML table, in the model's order."""
    rows: list[tuple[int, str, str, str, int | str]]
    rows = [(each.place, each.name, each.kind, each.runs_on, each.macs) for each in layers]
    rows += [(step.place, step.name, step.kind, "host", "") for step in host]
    rows.sort(key=lambda row: row[0])
    names = labels([row[1] for row in rows], [row[2] for row in rows])
    heads = ("layer", "operator", "runs on", "multiplications")
    cells = [(name, *row[2:]) for name, row in zip(names, rows, strict=True)]
    return html_table(title, cells, heads)
