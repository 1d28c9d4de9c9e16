"""Parts that count on their queues: the reading side of a store, and the queue before a unit."""

import pytest
from amaranth.hdl import Array, Cat, Mux, Signal, Value
from prove import Spec, broken_module, proved, refuted
from queues import Fifo, in_order

from celosia.hw.arch import isa
from celosia.hw.arch.config import preset
from celosia.hw.bus import gather
from celosia.hw.sequencer import check, issue, pieces


def gather_spec(module=gather, space=None):
    spec = Spec()
    module.Gatherer.SPACE = space or module.Gatherer.SPACE
    dut = spec.open(
        "dut",
        module.Gatherer(rows=4, unified_bytes=64, bus_bytes=4, length_bits=3, place_bits=8),
    )
    space = dut.SPACE
    bits = space.bit_length()
    request, out, bursts = dut.request, dut.beats, dut.bursts
    asked = Signal(range(space + 2))
    spec.m.d.sync += asked.eq(asked + (request.valid & request.ready) - dut.valid)
    spec.given("responses to requests", ~dut.valid | (asked != 0))
    strobes = Fifo(spec, "dut.strobes", width=5, depth=space, eager=True)
    responses = Fifo(spec, "dut.responses", width=32, depth=space, eager=True)
    # A push into a full queue would be lost, and the counts go apart.
    under_way = responses.level + asked + request.valid
    spec.claim("nothing lost", strobes.level == under_way)
    spec.claim("bounded", under_way <= space)
    busy = spec.see("dut.busy", 1)
    burst = dut.burst(spec.see("dut.burst", dut.burst.size))
    spec.claim("idle", dut.idle == ~(busy | request.valid))
    spec.claim("abort takes nothing", ~dut.abort | ~bursts.ready)
    spec.claim("request waits", spec.waits(request.valid, request.ready, request.payload))
    spec.claim("beat waits", spec.waits(out.valid, out.ready, out.payload))
    # The strobe went into its queue while its request went into the register.
    fresh = request.valid & ~spec.past(request.valid & ~request.ready)
    left, counted = Signal(4), Signal(4, init=15)
    spec.m.d.sync += counted.eq(left)
    took = spec.past(bursts.valid & bursts.ready)
    spec.m.d.comb += left.eq(Mux(took, spec.past(bursts.payload.beats), counted - fresh))
    spec.claim("beats of a burst", ~busy | (burst.beats == left))
    spec.claim("burst ends", busy | (left == 15))
    sent = out.valid & out.ready
    in_order(
        spec,
        name="responses ",
        push=dut.valid,
        value=Value.cast(dut.data),
        pop=sent,
        front=out.payload.data,
        entries=responses.entries(out.payload.data),
        level=responses.level,
    )
    strobe = Cat(request.payload.mask, spec.past(burst.beats == 0))
    front = Cat(out.payload.strobe, out.payload.last)
    in_order(
        spec,
        name="strobes ",
        push=fresh,
        value=strobe,
        pop=sent,
        front=front,
        entries=strobes.entries(front),
        level=(strobes.level - fresh)[:bits],
    )
    newest = Array(strobes.entries(front))[strobes.level - 1]
    pushed = (strobes.level != 0) & (newest == strobe)
    spec.claim("strobe of the request", ~fresh | pushed)
    spec.cover("full", under_way == space)
    return spec


