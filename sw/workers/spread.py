"""A function on shards of work, on the workers that the user chose; results in order."""

import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from celosia.sw.workers.executors import Cluster, Processes, outcomes
from celosia.sw.workers.parcel import Job, Outcome, close, code_digest, package_of, packed
from celosia.sw.workers.store import Store

#: Cases of one shard of a campaign.
_BATCH = 20


class Workers(NamedTuple):
    """Processes that do the work.

    - ``processes``: number on this machine; with one, this process does the work itself.
    - ``scheduler``: address of a Dask cluster's scheduler, ``tcp://HOST:PORT``, instead of them.
    - ``resume``: whether results kept from a run that was stopped are taken.
    """

    processes: int = 1
    scheduler: str | None = None
    resume: bool = False

    @property
    def several(self) -> bool:
        """True if other processes do the work."""
        return self.processes > 1 or self.scheduler is not None


def batches(count: int, size: int = _BATCH) -> list[range]:
    """Return the numbers from 0 to below ``count`` in shards of ``size``."""
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


def spread(
    job: Job, shards: Sequence[Any], workers: Workers, *, key: bytes = b""
) -> Generator[Any, None, None]:
    """Yield the result of a function for each shard, in order.

    Shards that are under way when a process ends are done again. Results are kept in the user's
    cache until the last one has been taken. So a run that was stopped can go on.

    Parameters
    ----------
    job : callable
        Takes a shard and returns its result, which depends on nothing else. Pickled once; may have
        a method ``close``.
    shards : sequence
        Contents of the shards; they do not depend on ``workers``.
    workers : Workers
        Processes that do the work.
    key : bytes
        All that the results depend on besides the code: arguments of the job, and the shards.
        Without a key, no results are kept.

    Raises
    ------
    WorkersError
        If workers are missing, end early too often, or run other code.
    ValueError
        If the address of the scheduler is invalid.
    KeyboardInterrupt
        When interrupted; its message is the number of results that are kept.
    """
    store = None
    if key:
        store = Store(f"{code_digest(package_of(job))} {len(shards)} ".encode() + key)
    arrived = _known(store, len(shards), workers.resume) if store else {}
    left = [(number, shard) for number, shard in enumerate(shards) if number not in arrived]
    try:
        with closing(_outcomes(job, iter(left), workers)) as finished:
            for number in range(len(shards)):
                while number not in arrived:
                    arrival, outcome = next(finished)
                    if outcome.error:
                        raise outcome.error
                    arrived[arrival] = outcome.result
                    if store:
                        store.write(arrival, outcome.result)
                yield arrived.pop(number)
    except KeyboardInterrupt:
        count = len(store.results()) if store else 0
        text = f"{count} of {len(shards)} shards are kept (--resume)"
        raise KeyboardInterrupt(*[text] * bool(count)) from None
    if store:
        store.remove()


def _known(store: Store, count: int, resume: bool) -> dict[int, Any]:
    """Return the results that are kept and wanted, by number."""
    if not resume:
        store.remove()
        return {}
    known = store.results()
    print(f"resume: {len(known)} of {count} shards are kept", file=sys.stderr, flush=True)
    return known


def _outcomes(
    job: Job, shards: Iterator[tuple[int, Any]], workers: Workers
) -> Generator[tuple[int, Outcome], None, None]:
    """Yield number and outcome of shards, as they finish."""
    if not workers.several:
        try:
            for number, shard in shards:
                yield number, Outcome(job(shard), None)
        finally:
            close(job)
        return
    parcel = packed(job)
    backend = Cluster(workers.scheduler) if workers.scheduler else Processes(workers.processes)
    with closing(backend):
        yield from outcomes(backend, parcel, shards)
