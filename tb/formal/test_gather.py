"""Reading side of a store, which counts on its queues."""

import pytest
from amaranth.hdl import Array, Cat, Mux, Signal, Value
from amaranth.lib import data
from prove import Spec, broken_module, changes, proved, refuted
from queues import Fifo, Pair, Single, in_order

from celosia.hw.dma import gather


def gather_spec(module=gather, space=None, skid=True):
    spec = Spec()
    module.Gatherer.SPACE = space or module.Gatherer.SPACE
    sizes = {"rows": 4, "unified_bytes": 64, "bus_bytes": 4, "length_bits": 3, "local_bits": 8}
    dut = spec.open("dut", module.Gatherer(**sizes, skid=skid))
    space = dut.SPACE
    bits = space.bit_length()
    request, out, bursts = dut.request, dut.beats, dut.bursts
    requested = Signal(range(space + 2))
    spec.m.d.sync += requested.eq(requested + (request.valid & request.ready) - dut.valid)
    spec.given("responses to requests", ~dut.valid | (requested != 0))
    strobes = Fifo(spec, "dut.strobes", width=5, depth=space, eager=True)
    responses = Fifo(spec, "dut.responses", width=32, depth=space, eager=True)
    shape = request.payload.shape()
    width = Value.cast(request.payload).shape().width
    kind = Pair if skid else Single
    held = kind(spec, "dut.register", width=width, valid=request.valid)
    room = ~held.full if isinstance(held, Pair) else ~request.valid | request.ready
    # A push into a full queue would be lost, and the counts go apart.
    under_way = responses.level + requested + held.level
    spec.claim("nothing lost", strobes.level == under_way)
    spec.claim("bounded", under_way <= space)
    busy = spec.see("dut.busy", 1)
    burst = dut.burst(spec.see("dut.burst", dut.burst.size))
    spec.claim("idle", dut.idle == ~(busy | request.valid))
    spec.claim("abort takes nothing", ~dut.abort | ~bursts.ready)
    spec.claim("request waits", spec.waits(request.valid, request.ready, request.payload))
    spec.claim("beat waits", spec.waits(out.valid, out.ready, out.payload))
    # The strobe went into its queue while its request went into the register.
    fresh = spec.past(busy & room & (strobes.stored < space - 1))
    spec.claim("fresh ones are held", ~fresh | (held.level != 0))
    requests = [data.View(shape, each) for each in held.entries]
    newest_mask = Mux(held.level == 2, requests[-1].mask, requests[0].mask)
    left, counted = Signal(4), Signal(4, init=15)
    spec.m.d.sync += counted.eq(left)
    took = spec.past(bursts.valid & bursts.ready)
    spec.m.d.comb += left.eq(Mux(took, spec.past(bursts.payload.beats), counted - fresh))
    spec.claim("beats of a burst", ~busy | (burst.beats == left))
    spec.claim("last beat", ~busy | (spec.see("dut.ends", 1) == (left == 0)))
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
    strobe = Cat(newest_mask, spec.past(burst.beats == 0))
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


@pytest.mark.parametrize("skid", [False, True])
def test_gather(skid):
    proved(gather_spec(skid=skid), depth=1, reach=24)


@changes(
    ("busy & register.i.ready & strobes.w_rdy", "busy & register.i.ready", "beats of a burst"),
    ("busy & register.i.ready & strobes.w_rdy", "busy & strobes.w_rdy", "nothing lost"),
    ("~busy & ~request.valid)", "~busy)", "idle"),
    ("Cat(mask, ends)", "Cat(~mask, ends)", "strobe of the request"),
    ("Cat(mask, ends)", "Cat(mask, begins)", "strobe of the request"),
    ("ends.eq(burst.beats == 1)", "ends.eq(burst.beats == 0)", "last beat"),
    ("busy.eq(~ends)", "busy.eq(1)", "beats of a burst"),
)
def test_gather_broken(right, wrong, claim):
    refuted(gather_spec(broken_module(gather, right, wrong), 4), claim, depth=14)
