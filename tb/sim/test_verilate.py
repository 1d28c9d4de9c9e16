from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from celosia.sim.rtl.verilate import locked, once


def test_one_at_a_time_makes_a_model(tmp_path: Path) -> None:
    target = tmp_path / "models" / "core.so"
    starts, goes_on = Event(), Event()
    made: list[str] = []

    def first() -> None:
        starts.set()
        assert goes_on.wait(10)
        target.write_text("first")
        made.append("first")

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(once, target, first)
        assert starts.wait(10)
        other = pool.submit(once, target, lambda: made.append("second"))
        with pytest.raises(TimeoutError):
            other.result(0.2)
        goes_on.set()
        one.result(10)
        other.result(10)
    assert made == ["first"]
    target.unlink()
    once(target, lambda: target.write_text("third"))
    assert target.read_text() == "third"


def test_a_complete_file_needs_no_wait(tmp_path: Path) -> None:
    target = tmp_path / "core.so"
    once(target, lambda: target.write_text("made"))
    before = sorted(tmp_path.iterdir())
    for path in before:
        path.chmod(0o444)
    once(target, lambda: pytest.fail("it was there"))
    assert sorted(tmp_path.iterdir()) == before
    with locked(target), ThreadPoolExecutor(1) as pool:
        pool.submit(once, target, lambda: pytest.fail("it was there")).result(10)


@pytest.mark.parametrize("content", [b"mad", b"", b"mode"])
def test_a_changed_file_is_made_again(tmp_path: Path, content: bytes) -> None:
    target = tmp_path / "core.so"
    for _ in range(2):
        once(target, lambda: target.write_bytes(b"made"))
        assert target.read_bytes() == b"made"
        target.write_bytes(content)
    once(target, lambda: target.write_bytes(b"made"))
    (tmp_path / "core.so.sha256").write_bytes(b"\xff")
    again: list[int] = []

    def make() -> None:
        again.append(1)

    once(target, make)
    assert again == [1] and target.read_bytes() == b"made"


def test_models_of_other_names_do_not_wait(tmp_path: Path) -> None:
    with locked(tmp_path / "a"), locked(tmp_path / "b"):
        pass
