"""Estimated times of the instructions of a program, for the page."""

from typing import Any

from celosia.sw.compiler.compiled import Compiled
from celosia.sw.ir.labels import labels


def timeline(compiled: Compiled, *, latency: int = 32, bandwidth: float = 1.0) -> dict[str, Any]:
    """Return the busy spans of each unit and the costs of each layer in one run, for JSON.

    - ``compiled``: the program. The sections of several parts follow one another without a gap.
    - ``latency``, ``bandwidth``: of the external memory, see ``open_device``.

    Returns ``cycles`` of the run; ``units``, each with name, busy cycles, and spans of first cycle,
    last cycle, layer (-1 for none) and opcode; ``layers``, each with name, operator,
    multiplications, cycles, bound and note.
    """
    from celosia.sim.check.schedule import EXECUTING
    from celosia.sw.profile.estimates import estimates

    estimated = estimates(compiled, latency=latency, bandwidth=bandwidth)
    units: dict[str, dict[str, Any]] = {
        unit.name: {"name": unit.name.lower(), "busy": 0, "spans": []} for unit in EXECUTING
    }
    start = 0
    for section in compiled.program.each:
        found = estimated.sections[section.address]
        for cost in found.instructions:
            if cost.unit in EXECUTING:
                layer, opcode = section.layers[cost.index], section.instructions[cost.index].opcode
                span = [start + cost.start, start + cost.finish, layer, opcode.name]
                units[cost.unit.name]["spans"].append(span)
        for unit, busy in found.busy.items():
            units[unit.name]["busy"] += busy
        start += found.total
    rows = estimated.rows[:-1]
    names = labels([row.layer for row in rows], [row.operator for row in rows])
    return {
        "cycles": start,
        "units": list(units.values()),
        "layers": [
            {
                "name": label,
                "operator": row.operator,
                "macs": row.macs,
                "cycles": row.cycles,
                "bound": row.bound,
                "note": row.note,
            }
            for row, label in zip(rows, names, strict=True)
            if row.runs_on == "core"
        ],
    }
