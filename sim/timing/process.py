"""Processes of the simulation of a core, and the events that they wait for."""

from collections.abc import Generator
from typing import Literal, NamedTuple

#: Events that processes wait for: an instruction enters a queue, a block of words has left the
#: sequencer, an instruction is taken by its unit, is finished by it; counts are posted; a burst is
#: requested, is on the address channel, is complete; a unit is ready for another instruction.
Event = Literal[
    "queued",
    "passed",
    "granted",
    "taken",
    "finished",
    "posted",
    "requested",
    "issued",
    "complete",
    "ready",
]

Process = Generator[int | Event, None, None]


class Times(NamedTuple):
    """Cycles of an instruction: its unit took it, and its last effect."""

    start: int
    finish: int
