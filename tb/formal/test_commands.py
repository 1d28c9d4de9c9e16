"""Registers of a unit's next instruction: what SET and GO make of them, and their defaults."""

import pytest
from amaranth.hdl import Cat, Mux, Signal, Value
from prove import Spec, broken_module, changes, proved, refuted

from celosia.hw.arch import isa
from celosia.hw.arch.commands import CODE_BITS, REGISTERS, VALUE_BITS, register_limits
from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.arch.presets import preset
from celosia.hw.sequencer import command
from celosia.hw.sequencer.dispatch import EXECUTORS

NANO = preset("nano")
_CODES = slice(0, CODE_BITS)
_VALUES = slice(CODE_BITS, None)


def command_spec(module=command, unit=isa.Unit.LOAD, config=NANO):
    """A register has the value set last, its default until then; GO offers all of them.

    The cycle after a reset or after ``restore`` has no word, and gives the defaults.
    """
    spec = Spec()
    dut = spec.open("dut", module.Command(config=config, unit=unit))
    bits = dut.i.payload
    head = Cat(dut.i.valid, bits[_CODES])
    spec.given("heads", Value.cast(dut.heads) == Cat([head] * command.groups(unit)))
    came = dut.i.valid & dut.i.ready
    go = bits[_CODES] < REGISTERS[unit][0].code
    chosen = spec.free("chosen", CODE_BITS, fixed=True)
    held, was = Signal(VALUE_BITS), Signal()
    complete = Signal()
    started = Signal.like(bits)
    with spec.m.If(came & (bits[_CODES] == chosen)):
        spec.m.d.sync += [held.eq(bits[_VALUES]), was.eq(1)]
    with spec.m.If(came & go):
        spec.m.d.sync += [complete.eq(1), started.eq(bits)]
    with spec.m.Elif(dut.o.ready):
        spec.m.d.sync += complete.eq(0)
    restored = Signal(init=1)
    spec.m.d.sync += restored.eq(dut.restore)
    spec.given("no word while defaults come", ~restored | ~dut.i.valid)
    with spec.m.If(restored):
        spec.m.d.sync += [was.eq(0), complete.eq(0)]
    for copy in range(command.groups(unit)):
        spec.claim(f"copy {copy}", spec.see(f"dut.restore_{copy}", 1) == restored)
        spec.claim(f"state {copy}", spec.see(f"dut.offers_{copy + 1}", 1) == dut.o.valid)
    fields = isa.UNIT_LAYOUTS[unit](dut.o.payload.fields.as_value())
    for register in REGISTERS[unit]:
        limit = register_limits(config)[register.code].high
        spec.given(
            f"{register.name} within its limit",
            ~came | (bits[_CODES] != register.code) | (bits[_VALUES] <= limit),
        )
        shown = Cat(
            Value.cast(fields[field.name])[low : low + width]
            for field, low, width in register.parts
        )
        default = register.value({part.field.name: part.field.default for part in register.parts})
        expected = Mux(was, held, default)[: register.width]
        spec.claim(register.name, (chosen != register.code) | (shown == expected))
    spec.claim("offered when whole", dut.o.valid == complete)
    spec.claim("taken until whole", dut.i.ready == ~complete)
    opcode = Value.cast(fields.opcode)
    spec.claim("opcode", ~complete | (opcode == started[_CODES]))
    spec.claim("no post", Value.cast(fields.post) == 0)
    spec.claim("wait", ~complete | (fields.wait == started[_VALUES][:SEMAPHORES]))
    waits = spec.waits(dut.o.valid, dut.o.ready, dut.o.payload)
    spec.claim("instruction waits", waits | spec.past(restored))
    spec.cover("one after the other", complete & spec.past(dut.o.valid & dut.o.ready, 3))
    return spec


@pytest.mark.parametrize("config", [NANO, preset("edge")], ids=lambda c: c.name)
@pytest.mark.parametrize("unit", EXECUTORS, ids=lambda unit: unit.name)
def test_command(unit, config):
    proved(command_spec(unit=unit, config=config), depth=1, reach=8)


@changes(
    ("[1:] == register.code", "[1:] == register.code + 1", "external"),
    ("init=init", "init=0", "rows"),
    ("padded[at : at + size]", "padded[:size]", "first"),
    ("wait.eq(value)", "wait.eq(value[1:])", "wait"),
    ("[copy.eq(~self.o.ready)", "[copy.eq(0)", "offered when whole"),
)
def test_command_broken(right, wrong, claim):
    refuted(command_spec(broken_module(command, right, wrong)), claim, depth=8)
