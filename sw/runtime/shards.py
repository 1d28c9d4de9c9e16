"""A program on simulated devices, its inputs divided among workers."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from celosia.sw.driver.core import RunResult
from celosia.sw.ir.program import Program
from celosia.sw.runtime.arrays import digest_of
from celosia.sw.runtime.opening import open_session
from celosia.sw.runtime.session import Session, Statistics, count_of, together
from celosia.sw.workers.spread import Workers, spread

#: Shards of many batches, roughly: enough for many workers, and one that is lost costs little.
_SHARDS = 256


class Shard(NamedTuple):
    """Inputs of whole batches, and the number of the first sample."""

    first: int
    inputs: Sequence[np.ndarray]


class ShardResult(NamedTuple):
    """Outputs of a shard, and costs: of the set-up of a session, and of the shard."""

    outputs: list[np.ndarray]
    setup: RunResult
    costs: RunResult
    seconds: float
    host_seconds: float


class Runner:
    """A program on a device, which is opened with the first shard.

    - ``program``: the program.
    - ``device``: ``machine`` or ``rtl``.
    - ``options``: of the device, see ``open_session``.
    """

    def __init__(self, program: Program, device: str, options: Mapping[str, Any]) -> None:
        self._content = program.to_bytes()
        self._device = device
        self._options = dict(options)
        self._session: Session | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_session": None}

    @property
    def key(self) -> bytes:
        """All that results depend on besides code and inputs."""
        return f"{self._device} {sorted(self._options.items())} ".encode() + self._content

    def __call__(self, shard: Shard) -> ShardResult:
        """Return outputs and costs of a shard, which do not depend on those before it.

        Raises InputError and DeviceError as ``Session``.
        """
        if self._session is None:
            self._session = self._open()
            statistics = self._session.statistics
            self._setup = RunResult(statistics.setup_cycles, statistics.setup_counters)
        session = self._session
        session.begin(shard.first)
        session.statistics = costs = Statistics(session.program)
        outputs = session.run(shard.inputs)
        result = RunResult(costs.cycles, costs.counters, array=costs.array)
        return ShardResult(outputs, self._setup, result, costs.seconds, costs.host_seconds)

    def _open(self) -> Session:
        program = Program.from_bytes(self._content)
        return open_session(program, device=self._device, **self._options)

    def close(self) -> None:
        """Release the device."""
        if self._session:
            self._session.close()
            self._session = None


def run_on_workers(
    program: Program,
    device: str,
    options: Mapping[str, Any],
    inputs: Sequence[np.ndarray],
    workers: Workers,
) -> tuple[list[np.ndarray], Statistics]:
    """Run a program on simulated devices; show a progress bar where it takes long.

    - ``device``: ``machine`` or ``rtl``.
    - ``options``: of the device, see ``open_session``.
    - ``inputs``: as ``Session.run`` takes them.
    - ``workers``: processes. Outputs and costs, seconds apart, are the same for all.
    - ``outputs`` (result): those of ``Session.run``.
    - ``statistics`` (result): those of one session; seconds are those of its runs, of several
      processes those that went by.

    Raises InputError and DeviceError as ``Session.run``, WorkersError as ``spread``.
    """
    count = count_of(program, inputs)
    cores = options.get("cores", 1)
    runner, shards = Runner(program, device, options), _shards(program, count, inputs, cores)
    key = runner.key + digest_of(inputs)
    total, outputs, start = Statistics(program, cores), [], time.perf_counter()
    with (
        closing(spread(runner, shards, workers, key=key)) as results,
        tqdm(total=count, unit="input", delay=1, file=sys.stderr, disable=None) as bar,
    ):
        for result in results:
            if not outputs:
                total.add_setup(result.setup)
            outputs.append(result.outputs)
            samples = len(result.outputs[0])
            total.add(result.costs, samples, result.seconds)
            total.host_seconds += result.host_seconds
            bar.update(samples)
    if workers.several:
        total.seconds = time.perf_counter() - start
    return [np.concatenate(arrays) for arrays in zip(*outputs, strict=True)], total


def _shards(
    program: Program, count: int, inputs: Sequence[np.ndarray], cores: int = 1
) -> list[Shard]:
    """Return the inputs in shards of a batch for each core, the same for any number of workers.

    None crosses a multiple of the samples that go through all steps together. Invocations of a
    program with variables follow each other, and are one shard.
    """
    if program.variables:
        return [Shard(0, inputs)]
    round_size = program.batch * cores
    step = round_size * math.ceil(count / round_size / _SHARDS)
    limit = together(program)
    starts = [
        first
        for chunk in range(0, count, limit)
        for first in range(chunk, min(chunk + limit, count), step)
    ]
    ends = [*starts[1:], count]
    return [
        Shard(first, [array[first:end] for array in inputs])
        for first, end in zip(starts, ends, strict=True)
    ]
