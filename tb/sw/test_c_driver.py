"""The driver in C on the machine model, with a processor whose cache the core does not see."""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import c_driver
import numpy as np
import pytest
from c_driver import FAILED, MISMATCH, NOT_FOUND, OK, RUNNING, TIMEOUT, TOO_LARGE
from devices.link import MachineRegisters

from celosia.hw.arch import commands, isa, registers
from celosia.hw.arch.presets import PRESETS
from celosia.hw.arch.registers import COUNTERS_PER_UNIT, OFFSETS, VERSION, Control, Status
from celosia.sw.compiler import compiled
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.export.program import c_program
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program
from celosia.sw.runtime.interpreter import open_session

NANO = PRESETS["nano"]
POISON, CYCLES = 0x77, 1234
#: Accesses of one call to a core that does nothing.
MOST = 1000
BOTH = 3
START, RESET, CLEAR = (("put", OFFSETS["control"], flag.value) for flag in Control)
STATUS = OFFSETS["status"]


class System(c_driver.Host):
    """A core with its memory, and a processor with another one until the driver makes both equal.

    ``events``: accesses to registers and to caches, in order; ``values``: registers that have
    another content than those of the machine model; ``is_stuck``: writes change nothing.
    """

    def __init__(self, driver: Any, memory_bytes: int) -> None:
        super().__init__(driver, self.read, self.write, self.cache)
        self.registers = MachineRegisters(NANO, memory_bytes)
        self.far = self.registers.machine.memory
        self.near = np.full(memory_bytes, POISON, np.uint8)
        self.events: list[Any] = []
        self.values = {OFFSETS["cycles"]: CYCLES}
        self.is_stuck = False

    def read(self, offset: int) -> int:
        self.events.append(("get", offset))
        if self.is_stuck and len(self.events) > MOST:
            # A driver that would wait for ever.
            return Status.DONE.value
        value = self.registers.read(offset)
        assert value is not None
        return self.values.get(offset, value)

    def write(self, offset: int, value: int) -> None:
        self.events.append(("put", offset, value))
        if self.is_stuck:
            return
        if self.events[-1] == RESET:
            self.values.pop(STATUS, None)
        assert self.registers.write(offset, value)

    def cache(self, to_core: bool, memory: int, size: int) -> None:
        assert (memory, size) == (self.near.ctypes.data, self.near.size)
        self.events.append("to core" if to_core else "from core")
        if to_core:
            self.far[:] = self.near
        else:
            self.near[:] = self.far

    def found(self) -> int:
        result = self.init(self.near.ctypes.data, self.near.size)
        self.core.polls = 1 << 20
        return result

    def load(self, program: c_driver.Program) -> int:
        return self.call("load", ctypes.byref(program))

    def steps(self) -> list[Any]:
        """Events but reads, since the last call."""
        found = [event for event in self.events if event[0] != "get"]
        self.events.clear()
        return found


class Bench(NamedTuple):
    program: Program
    driver: Any

    def in_c(self, **changes: Any) -> c_driver.Program:
        """Return the program of the library with some of its fields changed."""
        found = c_driver.Program.from_buffer_copy(c_driver.Program.in_dll(self.driver, "network"))
        for name, value in changes.items():
            setattr(found, name, value)
        return found

    def system(self) -> System:
        return System(self.driver, self.program.memory_bytes)

    def section(self, length: int | None = None) -> c_driver.Section:
        """Return the section of a batch, or only its first words."""
        main = self.program.main
        return c_driver.Section(main.address, length or main.words)


@pytest.fixture(scope="module")
def bench(two_ended: Callable[..., bytes], tmp_path_factory: pytest.TempPathFactory) -> Bench:
    program = compile_graph(load(two_ended()), NANO, 3)
    sources = {"network": c_program(program, "network")}
    return Bench(program, c_driver.compiled(tmp_path_factory.mktemp("driver"), NANO, sources))


def bounded(memory_bytes: int) -> list[Any]:
    """Return the steps that keep the core within the first bytes of memory."""
    return [("put", OFFSETS["memory_base"], 0), ("put", OFFSETS["memory_limit"], memory_bytes - 1)]


