"""Shards on workers: the same results in order, lost shards done again, runs that go on."""

import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import prerequisites
import pytest
from clusters import Cluster
from clusters import cluster as started
from shard_jobs import Square, late, refuse

from celosia.sw.cli import main
from celosia.sw.runtime.arrays import InputError
from celosia.sw.workers import executors, parcel
from celosia.sw.workers.parcel import WorkersError
from celosia.sw.workers.spread import Workers, batches, spread

SQUARES = [number * number for number in range(8)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CELOSIA_CACHE", str(folder))
    return folder


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """Folder that notes calls."""
    (tmp_path / "calls").mkdir()
    return tmp_path / "calls"


def kept(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file())


@pytest.mark.thorough
@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_are_in_order(calls: Path, cache: Path, count: int) -> None:
    job = Square(calls)
    assert list(spread(job, range(8), Workers(count), key=b"k")) == SQUARES
    assert job.calls == list(range(8)) and not kept(cache)
    assert (calls / "closed").exists() == (count == 1)
    assert list(spread(late, range(5), Workers(count))) == list(range(5))


@pytest.mark.thorough
def test_a_cluster_gives_the_same(calls: Path, cluster: Cluster) -> None:
    job = Square(calls)
    assert list(spread(job, range(8), Workers(scheduler=cluster.address))) == SQUARES
    assert list(spread(late, range(5), Workers(scheduler=cluster.address))) == list(range(5))
    assert job.calls == list(range(8))


def test_shards_of_cases() -> None:
    assert batches(5, 2) == [range(0, 2), range(2, 4), range(4, 5)]
    assert [len(each) for each in batches(45)] == [20, 20, 5]


def test_the_shard_of_a_dead_worker_is_done_again(calls: Path) -> None:
    job = Square(calls, "kill")
    assert list(spread(job, range(8), Workers(2))) == SQUARES
    # The other shard that was under way is done again, too.
    assert set(job.calls) == set(range(8)) and job.calls.count(3) == 2 and len(job.calls) <= 10


def test_a_shard_that_ends_every_worker(calls: Path) -> None:
    job = Square(calls, "kills")
    text = r"workers: processes ended 3 times while shard \d ran"
    with pytest.raises(WorkersError, match=f"^{text}$"):
        list(spread(job, range(8), Workers(2)))
    assert job.calls.count(3) == 3


class Breaking(executors.Backend):
    """An executor in this process, which is broken at some submissions or in some shards."""

    def __init__(self, refused: set[int], broken: set[int], width: int) -> None:
        self.executor, self.count = self, width
        self.refused, self.broken, self.submitted = refused, broken, 0
        self.restarts = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        self.submitted += 1
        if self.submitted in self.refused:
            raise BrokenProcessPool
        future = Future[Any]()
        if self.submitted in self.broken:
            future.set_exception(BrokenProcessPool())
        else:
            future.set_result(function(*arguments))
        return future

    def require_alive(self) -> None:
        raise AssertionError

    def require_again(self, error: BaseException) -> None:
        assert isinstance(error, BrokenProcessPool)

    def restart(self) -> None:
        self.restarts += 1

    def close(self) -> None:
        raise AssertionError


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(
    ("refused", "broken"),
    [((), ()), ((1,), ()), ((2, 3), ()), ((), (1, 2)), ((2,), (1,)), ((7,), (5,))],
)
def test_no_shard_is_lost_or_done_twice(refused, broken: tuple[int, ...], width: int) -> None:
    """Processes that end while a shard is under way, or before it is."""
    backend = Breaking(set(refused), set(broken), width)
    shards = iter(enumerate(range(4, 10)))
    found = executors.outcomes(backend, parcel.packed(late), shards)
    results = sorted((number, outcome.result) for number, outcome in found)
    assert results == list(enumerate(range(4, 10)))
    assert bool(backend.restarts) == bool(refused or broken)


def test_a_function_is_closed_when_another_comes(tmp_path: Path) -> None:
    """In one process, which keeps the function of the shards before."""
    jobs = []
    for name in ("one", "other", "third"):
        (tmp_path / name).mkdir()
        jobs.append(Square(tmp_path / name))
    parcels = list(map(parcel.packed, jobs))
    for number, closed in ((0, []), (0, []), (1, ["one"]), (2, ["one", "other"])):
        assert parcel.carried_out(parcels[number], pickle.dumps(5)).result == 25
        assert sorted(path.parent.name for path in tmp_path.glob("*/closed")) == closed


@pytest.mark.thorough
def test_the_shard_of_a_dead_worker_of_a_cluster(calls: Path, tmp_path: Path) -> None:
    prerequisites.package("distributed")
    job = Square(calls, "kill")
    with started(tmp_path, 2) as own:
        assert list(spread(job, range(8), Workers(scheduler=own.address))) == SQUARES
        assert sum(worker.poll() == -signal.SIGKILL for worker in own.workers) == 1
    assert job.calls.count(3) == 2


@pytest.mark.thorough
def test_a_cluster_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    prerequisites.package("distributed")
    monkeypatch.setattr("celosia.sw.workers.executors._PATIENCE", 2)
    with started(tmp_path, 1) as own:
        where = Workers(scheduler=own.address)
        results = spread(late, range(100), where)
        assert next(results) == 0
        own.workers[0].kill()
        with pytest.raises(WorkersError, match=f"scheduler: {own.address}: it has no workers$"):
            list(spread(late, range(8), where))
        own.scheduler.kill()
        with pytest.raises(WorkersError, match=f"scheduler: {own.address}: the connection is lost"):
            list(results)
    # The command reports it in one line, Dask in none.
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.thorough
@pytest.mark.parametrize("several", [False, True])
def test_exceptions_come_back(several: bool, cluster: Cluster) -> None:
    where = Workers(scheduler=cluster.address) if several else Workers(2)
    with pytest.raises(InputError, match="in refuse") as caught:
        list(spread(refuse, range(4), where))
    assert str(caught.value) == "x: wanted another number than 3"
    with pytest.raises(WorkersError) as other:
        list(spread(refuse, [4], where))
    assert str(other.value) == "Odd: this and that"


@pytest.mark.thorough
def test_other_code_is_refused(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    monkeypatch.setattr(parcel, "code_digest", lambda package: "0" * 16)
    for where in (Workers(2), Workers(scheduler=cluster.address)):
        with pytest.raises(WorkersError, match="^wanted Celosia's code 0{16}, the worker has "):
            list(spread(late, range(2), where))


def test_code_that_is_missing() -> None:
    outcome = parcel.carried_out(parcel.Parcel("no_such_package", "", b""), b"")
    assert str(outcome.error) == "wanted the package no_such_package, this Python finds none"


def test_a_digest_depends_on_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "made.py").write_text("x = 1\n")
    seen = {parcel.code_digest("made"), parcel.code_digest("celosia")}
    (tmp_path / "made.py").write_text("x = 2\n")
    parcel.code_digest.cache_clear()
    assert len({*seen, parcel.code_digest("made")}) == 3


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_goes_on(calls: Path, cache: Path, capsys, count: int) -> None:
    job = Square(calls, "interrupt")
    with pytest.raises(KeyboardInterrupt, match=r"^3 of 8 shards are kept \(--resume\)$"):
        list(spread(job, range(8), Workers(), key=b"k"))
    assert len(kept(cache)) == 3 and (calls / "closed").exists()
    kept(cache)[0].write_bytes(b"damaged")
    assert list(spread(job, range(8), Workers(count, resume=True), key=b"k")) == SQUARES
    assert capsys.readouterr().err == "resume: 2 of 8 shards are kept\n"
    assert job.calls == sorted([*range(8), 0, 3]) and not kept(cache)


@pytest.mark.parametrize(("key", "resume"), [(b"other", True), (b"k", False)])
def test_other_work_starts_anew(calls: Path, cache: Path, key: bytes, resume: bool) -> None:
    job = Square(calls)
    assert list(islice(spread(job, range(8), Workers(), key=b"k"), 5)) == SQUARES[:5]
    assert len(kept(cache)) == 5
    assert list(spread(job, range(8), Workers(resume=resume), key=key)) == SQUARES
    assert job.calls.count(0) == 2


@pytest.mark.parametrize(("digest", "count"), [("other", 8), (None, 7)])
def test_other_code_and_other_shards_start_anew(calls, cache, monkeypatch, digest, count) -> None:
    job = Square(calls)
    assert list(islice(spread(job, range(8), Workers(), key=b"k"), 5)) == SQUARES[:5]
    if digest:
        monkeypatch.setattr("celosia.sw.workers.spread.code_digest", lambda package: digest)
    assert list(spread(job, range(count), Workers(resume=True), key=b"k")) == SQUARES[:count]
    assert job.calls.count(0) == 2


def test_results_that_nobody_wants_are_removed(calls: Path, cache: Path) -> None:
    next(spread(Square(calls), range(8), Workers(), key=b"old"))
    (old,) = (cache / "shards").iterdir()
    for age, left in ((6, 1), (8, 0)):
        os.utime(old, (0, time.time() - age * 24 * 3600))
        list(spread(late, range(4, 6), Workers(), key=b"k"))
        assert len(kept(cache)) == left


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path / "file"))
    assert list(spread(late, range(4, 6), Workers(), key=b"k")) == [4, 5]


