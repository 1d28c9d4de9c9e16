from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from celosia.sim.verilate import locked


def test_one_at_a_time_makes_a_model(tmp_path: Path) -> None:
    target = tmp_path / "models" / "core.so"
    waits, made = Event(), []

    def second() -> None:
        waits.set()
        with locked(target):
            made.append(target.read_text() if target.exists() else "second")

    with ThreadPoolExecutor(1) as pool:
        with locked(target):
            other = pool.submit(second)
            assert waits.wait(10)
            with pytest.raises(TimeoutError):
                other.result(0.2)
            target.write_text("first")
        other.result(10)
    assert made == ["first"]


def test_models_of_other_names_do_not_wait(tmp_path: Path) -> None:
    with locked(tmp_path / "a"), locked(tmp_path / "b"):
        pass
