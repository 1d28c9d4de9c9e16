"""Tables of a program in notebooks: inputs and outputs, layers."""

from collections.abc import Sequence

from celosia.hw.notebook import html_table
from celosia.sw.ir.graph import short_name
from celosia.sw.ir.labels import labelled
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
    heads = ("layer", "operator", "runs on", "multiplications")
    cells = [
        (
            label,
            step.kind,
            *((step.runs_on, step.macs) if isinstance(step, Layer) else ("host", "")),
        )
        for label, step in labelled(layers, host)
    ]
    return html_table(title, cells, heads)
