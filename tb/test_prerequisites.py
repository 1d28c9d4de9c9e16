"""A missing tool skips tests on a developer's machine and fails them in CI."""

import re
import subprocess
import sys
from pathlib import Path

import prerequisites
import pytest

from celosia.sim.rtl.simulators import SimulatorNotFound


@pytest.fixture(params=["true", "", None])
def outcome(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[BaseException]:
    """Return what a missing prerequisite raises, with this value of ``CI``."""
    if request.param is None:
        monkeypatch.delenv("CI", raising=False)
    else:
        monkeypatch.setenv("CI", request.param)
    return pytest.fail.Exception if request.param else pytest.skip.Exception


def absent(*_: object) -> None:
    raise SimulatorNotFound("wanted one, found none")


@pytest.mark.parametrize("name", ["verilator", "icarus"])
def test_no_simulator(name, outcome, monkeypatch) -> None:
    monkeypatch.setattr(prerequisites, f"find_{name}", absent)
    with pytest.raises(outcome, match="wanted one, found none"):
        getattr(prerequisites, name)()


def test_no_browser(outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(outcome, match="Chromium not found: install the package chromium"):
        prerequisites.browser()


def test_no_package(outcome: type[BaseException]) -> None:
    with pytest.raises(outcome, match="no_such_package.inside: No module named"):
        prerequisites.package("no_such_package.inside")


def test_no_tool(outcome: type[BaseException]) -> None:
    with pytest.raises(outcome, match="no yosys"), prerequisites.needed(LookupError):
        raise LookupError("no yosys")
    with pytest.raises(ValueError, match="a bug"), prerequisites.needed(LookupError):
        raise ValueError("a bug")


def test_what_is_there(outcome: type[BaseException]) -> None:
    assert prerequisites.package("json").dumps([]) == "[]"
    with prerequisites.needed():
        pass


@pytest.mark.parametrize("marker", ["", "@pytest.mark.slow\n"])
def test_a_test_that_hangs_fails(marker: str, root: Path, tmp_path: Path) -> None:
    """Limits of the project, a hundred thousand times shorter."""
    folder = tmp_path / "tb"
    folder.mkdir()
    settings = (root / "pyproject.toml").read_text()
    limit = re.search(r"(?m)^timeout = (\d+)$", settings)
    assert limit is not None and int(limit[1]) == 900
    (tmp_path / "pyproject.toml").write_text(settings.replace(limit[0], "timeout = 0.3"))
    conftest = (root / "tb" / "conftest.py").read_text()
    assert "SLOW_SECONDS = 3 * 3600\n" in conftest
    (folder / "conftest.py").write_text(conftest.replace("= 3 * 3600\n", "= 0.6\n"))
    body = f"import time\nimport pytest\n\n\n{marker}def test_it():\n    time.sleep(0.45)\n"
    (folder / "test_it.py").write_text(body)
    command = [sys.executable, "-m", "pytest", "--long", "-q", "-p", "no:cacheprovider", "tb"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ("Timeout" in ended.stdout) is (ended.returncode == 1) is not marker, ended.stdout