#: A command that does not end by itself.
FOREVER = """
import signal
from shard_jobs import forever
from celosia.sw.workers.spread import Workers, spread
signal.signal(signal.SIGINT, signal.default_int_handler)
list(spread(forever, range(2), Workers(2)))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_command(number: signal.Signals) -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-c", FOREVER]
    with ExitStack() as stack:
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
        stack.callback(process.kill)
        until(lambda: len(children(process.pid)) == 2)
        workers = children(process.pid)
        # They have started their shards.
        time.sleep(2)
        process.send_signal(number)
        shown = process.communicate(timeout=60)[1].decode()
    assert process.returncode == -number
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in shown.splitlines()[-1]
    else:
        # Python's tracker counts the semaphores that it removes.
        assert "Traceback" not in shown
    until(lambda: not any(map(alive, workers)))


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.1)


def children(parent: int) -> list[int]:
    """Return the workers that a process has started."""
    command = ["ps", "-ww", "--ppid", str(parent), "-o", "pid=,args="]
    lines = subprocess.run(command, stdout=subprocess.PIPE).stdout.decode().splitlines()
    return [int(line.split()[0]) for line in lines if "spawn_main" in line]


def alive(process: int) -> bool:
    """Return True if a process exists and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_distributed_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    message = r"distributed: wanted it for --scheduler, found none \("
    with pytest.raises(WorkersError, match=message):
        list(spread(late, range(2), Workers(scheduler="tcp://127.0.0.1:9")))


@pytest.mark.thorough
def test_no_scheduler(refused: Callable[[str], str], tmp_path: Path, capsys, monkeypatch) -> None:
    prerequisites.package("distributed")
    monkeypatch.setattr("celosia.sw.workers.executors._PATIENCE", 2)
    np.save(tmp_path / "x.npy", np.zeros((2, 784), np.int8))
    run = "run mnist_mlp --input x.npy --output y.npy --device machine --scheduler"
    for address in ("nowhere", "tcp://here", "here:port"):
        # Before the file of inputs is opened.
        text = refused(f"{run.replace('x.npy', 'gone.npy')} {address}")
        assert f"scheduler: wanted tcp://HOST:PORT, got {address!r}" in text
    assert main(f"{run} tcp://127.0.0.1:9".split()) == 1
    assert capsys.readouterr().err == "celosia: scheduler: nobody answers at tcp://127.0.0.1:9\n"
