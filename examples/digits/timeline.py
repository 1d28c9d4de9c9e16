"""Estimated times of the instructions of a program, for the page."""

from typing import Any

from celosia.sw.profile import Profile

#: Units with a queue, as the page names them, and the lanes of a profile that each has.
_UNITS = {
    "load": ("load", "weights"),
    "store": ("store",),
    "matrix": ("matrix",),
    "vector": ("vector",),
}


def timeline(profile: Profile) -> dict[str, Any]:
    """Return the busy spans of each unit and the costs of each layer in one run, for JSON.

    Parameters
    ----------
    profile : Profile
        Of the program. Its sections follow one another without a gap.

    Returns
    -------
    dict
        ``cycles`` of the run; ``units``, each with name, busy cycles, and spans of first cycle,
        last cycle, layer (-1 for none) and opcode; ``layers``, each with name, operator,
        multiplications, cycles, bound and note.
    """
    return {
        "cycles": profile.cycles,
        "units": [
            {
                "name": unit,
                "busy": sum(profile.busy[lane] for lane in lanes),
                "spans": [
                    [event.taken, event.end, event.layer, event.instruction.opcode.name]
                    for event in profile.events
                    if event.lane in lanes
                ],
            }
            for unit, lanes in _UNITS.items()
        ],
        "layers": [
            {
                "name": layer.label,
                "operator": layer.row.operator,
                "macs": layer.row.macs,
                "cycles": layer.row.cycles,
                "bound": layer.row.bound,
                "note": layer.row.note,
            }
            for layer in profile.layers
            if layer.row.runs_on == "core"
        ],
    }
