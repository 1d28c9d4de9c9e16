"""The sequencer: order, semaphores, refusals and errors."""

import random

import pysim
import pytest
from sequencer_bench import CONFIG, UNITS, Bench

from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import CODE_BITS, WORD_BYTES
from celosia.hw.arch.config import PROGRAM_BYTES
from celosia.hw.arch.isa import Opcode
from celosia.hw.arch.registers import LENGTH_BITS, Activity
from celosia.hw.sequencer.semaphores import GREATEST, Semaphores


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
        opcode = Opcode.FENCE if rng.random() < 0.05 else opcode
        program.append(legal(opcode, wait=wait, post=post))
    executed = [n for n, one in enumerate(program) if one.opcode in SIMPLE]
    fences = [n for n, one in enumerate(program) if one.opcode is Opcode.FENCE]
    program.append(legal(Opcode.HALT))
    # Some unit moves, so that the watchdog has no say in a program that runs for longer.
    bench = Bench(program, seed=seed, watchdog=40, stall=0.3 * (seed % 2))
    assert bench.run() is None and bench.cycles > 3 * bench.watchdog
    ran = {index: (begin, end) for index, begin, end in bench.log}
    assert sorted(ran) == executed
    for before, after in edges:
        if before in ran and after in ran:
            assert ran[before][1] < ran[after][0]
    for fence in fences:
        ends = [ran[n][1] for n in executed if n < fence]
        begins = [ran[n][0] for n in executed if n > fence]
        assert not ends or not begins or max(ends) < min(begins)
    for unit in set(isa.UNITS[o] for o in SIMPLE):
        mine = [ran[i] for i in executed if program[i].unit is unit]
        assert all(a[1] <= b[0] for a, b in zip(mine, mine[1:], strict=False))
        assert bench.counted(unit)[Activity.BUSY.value] == sum(end - begin for begin, end in mine)
    assert bench.counted(isa.Unit.SEQUENCER)[Activity.BUSY.value] == bench.count
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


def test_fence_and_halt_wait_until_units_are_idle():
    bench = Bench([legal(Opcode.LOAD), legal(Opcode.HALT)], drain=90)
    assert bench.run() is None and bench.cycles > 90
    program = [legal(Opcode.LOAD), legal(Opcode.FENCE), legal(Opcode.STORE), legal(Opcode.HALT)]
    bench = Bench(program, drain=90)
    assert bench.run() is None
    (_, _, end), (_, begin, _) = bench.log
    assert begin > end + 90


def test_runs_again_and_starts_with_empty_semaphores():
    program = [legal(Opcode.LOAD, post=1), legal(Opcode.HALT), legal(Opcode.STORE)]
    bench = Bench(program)
    assert bench.run(times=3) == [None] * 3
    assert len(bench.log) == 3


def test_fields_have_their_defaults_in_the_next_program():
    """Words of a program name the fields that change; nothing of the program before is left."""
    limits = isa.limits(CONFIG)
    greatest = [
        legal(opcode, **{name: limits[opcode][name].high for name in names})
        for opcode, names in {
            Opcode.LOAD: ("external", "unified"),
            Opcode.STORE: ("external", "unified"),
            Opcode.MATMUL: ("unified", "tile"),
            Opcode.VECTOR: ("source_base", "destination_base"),
        }.items()
    ]
    plain = [legal(i.opcode) for i in greatest]
    bench = Bench([*greatest, legal(Opcode.HALT)])

    async def main(ctx):
        for program in (greatest, plain):
            bench.load([*program, legal(Opcode.HALT)])
            assert await bench.go(ctx) is None
            for index, i in enumerate(program):
                fields = getattr(bench.issued[index], i.opcode.name.lower())
                got = {name: getattr(fields, name) for name in i.fields}
                assert {
                    name: getattr(value, "value", value) for name, value in got.items()
                } == i.fields

    units = [bench.unit(name) for name in UNITS]
    pysim.run(bench.dut, main, background=[bench.memory, *units])


def test_fetches_little_after_halt():
    bench = Bench([legal(Opcode.HALT)] + [legal(Opcode.NOP)] * 150)
    assert bench.run() is None
    assert bench.cycles < 60
    assert max(bench.fetched) < 6 * PROGRAM_BYTES


def test_requests_that_wait_end_with_the_program():
    """The memory of the bench checks that nothing is requested while no program runs."""
    bench = Bench([legal(Opcode.HALT)] + [legal(Opcode.NOP)] * 150)
    bench.grants = 0.05
    assert bench.run() is None
    assert len(bench.fetched) < bench.count * WORD_BYTES // CONFIG.bus_bytes // 3


@pytest.mark.parametrize(("one", "other"), [(3, 9), (11, 0), (0, 11)])
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
        (Opcode.VECTOR, {"source": 1, "channels": CONFIG.columns + 1}),
        (Opcode.VECTOR, {"source": 1, "destination": 1, "mode": 1}),
        (Opcode.FILL, {"destination_x_stride": CONFIG.unified_bytes}),
    ],
)
def test_field_out_of_range(opcode, changes):
    program = [legal(Opcode.LOAD), legal(opcode, **changes), legal(Opcode.HALT)]
    bench = Bench(program)
    assert bench.run() == (isa.Error.FIELD, isa.Unit.SEQUENCER, 1)
    assert [index for index, _, _ in bench.log] in ([], [0])


