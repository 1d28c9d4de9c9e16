"""Whole boards in Verilator, checked by their SDRAM; the real command on their serial line."""

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from devices.board import SimulatedBoard

from celosia.hw.boards.table import BOARDS
from celosia.sw.runtime.backends import open_device

pytestmark = pytest.mark.slow

BOARD = BOARDS["ulx3s-12f"]
DIGITS = 16


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("name", ["ulx3s-12f", "ulx3s-85f"])
def test_digits_through_line_sdram_and_core(run_digits, figure, name, noise):
    sizes = BOARDS[name].config.name
    wanted = run_digits(DIGITS, sizes, "machine")
    with SimulatedBoard(BOARDS[name], noise=noise) as board:
        start = time.monotonic()
        got = run_digits(DIGITS, sizes, f"serial:{board.path}")
        figure(f"{name}, {noise:.0%} of bytes damaged: {time.monotonic() - start:.0f} s")
        device: Any = open_device(f"serial:{board.path}", BOARDS[name].config, 4096)
        device.write(0, bytes(4096))
        device.close()
    assert bool(device.link.repeated) == bool(noise)
    assert np.array_equal(got, wanted)
    assert board.close() == 0


def test_unplugged_in_the_middle_of_a_run(run_digits, mnist_model, tmp_path, figure):
    np.save(tmp_path / "x.npy", np.zeros((200, 784), np.int8))  # For a minute.
    words = ["run", mnist_model, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"]
    words += ["--preset", BOARD.config.name]
    with SimulatedBoard(BOARD) as board:
        words = [sys.executable, "-m", "celosia.sw", *words, "--device", f"serial:{board.path}"]
        pipe = subprocess.PIPE
        run = subprocess.Popen(list(map(str, words)), stdout=pipe, stderr=pipe, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            run.communicate(timeout=8)
    start = time.monotonic()
    complaint = run.communicate(timeout=10)[1].splitlines()
    seconds = time.monotonic() - start
    figure(f"unplugged, {seconds:.1f} s later: {complaint[-1]}")
    assert run.returncode == 1 and seconds < 2
    assert "serial" in complaint[-1]
    assert not (tmp_path / "y.npy").exists()
    with SimulatedBoard(BOARD) as board:
        again = run_digits(1, BOARD.config.name, f"serial:{board.path}")
    assert np.array_equal(again, run_digits(1, BOARD.config.name, "machine"))


def test_all_of_the_memory(rng):
    with SimulatedBoard(BOARD) as board:
        device = open_device(f"serial:{board.path}", BOARD.config, BOARD.memory_bytes)
        places = [0, 1 << 20, (1 << 24) + 3, BOARD.memory_bytes - 700]
        written = [rng.integers(0, 256, 700, np.uint8).tobytes() for _ in places]
        for place, data in zip(places, written, strict=True):
            device.write(place, data)
        assert [device.read(place, 700) for place in places] == written
        device.close()
    assert board.close() == 0


def test_the_chip_ends_a_simulation_in_which_a_rule_is_broken(monkeypatch, capfd):
    from devices import board as boards

    right = boards._chip_arguments

    def slower(board):  # Than the controller takes it for, at any clock of a board.
        rows, columns, rcd, *rest = right(board)
        return (rows, columns, rcd + 8, *rest)

    monkeypatch.setattr(boards, "_chip_arguments", slower)
    with SimulatedBoard(BOARD) as board:
        with pytest.raises(Exception, match="serial"):
            device = open_device(f"serial:{board.path}", BOARD.config, 1 << 20)
            device.write(0, bytes(64))
            device.read(0, 64)
    assert board.close() == 3
    assert "sdram: tRCD in cycle" in capfd.readouterr().err
