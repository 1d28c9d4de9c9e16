"""Shards on a Dask cluster."""

import logging
import pickle
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from celosia.hw.arch.extras import install_command
from celosia.sw.workers.parcel import Outcome, Parcel, WorkersError, carried_out

#: Seconds in which a scheduler must respond, and have a worker.
_PATIENCE = 10
#: Shards on their way for each thread of the cluster: one runs, the others wait.
_SHARDS = 3


class Cluster:
    """Client of a Dask cluster that runs the function of a parcel on shards.

    - ``parcel``: the function.
    - ``address``: of the scheduler, ``tcp://HOST:PORT``.

    Raises WorkersError if the package ``distributed`` is missing, no scheduler responds, or it has
    no worker; ValueError if the address is invalid.
    """

    def __init__(self, parcel: Parcel, address: str) -> None:
        self._address = address
        self._client = _connected(address)
        # A task of the cluster, which the scheduler repeats if the workers that hold it are gone.
        self._parcel = self._client.submit(_held, parcel, pure=False)

    def outcomes(self, shards: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Outcome]]:
        """Yield number and outcome of shards, as they finish.

        The scheduler gives the shard of a worker that ended to another. Raises WorkersError if the
        scheduler gives a shard up, or is gone.
        """
        from concurrent.futures import CancelledError

        running: dict[Any, int] = {}
        try:
            self._submit(shards, running)
            while running:
                for future in self._finished(running):
                    yield running.pop(future), self._outcome(future)
                    future.release()
                self._submit(shards, running)
        except (CancelledError, OSError):
            raise self._error("the connection is lost") from None

    def _finished(self, running: Iterable[Any]) -> Iterable[Any]:
        """Return futures that have finished, at least one."""
        from dask.distributed import wait

        while True:
            try:
                with self._client.as_current():
                    found: Any = wait([*running], timeout=_PATIENCE, return_when="FIRST_COMPLETED")
                return found.done
            except TimeoutError:
                if not self._client.nthreads():
                    raise self._error("it has no workers") from None

    def _submit(self, shards: Iterator[tuple[int, Any]], running: dict[Any, int]) -> None:
        """Submit shards, as many as the cluster has threads for."""
        free = _SHARDS * max(1, sum(self._client.nthreads().values())) - len(running)
        for number, shard in islice(shards, max(0, free)):
            # Pickled here, because Dask would take tuples and lists apart.
            content = pickle.dumps(shard)
            future = self._client.submit(_carried_out, self._parcel, content, pure=False)
            running[future] = number

    def _outcome(self, future: Any) -> Outcome:
        from dask.distributed import KilledWorker

        try:
            return future.result()
        except KilledWorker:
            what = "a shard ended its workers too often (allowed-failures)"
        except ImportError as error:
            what = f"a worker cannot import Celosia ({error})"
        raise self._error(what)

    def _error(self, what: str) -> WorkersError:
        return WorkersError(f"scheduler: {self._address}: {what}")

    def close(self) -> None:
        """Leave the cluster; shards that wait are dropped."""
        self._client.close()


def _held(parcel: Parcel) -> Parcel:
    return parcel


def _carried_out(parcel: Parcel, shard: bytes) -> Outcome:
    return carried_out(parcel, pickle.loads(shard))


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
