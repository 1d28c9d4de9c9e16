"""Workers for batches of cases: this process, or processes of a Dask cluster."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

from celosia.hw.arch.extras import install_command

#: Cases of one task of a worker.
_BATCH = 20

#: Seconds in which a scheduler must respond.
_PATIENCE = 10

_Result = TypeVar("_Result")


class MissingDask(RuntimeError):
    """Error: several workers need Dask, which is not installed."""


def _batches(cases: int) -> Iterator[range]:
    """Yield the numbers of the cases in batches."""
    for first in range(0, cases, _BATCH):
        yield range(first, min(first + _BATCH, cases))


def _connected(client: Any, address: Any) -> Any:
    """Return a client of a cluster, or of the scheduler at an address."""
    try:
        return client(address, timeout=_PATIENCE)
    except OSError:
        raise ValueError(f"scheduler: nobody answers at {address}") from None
    except ValueError:
        raise ValueError(f"scheduler: wanted tcp://HOST:PORT, got {address!r}") from None


def run(
    job: Callable[[list[int]], _Result],
    cases: int,
    *,
    workers: int = 1,
    scheduler: str | None = None,
) -> Iterator[_Result]:
    """Yield the results of batches of cases, as they finish.

    ``job``: takes the numbers of some cases; sent to other processes; ``cases``: number of cases,
    numbered from 0; ``workers``: processes on this machine; with one, this process runs the cases
    without Dask; ``scheduler``: address of the scheduler of a cluster, instead of processes here.
    Raises ``MissingDask`` if Dask is needed and not installed.
    Raises ``ValueError`` if the address is invalid, or no scheduler responds there within ten
    seconds.
    """
    if scheduler is None and workers == 1:
        for numbers in _batches(cases):
            yield job(list(numbers))
        return
    try:
        from dask.distributed import Client, LocalCluster, as_completed
    except ImportError:
        raise MissingDask(
            f"distributed: wanted it for several workers, found none ({install_command('fuzz')})"
        ) from None
    with ExitStack() as stack:
        address: Any = scheduler
        if scheduler is None:
            options: dict[str, Any] = {
                "threads_per_worker": 1,
                "dashboard_address": None,
                "silence_logs": logging.ERROR,
            }
            address = stack.enter_context(LocalCluster(n_workers=workers, **options))
        client = stack.enter_context(_connected(Client, address))
        futures = [client.submit(job, list(numbers), pure=False) for numbers in _batches(cases)]
        for future in as_completed(futures):
            yield future.result()
            future.release()
