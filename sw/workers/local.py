"""Shards in processes of this machine."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from tqdm import tqdm

from celosia.sw.workers.parcel import Outcome, Parcel, WorkersError, carried_out

#: Workers that may end during one shard.
_MOST_LOST = 3
#: Seconds that a worker may take to end.
_PATIENCE = 5


class _Shard(NamedTuple):
    """A shard, its number, and the workers that ended during it."""

    number: int
    content: Any
    lost: int = 0


@dataclass
class _Worker:
    """A process, and the connection to it."""

    process: Any
    pipe: Connection
    shard: _Shard | None = None


class Pool:
    """Processes that run the function of a parcel on shards.

    - ``parcel``: the function.
    - ``count``: processes at most.

    The processes end with ``close``, and with this process.
    """

    def __init__(self, parcel: Parcel, count: int) -> None:
        self._parcel = parcel
        self._count = count
        self._workers: list[_Worker] = []

    def outcomes(self, shards: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Outcome]]:
        """Yield number and outcome of shards, as they finish.

        The shard of a worker that ended is done again. Raises WorkersError if three workers end
        during one shard.
        """
        waiting = (_Shard(*shard) for shard in shards)
        again: deque[_Shard] = deque()
        while True:
            while worker := self._free():
                shard = again.popleft() if again else next(waiting, None)
                if shard is None:
                    break
                self._give(worker, shard, again)
            busy = {each.pipe: each for each in self._workers if each.shard}
            if not busy:
                return
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # pyright: ignore
                shard = worker.shard
                assert shard
                try:
                    outcome = worker.pipe.recv()
                except (EOFError, OSError):
                    again.append(self._lost(worker, shard))
                    continue
                worker.shard = None
                yield shard.number, outcome

    def _free(self) -> _Worker | None:
        """Return a worker without a shard, started if need be; None if all are busy."""
        for worker in self._workers:
            if worker.shard is None:
                return worker
        return self._start() if len(self._workers) < self._count else None

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        pipe, end = context.Pipe()
        process = context.Process(target=_work, args=(end, self._parcel), daemon=True)
        process.start()
        end.close()
        self._workers.append(_Worker(process, pipe))
        return self._workers[-1]

    def _give(self, worker: _Worker, shard: _Shard, again: deque[_Shard]) -> None:
        worker.shard = shard
        try:
            worker.pipe.send(shard.content)
        except OSError:
            again.append(self._lost(worker, shard))

    def _lost(self, worker: _Worker, shard: _Shard) -> _Shard:
        """Return the shard of a worker that ended, to be done again."""
        self._end(worker)
        self._workers.remove(worker)
        lost = shard.lost + 1
        if lost == _MOST_LOST:
            code = worker.process.exitcode
            how = f"signal {-code}" if code and code < 0 else f"exit code {code}"
            raise WorkersError(f"workers: shard {shard.number} ended {lost} workers, last by {how}")
        return shard._replace(lost=lost)

    def _end(self, worker: _Worker) -> None:
        worker.pipe.close()
        if worker.shard is None:
            worker.process.join(_PATIENCE)
        worker.process.terminate()
        worker.process.join(_PATIENCE)
        worker.process.kill()
        worker.process.join()

    def close(self) -> None:
        """End all processes: those with a shard at once, the others on their own."""
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            self._end(worker)
        self._workers.clear()


def _work(pipe: Connection, parcel: Parcel) -> None:
    """Run shards until the other end is closed."""
    # An interrupt is for the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The usual lock of progress bars would outlive a process that is ended.
    tqdm.set_lock(threading.RLock())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            shard = pipe.recv()
        except EOFError:
            return
        pipe.send(carried_out(parcel, shard))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent
    parent.join()
    os._exit(1)
