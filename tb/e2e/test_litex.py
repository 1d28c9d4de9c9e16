"""A whole LiteX system in Verilator, from the bytes of its line to the model of its memory."""

import json
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import prerequisites
import pytest
from devices.link import Noise
from networks import FullyConnected, write_fully_connected

from celosia.hw.arch.pod import PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import MAGIC, OFFSETS
from celosia.sim.rtl import system
from celosia.sim.rtl.converted import core_verilog
from celosia.sim.rtl.verilate import compile_library
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.driver.device import DeviceError
from celosia.sw.driver.levelling import level
from celosia.sw.driver.link import HostLink
from celosia.sw.driver.serial import LinePod
from celosia.sw.frontend.tflite import load
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.opening import open_session
from celosia.sw.runtime.session import Session

prerequisites.package("litex")

pytestmark = pytest.mark.thorough

SIZES = "nano"
MEMORY = 32 << 20


def test_digits(run_digits):
    assert np.array_equal(run_digits(4, SIZES, "litex:sim"), run_digits(4, SIZES, "machine"))


@pytest.mark.slow
@pytest.mark.parametrize("board", ["ulx3s-85f", "ecpix5-85f"])
def test_digits_from_the_memory_of_a_board(run_digits, board):
    """SDRAM at twice the clock, and DDR3 whose reads the host levels."""
    sizes = "pico"
    got = run_digits(16, sizes, f"litex:sim@{board}")
    assert np.array_equal(got, run_digits(16, sizes, "machine"))


@pytest.mark.slow
def test_ddr3_reads_nothing_until_it_is_levelled(rng):
    windows = prerequisites.package("celosia.hw.litex.levelled").WINDOWS
    with prerequisites.needed():
        path = system.model(preset("pico"), "ecpix5-85f")
    described, data = system.description(path), rng.bytes(700)
    line = system.SimulatedLine(path)
    link = HostLink(line, {**described, "levelling": {}}, name="unlevelled")
    link.write(1024, data)
    assert link.read(1024, 700) == b"\xff" * 700
    found = level(link, described["levelling"])
    assert found == [(bitslip, (first + last) // 2) for bitslip, first, last in windows]
    assert link.read(1024, 700) == data
    link.close()


def test_a_pod(mnist_model, rng, capfd):
    """Two cores, one of which stops: the bytes of one core."""
    program = compile_graph(load(mnist_model), preset("pico"), 2)
    x = rng.integers(-128, 128, (7, *program.inputs[0].shape)).astype(np.int8)
    with open_session(program) as session:
        (wanted,) = session.run([x])
    with prerequisites.needed():
        session = open_session(program, device="litex:sim", cores=2)
    opened: Any = session.pod
    with session:
        assert np.array_equal(session.run([x])[0], wanted)
        assert capfd.readouterr().out == ""
        opened.cores[1].set_register("watchdog", 10)
        assert np.array_equal(session.run([x])[0], wanted)
        assert "core 1: WATCHDOG in " in capfd.readouterr().err
        first, window = opened.cores[0], opened.cores[1].base
        with pytest.raises(ValueError, match=f"wanted bytes below {window:#x}, got 2 bytes"):
            first.write(window - 1, bytes(2))
        pod, half = PodConfig(preset("pico"), 2), MEMORY // 2
        with pytest.raises(DeviceError, match=f"wanted {3 * half + 1} bytes .* has {MEMORY}"):
            LinePod(pod, half + 1, opened.link)


@pytest.fixture
def device():
    with prerequisites.needed():
        made = open_device("litex:sim", preset(SIZES), MEMORY)
    yield made
    made.close()


def test_all_of_the_memory(device, rng):
    places = [1, 1 << 20, (1 << 24) + 3, MEMORY - 700]
    written = [rng.bytes(700) for _ in places]
    for place, data in zip(places, written, strict=True):
        device.write(place, data)
    assert [device.read(place, 700) for place in places] == written


@pytest.mark.slow
def test_a_chip_slower_than_the_controller_believes(tmp_path, monkeypatch, capfd):
    simulated = prerequisites.package("celosia.hw.litex.simulated")

    sheet = copy(simulated.MT48LC16M16.speedgrade_timings["default"])
    sheet.tRCD = 60

    class Slow(simulated.MT48LC16M16):
        speedgrade_timings = {"default": sheet}

    monkeypatch.setattr(simulated.SimulatedSystem, "chip", Slow)
    monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path))
    with prerequisites.needed(), pytest.raises(DeviceError, match="against its data sheet"):
        device = open_device("litex:sim", preset("pico"), MEMORY)
        device.write(0, bytes(64))
        device.read(0, 64)
    assert "ACT->RD violation on bank 0" in capfd.readouterr().out


