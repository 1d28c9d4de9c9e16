"""A Dask cluster of processes of this machine, which tests can end."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

#: Folders of modules with functions that workers run.
_FOLDERS = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "campaigns")]
#: Seconds that a scheduler may take to start.
_PATIENCE = 60
_OPTIONS = {
    "scheduler": ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"),
    "worker": ("--no-nanny", "--nthreads", "1", "--no-dashboard"),
}


class Cluster(NamedTuple):
    """Address of a scheduler, its process and those of its workers."""

    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Start a scheduler and workers, each a separate process; end them afterwards.

    ``folder``: of their files and of ``log``, their output.
    """
    known = folder / "scheduler.json"
    paths = os.pathsep.join([*_FOLDERS, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    with ExitStack() as stack, (folder / "log").open("w") as log:

        def start(kind: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *_OPTIONS[kind]]
            command += ["--scheduler-file", str(known)]
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        scheduler = start("scheduler")
        started = [start("worker") for _ in range(workers)]
        limit = time.monotonic() + _PATIENCE
        # The file is empty at first.
        while not known.exists() or not known.read_text():
            assert time.monotonic() < limit, (folder / "log").read_text()
            time.sleep(0.1)
        yield Cluster(json.loads(known.read_text())["address"], scheduler, started)
