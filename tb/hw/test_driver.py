"""The driver of the registers, on a register file of plain words and on the RTL."""

from collections.abc import Iterator

import numpy as np
import pytest

from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import require_place
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import COUNTERS, OFFSETS, Control, Interrupt, Status
from celosia.sw.driver.core import Driver
from celosia.sw.runtime.rtl import RtlDriver

NAMES = {offset: name for name, offset in OFFSETS.items()}
WRONG = (isa.Error.RANGE, isa.Unit.LOAD, 3)


class Registers(Driver):
    """Registers whose programs end at the third look, in ``ends``."""

    memory_bytes = 4096

    def __init__(self, *ends: Status) -> None:
        self.ends = list(ends)
        self.values = dict.fromkeys(OFFSETS, 0)
        self.written: list[tuple[str, int]] = []

    def read_registers(self, offset: int, count: int = 1) -> list[int]:
        if offset >= COUNTERS:
            return [max(0, number - 2) for number in range(count)]
        return [self.values[NAMES[place]] for place in range(offset, offset + 4 * count, 4)]

    def write_registers(self, offset: int, *values: int) -> None:
        for place, value in enumerate(values):
            self.write_register(NAMES[offset + 4 * place], value)

    def write_register(self, name: str, value: int) -> None:
        self.written.append((name, value))
        if name == "interrupt":
            self.values[name] &= ~value
        elif name == "control" and value & Control.START.value:
            assert self.values["status"] in (0, Status.DONE.value)
            self.values["status"] = Status.BUSY.value
        elif name == "control" and value & Control.RESET.value:
            self.values["status"] = Status.DRAINING.value
        elif name != "control":
            self.values[name] = value

    def pauses(self, *, running: bool) -> Iterator[None]:
        yield
        yield
        if running:
            end = self.ends.pop(0)
            self.values["status"] = end.value
            self.values["interrupt"] |= {
                Status.DONE: Interrupt.DONE.value,
                Status.ERROR: Interrupt.ERROR.value,
            }.get(end, 0)
            code, unit, index = WRONG
            self.values |= {"error_code": code.value, "error_unit": unit.value}
            self.values["error_index"] = index
        else:
            self.values["status"] = 0
        yield
        raise RuntimeError("the driver looked too often")

    def failure(self, text: str) -> Exception:
        return RuntimeError(text)


@pytest.mark.parametrize("end", [Status.DONE, Status.ERROR])
def test_nothing_is_left_of_a_run(end: Status) -> None:
    registers = Registers(end, Status.DONE)
    result = registers.run(64, 2)
    assert result.error == (WRONG if end is Status.ERROR else None)
    assert registers.values["interrupt"] == 0
    assert registers.is_idle()
    assert registers.run(64, 2).error is None


def test_what_an_earlier_run_left_is_ended_before_the_start() -> None:
    for left in (Status.BUSY, Status.ERROR, Status.DRAINING, Status.DONE):
        registers = Registers(Status.DONE)
        registers.values |= {"status": left.value, "interrupt": 3}
        registers.run(128, 5)
        start = registers.written.index(("control", Control.START.value))
        reset = ("control", Control.RESET.value) in registers.written[:start]
        assert reset is (left is not Status.DONE)
        assert ("interrupt", 3) in registers.written[:start]
        before = ["program_address", "program_length", "control"]
        assert [name for name, _ in registers.written[start - 3 : start]] == before
        assert registers.written[start - 1] == ("control", Control.CLEAR.value)
        assert registers.values["program_address"] == 128
        assert registers.values["program_length"] == 5


@pytest.mark.parametrize(("program_bytes", "last"), [(None, 4095), (100, 99)])
def test_bounds_are_set_before_the_start(program_bytes: int | None, last: int) -> None:
    registers = Registers(Status.DONE)
    registers.program_bytes = program_bytes
    registers.run(0, 1)
    start = registers.written.index(("control", Control.START.value))
    assert {("memory_base", 0), ("memory_limit", last)} <= set(registers.written[:start])


def test_a_core_that_knows_of_no_program_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="wanted the end of a program, the core knows of none"):
        Registers(Status(0)).run(0, 1)


@pytest.mark.parametrize(
    ("address", "count", "good"),
    [(0, 64, True), (64, 0, True), (0, 65, False), (-1, 2, False), (8, -1, False), (65, 0, False)],
)
def test_places_in_external_memory(address: int, count: int, good: bool) -> None:
    if good:
        require_place(address, count, 64)
        return
    with pytest.raises(ValueError, match=f"below 0x40, got {count} bytes at {address:#x}$"):
        require_place(address, count, 64)


def test_a_core_without_activity_counters() -> None:
    class Plain(Registers):
        def read_registers(self, offset: int, count: int = 1) -> list[int]:
            return [0] * count if offset >= COUNTERS else super().read_registers(offset, count)

    assert Plain().counters() is None


def test_counters_of_units_that_did_something() -> None:
    counters = Registers().counters()
    assert counters is not None
    assert set(counters) == {unit.name.lower() for unit in isa.Unit}
    values = [value for classes in counters.values() for value in classes.values()]
    assert values == sorted(set(values)) and 0 not in values


def test_a_long_program_waits_for_its_own_end_after_an_error(rng, verilator) -> None:
    text = (
        "LOAD length=64 rows=20 external=4096 external_pitch=64 unified_pitch=64 post=2\n"
        "STORE length=64 rows=20 external=8192 external_pitch=64 unified_pitch=64 wait=2\nHALT\n"
    )
    data = rng.integers(0, 256, 64 * 20).astype(np.uint8).tobytes()
    # An interrupt that was left ends each wait at once: a few of them do not see the end.
    with RtlDriver(preset("nano"), memory_bytes=1 << 14, cycles_limit=1 << 18) as device:
        device.write(4096, data)
        device.write(0, bytes((0xFF,)) * 64)
        assert device.run(0, 1).error == (isa.Error.OPCODE, isa.Unit.SEQUENCER, 0)
        assert device.register("interrupt") == 0
        code = commands.encode(isa.assemble(text))
        device.write(0, code)
        result = device.run(0, len(code) // commands.WORD_BYTES)
        assert result.error is None and result.cycles is not None and result.cycles > 600
        assert device.read(8192, len(data)) == data


def test_a_host_that_polls_sees_a_program_until_its_end(verilator) -> None:
    """Words that were fetched after HALT arrive before the end, late from a slow memory."""

    class Polled(RtlDriver):
        def pauses(self, *, running: bool) -> Iterator[None]:
            for _ in range(1 << 12):
                yield
            raise RuntimeError("wanted an end")

    with Polled(preset("nano"), memory_bytes=1 << 14, latency=300) as device:
        code = commands.encode(isa.assemble("HALT\n"))
        device.write(0, code * 40)
        for count in (1, 2, 40):
            assert device.run(0, count).error is None
