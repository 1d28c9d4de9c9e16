"""Cycles of each unit by the cause of waiting."""

from collections.abc import Mapping

from celosia.sw.compiler.emit.synchronise import SEMAPHORE


def by_cause(counters: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Return the counters of a run with names for the causes of waiting.

    Semaphores are named by the unit that posts them, for instance ``wait load``. The sequencer has
    no results: its ``drain``, here ``queue``, counts an instruction that a full queue or a fence
    holds up.

    Parameters
    ----------
    counters : mapping of str to mapping
        For each unit, cycles by class: ``Statistics.counters``.

    Returns
    -------
    dict of str to dict
        For each unit, cycles by cause.
    """
    posters = {f"semaphore_{n}": pair[0].name.lower() for pair, n in SEMAPHORE.items()}
    result: dict[str, dict[str, int]] = {}
    for unit, classes in counters.items():
        sums = result.setdefault(unit, {})
        for name, cycles in classes.items():
            cause = f"wait {posters[name]}" if name in posters else name
            if (unit, name) == ("sequencer", "drain"):
                cause = "queue"
            sums[cause] = sums.get(cause, 0) + cycles
    return result
