import json
from typing import Any

import numpy as np
import prerequisites
import pytest
from devices.link import START, Bridge, Line, MachineRegisters, Noise

from celosia.hw.arch.link import MOST_WORDS
from celosia.hw.arch.pod import PAGE, PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import OFFSETS
from celosia.sw.driver.device import DeviceError
from celosia.sw.driver.frames import framed
from celosia.sw.driver.link import HostLink
from celosia.sw.driver.serial import LineDevice, LinePod
from celosia.sw.runtime.backends import open_device, open_pod
from celosia.sw.runtime.interpreter import open_program
from celosia.sw.runtime.session import Session

MEMORY = 1 << 18


def system(config="nano", memory_bytes=MEMORY) -> Any:
    """Return a line to a core of the machine model."""
    registers = MachineRegisters(preset(config), memory_bytes)
    # The machine's own memory, as bytes that can be replaced.
    return Line(Bridge(registers.machine.memory.data, registers))


def opened(line):
    return HostLink(line, line.bridge.description, name="line")


def device(line, config="nano"):
    return LineDevice(preset(config), len(line.bridge.memory), opened(line))


class PodRegisters(MachineRegisters):
    """Registers of a pod whose cores are one machine."""

    def read(self, offset):
        return super().read(offset % PAGE)

    def write(self, offset, value):
        return super().write(offset % PAGE, value)


def test_the_memory_ends_inside_the_window_of_the_last_core():
    window, size = MEMORY // 2, MEMORY // 2 - 1024
    line = system(memory_bytes=window + size)
    line.bridge.registers = PodRegisters(preset("nano"), 64)
    with pytest.raises(DeviceError, match=f"wanted {MEMORY - 1023} bytes .* has {MEMORY - 1024}"):
        LinePod(PodConfig(preset("nano"), 2), size + 1, opened(line))
    last = LineDevice(preset("nano"), size, opened(line), number=1, window=window)
    with pytest.raises(ValueError, match=f"wanted bytes below {size:#x}"):
        last.write(size - 2, b"last")


def test_memory(rng):
    line = system()
    link = opened(line)
    mirror = bytearray(line.bridge.memory)
    for _ in range(40):
        count = int(rng.integers(1, 9000))
        address = int(rng.integers(0, MEMORY - count))
        mirror[address : address + count] = data = rng.bytes(count)
        link.write(address, data)
        first = max(0, address - 100)
        assert link.read(first, count + 100) == mirror[first : first + count + 100]
    assert bytes(line.bridge.memory) == mirror
    assert link.repeated == 0
    link.write(0, b"")
    assert link.read(0, 0) == b""
    assert line.bridge.starts == [14, 1]


@pytest.mark.thorough
@pytest.mark.parametrize("rate", [0.0, 0.01])
def test_digits_over_a_line_that_damages_bytes(mnist_model, mnist, rng, rate):
    program = open_program(mnist_model, config="nano", batch=8)
    x = (mnist[0][:16].reshape(16, -1).astype(np.int16) - 128).astype(np.int8)
    x = x.reshape(16, *program.inputs[0].shape)
    results = []
    line = system(memory_bytes=program.memory_bytes + -program.memory_bytes % 4)
    line.requests, line.responses = Noise(rng, rate), Noise(rng, rate)
    both: Any = (open_device("machine", program.config, program.memory_bytes), device(line))
    for each in both:
        with Session(program, each) as session:
            results += session.run([x])
    assert np.array_equal(*results)
    assert bool(both[1].link.repeated) == bool(rate)
    assert line.bridge.registers.starts == 3
    assert line.closed


def test_a_line_too_noisy(rng):
    line = system()
    link = opened(line)
    line.responses = Noise(rng, 0.5)
    with pytest.raises(DeviceError, match="line: no response to 20 requests of 0x.*, all damaged"):
        link.read(0, 4000)


def test_blocks_shrink_and_grow(rng):
    line = system()
    link = opened(line)
    assert link.block == MOST_WORDS
    line.responses = Noise(rng, 0.01)
    link.read(0, 40_000)
    assert link.block < MOST_WORDS // 4
    line.responses = None
    link.read(0, 40_000)
    assert link.block == MOST_WORDS


def test_responses_to_others_are_left(rng):
    """A predecessor's response, and that of a request that was sent twice."""
    line = system()
    link = opened(line)
    line.leaving = framed(bytes(4)) + framed(bytes(8))
    line.bridge.memory[8:12] = data = rng.bytes(4)
    assert link.read(8, 4) == data
    assert not link.repeated


