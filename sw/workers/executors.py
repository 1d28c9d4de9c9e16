"""Shards on an executor: processes of this machine, or the workers of a Dask cluster."""

import logging
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from typing import Any, NamedTuple

from tqdm import tqdm

from celosia.hw.environment.extras import install_command
from celosia.sw.workers.parcel import Outcome, Parcel, WorkersError, carried_out

#: Times that processes may end while a shard is under way.
_MOST_LOST = 3
#: Shards under way for each thread of a cluster: one runs, the others wait.
_SHARDS = 3
#: Seconds in which a process must end, or a scheduler respond and have a worker.
_PATIENCE = 10


class _Shard(NamedTuple):
    """A shard, its number, and how often processes ended while it was under way."""

    number: int
    content: Any
    lost: int = 0


class Backend:
    """An executor, and what to do when it fails."""

    executor: Any  #: concurrent.futures.Executor.
    count = 1  #: Its processes.

    @property
    def width(self) -> int:
        """Shards under way at most."""
        return self.count

    def require_alive(self) -> None:
        """Raise WorkersError if no shard can finish any more."""

    def require_again(self, error: BaseException) -> None:
        """Raise an error unless the shard of a future with this one can be done again."""
        raise error

    def restart(self) -> None:
        """Make the executor usable again."""

    def close(self) -> None:
        """End the work; shards that wait are dropped."""


def outcomes(
    backend: Backend, parcel: Parcel, shards: Iterator[tuple[int, Any]]
) -> Iterator[tuple[int, Outcome]]:
    """Yield number and outcome of shards, as they finish.

    Parameters
    ----------
    backend : Backend
        Executor.
    parcel : Parcel
        Function of a shard.
    shards : iterator of (int, object)
        Number and content of each shard.

    Raises
    ------
    WorkersError
        If processes end three times while a shard is under way, or the cluster gives up.
    """
    waiting = (_Shard(*shard) for shard in shards)
    running: dict[Future[Outcome], _Shard] = {}
    again: deque[_Shard] = deque()
    broken = False
    while True:
        while not broken and len(running) < backend.width:
            shard = again.popleft() if again else next(waiting, None)
            if shard is None:
                break
            try:
                running[_submit(backend.executor, parcel, shard)] = shard
            except BrokenProcessPool:
                again.append(_lost(shard))
                broken = True
        if not running:
            if not broken:
                return
            backend.restart()
            broken = False
            continue
        done = wait(running, _PATIENCE, FIRST_COMPLETED).done
        if not done:
            backend.require_alive()
        for future in done:
            shard = running.pop(future)
            try:
                outcome = future.result()
            except Exception as error:
                backend.require_again(error)
                again.append(_lost(shard))
                broken = True
            else:
                yield shard.number, outcome


def _submit(executor: Executor, parcel: Parcel, shard: _Shard) -> "Future[Outcome]":
    # Pickled here, because Dask would take tuples and lists apart.
    return executor.submit(carried_out, parcel, pickle.dumps(shard.content))


def _lost(shard: _Shard) -> _Shard:
    """Return a shard that was under way when a process ended, to be done again."""
    lost = shard.lost + 1
    if lost == _MOST_LOST:
        raise WorkersError(f"workers: processes ended {lost} times while shard {shard.number} ran")
    return shard._replace(lost=lost)


class Processes(Backend):
    """Processes of this machine, which end with it.

    - ``count``: number of processes, and of shards under way.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._others = set(multiprocessing.active_children())
        self.executor = self._started()

    def _started(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.count, context, initializer=_begin)

    def require_again(self, error: BaseException) -> None:
        """Raise an error that is not the end of a process."""
        if not isinstance(error, BrokenProcessPool):
            raise error

    def restart(self) -> None:
        """Start new processes: the executor ends all of them when one ends."""
        self.close()
        self.executor = self._started()

    def close(self) -> None:
        """End all processes, those with a shard at once."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - self._others:
            process.terminate()
            process.join(_PATIENCE)
            process.kill()
            process.join()


def _begin() -> None:
    """Prepare a process that runs shards."""
    # An interrupt is for the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The usual lock of progress bars would outlive a process that is ended.
    tqdm.set_lock(threading.RLock())
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent
    parent.join()
    os._exit(1)


class Cluster(Backend):
    """Workers of a Dask cluster; its scheduler gives the shard of a worker that ended to another.

    - ``address``: of the scheduler, ``tcp://HOST:PORT``.

    Raises WorkersError if the package ``distributed`` is missing, no scheduler responds, or it has
    no worker; ValueError if the address is invalid.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = _connected(address)
        self.executor = self._client.get_executor(pure=False)

    @property
    def width(self) -> int:
        """Shards under way, a few for each thread."""
        return _SHARDS * max(1, self._threads())

    def _threads(self) -> int:
        try:
            return sum(self._client.nthreads().values())
        except OSError:
            raise self._error("the connection is lost") from None

    def require_alive(self) -> None:
        """Raise WorkersError if the cluster has no workers."""
        if not self._threads():
            raise self._error("it has no workers")

    def require_again(self, error: BaseException) -> None:
        """Raise WorkersError: the scheduler has done what it could."""
        from dask.distributed import KilledWorker

        if isinstance(error, KilledWorker):
            raise self._error("a shard ended its workers too often (allowed-failures)")
        if isinstance(error, ImportError):
            raise self._error(f"a worker cannot import Celosia ({error})")
        if isinstance(error, (CancelledError, OSError)):
            raise self._error("the connection is lost") from None
        raise error

    def _error(self, text: str) -> WorkersError:
        return WorkersError(f"scheduler: {self._address}: {text}")

    def close(self) -> None:
        """Leave the cluster; shards that wait are dropped."""
        self._client.close()


def _connected(address: str) -> Any:
    """Return the client of a cluster with at least one worker."""
    try:
        from dask.distributed import Client
    except ImportError:
        raise WorkersError(
            f"distributed: wanted it for --scheduler, found none ({install_command('cluster')})"
        ) from None
    # Errors are reported here, in one line.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except OSError:
        raise WorkersError(f"scheduler: nobody answers at {address}") from None
    except ValueError:
        raise ValueError(f"scheduler: wanted tcp://HOST:PORT, got {address!r}") from None
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        client.close()
        raise WorkersError(f"scheduler: {address}: it has no workers") from None
    return client
