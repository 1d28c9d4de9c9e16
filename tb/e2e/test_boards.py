"""Whole boards in Verilator, their SDRAM chip judging, and the real command on their serial line."""

import time
from functools import partial

import numpy as np
import pytest

from celosia.hw.boards.table import BOARDS
from celosia.sim.board import SimulatedSdramBoard
from celosia.sw.runtime.backends import open_device

pytestmark = pytest.mark.slow

BOARD = BOARDS["ulx3s-12f"]
DIGITS = 16


@pytest.fixture
def command(run_digits):
    """Runs ``celosia run`` on digits on a device, and returns the results."""
    return partial(run_digits, DIGITS, BOARD.config.name)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_digits_through_line_sdram_and_core(command, figure, noise):
    wanted = command("machine")
    with SimulatedSdramBoard(BOARD, noise=noise) as board:
        start = time.monotonic()
        got = command(f"serial:{board.path}")
        figure(f"{BOARD.name}, {noise:.0%} of bytes damaged: {time.monotonic() - start:.0f} s")
    assert np.array_equal(got, wanted)
    assert board.close() == 0


def test_all_of_the_memory(rng):
    with SimulatedSdramBoard(BOARD) as board:
        device = open_device(f"serial:{board.path}", BOARD.config, BOARD.memory_bytes)
        places = [0, 1 << 20, (1 << 24) + 3, BOARD.memory_bytes - 700]
        written = [rng.integers(0, 256, 700, np.uint8).tobytes() for _ in places]
        for place, data in zip(places, written, strict=True):
            device.write(place, data)
        assert [device.read(place, 700) for place in places] == written
        device.close()
    assert board.close() == 0


def test_the_chip_ends_a_simulation_in_which_a_rule_is_broken(monkeypatch, capfd):
    from celosia.sim import board as boards

    right = boards._chip_arguments

    def slower(board):  # Than the controller takes it for, at any clock of a board.
        rows, columns, rcd, *rest = right(board)
        return (rows, columns, rcd + 8, *rest)

    monkeypatch.setattr(boards, "_chip_arguments", slower)
    with SimulatedSdramBoard(BOARD) as board:
        with pytest.raises(Exception, match="serial"):
            device = open_device(f"serial:{board.path}", BOARD.config, 1 << 20)
            device.write(0, bytes(64))
            device.read(0, 64)
    assert board.close() == 3
    assert "sdram: tRCD in cycle" in capfd.readouterr().err