def check_spec(module=check):
    """A unit gets as many pieces as hold all that it has instructions for, once it is known."""
    spec = Spec()
    dut = spec.open("dut", module.Check(config=preset("nano")))
    bits = pieces.PIECE_BITS
    word, index = dut.i.payload.word, dut.i.payload.index
    taken = dut.i.valid & dut.i.ready
    sent = dut.o.valid & dut.o.ready
    shown = dut.o.payload
    # Who offers an instruction keeps it until it is taken, and moves its word down when told to.
    kept = spec.past(dut.i.valid & ~dut.i.ready)
    moved = spec.past(dut.shift)
    before = spec.past(word)
    spec.given("offered until taken", ~kept | dut.i.valid)
    spec.given("the same word", ~kept | moved | (word == before))
    spec.given("moved down", ~kept | ~moved | (word[:-bits] == before[bits:]))
    spec.given("the same index", ~kept | (index == spec.past(index)))

    whole = Signal.like(word)
    age = Signal(2)
    gone = Signal(3)
    spec.m.d.sync += [age.eq(age + (age != 3)), gone.eq(gone + sent)]
    with spec.m.If(taken | ~dut.i.valid):
        spec.m.d.sync += [age.eq(0), gone.eq(0)]
    with spec.m.If(age == 0):
        spec.m.d.sync += whole.eq(word)
    wanted = Signal(range(5), init=1)
    owner = Signal(isa.Unit, init=isa.Unit.SEQUENCER)
    for opcode, unit in isa.UNITS.items():
        owned = [other for other, its in isa.UNITS.items() if its is unit]
        most = -(-max(isa.LAYOUTS[other].size for other in owned) // bits)
        with spec.m.If(whole[:8] == opcode.value):
            spec.m.d.comb += [wanted.eq(most), owner.eq(unit)]
    matches = Cat(whole[:8] == opcode.value for opcode in isa.Opcode)
    spec.claim("two cycles to judge", dut.o.valid == (age >= 2))
    spec.claim("judged while offered", (age == 0) | kept)
    spec.claim("nothing gone before", (age >= 2) | (gone == 0))
    spec.claim("seen in the first", spec.see("dut.seen", 1) == (age == 1))
    spec.claim(
        "matched in the first", (age != 1) | (spec.see("dut.matches", len(isa.Opcode)) == matches)
    )
    spec.claim("unit", ~dut.o.valid | (shown.unit == owner))
    spec.claim("counted", ~dut.o.valid | (spec.see("dut.gone", 2) == gone))
    spec.claim("no more than the unit wants", ~dut.o.valid | (gone < wanted))
    spec.claim("taken with the last", taken == (sent & (gone == wanted - 1)))
    spec.claim("moved for the others", dut.shift == (sent & (gone != wanted - 1)))
    rest = Signal.like(word)
    spec.m.d.comb += rest.eq(whole >> gone * bits)
    for place in range(4):
        part = slice(place * bits, (place + 1) * bits)
        here = (age == 0) | (gone + place > 3) | (word[part] == rest[part])
        spec.claim(f"rest {place}", here)
    spec.claim("piece", ~dut.o.valid | (shown.piece.bits == rest[:bits]))
    spec.claim("index", ~dut.o.valid | (shown.piece.index == index))
    spec.claim("piece waits", spec.waits(dut.o.valid, dut.o.ready, shown))
    spec.cover("four pieces", sent & (gone == 3))
    spec.cover("one piece", sent & taken & (gone == 0))
    return spec


def join_spec(module=pieces):
    """An instruction is its pieces, the first of them lowest; here there are two."""
    spec = Spec()
    dut = spec.open("dut", module.Join(opcodes=(isa.Opcode.LOAD,)))
    bits = module.PIECE_BITS
    came = dut.i.valid & dut.i.ready
    second = Signal()
    whole = Signal()
    low, high = Signal(bits), Signal(bits)
    index = Signal.like(dut.i.payload.index)
    with spec.m.If(came):
        spec.m.d.sync += [second.eq(~second), whole.eq(second), index.eq(dut.i.payload.index)]
        with spec.m.If(second):
            spec.m.d.sync += high.eq(dut.i.payload.bits)
        with spec.m.Else():
            spec.m.d.sync += low.eq(dut.i.payload.bits)
    with spec.m.Elif(dut.o.ready):
        spec.m.d.sync += whole.eq(0)
    inside = spec.see("dut.bits", 2 * bits)
    spec.claim("offered when whole", dut.o.valid == whole)
    spec.claim("counted", spec.see("dut.there", 1) == second)
    spec.claim("first half", ~(second | whole) | (Mux(second, inside[bits:], inside[:bits]) == low))
    spec.claim("second half", ~whole | (inside[bits:] == high))
    fields = dut.o.payload.fields.as_value()
    spec.claim("whole", ~whole | (fields == Cat(low, high)[: len(fields)]))
    spec.claim("index", ~whole | (dut.o.payload.index == index))
    spec.claim("taken while there is room", dut.i.ready == ~whole)
    spec.claim("instruction waits", spec.waits(dut.o.valid, dut.o.ready, dut.o.payload))
    spec.claim("idle", dut.idle == ~(second | whole))
    spec.cover("one after the other", whole & (spec.past(dut.o.valid & dut.o.ready, 3)))
    return spec


def issue_spec(module=issue):
    spec = Spec()
    depth, in_flight = 3, 4
    dut = spec.open(
        "dut", module.Issue(opcodes=(isa.Opcode.LOAD,), depth=depth, in_flight=in_flight)
    )
    width = dut.push.payload.shape().size
    queue = Fifo(spec, "dut.queue", width=width, depth=2 * (depth - 1), eager=True)
    taken = Fifo(spec, "dut.taken", width=32, depth=in_flight)
    # What becomes of pieces behind the queue is said by ``join_spec``.
    whole = spec.see("dut.join.o__valid", 1)
    half = spec.see("dut.join.there", 1)
    piece = spec.see("dut.queue.r_data", width)
    pushed = dut.push.valid & dut.push.ready
    in_order(
        spec,
        name="pieces ",
        push=pushed,
        value=Value.cast(dut.push.payload),
        pop=queue.ready & ~whole,
        front=piece,
        entries=queue.entries(piece),
        level=queue.level,
    )
    spec.claim("either whole or not", ~(whole & half))
    handed = dut.instruction.valid & dut.instruction.ready
    leaving = spec.past(handed)
    spec.claim("leaves in the next cycle", spec.see("dut.leaving", 1) == leaving)
    inside = Signal(range(2 * depth + 1))
    spec.m.d.sync += inside.eq(inside + pushed - Mux(leaving, 2, 0))
    spec.claim("inside", inside == queue.level + Mux(whole, 2, half))

    spec.given("granted to who asks", ~dut.granted | dut.asking)
    acquired = spec.see("dut.acquired", 1)
    held = Signal()
    spec.m.d.sync += held.eq(held + dut.granted - leaving)
    spec.claim("one grant each", acquired == held)
    spec.claim("granted and still there", ~held | whole)
    spec.claim("granted before handed on", ~handed | held)
    spec.claim("handed on once", ~(handed & leaving))
    spec.claim("still there while it leaves", ~leaving | held)
    spec.claim("asks once", ~dut.asking | ~held)
    header = dut.instruction.payload.fields.load
    spec.claim("wants what it waits for", ~dut.asking | (dut.want == header.wait))

    at_unit = Signal(range(in_flight + 1))
    spec.m.d.sync += at_unit.eq(at_unit + handed - dut.done)
    spec.given("finishes what it took", ~dut.done | (at_unit != 0))
    owed = spec.see("dut.owed", range(in_flight + 1))
    front = spec.see("dut.taken.r_data", 32)
    posted = (owed != 0) & taken.ready
    record = Cat(header.post, dut.instruction.payload.index)
    in_order(
        spec,
        name="posts ",
        push=leaving,
        value=record,
        pop=posted,
        front=front,
        entries=taken.entries(front),
        level=taken.level,
    )
    spec.claim("room for its post", ~leaving | (taken.stored < in_flight - 1))
    spec.claim("posts of what was handed on", ~leaving | (record == spec.past(record)))
    spec.claim("a post for each finished", taken.level + leaving == at_unit + owed)
    spec.claim("post", dut.post == spec.past(Mux(posted, front[:16], 0)))
    spec.claim("counted", spec.see("dut.in_flight", range(in_flight + 1)) == taken.level)
    left = (inside != 0) | (taken.level != 0) | dut.post.any()
    spec.claim("waiting", dut.waiting == left)
    spec.cover("finished while the next is there", dut.done & leaving & dut.post.any())
    spec.cover("unit is full", taken.level == in_flight)
    spec.cover("full", inside == 2 * depth)
    return spec


def test_gather():
    proved(gather_spec(), depth=1, reach=24)


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    [
        ("request.ready) & strobes.w_rdy", "request.ready)", "nothing lost"),
        ("(~request.valid | request.ready)", "1", "request waits"),
        ("Cat(mask, ends)", "Cat(~mask, ends)", "strobe of the request"),
        ("Cat(mask, ends)", "Cat(mask, begins)", "strobe of the request"),
        ("busy.eq(~ends)", "busy.eq(1)", "beats of a burst"),
    ],
)
def test_gather_broken(right, wrong, claim):
    refuted(gather_spec(broken_module(gather, right, wrong), 4), claim, depth=14)


