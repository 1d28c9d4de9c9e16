"""Errors that end commands, and their messages of one line."""

from celosia.hw.environment.extras import ToolError
from celosia.sim.rtl.simulators import SimulatorNotFound
from celosia.sim.rtl.verilate import RtlError
from celosia.sw.driver.device import DeviceError
from celosia.sw.workers.parcel import WorkersError

#: Errors of input that cannot be used: those of all packages are a ValueError.
BAD_INPUT = (ValueError, OSError)

#: Characters of a message at most.
_LINE = 500


class Failure(RuntimeError):
    """A failure that is not one of the input; the message is one line."""


class Missing(Failure):
    """This machine lacks something; the message is one line."""


#: Errors of tools, devices, workers and comparisons.
FAILED = (DeviceError, Failure, RtlError, SimulatorNotFound, ToolError, WorkersError)


def line_of(message: object) -> str:
    """Return a message as one line that can be shown; the middle of a long one is left out."""
    text = "".join(c if c.isprintable() else "?" for c in " ".join(str(message).split()))
    return text if len(text) <= _LINE else f"{text[: _LINE - 100]} ... {text[-90:]}"