def started(section: c_driver.Section) -> list[Any]:
    """Return the steps of a section from start to end, without errors."""
    return [
        ("put", OFFSETS["interrupt"], BOTH),
        "to core",
        ("put", OFFSETS["program_address"], section.address),
        ("put", OFFSETS["program_length"], section.length),
        CLEAR,
        START,
        ("put", OFFSETS["interrupt"], BOTH),
        "from core",
    ]


def batch(program: Program, rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.integers(-128, 128, (3, *port.shape)).astype(np.int8) for port in program.inputs]


def outputs(program: Program) -> list[np.ndarray]:
    return [np.full((3, *port.shape), POISON, np.int8) for port in program.outputs]


def test_batches(bench: Bench, rng: np.random.Generator) -> None:
    """All steps in order; memory is made visible before each start and after each end."""
    program, system = bench.program, bench.system()
    assert system.found() == OK
    both = [("put", OFFSETS["interrupt_enable"], BOTH), ("put", OFFSETS["interrupt"], BOTH)]
    assert system.steps() == both + bounded(system.near.size)
    in_c, once = bench.in_c(), program.once[0]
    assert len(program.once) == len(program.per_batch) == 1
    assert len(program.inputs) == len(program.outputs) == 2
    assert system.load(in_c) == OK
    once_steps = started(c_driver.Section(once.address, once.words))
    assert system.steps() == bounded(program.memory_bytes) + once_steps
    for _ in range(2):
        x, y = batch(program, rng), outputs(program)
        assert system.run(in_c, x, y) == OK
        clear, start = system.events.index(CLEAR), system.events.index(START)
        assert system.events[clear + 1 : start] == [("get", STATUS)] * COUNTERS_PER_UNIT
        assert system.steps() == started(bench.section())
        assert system.core.cycles == CYCLES
        with open_session(program) as session:
            for found, right in zip(y, session.run(x), strict=True):
                np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("stage", ["once", "each"])
@pytest.mark.parametrize("position", range(3))
def test_a_section_that_fails_is_the_last(bench: Bench, stage: str, position: int, rng) -> None:
    """A section without HALT ends with an error: it is reported, and the core works again."""
    sections = [bench.section(1 if n == position else None) for n in range(3)]
    program, system = bench.program, bench.system()
    assert system.found() == OK and system.load(bench.in_c()) == OK
    system.steps()
    array = (c_driver.Section * 3)(*sections)
    in_c = bench.in_c(**{stage: array, f"{stage}_count": 3})
    x, y = batch(program, rng), outputs(program)
    assert (system.load(in_c) if stage == "once" else system.run(in_c, x, y)) == FAILED
    steps = system.steps()
    assert steps.count(START) == position + 1 and steps.count("from core") == position + 1
    assert steps[-3:] == [RESET, ("put", OFFSETS["interrupt"], BOTH), "from core"]
    error = system.core.error_code, system.core.error_unit
    assert error == (isa.Error.PROGRAM.value, isa.Unit.SEQUENCER.value)
    assert all((array == POISON).all() for array in y)
    assert system.run(bench.in_c(), x, y) == OK and system.core.error_code == 0


def test_memory_is_as_large_as_the_program(bench: Bench, rng) -> None:
    exact = bench.program.memory_bytes
    x, y = batch(bench.program, rng), outputs(bench.program)
    for size, result in ((exact + 5, OK), (exact, OK), (exact - 1, TOO_LARGE), (1, TOO_LARGE)):
        system = System(bench.driver, size)
        assert system.found() == OK
        system.steps()
        assert system.load(bench.in_c()) == result
        assert (START in system.events) == (result == OK)
        assert result == OK or system.run(bench.in_c(), x, y) == result
        assert result == OK or (system.near == POISON).all()


def test_another_core_is_left_alone(bench: Bench, rng) -> None:
    system, x, y = bench.system(), batch(bench.program, rng), outputs(bench.program)
    assert system.found() == OK
    system.steps()
    fingerprint = NANO.fingerprint ^ 1 << 31
    assert system.load(bench.in_c(fingerprint=fingerprint)) == MISMATCH
    assert system.run(bench.in_c(fingerprint=fingerprint), x, y) == MISMATCH
    assert not system.steps() and (system.near == POISON).all()
    for name, value in [("magic", 0), ("version", VERSION - 1), ("version", VERSION + 0x10000)]:
        system.values = {OFFSETS[name]: value}
        assert system.found() == NOT_FOUND
        assert not system.steps() and (system.near == POISON).all()
    system.values = {OFFSETS["version"]: VERSION + 1}
    assert system.found() == OK


