"""Control of the vector unit, alone."""

import pysim
import pytest
from vector_sizes import vector_sizes

from celosia.hw.arch.isa import Error, Opcode, Rounding, Space
from celosia.hw.arch.registers import Activity
from celosia.hw.vector.control import Slots, VectorActivity, VectorControl
from celosia.hw.vector.task import Decoder, Step

SETTLE = 9


def control(**changes):
    return VectorControl(sizes=vector_sizes("micro", **changes), settle_cycles=SETTLE)


@pytest.mark.parametrize("late", ["awaited", "settling"])
async def test_idle_after_an_abort_only_when_all_responses_and_writes_are_through(late):
    """Whatever they take: memories may be slow to respond, or to show what was written."""
    dut = control()
    ctx = await pysim.simulation(dut)
    assert ctx.get(dut.idle)
    ctx.set(dut.abort, 1)
    ctx.set(getattr(dut, late), 1)
    await ctx.tick()
    for _ in range(3 * SETTLE):
        assert ctx.get(dut.stop) and not ctx.get(dut.idle)
        await ctx.tick()
    # And then the pipe empties.
    ctx.set(getattr(dut, late), 0)
    for _ in range(SETTLE):
        assert not ctx.get(dut.idle)
        await ctx.tick()
    assert ctx.get(dut.idle)


@pytest.mark.parametrize("cause", ["abort", "bytes_fault", "sums_fault"])
async def test_a_prepared_task_does_not_start_after_a_stop(cause):
    dut = control()
    ctx = await pysim.simulation(dut)
    await pysim.put(ctx, dut.instruction, {})
    # It would start in the next cycle.
    ctx.set(dut.prepared, 1)
    await pysim.pulse(ctx, getattr(dut, cause))
    for _ in range(5):
        assert ctx.get(dut.stop) and not ctx.get(dut.launch.valid)
        await ctx.tick()


async def test_activity():
    dut = control()
    ctx = await pysim.simulation(dut)

    def activity(*high):
        for name in ("issues", "reads_wait", "writes_wait"):
            ctx.set(getattr(dut, name), name in high)
        return Activity(ctx.get(dut.activity))

    assert activity() is Activity.IDLE
    ctx.set(dut.instruction.valid, 1)
    assert activity() is Activity.BUSY
    await pysim.put(ctx, dut.instruction, {})
    assert activity() is Activity.BUSY
    pysim.drive(ctx, dut, prepared=1, running=1)
    await ctx.tick().until(dut.launch.valid)
    for high, wanted in (
        ((), Activity.BUSY),
        (("issues",), Activity.BUSY),
        (("reads_wait",), Activity.MEMORY),
        (("issues", "reads_wait"), Activity.MEMORY),
        (("writes_wait",), Activity.MEMORY),
        (("issues", "writes_wait"), Activity.BUSY),
    ):
        assert activity(*high) is wanted, high
    ctx.set(dut.running, 0)
    await ctx.tick()
    assert activity() is Activity.DRAIN
    assert activity("writes_wait") is Activity.MEMORY
    ctx.set(dut.abort, 1)
    await ctx.tick()
    for _ in range(SETTLE):
        assert activity("writes_wait") is Activity.DRAIN
        await ctx.tick()
    assert activity() is Activity.IDLE


async def start(ctx, dut, tag=0, **task):
    """Give ``dut`` a task, and return when it has finished its loops and may start another."""
    await pysim.put(ctx, dut.instruction, {"task": {"tag": tag, **task}})
    pysim.drive(ctx, dut, prepared=1, running=1)
    await ctx.tick().until(dut.launch.valid)
    ctx.set(dut.running, 0)
    await ctx.tick()


STEPS = (Step.MAXIMUM, Step.SUM, Step.SHARE)


async def test_only_the_last_step_is_done():
    dut = control(softmax=True)
    ctx = await pysim.simulation(dut)
    for tag in (5, 9):
        for step in STEPS:
            await start(ctx, dut, tag, step=step, destination=Space.UNIFIED)
            await ctx.tick()
            assert not ctx.get(dut.idle)
            oldest = ctx.get(dut.oldest)
            end = dut.bytes_finished if step is Step.SHARE else dut.rows_finished
            ctx.set(end, 1)
            assert ctx.get(dut.done) == (step is Step.SHARE)
            await ctx.tick()
            ctx.set(end, 0)
            assert ctx.get(dut.oldest) != oldest
            assert not ctx.get(dut.done)
    await ctx.tick()
    assert ctx.get(dut.idle) and not ctx.get(dut.stop)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("to_sums", [False, True])
async def test_a_step_waits_for_the_task_before(step, to_sums):
    """Even for one that writes sums, which no step reads."""
    dut = control(softmax=True)
    ctx = await pysim.simulation(dut)
    space = Space.ACCUMULATORS if to_sums else Space.UNIFIED
    await start(ctx, dut, destination=space, constant=int(not to_sums))
    await pysim.put(ctx, dut.instruction, {"task": {"step": step}})
    for _ in range(10):
        assert not ctx.get(dut.launch.valid)
        await ctx.tick()
    end = dut.sums_finished if to_sums else dut.bytes_finished
    await pysim.pulse(ctx, end)
    await ctx.tick().until(dut.launch.valid)


