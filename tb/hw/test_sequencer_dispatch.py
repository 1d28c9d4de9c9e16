"""Dispatch: each word to its unit, in order; NOP, FENCE and HALT run here."""

from typing import Any

import pysim
import pytest
from amaranth.hdl import Value

from celosia.hw.arch import commands, isa
from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.arch.isa import Opcode, Unit
from celosia.hw.arch.registers import Activity
from celosia.hw.sequencer.dispatch import EXECUTORS, HOLD, SETTLE, Dispatch

OWN = (Opcode.NOP, Opcode.FENCE, Opcode.HALT)


def checked(index, opcode, **fields):
    """Return the payload of the GO of an instruction."""
    word = commands.go(opcode, fields.get("wait", 0), fields.get("post", 0))
    return {"index": index, "bits": word, "units": 1 << isa.UNITS[opcode].value, "go": 1}


def test_executors_cover_all_opcodes_once():
    owned = [opcode for opcodes in EXECUTORS.values() for opcode in opcodes]
    assert sorted(o.value for o in (*owned, *OWN)) == sorted(o.value for o in Opcode)
    assert [unit.value for unit in EXECUTORS] == [1, 2, 3, 4]


class Bench:
    """Random instructions, of one word each; queues, semaphores and units respond at random."""

    def __init__(self, rng, *, count=120, producer=0.0, full=0.0, lack=0.0, quiet=1.0):
        self.dut = Dispatch()
        self.rng, self.producer = rng, producer
        self.full, self.lack, self.quiet = full, lack, quiet
        opcodes = [rng.choice(list(Opcode)) for _ in range(count)]
        masks = rng.integers(0, 1 << SEMAPHORES, (count, 2))
        self.instructions = [
            isa.Instruction(opcode, wait=int(w), post=int(p))
            for opcode, (w, p) in zip(opcodes, masks, strict=True)
        ]
        self.log = []
        self.activities = []
        self.wanted = Activity.EMPTY.value

    async def send(self, ctx):
        payloads = [
            checked(n, i.opcode, wait=i.wait, post=i.post) for n, i in enumerate(self.instructions)
        ]
        await pysim.put_all(ctx, self.dut.i, payloads, rng=self.rng, stall=self.producer)

    async def watch(self, ctx):
        dut = self.dut
        pushes = {unit: getattr(dut, f"push_{unit.name.lower()}") for unit in EXECUTORS}
        names = ("requesting", "want", "granted", "quiet", "post", "halted")
        acquired = False
        # The instruction of the sequencer came in an earlier cycle.
        came = False
        self.settling = 0
        while True:
            for push in pushes.values():
                ctx.set(push.ready, self.rng.random() >= self.full)
            ctx.set(dut.quiet, self.rng.random() < self.quiet)
            lacking = 0xFFF if self.rng.random() < self.lack else 0
            ctx.set(dut.lacking, lacking)
            # The sender drives in this cycle too, perhaps after this bench.
            await ctx.delay(1e-7)
            ctx.set(dut.granted, ctx.get(dut.requesting) and not ctx.get(dut.want) & lacking)
            signals = [signal for p in pushes.values() for signal in (p.valid, p.ready, p.payload)]
            values = await ctx.tick().sample(
                *signals,
                dut.i.valid,
                dut.i.ready,
                Value.cast(dut.activity),
                *(getattr(dut, name) for name in names),
            )
            values = values[2:]
            now = dict(zip(names, values[-len(names) :], strict=True))
            valid, ready, activity = values[12:15]
            n = len(self.log)
            unit = self.instructions[n].unit if n < len(self.instructions) else None
            offered = [u for k, u in enumerate(pushes) if values[3 * k]]
            assert offered == ([unit] if valid and unit is not Unit.SEQUENCER else [])
            taken = [k for k in range(4) if values[3 * k] and values[3 * k + 1]]
            own = came
            self.account(n, own, taken, values, now, acquired)
            self.classify(n, valid, ready, activity, own and not acquired, lacking)
            finished = bool(valid and ready)
            assert not taken or finished
            acquired = not finished and (acquired or bool(now["granted"]))
            came = bool(valid) and not finished and unit is Unit.SEQUENCER
            if finished:
                self.log.append(self.instructions[n].opcode)

    def account(self, n, own, taken, values, now, acquired):
        if not own:
            assert not now["requesting"] and not now["post"] and not now["halted"]
            for k in taken:
                payload = values[3 * k + 2]
                assert payload.index == n
                i = self.instructions[n]
                assert payload.bits == commands.go(i.opcode, i.wait, i.post)
            return
        instruction = self.instructions[n]
        assert now["requesting"] == (not acquired)
        assert acquired or now["want"] == instruction.wait
        posts = acquired and (now["quiet"] or instruction.opcode is Opcode.NOP)
        assert now["post"] == (instruction.post if posts and not self.settling else 0)
        assert now["halted"] == (self.settling == SETTLE and instruction.opcode is Opcode.HALT)
        if self.settling:
            self.settling = (self.settling + 1) % (SETTLE + 1)
        elif posts:
            self.settling = 1

    def classify(self, n, valid, ready, activity, waits, lacking):
        self.activities.append(activity)
        missing = self.instructions[n].wait & lacking if waits else 0
        if valid and ready:
            wanted = Activity.BUSY.value
        elif not valid:
            wanted = Activity.MEMORY.value
        elif missing:
            wanted = Activity.SEMAPHORE.value + (missing & -missing).bit_length() - 1
        else:
            wanted = Activity.DRAIN.value
        # A cycle late.
        assert activity == self.wanted
        self.wanted = wanted

    def run(self):
        async def main(ctx):
            await self.send(ctx)

        pysim.run(self.dut, main, background=[self.watch], cycles_limit=20_000)
        assert self.log == [instruction.opcode for instruction in self.instructions]


