"""Datapath of the vector unit: windows of elements to bytes, in a fixed number of cycles."""

import numpy as np
import pysim
import pytest
from vector_sizes import SHAPES, vector_sizes

from celosia.hw.arch.isa import Kind, Window
from celosia.hw.vector.datapath import Datapath
from celosia.hw.vector.pipe import Pipe, latency
from celosia.hw.vector.softmax_stage import SoftmaxStage
from celosia.hw.vector.task import Step
from celosia.hw.vector.window import WindowUnit

BIAS = 3


def datapath(name, **changes):
    return Datapath(bus_bytes=SHAPES[name][3], sizes=vector_sizes(name, **changes))


async def load(ctx, dut):
    """Write parameters of all channels: add ``BIAS``, and multiply by one."""
    channel = np.zeros(16, np.uint8)
    channel[:9] = [BIAS, 0, 0, 0, 0, 0, 0, 0x40, 1]
    content = np.tile(channel, dut.sizes.parameter_channels).reshape(-1, dut.bus_bytes)
    for beat, values in enumerate(content.tolist()):
        fields = {"kind": Kind.CHANNELS, "offset": beat * dut.bus_bytes, "data": values}
        await pysim.put(ctx, dut.parameters, fields)
    await ctx.tick().repeat(4)


@pytest.mark.parametrize("window", Window)
@pytest.mark.parametrize(
    "name, changes",
    [
        ("nano", {}),
        ("micro", {"softmax": True}),
        ("twelve", {"parity": True}),
        ("micro", {"requantizer": "sequential", "parity": True}),
    ],
    ids=str,
)
async def test_bytes_of_a_window(rng, name, changes, window):
    dut = datapath(name, **changes)
    ctx = await pysim.simulation(dut)
    await load(ctx, dut)
    columns, lanes = SHAPES[name][1], SHAPES[name][2]
    groups = columns // lanes
    ctx.set(dut.endings, [{"low": -128, "high": 127}] * 2)
    ctx.set(dut.launch.slot, 1)
    ctx.set(dut.launch.task, {"window": window, "group_last": groups - 1, "per_channel": 1})
    await pysim.pulse(ctx, dut.launch.valid)
    await ctx.tick().repeat(SoftmaxStage.LATENCY)
    elements = rng.integers(-50, 50, (2, columns))
    combined = elements.max(axis=0) if window is Window.MAX else elements.sum(axis=0)
    due = WindowUnit.LATENCY + latency(dut.sizes)
    due += SoftmaxStage.LATENCY * dut.sizes.softmax
    bytes_, soon, scaled, reads = {}, [], {}, 0
    # The last element comes in cycle 0.
    for cycle in range(-1, due + groups * dut.sizes.group_cycles + 1):
        element = {"valid": 1, "first": -cycle, "last": 1 + cycle, "groups_last": groups - 1}
        there = cycle <= 0
        ctx.set(dut.element, {**element, "values": elements[cycle].tolist()} if there else {})
        assert cycle > 0 or ctx.get(dut.busy) == cycle + 1
        result = ctx.get(dut.result)
        if result.valid:
            assert result.tag.slot == 1 and not result.tag.fault
            bytes_[cycle] = list(ctx.get(dut.bytes))
        soon += [cycle] * ctx.get(dut.soon).valid
        scaled[cycle] = list(ctx.get(dut.scaled))
        assert not ctx.get(dut.used)
        if dut.sizes.parity:
            reads += ctx.get(dut.group)
            assert not ctx.get(dut.channels_wrong) and not ctx.get(dut.values_wrong)
        await ctx.tick()
    assert not ctx.get(dut.busy) and reads == groups * dut.sizes.parity
    wanted = (combined + BIAS).reshape(groups, lanes).tolist()
    pace = range(due, due + groups * dut.sizes.group_cycles, dut.sizes.group_cycles)
    assert bytes_ == dict(zip(pace, np.clip(wanted, -128, 127).tolist(), strict=True))
    assert [scaled[cycle + Pipe.SOON] for cycle in soon] == wanted


async def test_a_step_of_softmax_uses_its_groups():
    dut = datapath("micro", softmax=True)
    ctx = await pysim.simulation(dut)
    groups = 4
    ctx.set(dut.launch.task, {"step": Step.MAXIMUM, "group_last": groups - 1, "pixels": [1, 1, 1]})
    await pysim.pulse(ctx, dut.launch.valid)
    element = {"valid": 1, "first": 1, "last": 1, "groups_last": groups - 1, "fault": 1}
    ctx.set(dut.element, element)
    await ctx.tick()
    ctx.set(dut.element, {})
    used, faults, finished = 0, 0, 0
    for _ in range(30):
        assert not ctx.get(dut.result).valid
        used += ctx.get(dut.used)
        faults += ctx.get(dut.rows_fault)
        finished += ctx.get(dut.rows_finished)
        await ctx.tick()
    assert (used, faults, finished) == (groups, groups, 1)
