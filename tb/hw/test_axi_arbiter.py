"""Writes of two masters that wait for space; tb/formal/test_axi_arbiter.py has the rest."""

import pytest
from pysim import drive, simulation

from celosia.hw.axi.arbiter import Arbiter


@pytest.mark.parametrize("pause", range(4))
async def test_turns_of_writes_that_wait_for_space(pause):
    dut = Arbiter(data_bytes=4, write_bursts=1)
    ports = (dut.port_0, dut.port_1)
    ctx = await simulation(dut)
    for port in ports:
        ctx.set(port.awvalid, 1)
    drive(ctx, dut.bus, awready=1, wready=1)
    numbers = []
    for _ in range(6):
        (number,) = await ctx.tick().sample(dut.bus.awid).until(dut.bus.awvalid)
        numbers.append(number >> 1)
        await ctx.tick().repeat(1 + pause)
        port = ports[numbers[-1]]
        drive(ctx, port, wvalid=1, wlast=1)
        await ctx.tick().until(port.wready)
        ctx.set(port.wvalid, 0)
    assert numbers in ([0, 1] * 3, [1, 0] * 3)


def test_refused():
    with pytest.raises(ValueError, match="write_bursts: wanted at least 1, got 0"):
        Arbiter(data_bytes=4, write_bursts=0)
