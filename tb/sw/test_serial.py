import json
import os
import select
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from devices.link import Bridge, MachineRegisters, Noise

from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import OFFSETS, Control, Status
from celosia.sw.cli import main
from celosia.sw.driver.device import DeviceError
from celosia.sw.driver.serial import open_port
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.interpreter import open_program
from celosia.sw.runtime.session import Session

pytestmark = pytest.mark.thorough

MEMORY = 1 << 18


class Board:
    """A core of the machine model at a pseudo-terminal.

    ``config``: sizes of the core; ``noise``: damages both directions.
    """

    def __init__(self, config, *, noise=None, memory_bytes=MEMORY):
        self.registers = MachineRegisters(config, memory_bytes)
        self.bridge = Bridge(self.registers.machine.memory.data, self.registers)
        self.noise = noise
        self.received = 0
        self.stop = threading.Event()
        self.limit = None
        self.mute_at = None
        self.gone = None
        self.held = threading.Lock()
        self.plug()

    def plug(self):
        """Begin to listen on a new terminal."""
        self.line, self.terminal = os.openpty()
        described = {"baud": 3_000_000, **self.bridge.description}
        self.folder = TemporaryDirectory()
        path = Path(self.folder.name) / "celosia.json"
        path.write_text(json.dumps(described))
        self.device = f"litex:{path}@{os.ttyname(self.terminal)}"
        self.stop.clear()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        try:
            while not self.stop.is_set():
                if not select.select([self.line], [], [], 0.02)[0]:
                    continue
                with self.held:
                    pass
                received = os.read(self.line, 4096)
                self.received += len(received)
                if self.limit is not None and self.received > self.limit:
                    self.gone = time.monotonic()
                    return
                if self.mute_at is not None and self.received > self.mute_at:
                    self.gone = self.gone or time.monotonic()
                    continue
                responses = self.bridge.feed(self._pass(received))
                os.write(self.line, self._pass(responses))
        finally:
            os.close(self.line)

    def _pass(self, data):
        return data if self.noise is None else self.noise.pass_on(data)

    def unplug(self):
        """Close the terminal's other end."""
        self.stop.set()
        self.thread.join()
        os.close(self.terminal)
        self.folder.cleanup()


@pytest.fixture
def board():
    """Makes boards, and unplugs them with the test."""
    boards = []

    def make(*arguments, **options):
        boards.append(Board(*arguments, **options))
        return boards[-1]

    yield make
    for made in boards:
        made.unplug()


def until(holds):
    """Wait for what happens beside the test."""
    end = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def open_board(made, config="nano", memory_bytes=MEMORY) -> Any:
    return open_device(made.device, preset(config), memory_bytes)


def test_memory(board, rng):
    made = board(preset("nano"))
    device = open_board(made)
    mirror = made.registers.machine.memory.copy()
    for _ in range(40):
        count = int(rng.integers(1, 3000))
        address = int(rng.integers(0, MEMORY - count))
        data = rng.bytes(count)
        device.write(address, data)
        mirror[address : address + count] = np.frombuffer(data, np.uint8)
        first = max(0, address - 100)
        assert device.read(first, count + 100) == mirror[first : first + count + 100].tobytes()
    assert np.array_equal(made.registers.machine.memory, mirror)
    assert device.link.repeated == 0
    device.write(0, b"")
    assert device.read(0, 0) == b""
    device.close()


@pytest.fixture(scope="module")
def digits(mnist_model, mnist):
    """A program, 16 digits, and what the machine makes of them."""
    program = open_program(mnist_model, config="nano", batch=8)
    images = (mnist[0][:16].reshape(16, -1).astype(np.int16) - 128).astype(np.int8)
    x = images.reshape(16, *program.inputs[0].shape)
    with Session(program, open_device("machine", program.config, program.memory_bytes)) as session:
        (y,) = session.run([x])
    return program, x, y


@pytest.mark.parametrize("rate", [0.0, 0.002, pytest.param(0.01, marks=pytest.mark.slow)])
def test_digits_are_the_same_bytes(board, digits, rng, rate):
    program, x, y = digits
    noise = Noise(rng, rate)
    made = board(program.config, noise=noise, memory_bytes=program.memory_bytes)
    device = open_board(made, memory_bytes=program.memory_bytes)
    with Session(program, device) as session:
        (got,) = session.run([x])
    assert np.array_equal(got, y)
    # Set-up, and two batches of eight.
    assert made.registers.starts == 3
    assert bool(noise.damaged) == bool(rate)
    assert device.link.repeated or not rate


def test_command(board, digits, mnist_model, tmp_path):
    program, x, y = digits
    made = board(program.config, memory_bytes=program.memory_bytes)
    source, target = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(source, x)
    arguments = ["run", str(mnist_model), "--input", str(source), "--output", str(target)]
    arguments += ["--preset", "nano", "--batch", "8", "--device", made.device]
    assert main(arguments) == 0
    assert np.array_equal(np.load(target), y)


def test_program_error_is_reported_and_the_next_program_runs(board, digits):
    program, x, y = digits
    made = board(program.config, memory_bytes=program.memory_bytes)
    device = open_board(made, memory_bytes=program.memory_bytes)
    with Session(program, device) as session:
        device.write(program.main.address, bytes((0xFF,)) * 64)
        with pytest.raises(DeviceError, match="OPCODE in SEQUENCER: instruction 0 of main"):
            session.run([x])
        device.write(program.main.address, program.main.code)
        assert np.array_equal(session.run([x])[0], y)


