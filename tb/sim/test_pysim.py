from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from any_ports import Component
from pysim import get, get_all, put, put_all, rest, run


class Queue(Component):
    def __init__(self):
        super().__init__({"i": In(stream.Signature(8)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        fifo: Any = SyncFIFOBuffered(width=8, depth=4)
        m.submodules.fifo = fifo
        wiring.connect(m, wiring.flipped(self.i), fifo.w_stream)
        wiring.connect(m, wiring.flipped(self.o), fifo.r_stream)
        return m


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.5, 0.5)])
def test_all_arrives_in_order(rng, stalls):
    dut = Queue()
    got = []

    async def give(ctx):
        await put_all(ctx, dut.i, range(100), rng=rng, stall=stalls[0])

    async def take(ctx):
        got.extend(await get_all(ctx, dut.o, 100, rng=rng, stall=stalls[1]))

    run(dut, give, take)
    assert got == list(range(100))


def test_background_is_not_waited_for(tmp_path):
    dut = Queue()
    got = []

    async def give(ctx):
        while True:
            await put(ctx, dut.i, 7)

    async def take(ctx):
        got.append(await get(ctx, dut.o))

    run(dut, take, background=(give,), vcd=tmp_path / "queue.vcd")
    assert got == [7]
    assert (tmp_path / "queue.vcd").stat().st_size


def test_hanging_bench_is_reported():
    dut = Queue()

    async def take(ctx):
        await get(ctx, dut.o)

    with pytest.raises(TimeoutError, match="within 50 cycles"):
        run(dut, take, cycles_limit=50)


def test_rest_without_numbers_takes_no_time():
    dut = Queue()
    waited = []

    async def bench(ctx):
        await rest(ctx, None, 0.9)
        waited.append(0)

    run(dut, bench, cycles_limit=1)
    assert waited == [0]
