"""A program on simulated devices in several processes, the inputs divided among them."""

import multiprocessing
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from typing import Any

import numpy as np
from tqdm import tqdm

from celosia.sw.ir.program import Program
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.device import DeviceError, RunResult
from celosia.sw.runtime.session import Session, Statistics

#: Shares of a worker, so that a slow one does not delay the end.
_SHARES = 4

#: The session of this process.
_session: Session | None = None


def run_on_workers(
    program: Program,
    device: str,
    options: Mapping[str, Any],
    inputs: Sequence[np.ndarray],
    workers: int,
) -> tuple[list[np.ndarray], Statistics]:
    """Run a program on devices of several processes; show a progress bar where it takes long.

    - ``device``: ``machine`` or ``rtl``.
    - ``options``: of the device, see ``open_device``.
    - ``inputs``: as ``Session.run`` takes them.
    - ``workers``: number of processes.
    - ``outputs`` (result): those of ``Session.run``.
    - ``statistics`` (result): sums over all processes, the set-up of one of them; seconds are those
      that went by.

    Raises InputError and DeviceError as ``Session.run``; also if a process ends early.
    """
    with Session(
        program, open_device(device, program.config, program.memory_bytes, **options)
    ) as one:
        count = one.count(inputs)
        total = Statistics(program)
        total.setup_cycles = one.statistics.setup_cycles
        total.setup_counters = one.statistics.setup_counters
    # Invocations of a program with variables follow each other.
    batch = count if program.variables else program.batch
    shares = list(_shares(inputs, count, batch, workers))
    context = multiprocessing.get_context("spawn")
    results = []
    try:
        with (
            ProcessPoolExecutor(
                min(workers, len(shares)),
                context,
                _open,
                (program.to_bytes(), device, dict(options)),
            ) as pool,
            tqdm(total=count, unit="input", delay=1, file=sys.stderr, disable=None) as bar,
        ):
            start = time.perf_counter()
            for outputs, costs in pool.map(_run, shares):
                results.append(outputs)
                total.add(costs, len(outputs[0]), 0)
                bar.update(len(outputs[0]))
            total.seconds = time.perf_counter() - start
    except BrokenExecutor:
        raise DeviceError(f"{device}: a worker process has ended early") from None
    return [np.concatenate(arrays) for arrays in zip(*results, strict=True)], total


def _shares(
    inputs: Sequence[np.ndarray], count: int, batch: int, workers: int
) -> Iterator[list[np.ndarray]]:
    """Yield the inputs in shares of whole batches."""
    batches = -(-count // batch)
    step = batch * max(1, -(-batches // (workers * _SHARES)))
    for first in range(0, count, step):
        yield [array[first : first + step] for array in inputs]


def _open(content: bytes, device: str, options: Mapping[str, Any]) -> None:
    global _session
    program = Program.from_bytes(content)
    _session = Session(
        program, open_device(device, program.config, program.memory_bytes, **options)
    )


def _run(inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], RunResult]:
    assert _session is not None
    _session.statistics = Statistics(_session.program)
    outputs = _session.run(inputs)
    return outputs, RunResult(_session.statistics.cycles, _session.statistics.counters)
