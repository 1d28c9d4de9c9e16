"""Registers that no reset touches."""

from typing import Any

import pysim
from amaranth.hdl import Module, ResetInserter, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component
from celosia.hw.lib.fanout import reset_less

PAIR = data.StructLayout({"low": 4, "high": signed(4)})


class Register(Component):
    def __init__(self):
        shape = stream.Signature(PAIR)
        count: Any = Out
        super().__init__({"i": In(shape), "o": Out(shape), "count": count(4, init=5)})
        reset_less(self.o, "payload")
        reset_less(self, "count")

    def elaborate(self, platform):
        m = Module()
        m.d.sync += [
            self.o.payload.eq(self.i.payload),
            self.o.valid.eq(self.i.valid),
            self.count.eq(self.count + 1),
        ]
        return m


def test_shape_name_and_initial_value_stay():
    dut = Register()
    bits: Any = dut.o.payload.as_value()
    valid: Any = dut.o.valid
    assert dut.o.payload.shape() == PAIR and bits.name == "o__payload"
    assert bits.reset_less and not valid.reset_less
    assert dut.count.init == 5 and dut.count.name == "count"
    assert dut.signature.is_compliant(dut)


async def test_a_reset_leaves_them_alone():
    dut = Register()
    reset = Signal()
    ctx = await pysim.simulation(ResetInserter(reset)(dut))
    ctx.set(dut.i.payload, {"low": 3, "high": -2})
    ctx.set(dut.i.valid, 1)
    await ctx.tick()
    assert ctx.get(dut.count) == 6 and ctx.get(dut.o.valid)
    ctx.set(reset, 1)
    await ctx.tick()
    assert not ctx.get(dut.o.valid)
    assert ctx.get(dut.o.payload.high) == -2 and ctx.get(dut.count) == 7
