"""Programs of the coverage: random programs, directed ones, networks; each core in one process."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.workers.spread import Workers, spread

#: Models that run through the runtime, on the greatest core.
NETWORKS = ("mnist_mlp", "fashion_cnn")
#: Cores whose bits are also counted; few, so that a run takes minutes: greatest memories, sizes
#: that are not powers of two, widest array and bus.
TOGGLED = ("vast", "odd", "square16")
_MODELS = Path(__file__).parents[3] / "sw" / "models"


class Plan(NamedTuple):
    """Names of cores, legal and faulted programs on each, seed; ``more`` adds the rest."""

    cores: tuple[str, ...]
    legal: int
    faulted: int
    seed: int
    more: bool = True


class Job(NamedTuple):
    """Job on one core; ``kind``: ``build``, ``legal``, ``faulted``, ``directed``, ``network``."""

    core: str
    kind: str
    what: str
    seed: int = 0

    def __str__(self) -> str:
        return " ".join(filter(None, (self.core, self.kind, self.what)))


class Result(NamedTuple):
    """Result of a job: seconds, counts, and a line for each difference."""

    job: Job
    seconds: float
    tally: Any
    problems: tuple[str, ...]


def _config(name: str) -> Config:
    from celosia.sw.fuzz.programs.configurations import CONFIGURATIONS
    from coverage.directed import VAST

    return VAST if name == VAST.name else CONFIGURATIONS[name]


def jobs(plan: Plan) -> list[Job]:
    """Return all jobs of a plan, builds first, those that take long before the others."""
    from coverage.directed import RUNS, VAST

    played = [(run.config.name, name) for name, run in RUNS.items()] if plan.more else []
    cores = dict.fromkeys([*(core for core, _ in played), *plan.cores])
    found = [Job(core, "build", "") for core in cores]
    found += [Job(core, "directed", name, plan.seed) for core, name in played]
    if plan.more:
        found += [Job(VAST.name, "network", name, plan.seed) for name in NETWORKS]
    for name in plan.cores:
        if plan.faulted:
            found.append(Job(name, "faulted", str(plan.faulted), plan.seed))
        if plan.legal:
            found.append(Job(name, "legal", str(plan.legal), plan.seed))
    return found


def _fuzz(job: Job) -> tuple[str, ...]:
    from celosia.sw.fuzz import campaign

    plan = campaign.Plan((_config(job.core),), job.seed, job.kind == "faulted")
    batch = campaign.run_batch(plan, range(int(job.what)))
    return tuple(f"program {one.number}: {one.problems[0]}" for one in batch.discrepancies)


def _directed(job: Job) -> tuple[str, ...]:
    from coverage.device import Wrong
    from coverage.directed import RUNS

    try:
        RUNS[job.what].play(random.Random(f"{job.what} {job.seed}"))
    except Wrong as wrong:
        return (str(wrong),)
    return ()


def _network(job: Job) -> tuple[str, ...]:
    """Run a shipped model; the machine model must give the same bytes."""
    from celosia.sw.compiler.compile import compile_graph
    from celosia.sw.frontend.tflite import load
    from celosia.sw.runtime.interpreter import open_session

    content = (_MODELS / f"{job.what}.tflite").read_bytes()
    program = compile_graph(load(content), _config(job.core), 2)
    shape = (2, *program.inputs[0].shape)
    inputs = np.random.default_rng(job.seed).integers(-128, 128, shape).astype(np.int8)
    outputs = []
    for device in ("machine", "rtl"):
        with open_session(program, device=device) as session:
            outputs.append(session.run([inputs])[0])
    same = np.array_equal(*outputs)
    return () if same else (f"{job.what}: other bytes than the machine model's",)


def _build(job: Job) -> tuple[str, ...]:
    from celosia.sim.rtl import core as rtl

    rtl.model(_config(job.core))
    return ()


_KINDS = {
    "build": _build,
    "legal": _fuzz,
    "faulted": _fuzz,
    "directed": _directed,
    "network": _network,
}


def run_job(job: Job) -> Result:
    """Run a job in this process.

    Raises ``SimulatorNotFound``, ``RtlError`` if the simulator is missing, a model cannot be built,
    or a core does not respond.
    """
    from celosia.sim.rtl.counting import counting

    start = time.monotonic()
    with counting(toggles=job.core in TOGGLED) as counted:
        problems = _KINDS[job.kind](job)
        tally = counted.take()
    return Result(job, time.monotonic() - start, tally, problems)


def run_all(plan: Plan, workers: Workers) -> Iterator[Result]:
    """Yield the results of the jobs of a plan; those of a core run after its model is built."""
    wanted = jobs(plan)
    builds = [job for job in wanted if job.kind == "build"]
    yield from spread(run_job, builds, workers._replace(resume=False))
    yield from spread(run_job, wanted[len(builds) :], workers, key=repr(plan).encode())
