"""Work in forked processes without output, which send results through a pipe."""

import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_FORK: Any = multiprocessing.get_context("fork")

Report = Callable[[Any], None]


def start(work: Callable[..., None], *args: Any) -> tuple[Connection, Any]:
    """Start ``work(report, *args)`` in a forked process; its reports come out of the connection."""
    receive, send = _FORK.Pipe(duplex=False)

    def run() -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        try:
            work(lambda value: send.send((value, "")), *args)
        except BaseException:
            send.send((None, traceback.format_exc()))

    process = _FORK.Process(target=run)
    process.start()
    send.close()
    return receive, process


def received(receive: Connection) -> Any:
    """Return the next report of a process, None at its end.

    Raises ``RuntimeError`` if an exception ended it.
    """
    try:
        value, error = receive.recv()
    except EOFError:
        return None
    if error:
        raise RuntimeError(error)
    return value
