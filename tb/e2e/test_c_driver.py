"""Files of ``celosia verilog``: Verilog and driver in C, beside the core that is simulated."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import c_driver
import numpy as np
import prerequisites
import pytest
from c_driver import FAILED, MISMATCH, NOT_FOUND, OK, RUNNING, TIMEOUT, TOO_LARGE

from celosia.hw.arch import isa
from celosia.hw.arch.presets import PRESETS
from celosia.hw.arch.registers import COUNTERS_PER_UNIT, OFFSETS, Activity
from celosia.sim.rtl import core as rtl
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.driver.core import Driver, RunResult
from celosia.sw.export.program import c_program
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program
from celosia.sw.runtime.interpreter import open_session
from celosia.sw.runtime.rtl import RtlDriver

pytestmark = [pytest.mark.thorough, pytest.mark.slow]

NANO = PRESETS["nano"]
#: Registers of the memory that programs may touch.
BOUNDS = ("memory_base", "memory_limit")


class Simulated(Driver):
    """The Python driver on a second model; records what is written to registers."""

    array = "cells"

    def __init__(self, library: Any, memory_bytes: int) -> None:
        self.library, self.memory_bytes = library, memory_bytes
        self.device = library.celosia_open(memory_bytes, 32, 65536)
        self.writes: list[tuple[int, int]] = []
        self.wait = True

    def read_registers(self, offset: int, count: int = 1) -> list[int]:
        value, values = ctypes.c_uint32(), []
        for n in range(count):
            place = offset + 4 * n
            assert not self.library.celosia_read_register(self.device, place, ctypes.byref(value))
            values.append(value.value)
        return values

    def write_registers(self, offset: int, *values: int) -> None:
        for n, value in enumerate(values):
            self.writes.append((offset + 4 * n, value))
            assert not self.library.celosia_write_register(self.device, offset + 4 * n, value)

    def cleared(self) -> None:
        self.library.celosia_wait(self.device, COUNTERS_PER_UNIT)

    def pauses(self, *, running: bool) -> Iterator[None]:
        for _ in range(1 << 18):
            if running:
                self.library.celosia_wait(self.device, 1 << 20)
            yield

    def failure(self, text: str) -> Exception:
        return RuntimeError(text)

    def memory(self) -> np.ndarray:
        return np.ctypeslib.as_array(
            self.library.celosia_memory(self.device), shape=(self.memory_bytes,)
        )


class Bench(NamedTuple):
    program: Program
    driver: Any
    library: Any


@pytest.fixture(scope="module")
def bench(mnist_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The program in C and the driver, compiled; the model of the Verilog that is written."""
    assert rtl.fast(NANO) == NANO
    prerequisites.verilator()
    folder = tmp_path_factory.mktemp("driver")
    program = compile_graph(load(mnist_model), NANO, 1)
    driver = c_driver.compiled(folder, NANO, {"digits": c_program(program, "digits")})
    return Bench(program, driver, rtl._library(rtl.model(NANO)))


class Host(c_driver.Host):
    """A processor that runs the driver in C: its registers are those of a simulated core."""

    def __init__(self, bench: Bench, memory_bytes: int) -> None:
        self.bus = Simulated(bench.library, memory_bytes)
        super().__init__(
            bench.driver,
            lambda offset: self.bus.read_registers(offset)[0],
            self.bus.write_registers,
        )
        self.program = c_driver.Program.in_dll(self.driver, "digits")
        self.result = self.init(self.bus.memory().ctypes.data, memory_bytes)

    def load(self) -> int:
        return self.call("load", ctypes.byref(self.program))

    def digit(self, x: np.ndarray, count: int) -> tuple[int, np.ndarray]:
        y = np.zeros(count, np.int8)
        return self.run(self.program, [x], [y]), y


def images(mnist: tuple[np.ndarray, np.ndarray], count: int) -> np.ndarray:
    return (mnist[0][:count].reshape(count, -1).astype(np.int16) - 128).astype(np.int8)