def test_a_layer_over_a_line_that_damages_bytes(device, rng):
    """One in a hundred bytes, in both directions: the same results."""
    weights = rng.integers(-127, 128, (20, 784), np.int8)
    layer = FullyConnected(weights=weights, weight_scale=0.01, output_scale=0.5)
    graph = load(write_fully_connected([layer], input_scale=0.5))
    program = compile_graph(graph, preset(SIZES), 4)
    x = rng.integers(-128, 128, (4, *program.inputs[0].shape), np.int8)
    link, transport = device.link, device.link.transport
    responses, requests = Noise(rng, 0.01), Noise(rng, 0.01)
    receive, send = transport.receive, transport.send
    transport.receive = lambda seconds: responses.pass_on(receive(seconds))
    transport.send = lambda sent: send(requests.pass_on(sent))
    (y,) = Session(program, device).run([x])
    transport.receive, transport.send = receive, send
    with Session(program, open_device("machine", preset(SIZES), MEMORY)) as session:
        assert np.array_equal(y, session.run([x])[0])
    assert min(responses.damaged, requests.damaged, link.repeated) > 100


#: Cycles of a bit.
DIVISOR = 4


@pytest.mark.slow
def test_a_line_of_levels(tmp_path, rng):
    """The receiver and transmitter of LiteX, and bytes that come one after the other."""
    simulated = prerequisites.package("celosia.hw.litex.simulated")
    migen = prerequisites.package("migen")
    uart = prerequisites.package("litex.soc.cores.uart")
    config, target = preset("pico"), tmp_path / "system.so"

    class Serial(simulated.SimulatedSystem):
        clock_hz = 1_000_000

        def line(self, pads):
            """Two ends of a line of levels, the host's with streams again."""
            core, host = (migen.Record([("tx", 1), ("rx", 1)]) for _ in range(2))
            self.comb += [core.rx.eq(host.tx), host.rx.eq(core.tx)]
            self.host = uart.RS232PHY(host, self.clock_hz, self.clock_hz // DIVISOR)
            self.streams = super().line(pads)
            self.comb += self.streams.source.connect(self.host.sink)
            self.comb += self.host.source.connect(self.streams.sink)
            return uart.RS232PHY(core, self.clock_hz, self.clock_hz // DIVISOR)

    text, description = simulated.simulated(config, Serial)
    target.with_suffix(".json").write_text(json.dumps(description))
    harness = [Path(system.__file__).with_suffix(".cpp")]
    with prerequisites.needed():
        compile_library(
            f"{text}\n{core_verilog(config)}",
            target,
            harness,
            level="-O1",
            top=simulated.TOP,
            definitions=["VL_USER_FINISH"],
        )
    line = system.SimulatedLine(target)
    line.seconds_per_byte = 10 * DIVISOR / Serial.clock_hz
    # The line is high for a while before anybody sends.
    line.receive(1e-3)
    link = HostLink(line, description, name="levels")
    for place, count in ((0, 4000), (5, 1), ((1 << 22) + 2, 1023)):
        data = rng.bytes(count)
        link.write(place, data)
        assert link.read(place, count) == data
    assert link.read_registers(OFFSETS["magic"]) == [MAGIC]
    assert not link.repeated
    link.close()
