"""Separate processes, with limits, that run a function on one argument after another."""

import importlib
import os
import pickle
import resource
import select
import struct
import subprocess
import sys
import time
from contextlib import suppress
from typing import IO, Any, NamedTuple

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
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, argument: Any) -> Result:
        """Run the function on an argument."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        limit = time.monotonic() + self._seconds
        data = bytearray()
        try:
            _send(process.stdin, argument)
            while len(data) < 8 or len(data) < 8 + struct.unpack_from("<Q", data)[0]:
                ready, _, _ = select.select(
                    [process.stdout], [], [], max(0, limit - time.monotonic())
                )
                if not ready:
                    self.close()
                    return Result("hang")
                more = os.read(process.stdout.fileno(), 1 << 20)
                if not more:
                    raise EOFError
                data += more
        except (OSError, EOFError):
            with suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
            self.close()
            return Result("died", process.returncode)
        return Result("done", pickle.loads(bytes(data[8:])))

    def close(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-m", __name__, self._function, str(self._memory_bytes)]
            # Threads of libraries take address space without using it.
            alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **alone, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            # The first result reports that all modules are imported.
            assert self._process.stdout is not None
            self._process.stdout.read(1)
        return self._process


def _send(file: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value)
    file.write(struct.pack("<Q", len(data)) + data)
    file.flush()


def _serve(function: str, memory_bytes: int) -> None:
    # Output of libraries must not mix with the results.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    module, name = function.split(":")
    call = getattr(importlib.import_module(module), name)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    results.write(b".")
    results.flush()
    while head := sys.stdin.buffer.read(8):
        argument = pickle.loads(sys.stdin.buffer.read(struct.unpack("<Q", head)[0]))
        _send(results, call(argument))


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
