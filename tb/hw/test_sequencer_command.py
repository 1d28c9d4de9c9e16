"""Registers of the next instruction: what was encoded is offered, for every instruction."""

import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal
from test_sequencer_check import CONFIGS, legal

from celosia.hw.arch import commands, isa
from celosia.hw.arch.isa import Unit
from celosia.hw.sequencer.command import Command
from celosia.hw.sequencer.dispatch import EXECUTORS


def drawn(rng, config, unit, count):
    """Return legal instructions of a unit."""
    found = []
    while len(found) < count:
        instruction = legal(rng, config)
        if instruction.unit is unit:
            found.append(instruction)
    return found


def queued(instructions):
    """Return the words of a program."""
    encoder = commands.Encoder()
    return [word for instruction in instructions for word in encoder.words(instruction)]


def compare(payload, instruction):
    view = getattr(payload.fields, instruction.opcode.name.lower())
    assert view.opcode == instruction.opcode
    for name, value in {**instruction.fields, "post": 0}.items():
        got = getattr(view, name)
        assert getattr(got, "value", got) == value, name


@pytest.mark.parametrize("unit", EXECUTORS, ids=lambda unit: unit.name)
@pytest.mark.parametrize("name", ["nano", "edge"])
@pytest.mark.parametrize(("producer", "consumer"), [(0.0, 0.0), (0.6, 0.0), (0.4, 0.4), (0.0, 0.9)])
async def test_what_was_encoded_is_offered(unit, name, producer, consumer, rng):
    config = CONFIGS[name]
    dut = Command(config=config, unit=unit)
    instructions = drawn(rng, config, unit, 25)

    async def send(ctx):
        await pysim.put_all(ctx, dut.i, queued(instructions), rng=rng, stall=producer)

    ctx = await pysim.simulation(dut, background=[send])
    got = await pysim.get_all(ctx, dut.o, len(instructions), rng=rng, stall=consumer)
    for payload, instruction in zip(got, instructions, strict=True):
        compare(payload, instruction)


async def test_an_instruction_is_offered_after_its_go_and_no_word_taken_meanwhile():
    dut = Command(config=CONFIGS["micro"], unit=Unit.MATRIX)
    words = commands.Encoder().words(isa.Instruction(isa.Opcode.MATMUL, x_count=3, taps=5))
    ctx = await pysim.simulation(dut)
    ctx.set(dut.i.valid, 1)
    for word in words:
        assert ctx.get(dut.i.ready) and not ctx.get(dut.o.valid)
        ctx.set(dut.i.payload, word)
        await ctx.tick()
    for _ in range(3):
        assert ctx.get(dut.o.valid) and not ctx.get(dut.i.ready)
        await ctx.tick()
    ctx.set(dut.o.ready, 1)
    await ctx.tick()
    assert not ctx.get(dut.o.valid) and ctx.get(dut.i.ready)


async def test_a_reset_gives_the_defaults(rng):
    config, unit, reset = CONFIGS["micro"], Unit.VECTOR, Signal()
    dut = Command(config=config, unit=unit)
    (changed,) = drawn(rng, config, unit, 1)
    plain = isa.Instruction(isa.Opcode.VECTOR)
    ctx = await pysim.simulation(ResetInserter(reset)(dut))
    for instruction in (changed, plain):
        for payload in queued([instruction]):
            await pysim.put(ctx, dut.i, payload)
        compare(await pysim.get(ctx, dut.o), instruction)
        await pysim.pulse(ctx, reset)
