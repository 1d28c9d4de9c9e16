"""Parts that count on their queues: the reading side of a store, and the queue before a unit."""

import pytest
from amaranth.hdl import Array, Cat, Mux, Signal, Value
from prove import Spec, broken_module, proved, refuted
from queues import Fifo, in_order

from celosia.hw.arch import isa
from celosia.hw.bus import gather
from celosia.hw.sequencer import issue


def gather_spec(module=gather, room=None):
    spec = Spec()
    module.Gatherer.ROOM = room or module.Gatherer.ROOM
    dut = spec.open(
        "dut",
        module.Gatherer(rows=4, unified_bytes=64, bus_bytes=4, length_bits=3, place_bits=8),
    )
    room = dut.ROOM
    request, out = dut.request, dut.beats
    asked = Signal(range(room + 2))
    spec.m.d.sync += asked.eq(asked + (request.valid & request.ready) - dut.valid)
    spec.given("answers what was asked", ~dut.valid | (asked != 0))
    strobes = Fifo(spec, "dut.strobes", width=4, depth=room)
    answers = Fifo(spec, "dut.answers", width=32, depth=room)
    bits = (room).bit_length()
    waited_for = spec.see("dut.waited_for", bits)
    under_way = spec.see("dut.under_way", bits)
    # A push into a full queue would be lost, and the counts go apart.
    spec.claim("no strobe lost", strobes.level == under_way)
    spec.claim("no answer lost", answers.level + waited_for == under_way)
    spec.claim("waited for", waited_for == asked + request.valid)
    quiet = (asked == 0) & ~request.valid
    spec.claim("idle", ~dut.idle | quiet)
    spec.claim("bounded", under_way <= room)
    spec.claim("request waits", spec.waits(request.valid, request.ready, request.payload))
    spec.claim("beat waits", spec.waits(out.valid, out.ready, out.payload))
    sent = out.valid & out.ready
    in_order(
        spec,
        name="answers ",
        push=dut.valid,
        value=Value.cast(dut.data),
        pop=sent,
        front=out.payload.data,
        entries=answers.entries(out.payload.data),
        level=answers.level,
    )
    # The strobe went into its queue while its request went into the register.
    fresh = request.valid & ~spec.past(request.valid & ~request.ready)
    in_order(
        spec,
        name="strobes ",
        push=fresh,
        value=request.payload.mask,
        pop=sent,
        front=out.payload.strobe,
        entries=strobes.entries(out.payload.strobe),
        level=(strobes.level - fresh)[:bits],
    )
    newest = Array(strobes.entries(Value.cast(out.payload.strobe)))[strobes.level - 1]
    pushed = (strobes.level != 0) & (newest == request.payload.mask)
    spec.claim("strobe of the request", ~fresh | pushed)
    spec.cover("full", under_way == room)
    return spec


def issue_spec(module=issue):
    spec = Spec()
    depth, in_flight = 4, 4
    dut = spec.open(
        "dut", module.Issue(opcodes=(isa.Opcode.LOAD,), depth=depth, in_flight=in_flight)
    )
    queue = Fifo(spec, "dut.queue", width=dut.payload.size, depth=depth)
    taken = Fifo(spec, "dut.taken", width=32, depth=in_flight)
    head = Value.cast(dut.instruction.payload)
    handed = dut.instruction.valid & dut.instruction.ready
    in_order(
        spec,
        name="instructions ",
        push=dut.push.valid & dut.push.ready,
        value=Value.cast(dut.push.payload),
        pop=handed,
        front=head,
        entries=queue.entries(head),
        level=queue.level,
    )
    spec.given("granted to who asks", ~dut.granted | dut.asking)
    acquired = spec.see("dut.acquired", 1)
    held = Signal()
    spec.m.d.sync += held.eq(held + dut.granted - handed)
    spec.claim("one grant each", acquired == held)
    spec.claim("granted and still there", ~held | queue.ready)
    spec.claim("granted before handed on", ~handed | held)
    spec.claim("asks once", ~dut.asking | ~held)
    header = dut.instruction.payload.fields.load
    spec.claim("wants what it waits for", ~dut.asking | (dut.want == header.wait))

    at_unit = Signal(range(in_flight + 1))
    spec.m.d.sync += at_unit.eq(at_unit + handed - dut.done)
    spec.given("finishes what it took", ~dut.done | (at_unit != 0))
    owed = spec.see("dut.owed", range(in_flight + 1))
    front = spec.see("dut.taken.r_data", 32)
    posted = (owed != 0) & taken.ready
    in_order(
        spec,
        name="posts ",
        push=handed,
        value=Cat(header.post, dut.instruction.payload.index),
        pop=posted,
        front=front,
        entries=taken.entries(front),
        level=taken.level,
    )
    spec.claim("a post for each finished", taken.level == at_unit + owed)
    spec.claim("post", dut.post == spec.past(Mux(posted, front[:16], 0)))
    spec.claim("counted", spec.see("dut.in_flight", range(in_flight + 1)) == taken.level)
    left = (queue.level != 0) | (taken.level != 0) | dut.post.any()
    spec.claim("waiting", dut.waiting == left)
    spec.cover("finished while the next is there", dut.done & handed & dut.post.any())
    spec.cover("unit is full", taken.level == in_flight)
    return spec


def test_gather():
    proved(gather_spec(), depth=1, reach=24)


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    [
        ("(under_way != self.ROOM)", "(under_way != self.ROOM + 1)", "no strobe lost"),
        ("~request.valid | request.ready) &", "1) &", "request waits"),
        ("strobes.w_data.eq(mask)", "strobes.w_data.eq(~mask)", "strobes in order"),
        ("waited_for + step - self.valid", "waited_for + step", "waited for"),
    ],
)
def test_gather_broken(right, wrong, claim):
    refuted(gather_spec(broken_module(gather, right, wrong), 4), claim, depth=14)


def test_issue():
    proved(issue_spec(), depth=1, reach=14)


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    [
        (
            "self.instruction.valid.eq(acquired & taken.w_rdy)",
            "self.instruction.valid.eq(queue.r_rdy & taken.w_rdy)",
            "granted before handed on",
        ),
        ("acquired & taken.w_rdy)", "acquired)", "a post for each finished"),
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
    refuted(issue_spec(broken_module(issue, right, wrong)), claim, depth=20)
