"""Trials of tests on changed gateware: each change in a process, forked after the tests were
collected, until the first test fails.
"""

import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from amaranth.hdl import Fragment

from celosia.hw.verilog import build
from mutation.processes import Report, received, start
from mutation.same import same_circuit
from mutation.sites import ROOT, Changed, Helpers, Site, module_of

#: Limit of processor time of a test on changed gateware: a factor on its time without a change, and
#: seconds added. ``PATIENCE`` limits the elapsed seconds of a trial.
FACTOR, SECONDS = 4, 10
PATIENCE = 900

#: Verdicts on a changed gateware.
KILLED, SURVIVED, INVALID, SAME, UNREACHED = "killed", "survived", "invalid", "same", "unreached"


class Result(NamedTuple):
    """Result of a change.

    ``verdict`` is ``killed`` by the test ``by``; ``survived``; ``unreached``, no test elaborates
    it; ``invalid``, it is not a circuit; ``same``, the circuit is equivalent to the original.
    """

    verdict: str
    by: str = ""
    seconds: float = 0.0


def counts(result: Result) -> bool:
    """Return True if the change counts: it is a circuit, and not an equivalent one."""
    return result.verdict not in (INVALID, SAME)


class Timing(NamedTuple):
    """Test without a change: processor time in seconds, and modules that it elaborates."""

    seconds: float
    modules: tuple[str, ...]


class Hang(BaseException):
    """Test that takes too long."""


@contextmanager
def _watched(notice: Callable[[Any], None]) -> Iterator[None]:
    """Call a function with everything that is elaborated, before it is."""
    fragment: Any = Fragment
    right = fragment.get

    def get(thing: Any, platform: Any) -> Any:
        notice(thing)
        return right(thing, platform)

    fragment.get = staticmethod(get)
    try:
        yield
    finally:
        fragment.get = staticmethod(right)


def modules_of(thing: Any) -> list[str]:
    """Return the modules of the classes of a component: also of those that only have its ports."""
    kinds = type(thing).__mro__[:-1]
    elaborated = any("elaborate" in vars(kind) for kind in kinds)
    return [kind.__module__ for kind in kinds if elaborated]


