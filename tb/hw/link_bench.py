"""The driver of the host link over a simulated endpoint: its time is that of the simulation."""

from collections import Counter, deque
from contextlib import suppress
from functools import partial

from amaranth.hdl import Cat, Elaboratable, Module, Signal
from amaranth.lib import stream
from amaranth.sim import Simulator
from devices.axi import AxiMemory

from celosia.hw.arch.registers import COUNTERS, OFFSETS, REGISTERS
from celosia.hw.link.frames import FrameReceiver
from celosia.hw.link.uart import UartReceiver, UartTransmitter

#: Seconds that the driver takes a cycle for: its timeouts are those of a real line.
SECONDS = 50e-6
OKAY, SLVERR, DECERR = 0, 2, 3


class RegisterModel:
    """Registers behind AXI4-Lite that count what is written.

    ``control`` collects how often each value was written; others hold what they are given.
    """

    def __init__(self, rng, stall):
        self.rng = rng
        self.stall = stall
        self.values = {register.offset: register.init for register in REGISTERS}
        self.access = {register.offset: register.access for register in REGISTERS}
        self.rung = Counter()

    def read(self, offset):
        if COUNTERS <= offset < COUNTERS + 640:
            return offset * 3, OKAY
        return self.values.get(offset, 0), OKAY if offset in self.values else DECERR

    def write(self, offset, value, strobes):
        assert strobes == 15
        if offset == OFFSETS["control"]:
            self.rung[value] += 1
        elif self.access.get(offset) == "rw":
            self.values[offset] = value
        else:
            return SLVERR if offset in self.values else DECERR
        return OKAY

    def rests(self):
        return self.rng.random() < self.stall

    async def serve_reads(self, ctx, bus):
        while True:
            while self.rests():
                await ctx.tick()
            ctx.set(bus.arready, 1)
            (address,) = await ctx.tick().sample(bus.araddr).until(bus.arvalid)
            ctx.set(bus.arready, 0)
            while self.rests():
                await ctx.tick()
            value, response = self.read(address)
            ctx.set(bus.rdata, value)
            ctx.set(bus.rresp, response)
            ctx.set(bus.rvalid, 1)
            await ctx.tick().until(bus.rready)
            ctx.set(bus.rvalid, 0)

    async def serve_writes(self, ctx, bus):
        while True:
            taken = {}
            channels = {"aw": ("awaddr",), "w": ("wdata", "wstrb")}
            for channel in sorted(channels, reverse=self.rng.random() < 0.5):
                while self.rests():
                    await ctx.tick()
                ready, valid = (getattr(bus, channel + end) for end in ("ready", "valid"))
                ctx.set(ready, 1)
                taken[channel] = (
                    await ctx.tick()
                    .sample(*(getattr(bus, name) for name in channels[channel]))
                    .until(valid)
                )
                ctx.set(ready, 0)
            ctx.set(bus.bresp, self.write(taken["aw"][0], *taken["w"]))
            ctx.set(bus.bvalid, 1)
            await ctx.tick().until(bus.bready)
            ctx.set(bus.bvalid, 0)