def driven(device: Driver, memory: np.ndarray, program: Program, x: np.ndarray) -> list[RunResult]:
    """Return the ends of all sections on a device of the driver in Python."""
    for segment in program.segments:
        memory[segment.address :][: len(segment.data)] = np.frombuffer(segment.data, np.uint8)
    for _, section in program.sections:
        memory[section.address :][: len(section.code)] = np.frombuffer(section.code, np.uint8)
    runs = [device.run(s.address, s.words) for s in program.once]
    for image in x:
        memory[program.inputs[0].address :][: image.size] = image.view(np.uint8)
        runs += [device.run(s.address, s.words) for s in program.per_batch]
    return runs


def _without_bounds(writes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    offsets = [OFFSETS[name] for name in BOUNDS]
    return [write for write in writes if write[0] not in offsets]


def test_digits(bench: Bench, mnist: tuple[np.ndarray, np.ndarray]) -> None:
    """Outputs as on the machine model; writes, cycles and counters as with the Python driver.

    And these, and all of memory, as on the Verilog that ``--device rtl`` simulates.
    """
    program, x = bench.program, images(mnist, 1)
    with open_session(program, device="machine") as session:
        wanted = session.run([x])[0]
    host = Host(bench, program.memory_bytes)
    assert (host.result, host.load()) == (OK, OK)
    for image, scores in zip(x, wanted, strict=True):
        result, y = host.digit(image, scores.size)
        assert result == OK
        np.testing.assert_array_equal(y, scores)

    python = Simulated(bench.library, program.memory_bytes)
    python.set_register("interrupt_enable", 3)
    python.acknowledge()
    runs = driven(python, python.memory(), program, x)
    with RtlDriver(NANO, memory_bytes=program.memory_bytes) as ordinary:
        assert driven(ordinary, ordinary._memory, program, x) == runs
        np.testing.assert_array_equal(ordinary._memory, python.memory())
    np.testing.assert_array_equal(host.bus.memory(), python.memory())
    # The driver in C sets the bounds once for a program, the one in Python before each section.
    assert _without_bounds(host.bus.writes) == _without_bounds(python.writes)
    for name in BOUNDS:
        assert host.bus.register(name) == python.register(name)
    assert host.core.cycles == runs[-1].cycles
    counters = runs[-1].counters
    assert counters is not None
    for unit in isa.Unit:
        busy = host.call("counter", unit.value, Activity.BUSY.value)
        assert busy == counters[unit.name.lower()].get("busy", 0)


def test_errors(bench: Bench, mnist: tuple[np.ndarray, np.ndarray]) -> None:
    program, (x,) = bench.program, images(mnist, 1)
    host = Host(bench, program.memory_bytes)
    host.core.polls = 1
    assert host.load() == TIMEOUT
    host.core.polls = 1 << 20
    assert host.load() == OK
    # The first instruction alone: no HALT. The core works afterwards.
    section = c_driver.Section(program.main.address, 1)
    assert host.call("start", ctypes.byref(section)) == OK
    assert host.call("poll") in (RUNNING, FAILED) and host.call("wait") in (OK, FAILED)
    assert host.core.error_code == isa.Error.PROGRAM.value
    assert host.core.error_unit == isa.Unit.SEQUENCER.value
    result, y = host.digit(x, program.outputs[0].bytes_per_item)
    assert (result, host.core.error_code) == (OK, isa.Error.NONE.value) and y.any()


def test_refusals(bench: Bench) -> None:
    small = Host(bench, 1 << 16)
    assert (small.result, small.load()) == (OK, TOO_LARGE)
    host = Host(bench, bench.program.memory_bytes)
    registers = host.bus.read_registers
    changed = {0: NOT_FOUND, 8: MISMATCH}
    for offset, wanted in changed.items():
        host.bus.read_registers = lambda place, count=1, offset=offset: [  # pyright: ignore
            value ^ (place == offset) for value in registers(place, count)
        ]
        found = host.init(host.bus.memory().ctypes.data, host.core.memory_bytes)
        assert (host.load() if found == OK else found) == wanted
