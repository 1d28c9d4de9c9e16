"""A sequencer between a memory and four units made of Python."""

import random

import pysim
from amaranth.hdl import ResetInserter

from celosia.hw import streams
from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import WORD_BYTES, padded
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import COUNTERS_PER_UNIT, Activity
from celosia.hw.sequencer.sequencer import Sequencer

CONFIG = preset("micro,queue_depth=3")
UNITS = ("load", "store", "matrix", "vector")


def indices(code):
    """Return the indices of the instructions of each unit in a program of words."""
    found = {name: [] for name in UNITS}
    units = {opcode.value: isa.UNITS[opcode].name.lower() for opcode in isa.Opcode}
    codes = [word % (1 << commands.CODE_BITS) for word in commands.words(code)]
    for index, code in enumerate(code for code in codes if code in units):
        found.get(units[code], []).append(index)
    return found


class Bench:
    """A sequencer; each unit takes a random time for an instruction and logs when it ran it.

    ``drain``: cycles after ``done`` until a unit is idle; ``make``: makes the sequencer.
    """

    def __init__(
        self,
        program,
        *,
        seed=0,
        watchdog=2000,
        latency=9,
        stall=0.0,
        faults=(),
        drain=1,
        make=pysim.made,
    ):
        self.load(program)
        self.rng = random.Random(seed)
        self.dut = make(Sequencer, config=CONFIG)
        self.watchdog = watchdog
        self.latency = latency
        self.stall = stall
        self.drain = drain
        self.faults = dict(faults)
        # Probability that the memory takes a request in a cycle.
        self.grants = 0.8
        self.log = []
        # Fields of each instruction of a unit, by its index.
        self.issued = {}
        # Instructions of each unit, in this program and since the last reset.
        self.taken = dict.fromkeys(UNITS, 0)
        self.tags = dict.fromkeys(UNITS, 0)
        self.cycle = self.cycles = 0
        self.counts, self.fetched = [], []

    def load(self, program):
        """Put a program, instructions or words, into the memory."""
        code = program if isinstance(program, bytes) else commands.encode(program)
        self.indices = indices(code)
        self.count = len(code) // WORD_BYTES
        self.words = code.ljust(padded(self.count), b"\0")

    def rests(self):
        return bool(self.stall) and self.rng.random() < self.stall

    async def memory(self, ctx):
        request, beats = self.dut.request, self.dut.beats
        queue = []
        offered = False
        bus = CONFIG.bus_bytes
        while True:
            ctx.set(request.ready, self.rng.random() < self.grants)
            running = ctx.get(self.dut.supervisor.running)
            assert running or not ctx.get(request.valid), "fetches at an end"
            if ctx.get(request.valid) and ctx.get(request.ready):
                payload = ctx.get(request.payload)
                for n in range(payload.beats + 1):
                    place = payload.address + n * bus - 0x1000
                    self.fetched.append(place)
                    word = int.from_bytes(self.words[place : place + bus], "little")
                    due = self.cycle + self.latency + n
                    error = place == self.faults.get("bus")
                    queue.append((due, {"data": word, "error": error, "last": n == payload.beats}))
            due = bool(queue) and queue[0][0] <= self.cycle
            offered = offered or (due and not self.rests())
            ctx.set(beats.valid, offered)
            if offered:
                ctx.set(beats.payload, queue[0][1])
                if ctx.get(beats.ready):
                    queue.pop(0)
                    offered = False
            await ctx.tick()
            self.cycle += 1

    def unit(self, name):
        async def bench(ctx):
            port = getattr(self.dut, name)
            ctx.set(port.idle, 1)
            while True:
                ctx.set(port.done, 0)
                ctx.set(port.fault_valid, 0)
                ctx.set(port.activity, Activity.IDLE)
                ctx.set(port.instruction.ready, not ctx.get(port.abort) and not self.rests())
                payload = ctx.get(port.instruction.payload)
                taken = ctx.get(port.instruction.valid) and ctx.get(port.instruction.ready)
                await ctx.tick()
                if not taken:
                    continue
                index = self.indices[name][self.taken[name]]
                self.taken[name] += 1
                self.issued[index] = payload.fields
                assert payload.tag == self.tags[name] % (1 << streams.TAG_BITS)
                self.tags[name] += 1
                ctx.set(port.instruction.ready, 0)
                ctx.set(port.idle, 0)
                begin = self.cycle
                ctx.set(port.activity, Activity.BUSY)
                for _ in range(self.rng.randrange(1, 30)):
                    await ctx.tick()
                if self.faults.get(name) == index:
                    ctx.set(port.fault, {"code": isa.Error.RANGE, "tag": payload.tag})
                    await pysim.pulse(ctx, port.fault_valid)
                else:
                    self.log.append((index, begin, self.cycle))
                    ctx.set(port.done, 1)
                    ctx.set(port.activity, Activity.DRAIN)
                    await ctx.tick()
                    ctx.set(port.done, 0)
                    for _ in range(self.drain - 1):
                        await ctx.tick()
                ctx.set(port.idle, 1)

        return bench

    async def go(self, ctx, *, limit=6000):
        """Ring the doorbell, wait for the end, and return the result."""
        dut = self.dut
        self.taken = dict.fromkeys(UNITS, 0)
        ctx.set(dut.program_address, 0x1000)
        ctx.set(dut.program_length, self.count)
        ctx.set(dut.watchdog, self.watchdog)
        await pysim.pulse(ctx, dut.clear_counters)
        await ctx.tick().repeat(COUNTERS_PER_UNIT + 2)
        assert not ctx.get(dut.cycles)
        await pysim.pulse(ctx, dut.start)
        for _ in range(limit):
            if ctx.get(dut.status.done) or ctx.get(dut.status.error):
                break
            await ctx.tick()
        else:
            raise AssertionError("neither done nor error")
        return await self.result(ctx)

    async def result(self, ctx):
        dut = self.dut
        self.counts = []
        for place in range(5 * COUNTERS_PER_UNIT):
            ctx.set(dut.counter_address, place)
            await ctx.tick().repeat(2)
            self.counts.append(ctx.get(dut.counter_value))
        self.cycles = ctx.get(dut.cycles)
        assert [sum(self.counted(unit)) for unit in isa.Unit] == [self.cycles] * 5
        if ctx.get(dut.status.error):
            return ctx.get(dut.status.code), ctx.get(dut.status.unit), ctx.get(dut.status.index)
        return None

    def counted(self, unit):
        """Return the counters of a unit by activity."""
        return self.counts[unit.value * COUNTERS_PER_UNIT :][:COUNTERS_PER_UNIT]

    def run(self, *, times=1, then=None):
        """Run ``times`` times; from the second on ``then``, if it is given, after a soft reset."""
        results = []

        async def main(ctx):
            for _ in range(times):
                results.append(await self.go(ctx))
                if then is None:
                    continue
                self.load(then)
                self.faults = {}
                self.tags = dict.fromkeys(UNITS, 0)
                await pysim.pulse(ctx, self.dut.reset)
                for _ in range(100):
                    if ctx.get(self.dut.status.clear):
                        break
                    await ctx.tick()
                else:
                    raise AssertionError("no reset")
                await ctx.tick()

        benches = [self.unit(name) for name in UNITS]
        # Resets cost time to simulate.
        core = self.dut if then is None else ResetInserter(self.dut.status.clear)(self.dut)
        pysim.run(core, main, background=[self.memory, *benches], cycles_limit=40_000)
        return results[0] if times == 1 else results
