"""Where batches of cases run: in this process, or in those of a Dask cluster."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from celosia.sim.fuzz.campaign import Batch, Plan, batches, run_batch

__all__ = ["MissingDask", "run"]


class MissingDask(RuntimeError):
    """More than one worker is wanted, and Dask is not installed."""


def run(
    plan: Plan, programs: int, *, workers: int = 1, scheduler: str | None = None
) -> Iterator[Batch]:
    """Give what comes out of the batches of a plan, as they finish.

    Parameters
    ----------
    plan : Plan
        What to run.
    programs : int
        Cases, numbered from 0.
    workers : int
        Processes on this machine; with one, this process does it without Dask.
    scheduler : str, optional
        Address of the scheduler of a cluster, instead of processes here.

    Raises
    ------
    MissingDask
        If it is needed and not there.
    OSError
        If there is no scheduler at this address.
    """
    if scheduler is None and workers == 1:
        for numbers in batches(programs):
            yield run_batch(plan, numbers)
        return
    try:
        from dask.distributed import Client, LocalCluster, as_completed
    except ImportError:
        raise MissingDask(
            "distributed: wanted it for several workers, found none (pip install 'celosia[fuzz]')"
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
        client = stack.enter_context(Client(address))
        futures = [
            client.submit(run_batch, plan, list(numbers), pure=False)
            for numbers in batches(programs)
        ]
        for future in as_completed(futures):
            yield future.result()
            future.release()
