from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from celosia.sim.verilate import locked, once


def test_one_at_a_time_makes_a_model(tmp_path: Path) -> None:
    target = tmp_path / "models" / "core.so"
    waits = Event()
    made: list[str] = []

    def second() -> None:
        waits.set()
        once(target, lambda: made.append("second"))

    with ThreadPoolExecutor(1) as pool:
        with locked(target):
            other = pool.submit(second)
            assert waits.wait(10)
            with pytest.raises(TimeoutError):
                other.result(0.2)
            target.write_text("first")
        other.result(10)
    assert made == []
    target.unlink()
    once(target, lambda: made.append("third"))
    assert made == ["third"]


def test_what_is_there_is_taken_without_a_wait(tmp_path: Path) -> None:
    target = tmp_path / "core.so"
    target.write_text("made")
    once(target, lambda: pytest.fail("it was there"))
    assert list(tmp_path.iterdir()) == [target]
    with locked(target), ThreadPoolExecutor(1) as pool:
        pool.submit(once, target, lambda: pytest.fail("it was there")).result(10)


def test_models_of_other_names_do_not_wait(tmp_path: Path) -> None:
    with locked(tmp_path / "a"), locked(tmp_path / "b"):
        pass