@pytest.mark.parametrize("opcode", [isa.Opcode.LOAD, isa.Opcode.STORE])
def test_a_program_that_points_out_of_its_memory_fails(bench: Bench, opcode: isa.Opcode) -> None:
    """The registers have the bounds of the program, which the driver does not check."""
    program = bench.program
    system = System(bench.driver, program.memory_bytes + 0x8000)
    assert system.found() == OK and system.load(bench.in_c()) == OK
    wrong = isa.Instruction(opcode, external=system.near.size - 4096, length=16)
    words = commands.encode([wrong, isa.Instruction(isa.Opcode.HALT)])
    address = program.main.address
    system.near[address : address + len(words)] = np.frombuffer(words, np.uint8)
    sections = (c_driver.Section * 1)(c_driver.Section(address, len(words) // 4))
    in_c = bench.in_c(each=sections, each_count=1, input_count=0, output_count=0)
    assert system.call("run", ctypes.byref(in_c), None, None) == FAILED
    error = system.core.error_code, system.core.error_unit
    assert error == (isa.Error.BUS.value, isa.UNITS[opcode].value)
    assert (system.far[-4096:] == POISON).all()


@pytest.mark.parametrize("state", [Status.BUSY, Status.ERROR, Status.DRAINING])
def test_a_core_that_is_occupied_is_reset(bench: Bench, state: Status) -> None:
    system = bench.system()
    system.values[STATUS] = state.value
    assert system.found() == OK
    reset = [RESET, ("put", OFFSETS["interrupt"], BOTH)]
    assert system.steps()[1:] == reset + bounded(system.near.size)
    system.values[STATUS] = state.value
    section = bench.section()
    assert system.call("start", ctypes.byref(section)) == OK
    assert system.steps() == [RESET, *started(section)[:-2]]


def test_polls_bound_each_wait(bench: Bench) -> None:
    """For a start while the bus is not idle, an end that never comes, and a reset after errors."""
    system = bench.system()
    assert system.found() == OK
    section = ctypes.byref(bench.section())
    system.core.polls, system.is_stuck = 5, True

    def stuck(state: Status, name: str, *arguments: Any) -> tuple[int, int]:
        system.values[STATUS] = state.value
        system.events.clear()
        return system.call(name, *arguments), system.events.count(("get", STATUS))

    assert stuck(Status.DRAINING, "start", section) == (TIMEOUT, 1 + 5)
    assert START not in system.events and "to core" not in system.events
    assert stuck(Status.BUSY, "wait") == (TIMEOUT, 5)
    assert stuck(Status.BUSY, "poll") == (RUNNING, 1)
    assert "from core" not in system.events
    assert stuck(Status.ERROR, "wait") == (TIMEOUT, 1 + 5)
    # What the core has written until then can be read.
    assert system.events[-1] == "from core"


def test_counters(bench: Bench) -> None:
    system = bench.system()
    assert system.found() == OK
    for unit in range(len(isa.Unit)):
        for activity in (0, 1, COUNTERS_PER_UNIT - 1):
            offset = registers.COUNTERS + 4 * (unit * COUNTERS_PER_UNIT + activity)
            system.values[offset] = value = (1 << 31) + 100 * unit + activity
            assert system.call("counter", unit, activity) & 0xFFFFFFFF == value


def test_a_batch_of_several_sections(two_ended, rng, tmp_path, monkeypatch) -> None:
    """All sections run, in order."""
    monkeypatch.setattr(compiled, "MOST_INSTRUCTIONS", 3)
    program = compile_graph(load(two_ended()), NANO, 3)
    mains = program.parts[0].mains
    assert len(mains) > 2
    sources = {"network": c_program(program, "network")}
    several = Bench(program, c_driver.compiled(tmp_path, NANO, sources))
    system, x, y = several.system(), batch(program, rng), outputs(program)
    assert (system.found(), system.load(several.in_c())) == (OK, OK)
    system.steps()
    assert system.run(several.in_c(), x, y) == OK
    sections = [c_driver.Section(main.address, main.words) for main in mains]
    assert system.steps() == [step for each in sections for step in started(each)]
    with open_session(program) as session:
        for found, right in zip(y, session.run(x), strict=True):
            np.testing.assert_array_equal(found, right)
