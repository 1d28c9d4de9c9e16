"""Registers that no reset touches."""

from typing import Any

import pysim
from amaranth.hdl import Module, ResetInserter, Signal, signed
from amaranth.lib import data, stream

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY, data_registers

PAIR = data.StructLayout({"low": 4, "high": signed(4)})


class Register(Component):
    def __init__(self):
        self.i = In(stream.Signature(PAIR))
        self.o = Out(stream.Signature(PAIR))
        self.count = Out(4, init=5)
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        payload, count = self.registers = data_registers(m, self.o.payload, self.count, attrs=COPY)
        m.d.sync += [
            payload.eq(self.i.payload),
            self.o.valid.eq(self.i.valid),
            count.eq(self.count + 1),
        ]
        return m


def test_shape_name_and_initial_value():
    dut: Any = Register()
    dut.elaborate(None)
    payload, count = dut.registers
    bits = payload.as_value()
    assert payload.shape() == PAIR and bits.name == "o__payload_register"
    assert bits.reset_less and count.reset_less and count.attrs == COPY
    assert count.init == 5 and count.name == "count_register"


async def test_a_reset_leaves_them_alone():
    dut = Register()
    reset = Signal()
    ctx = await pysim.simulation(ResetInserter(reset)(dut))
    assert ctx.get(dut.count) == 5
    pysim.drive(ctx, dut.i, payload={"low": 3, "high": -2}, valid=1)
    await ctx.tick()
    assert ctx.get(dut.count) == 6 and ctx.get(dut.o.valid)
    ctx.set(reset, 1)
    await ctx.tick()
    assert not ctx.get(dut.o.valid)
    assert ctx.get(dut.o.payload.high) == -2 and ctx.get(dut.count) == 7
