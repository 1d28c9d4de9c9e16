"""Errors that end commands, their messages of one line, and lines of progress."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from celosia.hw.environment.extras import ToolError, install_command
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
    if isinstance(message, OSError) and message.strerror:
        name = "output" if message.filename is None else message.filename
        message = f"{name}: {message.strerror}"
    text = "".join(c if c.isprintable() else "?" for c in " ".join(str(message).split()))
    return text if len(text) <= _LINE else f"{text[: _LINE - 100]} ... {text[-90:]}"


def reporter() -> Callable[[str], None]:
    """Return a function that prints a line, with the minutes and seconds since now."""
    start = time.monotonic()

    def report(line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - start), 60)
        print(f"{minutes:3}:{seconds:02}  {line}", file=sys.stderr, flush=True)

    return report


@contextmanager
def needed_packages(extra: str = "synth") -> Iterator[None]:
    """Report in one line a package of an extra that is missing."""
    try:
        yield
    except ImportError as error:
        text = f"{error.name}: wanted this package, found none ({install_command(extra)})"
        raise Missing(text) from None