class Line:
    """Transport whose other end is an endpoint in a simulation.

    ``dut``: the other end; ``memory``: external memory; ``registers``: registers, None if they are
    in ``dut``; ``noise``: damages both directions; ``gap``: cycles of one byte.
    """

    def __init__(self, dut, memory, registers, *, noise=None, gap=FrameReceiver.GAP):
        self.dut = dut
        self.noise = noise
        self.gap = gap
        self.seconds_per_byte = gap * SECONDS
        self.cycle = 0
        self.sent, self.arrived = deque(), deque()
        self.simulator = Simulator(dut)
        self.simulator.add_clock(1e-6)
        benches = [
            partial(memory.serve_reads, bus=dut.m_axi),
            partial(memory.serve_writes, bus=dut.m_axi),
            self._feed,
            self._take,
        ]
        if registers is not None:
            benches += [
                partial(registers.serve_reads, bus=dut.m_axil),
                partial(registers.serve_writes, bus=dut.m_axil),
                self._responses,
            ]
        self.started = []
        for bench in benches:
            self.simulator.add_testbench(partial(self._start, bench), background=True)

    async def _start(self, bench, ctx):
        self.started.append(bench(ctx))
        await self.started[-1]

    def watch(self, signal):
        """Return a list that gets the cycles in which a signal is 1; before anything is sent."""
        cycles = []

        async def look(ctx):
            async for _, _, level in ctx.tick().sample(signal):
                if level:
                    cycles.append(self.cycle)

        self.simulator.add_testbench(partial(self._start, look), background=True)
        return cycles

    def end(self):
        """Drop the benches, which wait for ever."""
        for coroutine in self.started:
            # Amaranth's until() and repeat() cannot be closed while they wait, and say so.
            with suppress(RuntimeError):
                coroutine.close()

    async def _responses(self, ctx):
        """Check that each response is taken in the cycle in which it comes."""
        channels = [(bus, name) for bus in (self.dut.m_axi, self.dut.m_axil) for name in "br"]
        valid, ready = (
            Cat(getattr(bus, name + end) for bus, name in channels) for end in ("valid", "ready")
        )
        async for _, _, late in ctx.tick().sample(valid & ~ready):
            assert not late

    async def _feed(self, ctx):
        while True:
            if self.sent:
                ctx.set(self.dut.byte, self.sent.popleft())
                ctx.set(self.dut.valid, 1)
            await ctx.tick()
            self.cycle += 1
            ctx.set(self.dut.valid, 0)
            for _ in range(self.gap - 1):
                await ctx.tick()
                self.cycle += 1

    async def _take(self, ctx):
        o = self.dut.o
        while True:
            ctx.set(o.ready, 1)
            (byte,) = await ctx.tick().sample(o.payload).until(o.valid)
            ctx.set(o.ready, 0)
            self.arrived.extend(self._passed(bytes((byte,))))
            await ctx.tick().repeat(self.gap - 1)

    def _passed(self, data):
        return data if self.noise is None else self.noise.pass_on(data)

    def send(self, data):
        self.sent.extend(self._passed(data))

    def receive(self, seconds):
        end = self.now() + seconds
        while not self.arrived and self.now() < end:
            self.simulator.advance()
        data = bytes(self.arrived)
        self.arrived.clear()
        return data

    def now(self):
        return self.cycle * SECONDS

    def settle(self, cycles):
        """Let time pass."""
        end = self.cycle + cycles
        while self.cycle < end:
            self.simulator.advance()

    def close(self):
        self.end()


def bench(dut, rng, *, size=1 << 13, stall=0.2, refuses=lambda address: False, **options):
    """Return the line to an endpoint, its memory and its registers; ``options`` are of ``Line``."""
    memory = AxiMemory(
        bytearray(rng.bytes(size)),
        data_bytes=len(dut.m_axi.wstrb),
        burst_beats=1,
        latency=5,
        rng=rng,
        stall=stall,
        refuses=refuses,
    )
    registers = RegisterModel(rng, stall)
    return Line(dut, memory, registers, **options), memory, registers


class Wired(Elaboratable):
    """A component with ``rx`` and ``tx`` at the end of two wires, and the ports of an ``Endpoint``.

    ``inner``: the component, with a line of ``DIVISOR`` cycles a bit; ``m_axil``: port of its
    registers, if they are outside.
    """

    DIVISOR = 4
    GAP = 10 * DIVISOR

    def __init__(self, inner, m_axil=None):
        self.inner = inner
        self.m_axi, self.m_axil = inner.m_axi, m_axil
        self.byte, self.valid = Signal(8), Signal()
        self.o = stream.Signature(8).create()

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = self.inner
        m.submodules.to = to = UartTransmitter(divisor=self.DIVISOR)
        m.submodules.back = back = UartReceiver(divisor=self.DIVISOR)
        m.d.comb += [
            to.i.payload.eq(self.byte),
            to.i.valid.eq(self.valid),
            self.inner.rx.eq(to.tx),
            back.rx.eq(self.inner.tx),
            self.o.payload.eq(back.byte),
            self.o.valid.eq(back.valid),
        ]
        return m