def test_a_write_whose_response_is_lost_is_done_once(monkeypatch):
    line = system()
    link = opened(line)
    receive, lost = line.receive, []

    def lose(seconds):
        data = receive(seconds)
        if data and not lost:
            lost.append(data)
            return b""
        return data

    monkeypatch.setattr(line, "receive", lose)
    link.write_registers(OFFSETS["program_address"], 64)
    assert lost and link.repeated == line.bridge.repeats == 1


def test_the_bus_refuses():
    link = opened(system())
    for access in (link.read_registers, link.write_registers):
        with pytest.raises(DeviceError, match="line: bus error at 0xe0000ffc"):
            access(0xFFC, 1)


def test_no_response():
    line = system()
    line.mute = True
    with pytest.raises(DeviceError, match="line: no response to 20 requests of 0xe0000000$"):
        opened(line)


def test_a_line_that_is_gone():
    line = system()
    link = opened(line)

    def gone(*_):
        raise OSError("unplugged")

    line.send = gone
    with pytest.raises(DeviceError, match="line: the line is gone: unplugged"):
        link.read(0, 4)


def test_predecessor_left_half_a_request():
    line = system()
    line.send(bytes((1, 200)))
    assert opened(line).read_registers(0) == [0x43454C4F]


def test_a_processor_gets_its_program(rng):
    line, program = system(), rng.bytes(1001)
    processor = {"reset": START, "held": 2, "program": 4096}
    HostLink(line, {**line.bridge.description, "processor": processor}, name="line").boot(program)
    assert bytes(line.bridge.memory[4096:][: len(program)]) == program
    assert line.bridge.starts == [14, 1, 2, 0]


def test_a_program_for_no_processor():
    with pytest.raises(DeviceError, match="line: wanted a system with a processor, got none"):
        opened(system()).boot(b"")


def test_registers():
    link = opened(system())
    link.write_registers(OFFSETS["program_address"], 64, 3)
    assert link.read_registers(OFFSETS["program_address"], 2) == [64, 3]


@pytest.mark.parametrize(
    ("name", "change", "is_taken"),
    [
        ("version", 0, True),
        ("version", 1, True),
        ("version", 0xFFFE, True),
        ("version", -1, False),
        ("version", 0x10000, False),
        ("version", -0x10000, False),
        ("magic", 1, False),
        ("fingerprint", 1, False),
    ],
)
def test_versions_of_cores(name, change, is_taken, monkeypatch):
    """A later minor version has more registers, a later major one others."""
    line = system()
    registers = line.bridge.registers
    value, read = registers.read(OFFSETS[name]) + change, registers.read
    monkeypatch.setattr(registers, "read", lambda n: value if n == OFFSETS[name] else read(n))
    if is_taken:
        assert device(line).read_registers(OFFSETS[name]) == [value]
        return
    with pytest.raises(DeviceError, match=f"^line: {name}: wanted 0x.*, got {value:#x}"):
        device(line)
    assert line.closed


def test_other_core_is_refused():
    line = system()
    with pytest.raises(DeviceError, match="fingerprint: wanted 0x.*; it is not a 'micro' core"):
        device(line, "micro")
    assert line.closed


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.json", "litex: wanted sim, sim@BOARD or DESCRIPTION.json@PORT, got 'none.json'"),
        ("sim+vexriscv@none", "litex: wanted a board of colorlight-i5, .*, got 'none'"),
        ("sim@none", "litex: wanted a board of colorlight-i5, .*, got 'none'"),
        ("none.json@/dev/null", "litex: none.json: .*No such file"),
        ("bad.json@/dev/null", "litex: bad.json: Expecting value"),
        ("list.json@/dev/null", "litex: list.json: wanted baud, cores, .*, processor, found none"),
        ("pod.json@none", "litex: pod.json: wanted a system of --cores 1, got 2"),
        ("good.json@none", "serial: .*could not open port"),
    ],
)
def test_names_of_systems(name, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("?")
    (tmp_path / "list.json").write_text("[]")
    good = {"baud": 9600, **system().bridge.description}
    (tmp_path / "good.json").write_text(json.dumps(good))
    (tmp_path / "pod.json").write_text(json.dumps({**good, "cores": 2}))
    with pytest.raises(DeviceError, match=says):
        open_device(f"litex:{name}", preset("nano"), MEMORY)


def test_no_processor_beside_a_pod():
    prerequisites.package("litex")
    prerequisites.package("pythondata_cpu_vexriscv")
    prerequisites.verilator()
    pod = PodConfig(preset("pico"), 2)
    with pytest.raises(DeviceError, match="wanted one core beside a processor, got 2"):
        open_pod("litex:sim+vexriscv", pod, MEMORY)
