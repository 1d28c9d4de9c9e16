"""Separate processes, with limits, that run a function on one argument after another."""

import importlib
import multiprocessing
import os
import resource
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

#: Seconds for a process to be gone that has closed its end.
_PATIENCE = 5


class Result(NamedTuple):
    """Result of a call: ``end`` is ``done``, ``hang`` or ``died``."""

    end: str
    value: Any = None


class Sandbox:
    """A process that runs a function; it is begun anew after it has died or been killed.

    ``function``: module and name, with a colon between them; ``seconds``: time for each argument;
    ``memory_bytes``: address space of the process, all libraries included.
    """

    def __init__(self, function: str, *, seconds: float, memory_bytes: int) -> None:
        self._function = function
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._started: tuple[subprocess.Popen[bytes], Connection] | None = None

    def __call__(self, argument: Any) -> Result:
        """Run the function on an argument."""
        if self._started is None:
            self._started = self._start()
        process, connection = self._started
        try:
            connection.send(argument)
            if not connection.poll(self._seconds):
                self.close()
                return Result("hang")
            return Result("done", connection.recv())
        except (OSError, EOFError):
            with suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
            self.close()
            return Result("died", process.returncode)

    def close(self) -> None:
        """Kill the process."""
        if self._started is not None:
            process, connection = self._started
            process.kill()
            process.wait()
            connection.close()
            self._started = None

    def _start(self) -> tuple[subprocess.Popen[bytes], Connection]:
        connection, theirs = multiprocessing.Pipe()
        own = [self._function, str(self._memory_bytes), str(theirs.fileno())]
        # Threads of libraries take address space without using it.
        alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, *own],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **alone, "PYTHONPATH": os.pathsep.join(sys.path)},
                pass_fds=[theirs.fileno()],
            )
        # The first result reports that all modules are imported.
        with suppress(EOFError):
            connection.recv()
        return process, connection


def _serve(function: str, memory_bytes: int, connection: Connection) -> None:
    module, name = function.split(":")
    call = getattr(importlib.import_module(module), name)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection.send(None)
    with suppress(EOFError):
        while True:
            argument = connection.recv()
            connection.send(call(argument))


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))
