"""Caches: files of others are not taken, and a home that cannot be written is no obstacle."""

import os
import re
from pathlib import Path

import pytest

from celosia.hw.environment import caches
from celosia.hw.environment.extras import ToolError
from celosia.hw.verilog import conversion
from celosia.sim.rtl import verilate
from celosia.sw.cli.messages import FAILED
from celosia.sw.workers.store import Store


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file belong to another user."""
    if os.getuid() == 0:
        os.chown(path, 1, 1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 1)


@pytest.mark.parametrize(("mode", "wanted"), [(0o644, True), (0o664, False), (0o646, False)])
def test_a_file_that_others_may_write_is_not_own(mode: int, wanted: bool, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    path.chmod(mode)
    assert caches.is_own(path) is wanted
    assert not caches.is_own(tmp_path / "gone")


def test_a_file_of_another_user_is_not_own(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "x"
    path.touch()
    give_away(path, monkeypatch)
    assert not caches.is_own(path)


def test_own_folders_are_closed_to_others(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert caches.own_folder(folder) == folder and folder.stat().st_mode & 0o777 == 0o755
    give_away(folder, monkeypatch)
    with pytest.raises(OSError, match=r"b: belongs to another user; CELOSIA_CACHE names another"):
        caches.own_folder(folder)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"file/c: cannot be made .*; CELOSIA_CACHE names another"):
        caches.own_folder(tmp_path / "file" / "c")


@pytest.mark.parametrize("change", ["owner", "mode", "none"])
def test_a_model_of_another_user_is_made_again(change: str, tmp_path: Path, monkeypatch) -> None:
    target = tmp_path / "models" / "x.so"
    made: list[bytes] = []

    def make() -> None:
        made.append(b"")
        target.unlink(missing_ok=True)
        target.write_bytes(b"\x7fELF")

    verilate.once(target, make)
    if change == "owner" and os.getuid() == 0:
        os.chown(target, 1, 1)
    elif change != "none":
        target.chmod(0o666)
    verilate.once(target, make)
    assert len(made) == (1 if change == "none" else 2)


def test_a_full_disk_is_named_with_the_variable(tmp_path: Path) -> None:
    def make() -> None:
        raise OSError(28, "No space left on device")

    wanted = r"models: cannot be written \(No space left on device\); CELOSIA_CACHE names another"
    with pytest.raises(OSError, match=wanted):
        verilate.once(tmp_path / "models" / "x.so", make)


class Runs:
    """An object whose pickle makes a file when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("ran",)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_kept_results_of_another_user_are_not_read(what: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path / "cache"))
    kept = Store(b"key")
    kept.write(0, Runs())
    kept.write(1, 7)
    (folder,) = (tmp_path / "cache" / "shards").iterdir()
    changed = folder / "0" if what == "file" else folder
    changed.chmod(0o777)
    assert kept.results() == ({1: 7} if what == "file" else {})
    assert not Path("ran").exists()
    changed.chmod(0o700)
    kept.results()
    assert Path("ran").exists(), "the pickle would have run"


def test_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HOME", "/proc")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.delenv("CELOSIA_CACHE", raising=False)
    monkeypatch.setattr(caches.tempfile, "gettempdir", lambda: str(tmp_path))
    caches.settle_caches.__wrapped__()
    folder = Path(os.environ["XDG_CACHE_HOME"])
    assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700
    printed = capsys.readouterr().err
    assert printed.startswith("celosia: note: /proc/.cache: cannot be written; caches are in ")
    assert printed.count("\n") == 1
    # It is writable now; with the variable nothing is printed.
    caches.settle_caches.__wrapped__()
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/x")
    monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path / "named"))
    caches.settle_caches.__wrapped__()
    assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / "named")
    assert capsys.readouterr().err == ""


def test_a_planted_folder_is_not_taken(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/x")
    monkeypatch.delenv("CELOSIA_CACHE", raising=False)
    monkeypatch.setattr(caches.tempfile, "gettempdir", lambda: str(tmp_path))
    planted = tmp_path / f"celosia-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    caches.settle_caches.__wrapped__()
    assert os.environ["XDG_CACHE_HOME"] != str(planted)


def test_an_error_of_yosys_is_one_line(monkeypatch) -> None:
    class Yosys:
        def run(self, *_: object, **__: object) -> str:
            raise conversion.YosysError("Traceback\n  File x\nWasmtimeError: no cache")

    monkeypatch.setattr(conversion, "find_yosys", lambda _: Yosys())
    with pytest.raises(ToolError, match=re.escape("yosys: WasmtimeError: no cache")):
        conversion.run_yosys("", ())
    assert ToolError in FAILED