@pytest.mark.parametrize("how", ["limit", "mute_at"])
def test_unplugged_in_the_middle(board, digits, how):
    """The terminal closes, or there are no more responses."""
    program, x, y = digits
    made = board(program.config, memory_bytes=program.memory_bytes)
    setattr(made, how, 20_000)
    with pytest.raises(DeviceError, match=r"^litex \S+: (no response|the line is gone)"):
        with Session(program, open_board(made, memory_bytes=program.memory_bytes)) as session:
            session.run([x])
    assert time.monotonic() - made.gone < 4
    made.unplug()
    setattr(made, how, None)
    made.plug()
    with Session(program, open_board(made, memory_bytes=program.memory_bytes)) as session:
        assert np.array_equal(session.run([x])[0], y)


def test_no_response(board):
    made = board(preset("nano"))
    made.mute_at = 0
    start = time.monotonic()
    with pytest.raises(DeviceError, match="no response to 20 requests"):
        open_board(made)
    assert time.monotonic() - start < 4


def test_a_port_that_takes_nothing_for_a_while(board):
    """As where the far end's process is not scheduled."""
    made = board(preset("nano"))
    device = open_board(made)
    with made.held:
        device.link.transport.send(bytes(1 << 16))
    device.write(64, b"four bytes more")
    assert device.read(64, 15) == b"four bytes more"
    device.close()


def test_predecessor_left_an_error(board):
    made = board(preset("nano"))
    device = open_board(made)
    device.write(0, bytes((0xFF,)) * 64)
    device.link.write_registers(OFFSETS["program_address"], 0, 1)
    device.link.write_registers(OFFSETS["control"], Control.START.value)
    device.link.transport.send(b"\x01half a frame")
    device.close()
    until(lambda: made.registers.read(OFFSETS["status"]) == Status.ERROR.value)
    open_board(made).close()
    assert made.registers.read(OFFSETS["status"]) == 0


def test_other_core_is_refused(board):
    made = board(preset("nano"))
    with pytest.raises(DeviceError, match="fingerprint: wanted 0x.*; it is not a 'micro' core"):
        open_board(made, "micro")
    open_board(made).close()


def test_too_little_memory(board):
    made = board(preset("nano"))
    with pytest.raises(DeviceError, match="wanted 262145 bytes of external memory, the board has"):
        open_board(made, memory_bytes=MEMORY + 1)


def test_address_outside_is_reported(board):
    device = open_board(board(preset("nano")))
    with pytest.raises(DeviceError, match="bus error at 0x40040000"):
        device.link.read(MEMORY, 4)
    with pytest.raises(DeviceError, match="bus error at 0x4003fffc"):
        device.link.write(MEMORY - 4, bytes(8))
    device.close()


def test_a_run_that_was_broken_off_is_ended_before_the_next(board, digits):
    """An interrupted driver leaves the core at work; the next end must not be that one's."""
    program, x, y = digits
    made = board(program.config, memory_bytes=program.memory_bytes)
    device = open_board(made, memory_bytes=program.memory_bytes)
    with Session(program, device) as session:
        held, machine = threading.Event(), made.registers.machine
        run, machine.run = machine.run, lambda words: held.wait(5)
        looks = device.pauses
        device.pauses = interrupted
        with pytest.raises(KeyboardInterrupt):
            session.run([~x])
        device.pauses, machine.run = looks, run
        threading.Timer(0.3, held.set).start()
        assert np.array_equal(session.run([x])[0], y)
    # Set-up, the one broken off, set-up, and two batches of eight.
    assert made.registers.starts == 5


def interrupted(*, running):
    raise KeyboardInterrupt
    yield


def test_a_core_that_forgets_its_program_is_reported(board, digits):
    program, x, _ = digits
    made = board(program.config, memory_bytes=program.memory_bytes)
    with Session(program, open_board(made, memory_bytes=program.memory_bytes)) as session:
        held = threading.Event()
        made.registers.machine.run = lambda words: held.wait(5)
        values, status = made.registers._values, OFFSETS["status"]

        def forget():
            values[status] = 0

        threading.Timer(0.3, forget).start()
        with pytest.raises(DeviceError, match="wanted the end of a program, the core knows of no"):
            session.run([x])
        held.set()


def test_a_program_that_the_model_cannot_run_ends(board):
    made = board(preset("nano"))
    device = open_board(made)
    device.link.write_registers(OFFSETS["program_address"], MEMORY - 64, 2)
    device.link.write_registers(OFFSETS["control"], Control.START.value)
    until(lambda: made.registers.read(OFFSETS["status"]) == Status.ERROR.value)
    device.close()


@pytest.mark.parametrize("baud", [0, 1 << 32])
def test_no_such_speed(baud):
    with pytest.raises(DeviceError, match=f"wanted 1 to 2147483647 bits per second, got {baud}"):
        open_port("/dev/null", baud)


def test_no_such_port(tmp_path):
    with pytest.raises(DeviceError, match="^serial: .*could not open port"):
        open_port(str(tmp_path / "none"), 3_000_000)


@pytest.mark.parametrize("name", ["litex", "litex:", "serial:/dev/x"])
def test_names_of_devices(name, capsys):
    with pytest.raises(SystemExit):
        main(["run", "m", "--input", "x", "--output", "y", "--device", name])
    assert "argument --device: wanted one of machine, rtl, litex:SYSTEM" in capsys.readouterr().err


@pytest.mark.parametrize("count", [0, 1 << 24])
def test_length_of_a_program(board, count):
    device = open_board(board(preset("nano")))
    with pytest.raises(ValueError, match="program: wanted 1 to 16777215 words"):
        device.run(0, count)
    device.close()
