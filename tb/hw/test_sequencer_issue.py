"""The queue before a unit: depth, latency, activity; its proof has order, tags and posts."""

import pysim
import pytest
from amaranth.hdl import Value

from celosia.hw.arch import commands
from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.arch.isa import Opcode, Unit
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import Activity
from celosia.hw.sequencer.activity import UnitActivity
from celosia.hw.sequencer.dispatch import EXECUTORS
from celosia.hw.sequencer.issue import InFlight, Issue

#: A word of each instruction below, besides GO: FILL with another ``value``.
WORDS = 2
_VALUE = commands.REGISTERS[Unit.VECTOR][-1].code


def pushed(index, *, wait=0, post=0, opcode=Opcode.FILL):
    """Return the payloads of the words of an instruction."""
    words = (_VALUE | index % 256 << commands.CODE_BITS, commands.go(opcode, wait, post))
    return [{"index": index, "bits": word, "go": n} for n, word in enumerate(words)]


async def push(ctx, dut, index, **fields):
    """Push an instruction."""
    for word in pushed(index, **fields):
        await pysim.put(ctx, dut.push, word)


def build(*, depth=4, unit=Unit.VECTOR, **parameters):
    return Issue(config=preset(f"micro,queue_depth={depth}"), unit=unit, **parameters)


def test_construction():
    dut = build(depth=3, in_flight=5)
    assert (dut.config.queue_depth, dut.unit, dut.in_flight) == (3, Unit.VECTOR, 5)
    assert build().in_flight == preset("micro").in_flight == 10


@pytest.mark.parametrize("unit", EXECUTORS, ids=lambda unit: unit.name)
@pytest.mark.parametrize("depth", [3, 4])
async def test_longest_instructions_fit_the_queue(depth, unit):
    """Also the registers of one more; its GO waits."""
    dut = build(depth=depth, unit=unit)
    registers = [register.code for register in commands.REGISTERS[unit]]
    words = [*registers, EXECUTORS[unit][0].value] * (depth + 1)
    taken = 0
    ctx = await pysim.simulation(dut)
    ctx.set(dut.push.valid, 1)
    for _ in range(8 * len(words)):
        ctx.set(dut.push.payload, {"bits": words[taken], "go": words[taken] == words[-1]})
        taken += (await ctx.tick().sample(dut.push.ready))[-1]
    assert taken == len(words) - 1


@pytest.mark.parametrize("depth", [3, 4])
async def test_queue_depth_instructions_wait(depth):
    dut = build(depth=depth)
    taken = 0
    ctx = await pysim.simulation(dut)
    # Nothing is granted, so nothing leaves.
    pysim.drive(ctx, dut.push, payload={"bits": Opcode.FILL.value, "go": 1}, valid=1)
    for _ in range(8 * depth):
        taken += (await ctx.tick().sample(dut.push.ready))[-1]
    assert taken == depth


@pytest.mark.parametrize("depth", [3, 4])
@pytest.mark.parametrize("offset", range(5))
async def test_a_grant_makes_a_place(depth, offset):
    """Also in the cycle in which the queue would become full."""
    dut = build(depth=depth)
    ctx = await pysim.simulation(dut)
    for _ in range(depth - 1):
        await pysim.put(ctx, dut.push, {"bits": Opcode.FILL.value, "go": 1})
    await ctx.tick().repeat(8)
    assert ctx.get(dut.requesting)
    more = 0
    for cycle in range(16):
        ctx.set(dut.granted, cycle == 2)
        ctx.set(dut.push.valid, cycle >= offset)
        *_, ready = await ctx.tick().sample(dut.push.ready)
        more += ready and cycle >= offset
    assert more == 2


def granting(dut):
    """Return a bench that grants every request in the same cycle."""

    async def bench(ctx):
        while True:
            ctx.set(dut.granted, ctx.get(dut.requesting))
            await ctx.tick()

    return bench


async def test_an_instruction_passes_in_four_cycles():
    dut = build()
    ctx = await pysim.simulation(dut, background=[granting(dut)])
    ctx.set(dut.instruction.ready, 1)
    await push(ctx, dut, 7)
    cycles = []
    for cycle in range(1, 8):
        *_, valid, value = await ctx.tick().sample(
            dut.instruction.valid, dut.instruction.payload.fields.fill.value
        )
        if valid:
            cycles.append((cycle, value))
    # GO was pushed in cycle 0.
    assert cycles == [(4, 7)]


@pytest.mark.parametrize("opcode", EXECUTORS[Unit.VECTOR])
async def test_what_was_pushed_is_offered(opcode):
    dut = build()
    ctx = await pysim.simulation(dut, background=[granting(dut)])
    await push(ctx, dut, 9, opcode=opcode, wait=5, post=6)
    payload = await pysim.get(ctx, dut.instruction)
    assert payload.tag == 0 and payload.fields.fill.value == 9
    assert payload.fields.fill.opcode == opcode and payload.fields.fill.wait == 5


