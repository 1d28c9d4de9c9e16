"""The sequencer between a memory and four units made of Python."""

import random

import pytest
from amaranth.hdl import ResetInserter

from celosia.hw.arch import isa
from celosia.hw.arch.config import INSTRUCTION_BYTES, preset
from celosia.hw.arch.isa import Opcode
from celosia.hw.arch.registers import COUNTERS_PER_UNIT, Activity
from celosia.hw.sequencer.pieces import piece_count
from celosia.hw.sequencer.semaphores import GREATEST, Semaphores
from celosia.hw.sequencer.sequencer import Sequencer
from celosia.sim import pysim

CONFIG = preset("micro,queue_depth=3")
UNITS = ("load", "store", "matrix", "vector")


class Bench:
    """A sequencer; each unit takes a random time for an instruction and logs when it ran it."""

    def __init__(self, program, *, seed=0, watchdog=2000, latency=9, faults=()):
        self.words = program if isinstance(program, bytes) else isa.encode_program(program)
        self.count = len(self.words) // INSTRUCTION_BYTES
        self.rng = random.Random(seed)
        self.dut = Sequencer(config=CONFIG)
        self.watchdog = watchdog
        self.latency = latency
        self.faults = dict(faults)
        self.log = []
        self.cycle = self.cycles = 0
        self.counts, self.fetched = [], []

    async def memory(self, ctx):
        request, beats = self.dut.request, self.dut.beats
        queue = []
        bus = CONFIG.bus_bytes
        while True:
            ctx.set(request.ready, self.rng.random() < 0.8)
            assert ctx.get(self.dut.running) or not ctx.get(request.valid), "fetches at an end"
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
            ctx.set(beats.valid, due)
            if due:
                ctx.set(beats.payload, queue[0][1])
                if ctx.get(beats.ready):
                    queue.pop(0)
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
                ctx.set(port.instruction.ready, not ctx.get(port.abort))
                payload = ctx.get(port.instruction.payload)
                taken = ctx.get(port.instruction.valid) and ctx.get(port.instruction.ready)
                await ctx.tick()
                if not taken:
                    continue
                ctx.set(port.instruction.ready, 0)
                ctx.set(port.idle, 0)
                begin = self.cycle
                ctx.set(port.activity, Activity.BUSY)
                for _ in range(self.rng.randrange(1, 30)):
                    await ctx.tick()
                if self.faults.get(name) == payload.index:
                    ctx.set(port.fault, {"code": isa.Error.RANGE, "index": payload.index})
                    ctx.set(port.fault_valid, 1)
                    await ctx.tick()
                    ctx.set(port.fault_valid, 0)
                else:
                    self.log.append((payload.index, begin, self.cycle))
                    ctx.set(port.done, 1)
                    ctx.set(port.activity, Activity.DRAIN)
                    await ctx.tick()
                    ctx.set(port.done, 0)
                ctx.set(port.idle, 1)

        return bench

    async def go(self, ctx, *, limit=6000):
        """Ring the doorbell, wait for the end, and return the result."""
        dut = self.dut
        ctx.set(dut.program_address, 0x1000)
        ctx.set(dut.program_length, self.count)
        ctx.set(dut.watchdog, self.watchdog)
        ctx.set(dut.clear_counters, 1)
        await ctx.tick()
        ctx.set(dut.clear_counters, 0)
        await ctx.tick().repeat(COUNTERS_PER_UNIT + 2)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        for _ in range(limit):
            if ctx.get(dut.done) or ctx.get(dut.error):
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
        if ctx.get(dut.error):
            return ctx.get(dut.code), ctx.get(dut.unit), ctx.get(dut.index)
        return None

    def counted(self, unit):
        """Return the counters of a unit by activity."""
        return self.counts[unit.value * COUNTERS_PER_UNIT :][:COUNTERS_PER_UNIT]

    def run(self, *, times=1, then=None):
        """Run ``times`` times, with a soft reset after each; from the second on ``then``."""
        results = []

        async def main(ctx):
            for _ in range(times):
                results.append(await self.go(ctx))
                if then is not None:
                    self.words = isa.encode_program(then)
                    self.count = len(then)
                    self.faults = {}
                ctx.set(self.dut.reset, 1)
                await ctx.tick()
                ctx.set(self.dut.reset, 0)
                for _ in range(100):
                    if ctx.get(self.dut.clear):
                        break
                    await ctx.tick()
                else:
                    raise AssertionError("no reset")
                await ctx.tick()

        benches = [self.unit(name) for name in UNITS]
        # Resets cost time to simulate.
        core = self.dut if then is None else ResetInserter(self.dut.clear)(self.dut)
        pysim.run(core, main, background=[self.memory, *benches], cycles_limit=40_000)
        return results[0] if times == 1 else results


