"""The whole board in Verilator, and the real command on its serial line."""

import time

import numpy as np
import pytest

from celosia.hw.arch.config import preset
from celosia.sim.board import SimulatedBoard
from celosia.sw.cli import main
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.device import DeviceError

pytestmark = pytest.mark.slow

PRESET = "micro"
MEMORY = 1 << 18
DIGITS = 16


@pytest.fixture(scope="module")
def command(mnist_model, mnist, tmp_path_factory):
    """Runs ``celosia run`` on 16 digits on a device, and returns the results."""
    folder = tmp_path_factory.mktemp("serial")
    pixels = mnist[0][:DIGITS].reshape(DIGITS, -1).astype(np.int16)
    np.save(folder / "x.npy", (pixels - 128).astype(np.int8))

    def run(device):
        target = folder / "y.npy"
        arguments = ["run", str(mnist_model), "--input", str(folder / "x.npy")]
        arguments += ["--output", str(target), "--preset", PRESET, "--device", device]
        assert main(arguments) == 0
        return np.load(target)

    return run


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_same_bytes_as_the_machine(command, figure, noise):
    wanted = command("machine")
    with SimulatedBoard(preset(PRESET), memory_bytes=MEMORY, noise=noise) as board:
        start = time.monotonic()
        got = command(f"serial:{board.path}")
        figure(f"board, {noise:.0%} of bytes damaged: {time.monotonic() - start:.0f} s")
    assert np.array_equal(got, wanted)


def test_unplugged_in_the_middle_and_back_again(command):
    config = preset(PRESET)
    with SimulatedBoard(config, memory_bytes=MEMORY) as board:
        device = open_device(f"serial:{board.path}", config, MEMORY)
        device.write(0, bytes(range(256)))
    start = time.monotonic()
    with pytest.raises(DeviceError, match="the line is gone|no answer within"):
        device.write(0, bytes(100_000))
    assert time.monotonic() - start < 2
    device.close()
    with SimulatedBoard(config, memory_bytes=MEMORY) as board:
        device = open_device(f"serial:{board.path}", config, MEMORY)
        device.write(3, b"again")
        assert device.read(3, 5) == b"again"
        device.close()