@pytest.mark.parametrize("producer", [0.0, 0.5])
@pytest.mark.parametrize(("full", "lack", "quiet"), [(0, 0, 1), (0.6, 0, 0.5), (0.3, 0.7, 0.2)])
def test_random_instructions(producer, full, lack, quiet, rng):
    bench = Bench(rng, producer=producer, full=full, lack=lack, quiet=quiet)
    bench.run()
    assert Activity.BUSY.value in bench.activities
    assert (Activity.MEMORY.value in bench.activities) or not producer
    assert any(a >= Activity.SEMAPHORE.value for a in bench.activities) == (lack > 0)


async def test_latencies():
    """A word for a unit leaves in its first cycle; the sequencer's posts in its third."""
    dut: Any = Dispatch()
    cycles = []
    ctx = await pysim.simulation(dut)
    ctx.set(dut.push_load.ready, 1)
    ctx.set(dut.quiet, 1)
    for opcode in (Opcode.LOAD, Opcode.NOP, Opcode.LOAD, Opcode.HALT):
        pysim.drive(ctx, dut.i, payload=checked(0, opcode), valid=1)
        ready = 0
        count = 0
        while not ready:
            ctx.set(dut.granted, ctx.get(dut.requesting))
            *_, ready = await ctx.tick().sample(dut.i.ready)
            count += 1
        cycles.append(count)
    assert cycles == [1, HOLD + 2 + SETTLE, 1, HOLD + 2 + SETTLE]


@pytest.mark.parametrize("opcode", OWN)
async def test_only_a_nop_does_not_wait_until_all_is_quiet(opcode):
    dut = Dispatch()
    ctx = await pysim.simulation(dut)
    pysim.drive(ctx, dut.i, payload=checked(4, opcode, post=0b1001), valid=1)
    await ctx.tick().repeat(HOLD)
    await pysim.pulse(ctx, dut.granted)
    if opcode is not Opcode.NOP:
        for _ in range(5):
            assert not ctx.get(dut.i.ready) and not ctx.get(dut.post)
            assert ctx.get(dut.activity) == Activity.DRAIN
            await ctx.tick()
        ctx.set(dut.quiet, 1)
    assert ctx.get(dut.post) == 0b1001
    for _ in range(SETTLE):
        assert not ctx.get(dut.i.ready) and not ctx.get(dut.halted)
        await ctx.tick()
        assert not ctx.get(dut.post)
    assert ctx.get(dut.i.ready)
    assert ctx.get(dut.halted) == (opcode is Opcode.HALT)
    await ctx.tick()
    ctx.set(dut.i.valid, 0)
    assert not ctx.get(dut.post) and not ctx.get(dut.halted)


async def test_quiet_before_the_semaphores_is_not_enough():
    dut = Dispatch()
    ctx = await pysim.simulation(dut)
    pysim.drive(ctx, dut.i, payload=checked(4, Opcode.HALT, wait=1), valid=1)
    pysim.drive(ctx, dut, quiet=1, lacking=1)
    await ctx.tick().repeat(HOLD)
    for _ in range(5):
        assert ctx.get(dut.requesting) and ctx.get(dut.want) == 1
        assert not ctx.get(dut.i.ready) and not ctx.get(dut.halted)
        await ctx.tick()
        assert ctx.get(Value.cast(dut.activity)) == Activity.SEMAPHORE.value