def legal(opcode, **fields):
    return isa.Instruction(opcode, **fields)


SIMPLE = (Opcode.LOAD, Opcode.STORE, Opcode.MATMUL, Opcode.VECTOR, Opcode.FILL)


@pytest.mark.parametrize("seed", range(4))
def test_units_run_side_by_side_and_semaphores_order_them(seed):
    rng = random.Random(seed)
    program, edges, posted = [], [], {}
    semaphore_of = {}
    for index in range(40):
        opcode = rng.choice(SIMPLE)
        unit = isa.UNITS[opcode]
        wait = post = 0
        # One semaphore for each pair of units, its n-th take meets its n-th post.
        for (source, target), queue in posted.items():
            if target is unit and queue and rng.random() < 0.7:
                wait |= 1 << semaphore_of[source, target]
                edges.append((queue.pop(0), index))
        target = rng.choice([isa.UNITS[o] for o in SIMPLE])
        if target is not unit:
            pair = (unit, target)
            semaphore_of.setdefault(pair, len(semaphore_of))
            posted.setdefault(pair, []).append(index)
            post = 1 << semaphore_of[pair]
        program.append(legal(opcode, wait=wait, post=post))
    program.append(legal(Opcode.HALT))
    # Some unit moves, so that the watchdog has no say in a program that runs for longer.
    bench = Bench(program, seed=seed, watchdog=40)
    assert bench.run() is None and bench.cycles > 3 * bench.watchdog
    ran = {index: (begin, end) for index, begin, end in bench.log}
    assert sorted(ran) == list(range(40))
    for before, after in edges:
        assert ran[before][1] < ran[after][0]
    for unit in set(isa.UNITS[o] for o in SIMPLE):
        mine = [ran[i] for i, ins in enumerate(program[:-1]) if ins.unit is unit]
        assert all(a[1] <= b[0] for a, b in zip(mine, mine[1:], strict=False))
        assert bench.counted(unit)[Activity.BUSY.value] == sum(end - begin for begin, end in mine)
    pieces = sum(piece_count(*(o for o in isa.UNITS if isa.UNITS[o] is i.unit)) for i in program)
    assert bench.counted(isa.Unit.SEQUENCER)[Activity.BUSY.value] == pieces
    overlaps = sum(
        a[0] < b[1] and b[0] < a[1] for a in ran.values() for b in ran.values() if a != b
    )
    assert edges and overlaps


def test_fence_waits_for_all_and_nop_posts():
    program = [
        legal(Opcode.LOAD),
        legal(Opcode.MATMUL),
        legal(Opcode.FENCE),
        legal(Opcode.NOP, post=1 << 5),
        legal(Opcode.VECTOR, wait=1 << 5),
        legal(Opcode.HALT),
    ]
    bench = Bench(program)
    assert bench.run() is None
    ran = {index: (begin, end) for index, begin, end in bench.log}
    assert max(ran[0][1], ran[1][1]) < ran[4][0]


def test_runs_again_and_starts_with_empty_semaphores():
    program = [legal(Opcode.LOAD, post=1), legal(Opcode.HALT), legal(Opcode.STORE)]
    bench = Bench(program)
    assert bench.run(times=3) == [None] * 3
    assert len(bench.log) == 3


def test_fetches_little_behind_halt():
    bench = Bench([legal(Opcode.HALT)] + [legal(Opcode.NOP)] * 150)
    assert bench.run() is None
    assert bench.cycles < 60
    assert max(bench.fetched) < 20 * INSTRUCTION_BYTES