def test_check():
    proved(check_spec(), depth=1, reach=8)


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    [
        ("gone == Array(count - 1", "gone == Array(max(0, count - 2)", "taken with the last"),
        ("gone.eq(0)", "gone.eq(gone)", "counted"),
        ("m.Elif(self.o.ready)", "m.Else()", "counted"),
        ("self.shift.eq(taken & ~last)", "self.shift.eq(taken)", "moved for the others"),
        ("seen.eq(self.i.valid & ~seen)", "seen.eq(self.i.valid)", "seen in the first"),
        ("self.o.valid.eq(seen)", "self.o.valid.eq(seen | self.i.valid)", "two cycles to judge"),
        ("owner.eq(unit)", "owner.eq(0)", "unit"),
        ("word[:PIECE_BITS])", "word[-PIECE_BITS:])", "piece"),
    ],
)
def test_check_broken(right, wrong, claim):
    refuted(check_spec(broken_module(check, right, wrong)), claim, depth=12)


def test_join():
    proved(join_spec(), depth=1, reach=8)


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    [
        ("there == count - 1", "there == 0", "offered when whole"),
        ("[PIECE_BITS:]", "[:-PIECE_BITS]", "first half"),
        ("m.If(self.i.valid & self.i.ready)", "m.If(self.i.valid)", "counted"),
        ("~self.o.valid & (there == 0)", "~self.o.valid", "idle"),
    ],
)
def test_join_broken(right, wrong, claim):
    refuted(join_spec(broken_module(pieces, right, wrong)), claim, depth=8)


def test_issue():
    proved(issue_spec(), depth=1, reach=32)


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    [
        (
            "self.instruction.valid.eq(acquired & taken.w_rdy",
            "self.instruction.valid.eq(join.o.valid & taken.w_rdy",
            "granted before handed on",
        ),
        ("& taken.w_rdy & ~leaving)", "& ~leaving)", "room for its post"),
        ("taken.w_rdy & ~leaving)", "taken.w_rdy)", "handed on once"),
        ("m.d.sync += acquired.eq(0)", "m.d.sync += acquired.eq(1)", "one grant each"),
        ("owed + self.done - posted", "owed + (self.done & ~posted)", "a post for each finished"),
        (
            "taken.w_data.eq(Cat(header.post, head.index))",
            "taken.w_data.eq(Cat(header.wait, head.index))",
            "posts in order",
        ),
        ("| (in_flight != 0) | self.post.any()", "| (in_flight != 0)", "waiting"),
    ],
)
def test_issue_broken(right, wrong, claim):
    refuted(issue_spec(broken_module(issue, right, wrong)), claim, depth=32)
