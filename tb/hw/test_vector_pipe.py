"""Parts of the pipe alone: the requantiser with its tags, and the serial multiplication."""

import pysim
import pytest
from vector_sizes import vector_sizes

from celosia.hw.arch.isa import Space
from celosia.hw.memory.parameter_memory import ParameterMemory
from celosia.hw.vector.pipe import Pipe, Scaler, scaled_latency
from celosia.hw.vector.sequential import DIGIT_BITS, DIGITS, SerialProduct


@pytest.mark.parametrize("requantizer", ["pipelined", "sequential"])
@pytest.mark.parametrize("bad", ["", "group", "outside"])
async def test_tag_and_results_of_a_group(requantizer, bad):
    dut = Scaler(sizes=vector_sizes("micro", requantizer=requantizer))
    ctx = await pysim.simulation(dut)
    sequential = requantizer == "sequential"
    # Times one, with a bias.
    channel = {"bias": 5, "multiplier": 1 << 30, "left": 1}
    ctx.set(dut.channels, [channel, {**channel, "bias": -9}])
    pysim.drive(ctx, dut.launch, task={"destination": Space.ACCUMULATORS}, slot=1)
    await pysim.pulse(ctx, dut.launch.valid)
    ctx.set(dut.launch.task, {})
    # Pipelined: `outside` comes with the request of the parameters.
    ahead = 0 if sequential else ParameterMemory.LATENCY
    due = scaled_latency(dut.sizes)
    soon, scaled = {}, {}
    for cycle in range(-ahead, due + 1):
        ctx.set(dut.group, {"valid": cycle == 0, "fault": bad == "group", "values": [100, -100]})
        ctx.set(dut.outside, bad == "outside" and (sequential or cycle == -ahead))
        mark = ctx.get(dut.soon)
        if mark.valid:
            soon[cycle] = (mark.tag.slot, mark.tag.to_accumulators, mark.tag.fault)
        scaled[cycle] = list(ctx.get(dut.scaled))
        await ctx.tick()
    assert soon == {due - Pipe.SOON: (1, 1, int(bool(bad)))}
    assert scaled[due] == [105, -109]


async def test_product_of_digits(rng):
    dut = SerialProduct()
    ctx = await pysim.simulation(dut)
    corners = [0, 1, -1, (1 << 31) - 1, -(1 << 31)]
    for number in [*corners, *rng.integers(-(1 << 31), 1 << 31, 20).tolist()]:
        half, multiplier = int(rng.integers(2)), int(rng.integers(1 << 31))
        pysim.drive(ctx, dut, half=half, multiplier=multiplier)
        await pysim.pulse(ctx, dut.begins)
        ctx.set(dut.half, 1 - half)
        for n in range(DIGITS):
            ctx.set(dut.digit, number >> DIGIT_BITS * n & (1 << DIGIT_BITS) - 1)
            ctx.set(dut.last, n == DIGITS - 1)
            await ctx.tick()
        ctx.set(dut.last, 0)
        # The lower digits have left at the bottom.
        exact = 2 * number * multiplier + (half << 31)
        assert ctx.get(dut.product) == exact >> DIGIT_BITS * DIGITS