@pytest.mark.parametrize(("one", "other"), [(3, 9), (15, 0), (0, 15)])
def test_waits_for_semaphores_are_counted_by_semaphore(one, other):
    program = [
        *[legal(Opcode.LOAD)] * 2,
        legal(Opcode.LOAD, post=1 << one),
        legal(Opcode.VECTOR, wait=1 << one),
        *[legal(Opcode.LOAD)] * 2,
        legal(Opcode.LOAD, post=1 << other),
        legal(Opcode.NOP, wait=1 << other),
        legal(Opcode.HALT),
    ]
    bench = Bench(program)
    assert bench.run() is None
    waited = {isa.Unit.VECTOR: {one}, isa.Unit.SEQUENCER: {other}}
    for unit in isa.Unit:
        waits = bench.counted(unit)[Activity.SEMAPHORE.value :]
        assert {s for s, count in enumerate(waits) if count} == waited.get(unit, set())


def broken(opcode, **fields):
    """Return a program whose second instruction has ``fields`` put into its bits unchecked."""
    word = int.from_bytes(isa.encode(isa.Instruction(opcode)), "little")
    for name, value in fields.items():
        place = isa.LAYOUTS[opcode][name]
        word &= ~(((1 << place.width) - 1) << place.offset)
        word |= value << place.offset
    return (
        isa.encode(legal(Opcode.LOAD))
        + word.to_bytes(INSTRUCTION_BYTES, "little")
        + isa.encode(legal(Opcode.HALT))
    )


@pytest.mark.parametrize(
    ("opcode", "changes"),
    [
        (Opcode.LOAD, {"rows": 0}),
        (Opcode.LOAD, {"length": CONFIG.unified_bytes + 1}),
        (Opcode.STORE, {"unified": CONFIG.unified_bytes}),
        (Opcode.LOAD_WEIGHTS, {"external": 3}),
        (Opcode.LOAD_WEIGHTS, {"tile": CONFIG.weight_tiles}),
        (Opcode.LOAD_PARAMS, {"count": 0}),
        (Opcode.MATMUL, {"x_count": 0}),
        (Opcode.MATMUL, {"taps": 0}),
        (Opcode.MATMUL, {"skip": CONFIG.unified_rows}),
        (Opcode.MATMUL, {"accumulator": CONFIG.accumulator_rows}),
        (Opcode.VECTOR, {"params": 1}),
        (Opcode.VECTOR, {"mode": 3}),
        (Opcode.VECTOR, {"source": 1, "channels": CONFIG.columns + 1}),
        (Opcode.VECTOR, {"source": 1, "destination": 1, "mode": 1}),
        (Opcode.FILL, {"destination_x_stride": CONFIG.unified_bytes}),
    ],
)
def test_field_out_of_range(opcode, changes):
    bench = Bench(broken(opcode, **changes))
    assert bench.run() == (isa.Error.FIELD, isa.Unit.SEQUENCER, 1)
    assert [index for index, _, _ in bench.log] in ([], [0])


def test_reserved_bits_and_unknown_opcodes():
    for code, error in ((0, isa.Error.OPCODE), (11, isa.Error.OPCODE), (255, isa.Error.OPCODE)):
        program = isa.encode(legal(Opcode.NOP)) + bytes([code]) + bytes(INSTRUCTION_BYTES - 1)
        assert Bench(program).run() == (error, isa.Unit.SEQUENCER, 1)
    for opcode in Opcode:
        word = bytearray(isa.encode(legal(opcode)))
        word[-1] = 0x80
        assert Bench(bytes(word)).run() == (isa.Error.FIELD, isa.Unit.SEQUENCER, 0)


def test_program_without_halt_and_bus_error():
    sequencer = isa.Unit.SEQUENCER
    assert Bench([legal(Opcode.NOP)]).run() == (isa.Error.PROGRAM, sequencer, 1)
    bench = Bench([legal(Opcode.NOP), legal(Opcode.HALT)], faults={"bus": 64 + 24})
    assert bench.run() == (isa.Error.BUS, sequencer, 1)


ONE_EACH = (Opcode.LOAD, Opcode.STORE, Opcode.MATMUL, Opcode.VECTOR)


@pytest.mark.parametrize("place", range(4))
def test_a_fault_and_a_wait_for_ever_name_unit_and_instruction(place):
    unit = isa.UNITS[ONE_EACH[place]]
    program = [legal(opcode) for opcode in ONE_EACH] + [legal(Opcode.HALT)]
    bench = Bench(program, faults={UNITS[place]: place})
    assert bench.run() == (isa.Error.RANGE, unit, place)
    program[place] = legal(ONE_EACH[place], wait=1 << 15)
    assert Bench(program, watchdog=100).run() == (isa.Error.WATCHDOG, unit, place)