class Trials:
    """Plugin of pytest: runs the collected tests on each of some changes.

    ``sites``: those that are wanted, in order; ``number``: how many of them are to be checked,
    apart from those that do not count; ``workers``: processes; ``known``: returns an earlier
    result, or None; ``timings``: ``Timing`` of tests that passed without a change before, by name;
    takes those of the others; ``hints``: test that is tried first, by the identity of a site;
    ``report``: called with each result; ``compare``: compare survivors with the original circuits;
    ``timed``: called when ``timings`` are complete.
    """

    def __init__(
        self,
        sites: list[Site],
        number: int,
        *,
        workers: int,
        known: Callable[[Site], Result | None],
        timings: dict[str, Timing],
        hints: dict[str, str],
        report: Callable[[Site, Result], None],
        compare: bool = True,
        timed: Callable[[], None] = lambda: None,
    ) -> None:
        self.sites = sites
        self.number = number
        self.workers = workers
        self.known = known
        self.timings = timings
        self.hints = hints
        self.report = report
        self.compare = compare
        self.timed = timed
        self.results: dict[Site, Result] = {}
        self.failed = self.error = ""
        self._failure: tuple[str, Any] | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> pytest.TestReport | None:
        """Report a failure without its lines: an interrupted test may have no known line."""
        if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
            return None
        return pytest.TestReport(item.nodeid, item.location, {}, "failed", None, call.when)

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        """Note the first failure of a trial."""
        if self._failure is None:
            self._failure = getattr(node, "nodeid", ""), call.excinfo.tb

    def pytest_internalerror(self, excrepr: object) -> None:
        """Record exceptions in this context."""
        self.error = str(excrepr)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests without a change, then with each."""
        if session.testsfailed or not session.items:
            raise pytest.UsageError("the tests could not be collected, or there are none")
        new = [item for item in session.items if item.nodeid not in self.timings]
        receive, process = start(self._without, new)
        self.failed, timings = received(receive)
        process.join()
        self.timings.update(timings)
        self.timed()
        if not self.failed:
            self._check_changes(session)
        return True

    def _check_changes(self, session: pytest.Session) -> None:
        """Check changes until enough of them count."""
        left = list(self.sites)
        running: dict[Connection, tuple[Site, Any, float]] = {}
        while True:
            while left and len(running) < self.workers:
                if sum(map(counts, self.results.values())) + len(running) >= self.number:
                    break
                site = left.pop(0)
                result = self.known(site)
                if result is not None:
                    self.results[site] = result
                    self.report(site, result)
                    continue
                receive, process = start(self._with, session, site)
                running[receive] = site, process, time.monotonic() + PATIENCE
            if not running:
                return
            wait(list(running), timeout=1)
            for receive, (site, process, end) in list(running.items()):
                if not receive.poll() and time.monotonic() < end and process.is_alive():
                    continue
                result = Result(KILLED, "time")
                if receive.poll() or time.monotonic() < end:
                    result = received(receive)
                else:
                    process.kill()
                process.join()
                if result is None:
                    raise RuntimeError(f"a trial died: {site.name}")
                del running[receive]
                self.results[site] = result
                self.report(site, result)

    def _run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _without(self, report: Report, items: list[pytest.Item]) -> None:
        timings = {}
        folder = tempfile.mkdtemp()
        _move_caches(Path(folder), "nothing")
        for item, following in zip(items, [*items[1:], None], strict=False):
            modules: set[str] = set()
            _forget_designs()
            start = _processor_time()
            with _watched(lambda thing, modules=modules: modules.update(modules_of(thing))):
                self._run(item, following)
            if self._failure:
                break
            timings[item.nodeid] = Timing(_processor_time() - start, tuple(sorted(modules)))
        shutil.rmtree(folder)
        report((self._failure[0] if self._failure else "", timings))

    def _order(self, session: pytest.Session, site: Site) -> list[pytest.Item]:
        """Return the tests that a change may break: the one that did before, then short ones."""
        method, module = "." in site.function, module_of(site.file)
        chosen = [
            item
            for item in session.items
            if not method or module in self.timings[item.nodeid].modules
        ]
        first = self.hints.get(site.identity)
        return sorted(chosen, key=lambda it: (it.nodeid != first, self.timings[it.nodeid].seconds))

    def _with(self, report: Report, session: pytest.Session, site: Site) -> None:
        begin = _processor_time()
        try:
            changed = Changed(site)
        except (SyntaxError, ValueError, TypeError):
            report(Result(INVALID))
            return
        with tempfile.TemporaryDirectory() as name:
            _move_caches(Path(name), site.name)
            verdict, by = self._tried(session, site, changed)
        report(Result(verdict, by, round(_processor_time() - begin, 1)))

    def _tried(self, session: pytest.Session, site: Site, changed: Changed) -> tuple[str, str]:
        """Return the verdict, and the test that failed."""
        seen: list[Any] = []
        owner = site.function.rpartition(".")[0]

        def notice(thing: Any) -> None:
            elaborate = getattr(type(thing), "elaborate", None)
            names = getattr(elaborate, "__globals__", {})
            if names.get("__name__") == changed.module:
                changed.change(names)
            kinds = {kind.__qualname__ for kind in type(thing).__mro__}
            ours = any(not name.startswith("amaranth.") for name in modules_of(thing))
            if ours and (not owner or owner in kinds):
                seen.append(thing)

        signal.signal(signal.SIGVTALRM, _hang)
        order = self._order(session, site)
        with changed:
            with _watched(notice):
                by, raised = self._first_failure(order)
            if by:
                return INVALID if changed.raised(raised) else KILLED, by
            reached = Helpers.reached or (bool(seen) and not changed.traced)
            # Ports are made with the change, and keep it.
            port = site.function.endswith("__init__")
            same = self.compare and reached and not port and same_circuit(seen, changed)
        return SAME if same else SURVIVED if reached else UNREACHED, ""

    def _first_failure(self, order: list[pytest.Item]) -> tuple[str, Any]:
        """Run tests until one fails; return its name, and the traceback."""
        for item, following in zip(order, [*order[1:], None], strict=False):
            limit = FACTOR * self.timings[item.nodeid].seconds + SECONDS
            # Repeated, because code under test may swallow the first.
            signal.setitimer(signal.ITIMER_VIRTUAL, limit, SECONDS)
            self._run(item, following)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            if self._failure:
                return self._failure
        return "", None


def _move_caches(folder: Path, name: str) -> None:
    """Separate models and proofs of a trial: their cache key is the source, which is unchanged."""
    digest = f"changed: {name}"
    module: Any = build
    module.sources_digest = lambda **_: digest
    for kept, name in (("cosim.runner", "BUILD"), ("prove", "CACHE")):
        if kept in sys.modules:
            setattr(sys.modules[kept], name, folder / name)


def _forget_designs() -> None:
    """Let the next test make its designs, which it may share with tests before it."""
    if "pysim" in sys.modules:
        made: Any = sys.modules["pysim"].made
        made.cache_clear()


def _hang(*_: object) -> None:
    raise Hang


def _processor_time() -> float:
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def run(tests: list[str], options: list[str], plugin: Trials, folder: Path) -> None:
    """Run tests with the plugin, in this process.

    Raises ``RuntimeError`` if the tests cannot be run, or one fails without a change.
    """
    quiet = ["-p", "no:terminal", "-p", "no:cacheprovider", "--capture=no"]
    base = [f"--basetemp={folder}"]
    code = pytest.main([*quiet, *base, *options, *(str(ROOT / t) for t in tests)], [plugin])
    if plugin.failed:
        raise RuntimeError(f"fails without a change: {plugin.failed}")
    if code:
        raise RuntimeError(plugin.error or f"pytest: exit code {int(code)} for {' '.join(tests)}")
