"""A function sent to another process, with a digest of the code that its results depend on."""

import hashlib
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

#: Function of one shard. It may have a method ``close``, which releases what it holds.
Job = Callable[[Any], Any]

_PACKAGES = ("celosia.hw", "celosia.sim", "celosia.sw")
_SOURCES = (".cpp", ".h", ".py", ".toml", ".v")
#: Characters of a digest.
_DIGITS = 16


class WorkersError(RuntimeError):
    """Workers that are missing, end early, or run other code; the message is one line."""


class Parcel(NamedTuple):
    """A pickled function.

    - ``package``: top package of its module.
    - ``digest``: of the code, see ``code_digest``.
    - ``content``: the function.
    """

    package: str
    digest: str
    content: bytes


class Outcome(NamedTuple):
    """Result of a shard, or the exception that it raised."""

    result: Any
    error: Exception | None


def packed(job: Job) -> Parcel:
    """Return a function ready to be sent."""
    package = package_of(job)
    return Parcel(package, code_digest(package), pickle.dumps(job))


def package_of(job: Any) -> str:
    """Return the top package of the module that a function comes from."""
    while isinstance(job, partial):
        job = job.func
    module = getattr(job, "__module__", None) or type(job).__module__
    return module.partition(".")[0]


@cache
def code_digest(package: str) -> str:
    """Return a digest of Celosia's sources, those of a package, and the versions they run with.

    Processes with the same digest compute the same bytes and cycles. Raises WorkersError if there
    is no such package.
    """
    digest = hashlib.sha256(f"{sys.version_info[:2]} {np.__version__}".encode())
    for name in _PACKAGES if package == "celosia" else (*_PACKAGES, package):
        for path, content in _sources(name):
            digest.update(f"{name} {path} {len(content)} ".encode() + content)
    return digest.hexdigest()[:_DIGITS]


def _sources(package: str) -> Iterator[tuple[str, bytes]]:
    """Yield the sources of a package: paths inside it, and contents."""
    spec = find_spec(package)
    if spec is None:
        raise WorkersError(f"wanted the package {package}, this Python finds none")
    for folder in map(Path, sorted(spec.submodule_search_locations or ())):
        paths = (path for path in folder.rglob("*") if path.suffix in _SOURCES)
        for path in sorted(paths):
            yield path.relative_to(folder).as_posix(), path.read_bytes()
    if spec.submodule_search_locations is None and spec.origin:
        yield "", Path(spec.origin).read_bytes()


class _Here:
    """The function that this process runs, unpacked once.

    One shard at a time: a function need not be safe for threads.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.parcel: Parcel | None = None
        self.job: Job | None = None

    def of(self, parcel: Parcel) -> Job:
        """Return the function of a parcel; raises WorkersError if this is other code."""
        if self.job is None or self.parcel != parcel:
            digest = code_digest(parcel.package)
            if digest != parcel.digest:
                raise WorkersError(
                    f"wanted Celosia's code {parcel.digest}, the worker has {digest}: "
                    "all machines need the same sources, Python and NumPy"
                )
            close(self.job)
            job = self.job = pickle.loads(parcel.content)
            self.parcel = parcel
            return job
        return self.job


_here = _Here()


def carried_out(parcel: Parcel, shard: bytes) -> Outcome:
    """Return the outcome of a parcel's function for one pickled shard, in this process."""
    try:
        with _here.lock:
            return Outcome(_here.of(parcel)(pickle.loads(shard)), None)
    except Exception as error:
        return Outcome(None, _portable(error))


def close(job: Job | None) -> None:
    """Release what a function holds."""
    if hasattr(job, "close"):
        job.close()  # pyright: ignore


def _portable(error: Exception) -> Exception:
    """Return an exception that can be sent, with its traceback as a note."""
    text = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = WorkersError(f"{type(error).__name__}: {error}")
    error.add_note(text)
    return error