@pytest.mark.parametrize(
    ("program", "faults", "code"),
    [
        ([legal(Opcode.NOP)], {}, isa.Error.PROGRAM),
        ([legal(Opcode.NOP), legal(Opcode.HALT)], {"bus": 64 + 8}, isa.Error.BUS),
        ([legal(Opcode.LOAD), legal(Opcode.HALT)], {"load": 0}, isa.Error.RANGE),
        ([legal(Opcode.LOAD), legal(Opcode.FENCE)], {"load": 0}, isa.Error.RANGE),
        ([legal(Opcode.NOP, post=1), legal(Opcode.FENCE, wait=3)], {}, isa.Error.WATCHDOG),
        ([legal(Opcode.STORE, wait=2)] * 5 + [legal(Opcode.HALT)], {}, isa.Error.WATCHDOG),
    ],
)
def test_runs_again_after_an_error(program, faults, code):
    """Nothing is left over: no semaphore, no instruction, no half of a fence."""
    # The NOP in front waits for a post that is behind it.
    again = [legal(Opcode.LOAD), legal(Opcode.NOP, wait=1), legal(Opcode.HALT, post=1)]
    bench = Bench(program, faults=faults, watchdog=100)
    first, second = bench.run(times=2, then=again)
    assert first[0] == code
    assert second == (isa.Error.WATCHDOG, isa.Unit.SEQUENCER, 1)
    assert bench.log[-1][0] == 0


def overflow(monkeypatch, instructions):
    """Return the result and both flags of a program behind 15 posts, where 15 is the greatest."""
    monkeypatch.setattr("celosia.hw.sequencer.semaphores.GREATEST", 15)
    bench = Bench([legal(Opcode.NOP, post=1)] * 15 + instructions)
    ends = []

    async def main(ctx):
        ends.append(await bench.go(ctx))
        await ctx.tick().repeat(20)
        ends.append((ctx.get(bench.dut.done), ctx.get(bench.dut.error)))

    units = [bench.unit(name) for name in UNITS]
    pysim.run(bench.dut, main, background=[bench.memory, *units])
    return ends


def test_overflow_names_the_instruction_of_a_unit(monkeypatch):
    program = [legal(Opcode.LOAD, post=1), legal(Opcode.NOP, wait=2), legal(Opcode.HALT)]
    ends = overflow(monkeypatch, program)
    assert ends == [(isa.Error.SEMAPHORE, isa.Unit.SEQUENCER, 15), (0, 1)]


def test_overflow_names_an_instruction_of_the_sequencer(monkeypatch):
    ends = overflow(monkeypatch, [legal(Opcode.NOP, post=1), legal(Opcode.HALT)])
    assert ends == [(isa.Error.SEMAPHORE, isa.Unit.SEQUENCER, 15), (0, 1)]


def test_overflow_in_front_of_halt_is_not_done(monkeypatch):
    ends = overflow(monkeypatch, [legal(Opcode.LOAD, post=1), legal(Opcode.HALT)])
    assert ends == [(isa.Error.SEMAPHORE, isa.Unit.SEQUENCER, 15), (0, 1)]


def test_overflow_of_halt_itself(monkeypatch):
    ends = overflow(monkeypatch, [legal(Opcode.HALT, post=1)])
    assert ends == [(isa.Error.SEMAPHORE, isa.Unit.SEQUENCER, 15), (0, 1)]


def test_counts_past_the_greatest():
    dut = Semaphores(count=3, units=2)

    async def bench(ctx):
        ctx.set(dut.post[1], 0b100)
        await ctx.tick().repeat(GREATEST)
        ctx.set(dut.post[1], 0)
        await ctx.tick().repeat(2)
        assert not ctx.get(dut.overflow)
        assert ctx.get(dut.lacking) == 0b011
        ctx.set(dut.post[1], 0b101)
        await ctx.tick()
        ctx.set(dut.post[1], 0)
        await ctx.tick()
        assert ctx.get(dut.overflow) == 0b10

    pysim.run(dut, bench)
