"""The whole board in Verilator, and the real command on its serial line."""

import time
from functools import partial
from typing import Any

import numpy as np
import pytest
from devices.board import SimulatedBoard

from celosia.hw.arch.config import preset
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.device import DeviceError

pytestmark = pytest.mark.slow

PRESET = "micro"
MEMORY = 1 << 18
DIGITS = 16


@pytest.fixture
def command(run_digits):
    """Runs ``celosia run`` on digits on a device, and returns the results."""
    return partial(run_digits, DIGITS, PRESET)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_same_bytes_as_the_machine(command, figure, noise):
    wanted = command("machine")
    with SimulatedBoard(preset(PRESET), memory_bytes=MEMORY, noise=noise) as board:
        start = time.monotonic()
        got = command(f"serial:{board.path}")
        figure(f"board, {noise:.0%} of bytes damaged: {time.monotonic() - start:.0f} s")
        device: Any = open_device(f"serial:{board.path}", preset(PRESET), MEMORY)
        device.write(0, bytes(4096))
        device.close()
    assert bool(device.link.repeated) == bool(noise)
    assert np.array_equal(got, wanted)


def test_unplugged_in_the_middle_and_back_again(command):
    config = preset(PRESET)
    with SimulatedBoard(config, memory_bytes=MEMORY) as board:
        device = open_device(f"serial:{board.path}", config, MEMORY)
        device.write(0, bytes(range(256)))
    start = time.monotonic()
    with pytest.raises(DeviceError, match="the line is gone|no response within"):
        device.write(0, bytes(100_000))
    assert time.monotonic() - start < 2
    device.close()
    with SimulatedBoard(config, memory_bytes=MEMORY) as board:
        device = open_device(f"serial:{board.path}", config, MEMORY)
        device.write(3, b"again")
        assert device.read(3, 5) == b"again"
        device.close()