async def test_a_fault_of_rows_stops():
    dut = control(softmax=True)
    ctx = await pysim.simulation(dut)
    await start(ctx, dut, 3, step=Step.MAXIMUM)
    # Together with the end of the step, at the latest.
    pysim.drive(ctx, dut, rows_fault=1, rows_finished=1)
    assert ctx.get(dut.fault_valid) and not ctx.get(dut.done)
    fault = ctx.get(dut.fault)
    assert (fault.code, fault.tag) == (Error.RANGE, 3)
    await ctx.tick()
    assert ctx.get(dut.stop) and not ctx.get(dut.fault_valid)
    ctx.set(dut.instruction.valid, 1)
    for _ in range(5):
        assert not (
            ctx.get(dut.launch.valid) or ctx.get(dut.done) or ctx.get(dut.instruction.ready)
        )
        await ctx.tick()


async def test_decoder_makes_three_tasks_of_a_softmax():
    dut = Decoder(sizes=vector_sizes("micro", softmax=True))
    ctx = await pysim.simulation(dut)
    fields = dut.i.payload.fields

    # Of an instruction before.
    held = {
        "y_count": 2,
        "source": Space.ACCUMULATORS,
        "source_skip": 3,
        "destination_skip": 3,
        "window_x_count": 4,
        "window_y_count": 4,
        "rounding": Rounding.SINGLE,
        "per_channel": 1,
        "zero_point": 5,
        "low": 6,
        "high": 7,
        "use_table": 1,
    }

    def offer(opcode):
        ctx.set(dut.i.payload.tag, 7)
        ctx.set(fields.vector, {**held, "opcode": opcode, "x_count": 3, "channels": 9})
        ctx.set(dut.i.valid, 1)

    for opcode in (Opcode.VECTOR, Opcode.SOFTMAX, Opcode.SOFTMAX, Opcode.FILL, Opcode.SOFTMAX):
        offer(opcode)
        steps = STEPS if opcode is Opcode.SOFTMAX else (Step.NONE,)
        for step in steps:
            for ready in (0, 0, 1):
                ctx.set(dut.o.ready, ready)
                task = ctx.get(dut.o.payload.task)
                assert ctx.get(dut.o.valid) and task.step is step and task.tag == 7
                assert ctx.get(dut.i.ready) == (ready and step is steps[-1])
                if opcode is Opcode.SOFTMAX:
                    assert list(task.pixels) == [3, 1, 1]
                    assert (task.source, task.destination) == (Space.UNIFIED, Space.UNIFIED)
                    assert list(task.window_elements) == [1, 1]
                    assert task.wide and task.rounding is Rounding.DOUBLE
                    assert not (task.per_channel or task.ending.use_table or task.constant)
                    ending = task.ending
                    assert (ending.zero_point, ending.low, ending.high) == (-128, -128, 127)
                    decoded = ctx.get(dut.o.payload)
                    assert not (decoded.source.skip_rows or decoded.destination.skip_rows)
                await ctx.tick()
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.o.ready, 1)
        await ctx.tick()


async def test_slots_record_two_tasks():
    dut = Slots(sizes=vector_sizes("micro"))
    ctx = await pysim.simulation(dut)

    async def step(launched=None, *, finished=0):
        ctx.set(dut.launch.valid, launched is not None)
        tag, slot, space = launched or (31, 0, Space.UNIFIED)
        ending = {"zero_point": tag}
        ctx.set(dut.launch.task, {"tag": tag, "destination": space, "ending": ending})
        ctx.set(dut.launch.slot, slot)
        ctx.set(dut.finished, finished)
        await ctx.tick()
        used, to_sums, oldest = map(ctx.get, (dut.used, dut.to_sums, dut.oldest))
        tags = [ctx.get(dut.tags[slot]) for slot in range(2)]
        assert [ctx.get(dut.endings[slot].zero_point) for slot in range(2)] == tags
        return used, to_sums, tags, oldest

    assert await step() == (0b00, 0b00, [0, 0], 0)
    assert await step((5, 0, Space.ACCUMULATORS)) == (0b01, 0b01, [5, 0], 0)
    assert await step() == (0b01, 0b01, [5, 0], 0)
    assert await step((6, 1, Space.UNIFIED)) == (0b11, 0b01, [5, 6], 0)
    assert await step(finished=1) == (0b10, 0b01, [5, 6], 1)
    # One ends in the cycle in which another starts.
    assert await step((7, 0, Space.UNIFIED), finished=1) == (0b01, 0b00, [7, 6], 0)
    assert await step(finished=1) == (0b00, 0b00, [7, 6], 1)


@pytest.mark.parametrize(
    ("high", "used", "wanted"),
    [
        ("", 0, Activity.IDLE),
        ("waits", 0, Activity.BUSY),
        ("running", 2, Activity.IDLE),
        ("", 2, Activity.DRAIN),
        ("waits", 1, Activity.DRAIN),
        ("waits running", 1, Activity.BUSY),
        ("writes_wait", 1, Activity.MEMORY),
        ("issues writes_wait", 1, Activity.BUSY),
        ("reads_wait issues", 1, Activity.MEMORY),
    ],
    ids=str,
)
async def test_class_of_a_cycle(high, used, wanted):
    dut = VectorActivity(settle_cycles=3)
    ctx = await pysim.simulation(dut)
    pysim.drive(ctx, dut, used=used, **dict.fromkeys(high.split(), 1))
    assert ctx.get(dut.activity) is wanted
    assert ctx.get(dut.idle) == (not used and "waits" not in high)
    # After a stop, whatever else happens.
    ctx.set(dut.stop, 1)
    for _ in range(3):
        assert ctx.get(dut.activity) is Activity.DRAIN and not ctx.get(dut.idle)
        await ctx.tick()
    assert ctx.get(dut.activity) is Activity.IDLE and ctx.get(dut.idle)
