"""Figures of a report in the files of Model Explorer, which shows them on the nodes of a model."""

from collections.abc import Callable, Sequence
from typing import Any

from celosia.sw.compiler.report import Row
from celosia.sw.ir.graph import Graph

#: Values of an operator: name of the file, name in the viewer, value of the rows of its layers.
_VALUES: tuple[tuple[str, str, Callable[[Sequence[Row]], Any]], ...] = (
    ("cycles", "cycles of a batch", lambda rows: sum(row.cycles for row in rows)),
    ("utilisation", "use of the multipliers", lambda rows: max(row.utilisation for row in rows)),
    ("device", "runs on", lambda rows: " and ".join(sorted({row.runs_on for row in rows}))),
)
#: Colours of the least and the greatest number.
_GRADIENT = [{"stop": 0, "bgColor": "white"}, {"stop": 1, "bgColor": "tomato"}]


def node_data(graph: Graph, rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Return the objects of Model Explorer's files by their names.

    Parameters
    ----------
    graph : Graph
        Graph of the model. A node is known by the name of its first result.
    rows : sequence of Row
        Rows of the report. Operators that are part of another one's layer have none.

    Returns
    -------
    dict of str to dict
        ``cycles``, ``utilisation`` and ``device``, each for all operators with rows.
    """
    layers: dict[int, list[Row]] = {}
    for row in rows:
        layers.setdefault(row.place, []).append(row)
    names = {
        operation.place: graph.tensors[operation.outputs[0]].name for operation in graph.operations
    }
    present = {names[place]: of for place, of in layers.items() if place in names}
    data = {}
    for file, title, value in _VALUES:
        results = {name: {"value": value(of)} for name, of in present.items()}
        data[file] = {"name": f"Celosia: {title}", "results": results}
        if file != "device":
            data[file]["gradient"] = _GRADIENT
    return data
