"""A LiteX system in Verilator whose core has its own clock."""

import random
from dataclasses import replace

import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.hw.litex.boards import BOARDS
from celosia.sim.model.machine import Machine
from celosia.sw.fuzz import stage
from celosia.sw.fuzz.programs.legal import legal
from celosia.sw.runtime.backends import open_device

prerequisites.package("litex")

pytestmark = pytest.mark.slow

SIZES = "pico"
#: MHz of core and bus: no multiples, the one or the other faster.
CLOCKS = [(62.5, 50), (48, 75)]
PROGRAMS = 12


@pytest.fixture(params=CLOCKS, ids=lambda clocks: "{}-{}".format(*clocks))
def system(request, monkeypatch) -> str:
    """The name of a device."""
    core, bus = (round(mhz * 1e6) for mhz in request.param)
    board = replace(BOARDS["ulx3s-25f"], clock_hz=core, bus_clock_hz=bus)
    monkeypatch.setitem(BOARDS, "two-clocks", board)
    return "litex:sim@two-clocks"


def test_digits(system, run_digits):
    got = run_digits(4, SIZES, system)
    assert np.array_equal(got, run_digits(4, SIZES, "machine"))


def test_random_programs(system, seed, figure):
    """Bytes of the machine model; an error of a program is one of the core, not of the crossing."""
    config = preset(SIZES)
    with prerequisites.needed():
        device = open_device(system, config, 1 << 20)
    cycles = 0
    for number in range(PROGRAMS):
        case = legal(config, random.Random(f"{seed} {number}"))
        numbers, first = np.random.default_rng(case.seed), case.bounds[0]
        image = numbers.integers(0, 256, case.memory_bytes, np.uint8)
        image[first:] = stage.content(config, numbers, image.size - first)
        code = np.frombuffer(case.code, np.uint8)
        image[case.address : case.address + code.size] = code
        machine = Machine(config, memory_bytes=image.size)
        machine.memory[:] = image
        machine.run(case.code)
        device.write(0, image.tobytes())
        result = device.run(case.address, case.count)
        assert result.error is None, number
        got = np.frombuffer(device.read(0, image.size), np.uint8)
        assert np.array_equal(got, machine.memory), number
        assert result.cycles
        cycles += result.cycles
    device.close()
    figure(f"{system}: {PROGRAMS} random programs, {cycles:,} cycles, 0 differences")
