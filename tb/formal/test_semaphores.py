"""Semaphores: no post is lost, none is taken twice, no count is negative."""

import pytest
from amaranth.hdl import Array, Cat, Mux, Signal, Value, signed
from prove import Spec, broken_module, changes, proved, refuted

from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.sequencer import semaphores

UNITS = 5
COUNT = SEMAPHORES


def spec_of(module=semaphores):
    greatest = module.GREATEST
    # Posts still come after an overflow was reported, from what is under way: in how many cycles.
    bits = (greatest + UNITS + 1).bit_length()
    late_cycles = ((1 << bits) - 1 - greatest) // UNITS - 3
    spec = Spec()
    m = spec.m
    dut = spec.open("dut", module.Semaphores(count=COUNT, units=UNITS))
    which = spec.free("which", range(COUNT), fixed=True)
    spec.given("one of them", which < COUNT)
    count = Array(spec.see(f"dut.count_{s}", bits) for s in range(COUNT))[which]
    took, asked = spec.past(dut.granted), spec.past(dut.requesting)
    for u in range(UNITS):
        same = dut.want[u] == spec.past(dut.want[u])
        spec.given(f"unit {u}: wants it still", ~(took | asked)[u] | same)
    fewer = Cat(took[u] & dut.want[u].bit_select(which, 1) for u in range(UNITS)).any()

    posts = sum(dut.post[u].bit_select(which, 1) for u in range(UNITS))
    takes = [dut.granted[u] & dut.want[u].bit_select(which, 1) for u in range(UNITS)]
    model = Signal(signed(bits + 2))
    # Count after the posts of a cycle and before its takes; the same one cycle later.
    before = Signal.like(model)
    passed = Signal.like(model)
    stopped = Signal()
    late = Signal(range(late_cycles + 2))
    m.d.sync += [
        model.eq(model + posts - sum(takes)),
        before.eq(Mux(posts != 0, model + posts, 0)),
        passed.eq(before),
        stopped.eq(stopped | dut.overflow.any()),
        late.eq(late + (stopped & (posts != 0))),
    ]
    spec.given("stops", late <= late_cycles)

    spec.claim("not negative", model >= 0)
    subtracted = spec.see("dut.late", COUNT).bit_select(which, 1)
    spec.claim("late", subtracted == spec.past(fewer))
    spec.claim("no post lost", count - subtracted - fewer == model)
    for u in range(UNITS):
        short = spec.see("dut.short", UNITS)[u]
        spec.claim(f"unit {u}: lacks one", ~asked[u] | (short == (dut.want[u] & dut.lacking).any()))
    spec.claim("took", spec.see("dut.took", UNITS) == took)
    spec.claim("lacking", dut.lacking.bit_select(which, 1) == (count == subtracted))
    spec.claim("one at a time", (dut.granted & (dut.granted - 1)) == 0)
    last = Value.cast(0)
    for u in range(UNITS):
        last = last | Mux(took[u], dut.want[u], 0)
    can = [asked[u] & ~took[u] & ~(dut.want[u] & (dut.lacking | last)).any() for u in range(UNITS)]
    for u in range(UNITS):
        first = can[u] & ~Cat(can[:u]).any()
        spec.claim(f"unit {u}: the first that can", dut.granted[u] == first)
    spec.claim("overflow is told", (passed <= greatest) | stopped | dut.overflow.any())
    # Posts of so many cycles may have come on top of the greatest count.
    cycles = Mux(stopped, 3, Mux(passed > greatest, 2, before > greatest))
    spec.claim("room", model <= greatest + UNITS * (late + cycles))
    spec.cover("posted and taken at once", (posts == 3) & takes[4] & (model == 2))
    spec.cover("waits", dut.requesting[2] & ~dut.granted[2] & (model == 1))
    return spec, model, stopped


def test_semaphores():
    spec, _, _ = spec_of()
    proved(spec, depth=2, reach=6)


def small(module=semaphores):
    """Return a module whose counts overflow soon."""
    return broken_module(module, "GREATEST = MOST_COUNT", "GREATEST = 40")


@pytest.mark.slow
def test_overflow_of_small_counts():
    spec, model, stopped = spec_of(small())
    spec.cover("overflows", stopped & (model > 46))
    proved(spec, depth=2, reach=14)


@changes(
    ("eq(posts - late[s])", "eq((posts != 0) - late[s])", "no post lost"),
    ("eq(posts - late[s])", "eq(posts - (late[s] & (posts == 0)))", "no post lost"),
    (" & ~(took & overlaps).any()", "", "not negative"),
    ("asked[u] & ~took[u]", "asked[u]", "unit 4: the first that can"),
    ("can[u] & ~can[:u].any()", "can[u]", "one at a time"),
    (" & ~short[u]", " & ~short[0]", "not negative"),
    ("(self.want[u] & ~left)", "(self.want[u] & zero)", "unit 4: the first that can"),
    pytest.param(
        "over = Cat(count > GREATEST for",
        "over = Cat(count > GREATEST + 1 for",
        "overflow is told",
        marks=pytest.mark.slow,
    ),
)
def test_broken(right, wrong, claim):
    module = broken_module(semaphores, right, wrong)
    if "GREATEST" in right:
        vars(module)["GREATEST"] = 40
    refuted(spec_of(module)[0], claim, depth=12)