async def test_a_flush_gives_registers_their_defaults():
    dut = build()
    ctx = await pysim.simulation(dut, background=[granting(dut)])
    await push(ctx, dut, 9)
    assert (await pysim.get(ctx, dut.instruction)).fields.fill.value == 9
    await pysim.pulse(ctx, dut.flush)
    await pysim.put(ctx, dut.push, {"bits": Opcode.FILL.value})
    assert (await pysim.get(ctx, dut.instruction)).fields.fill.value == 0


async def settle(ctx, dut, *, unit=Activity.IDLE, lacking=0):
    pysim.drive(ctx, dut, unit_activity=unit, lacking=lacking)
    await ctx.tick()
    return ctx.get(dut.activity.as_value())


async def test_activity_separates_idle_cycles():
    dut = build()
    ctx = await pysim.simulation(dut)
    assert await settle(ctx, dut) == Activity.EMPTY.value
    for unit in (Activity.BUSY, Activity.MEMORY, Activity.WEIGHTS, Activity.DRAIN):
        assert await settle(ctx, dut, unit=unit) == unit.value
    await push(ctx, dut, 0, wait=0b1010_0000)
    await ctx.tick().repeat(3)
    assert ctx.get(dut.requesting) and ctx.get(dut.want) == 0b1010_0000
    # The lowest one that it wants and that is not there.
    assert await settle(ctx, dut, lacking=0xFFF) == Activity.SEMAPHORE.value + 5
    assert await settle(ctx, dut, lacking=0xF80) == Activity.SEMAPHORE.value + 7
    # The unit goes on with what it has; only a drain is overruled.
    for unit in (Activity.BUSY, Activity.MEMORY, Activity.WEIGHTS):
        assert await settle(ctx, dut, unit=unit, lacking=0xFFF) == unit.value
    assert (
        await settle(ctx, dut, unit=Activity.DRAIN, lacking=0xFFF) == Activity.SEMAPHORE.value + 5
    )
    await pysim.pulse(ctx, dut.granted)
    assert not ctx.get(dut.requesting)
    # There is an instruction, and it waits for no semaphore.
    assert await settle(ctx, dut, lacking=0xFFF) == Activity.DRAIN.value


async def test_activity_names_each_semaphore():
    dut = build()
    ctx = await pysim.simulation(dut)
    await push(ctx, dut, 0, wait=(1 << SEMAPHORES) - 1)
    await ctx.tick().repeat(3)
    for semaphore in range(SEMAPHORES):
        got = await settle(ctx, dut, lacking=1 << semaphore)
        assert got == Activity.SEMAPHORE.value + semaphore


@pytest.mark.parametrize("ends", range(1 << 4))
async def test_an_overflow_names_the_instruction_of_three_cycles_before(ends):
    """Whichever have ended since: bits of ``ends`` in successive cycles."""
    dut = InFlight()
    ctx = await pysim.simulation(dut)
    ctx.set(dut.pushed, 1)
    for index in range(11, 16):
        ctx.set(dut.push_index, index)
        await ctx.tick()
    ctx.set(dut.pushed, 0)
    ctx.set(dut.overflow, 1)
    oldest = []
    for cycle in range(8):
        ctx.set(dut.done, ends >> cycle & 1)
        oldest.append(ctx.get(dut.oldest))
        await ctx.tick()
        assert cycle < 3 or ctx.get(dut.index) == 11 + oldest[cycle - 3]


async def test_a_unit_that_is_done_at_once_gets_its_post():
    dut = build()
    ctx = await pysim.simulation(dut, background=[granting(dut)])
    posts = []
    await push(ctx, dut, 3, post=0b101)
    await pysim.get(ctx, dut.instruction)
    ctx.set(dut.done, 1)
    for cycle in range(8):
        *_, post, waiting = await ctx.tick().sample(dut.post, dut.waiting)
        ctx.set(dut.done, 0)
        if post:
            posts.append(post)
            assert waiting and cycle <= 4
            # ``overflow`` comes two cycles after the post, the index one cycle later.
            await ctx.tick()
            await pysim.pulse(ctx, dut.overflow)
            posts.append(ctx.get(dut.index))
    assert posts == [0b101, 3] and not ctx.get(dut.waiting)


@pytest.mark.parametrize(
    ("unit", "held", "lacking", "waiting", "wanted"),
    [
        (Activity.BUSY, 1, 0b110, 1, Activity.BUSY.value),
        (Activity.IDLE, 0, 0b110, 1, Activity.DRAIN.value),
        (Activity.IDLE, 1, 0b001, 0, Activity.EMPTY.value),
        (Activity.IDLE, 1, 0b110, 1, Activity.SEMAPHORE.value + 1),
        (Activity.DRAIN, 1, 0b100, 1, Activity.SEMAPHORE.value + 2),
        (Activity.DRAIN, 0, 0b100, 1, Activity.DRAIN.value),
    ],
)
async def test_class_one_cycle_late(unit, held, lacking, waiting, wanted):
    dut = UnitActivity()
    ctx = await pysim.simulation(dut)
    inputs = {"unit_activity": unit, "held": held, "lacking": lacking, "waiting": waiting}
    pysim.drive(ctx, dut, want=0b110, **inputs)
    activity = Value.cast(dut.activity)
    assert ctx.get(activity) == Activity.EMPTY.value
    await ctx.tick()
    assert ctx.get(activity) == wanted