def test_reserved_bits_and_unknown_opcodes():
    for code in (0, Opcode.MOVE_WEIGHTS.value, 15, 127):
        program = commands.encode([legal(Opcode.NOP)]) + bytes([code]) + bytes(WORD_BYTES - 1)
        assert Bench(program).run() == (isa.Error.OPCODE, isa.Unit.SEQUENCER, 1)
    for opcode in filter(lambda opcode: isa.has(opcode, CONFIG), Opcode):
        word = bytearray(commands.encode([legal(opcode)]))
        word[-1] = 0x80
        assert Bench(bytes(word)).run() == (isa.Error.FIELD, isa.Unit.SEQUENCER, 0)
    # 3 is no mode; the field is the last one of its register.
    function = commands.REGISTERS[isa.Unit.VECTOR][0]
    word = function.code | 3 << CODE_BITS + function.width - 2
    program = word.to_bytes(WORD_BYTES, "little")
    assert Bench(program).run() == (isa.Error.FIELD, isa.Unit.SEQUENCER, 0)


def test_program_without_halt_and_bus_error():
    sequencer = isa.Unit.SEQUENCER
    assert Bench([legal(Opcode.NOP)]).run() == (isa.Error.PROGRAM, sequencer, 1)
    bench = Bench([legal(Opcode.NOP)] * 19 + [legal(Opcode.HALT)], faults={"bus": 64 + 8})
    assert bench.run() == (isa.Error.BUS, sequencer, 18)


ONE_EACH = (Opcode.LOAD, Opcode.STORE, Opcode.MATMUL, Opcode.VECTOR)


@pytest.mark.parametrize("place", range(4))
def test_a_fault_and_a_wait_for_ever_name_unit_and_instruction(place):
    unit = isa.UNITS[ONE_EACH[place]]
    program = [legal(opcode) for opcode in ONE_EACH] + [legal(Opcode.HALT)]
    bench = Bench(program, faults={UNITS[place]: place})
    assert bench.run() == (isa.Error.RANGE, unit, place)
    program[place] = legal(ONE_EACH[place], wait=1 << 11)
    assert Bench(program, watchdog=100).run() == (isa.Error.WATCHDOG, unit, place)


@pytest.mark.parametrize("waiting", [(0, 1, 2, 3), (1, 3), (2, 3)])
def test_of_several_units_that_wait_for_ever_the_first_is_named(waiting):
    program = [legal(ONE_EACH[place], wait=1 << 11) for place in reversed(waiting)]
    ends = Bench([*program, legal(Opcode.HALT)], watchdog=100).run()
    assert ends == (isa.Error.WATCHDOG, isa.UNITS[ONE_EACH[waiting[0]]], len(waiting) - 1)


def test_a_length_of_too_many_bits_is_no_program():
    bench = Bench([legal(Opcode.HALT)])
    bench.count += 1 << LENGTH_BITS
    assert bench.run() == (isa.Error.PROGRAM, isa.Unit.SEQUENCER, 0)
    assert not bench.fetched


@pytest.mark.parametrize(
    ("program", "faults", "code"),
    [
        ([legal(Opcode.NOP)], {}, isa.Error.PROGRAM),
        ([legal(Opcode.NOP), legal(Opcode.HALT)], {"bus": 0}, isa.Error.BUS),
        ([legal(Opcode.LOAD), legal(Opcode.HALT)], {"load": 0}, isa.Error.RANGE),
        ([legal(Opcode.LOAD), legal(Opcode.FENCE)], {"load": 0}, isa.Error.RANGE),
        ([legal(Opcode.NOP, post=1), legal(Opcode.FENCE, wait=3)], {}, isa.Error.WATCHDOG),
        ([legal(Opcode.STORE, wait=2)] * 5 + [legal(Opcode.HALT)], {}, isa.Error.WATCHDOG),
    ],
)
def test_runs_again_after_an_error(program, faults, code):
    """Nothing is left over: no semaphore, no instruction, no half of a fence."""
    # The first NOP waits for a post that comes after it.
    again = [legal(Opcode.LOAD), legal(Opcode.NOP, wait=1), legal(Opcode.HALT, post=1)]
    bench = Bench(program, faults=faults, watchdog=100)
    first, second = bench.run(times=2, then=again)
    assert first[0] == code
    assert second == (isa.Error.WATCHDOG, isa.Unit.SEQUENCER, 1)
    assert bench.log[-1][0] == 0


def overflow(monkeypatch, instructions):
    """Return the result and both flags of a program after 15 posts, where 15 is the greatest."""
    monkeypatch.setattr("celosia.hw.sequencer.semaphores.GREATEST", 15)
    program = [legal(Opcode.NOP, post=1)] * 15 + instructions
    bench = Bench(program, make=pysim.anew)
    ends = []

    async def main(ctx):
        ends.append(await bench.go(ctx))
        await ctx.tick().repeat(20)
        ends.append((ctx.get(bench.dut.status.done), ctx.get(bench.dut.status.error)))

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


def test_overflow_before_halt_is_not_done(monkeypatch):
    ends = overflow(monkeypatch, [legal(Opcode.LOAD, post=1), legal(Opcode.HALT)])
    assert ends == [(isa.Error.SEMAPHORE, isa.Unit.SEQUENCER, 15), (0, 1)]


def test_overflow_of_halt_itself(monkeypatch):
    ends = overflow(monkeypatch, [legal(Opcode.HALT, post=1)])
    assert ends == [(isa.Error.SEMAPHORE, isa.Unit.SEQUENCER, 15), (0, 1)]


async def test_counts_past_the_greatest():
    dut = Semaphores(count=3, units=2)
    ctx = await pysim.simulation(dut)
    ctx.set(dut.post[1], 0b100)
    await ctx.tick().repeat(GREATEST)
    ctx.set(dut.post[1], 0)
    await ctx.tick().repeat(2)
    assert not ctx.get(dut.overflow)
    assert ctx.get(dut.lacking) == 0b011
    await pysim.pulse(ctx, dut.post[1], 0b101)
    await ctx.tick()
    assert ctx.get(dut.overflow) == 0b10
