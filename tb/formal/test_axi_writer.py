"""AXI4 write master: what is offered stays, bursts are as long as asked, answers are counted."""

import pytest
from amaranth.hdl import Array, Cat, Mux, Signal, Value
from prove import Spec, broken_module, proved, refuted
from queues import Fifo, Pair, in_order

from celosia.hw.bus import writer

BYTES = 4
BEATS = 16
OUTSTANDING = 4


def spec_of(module=writer):
    spec = Spec()
    dut = spec.open(
        "dut", module.WriteMaster(data_bytes=BYTES, burst_beats=BEATS, outstanding=OUTSTANDING)
    )
    bus = dut.bus
    burst = dut.request.payload
    accept = dut.request.valid & dut.request.ready
    spec.given("aligned", burst.address[:2] == 0)
    spec.given("4 KiB", burst.address[2:12] + burst.beats < 1024)
    spec.claim("AW waits", spec.waits(bus.awvalid, bus.awready, bus.awaddr, bus.awlen))
    spec.claim("AW legal", (bus.awburst == 1) & (bus.awsize == 2) & (bus.awlen < BEATS))
    spec.claim("W waits", spec.waits(bus.wvalid, bus.wready, bus.wdata, bus.wstrb, bus.wlast))
    spec.claim("B is taken", bus.bready)
    addresses(spec, dut, accept)
    unsent = lasts(spec, dut, accept)
    answers(spec, dut, accept, unsent)
    aborted(spec, dut)
    return spec


def addresses(spec, dut, accept):
    """Claim that each burst asked for comes to the address channel, and crosses no 4 KiB."""
    bus = dut.bus
    front = Cat(bus.awaddr, bus.awlen[:4])
    inside = Pair(spec, "dut.addresses", width=36, valid=bus.awvalid)
    spec.claim("AW", ~bus.awvalid | (front == inside.entries[0]))
    for n, entry in enumerate(inside.entries):
        legal = (entry[2:12] + entry[32:36] < 1024) & (entry[:2] == 0)
        spec.claim(f"4 KiB {n}", (inside.level <= n) | legal)
    in_order(
        spec,
        name="AW ",
        push=accept,
        value=Value.cast(dut.request.payload),
        pop=bus.awvalid & bus.awready,
        front=front,
        entries=inside.entries,
        level=inside.level,
    )


def lasts(spec, dut, accept):
    """Claim that WLAST ends each burst after as many beats as were asked for.

    One burst is followed: bursts in front of it are counted down by their WLAST, then its beats.
    """
    m, bus = spec.m, dut.bus
    lengths = Fifo(spec, "dut.lengths", width=4, depth=OUTSTANDING, eager=True)
    front = spec.see("dut.lengths.r_data", 4)
    entries = Array(lengths.entries(front))
    sent = spec.see("dut.sent", 4)
    mark = spec.free("mark", 1)
    followed, done = Signal(), Signal()
    ahead, beats, count = Signal(4), Signal(4), Signal(5)
    unsent = lengths.level + (bus.wvalid & bus.wlast)
    beat = bus.wvalid & bus.wready
    ours = followed & (ahead == 0)
    with m.If(accept & mark & ~followed & ~done):
        m.d.sync += [
            followed.eq(1),
            beats.eq(dut.request.payload.beats),
            ahead.eq(unsent - (beat & bus.wlast)),
            count.eq(0),
        ]
    with m.Elif(ours & beat):
        m.d.sync += count.eq(count + 1)
        with m.If(bus.wlast):
            m.d.sync += [followed.eq(0), done.eq(1)]
    with m.Elif(followed & beat & bus.wlast):
        m.d.sync += ahead.eq(ahead - 1)
    spec.claim("WLAST", ~(ours & bus.wvalid) | (bus.wlast == (count == beats)))
    spec.claim("burst not lost", ~followed | (ahead < unsent))
    inside = ahead - (bus.wvalid & bus.wlast)
    waits = followed & ~(ours & bus.wvalid & bus.wlast)
    spec.claim("length not changed", ~waits | (entries[inside[:4]] == beats))
    counted = sent == Mux(ours, count, 0) + (bus.wvalid & ~bus.wlast)
    spec.claim("beats counted", ~waits | (inside != 0) | counted)
    spec.claim("not begun", ~followed | (ahead == 0) | (count == 0))
    spec.claim("no more than asked", (lengths.level == 0) | (sent <= front))
    spec.claim("begins anew", lengths.ready | (sent == 0))
    spec.claim("no beat without its burst", ~bus.wvalid | bus.wlast | lengths.ready)
    spec.cover("a burst of three behind another", done & (beats == 2) & spec.past(ahead, 6).any())
    return unsent


def answers(spec, dut, accept, unsent):
    """Claim that bursts under way are counted; ``unsent`` of them lack beats."""
    bus = dut.bus
    under_way, whole = Signal(4), Signal(4)
    ends = bus.wvalid & bus.wready & bus.wlast
    spec.m.d.sync += [
        under_way.eq(under_way + accept - bus.bvalid),
        whole.eq(whole + accept - ends),
    ]
    unasked = bus.awvalid + spec.see("dut.addresses.full", 1)
    # The answer follows address and data.
    spec.given(
        "answers what was sent", ~bus.bvalid | ((under_way > unsent) & (under_way > unasked))
    )
    spec.claim("counted", spec.see("dut.count", 3) == under_way)
    spec.claim("full", spec.see("dut.full", 1) == (under_way == OUTSTANDING))
    spec.claim("bounded", under_way <= OUTSTANDING)
    spec.claim("unsent", (whole == unsent) & (unsent <= under_way) & (unasked <= under_way))
    spec.claim("idle", dut.idle == (under_way == 0))
    spec.claim("answered", dut.answered == spec.past(bus.bvalid))
    spec.claim("refused", dut.refused == spec.past(bus.bvalid & bus.bresp[1]))
    spec.cover("all under way", under_way == OUTSTANDING)


def aborted(spec, dut):
    """Claim that nothing is taken while aborting, and beats that are missing write nothing."""
    spec.claim("abort takes nothing", ~dut.abort | ~(dut.request.ready | dut.beats.ready))
    fresh = spec.past(~dut.bus.wvalid | dut.bus.wready) & dut.bus.wvalid
    spec.claim("abort writes nothing", ~(fresh & spec.past(dut.abort)) | (dut.bus.wstrb == 0))
    spec.cover("aborted in a burst", fresh & spec.past(dut.abort) & ~dut.bus.wlast)


def test_writer():
    proved(spec_of(), depth=2, reach=16)


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    [
        ("lengths.w_rdy & ~full", "lengths.w_rdy & ~(full & bus.bvalid)", "bounded"),
        ("== self.outstanding - 1))) & ~bus.bvalid", "== self.outstanding - 1)))", "full"),
        ("last.eq(sent == lengths.r_data)", "last.eq(sent[:2] == lengths.r_data[:2])", "WLAST"),
        ("(~bus.wvalid | bus.wready) & lengths.r_rdy", "lengths.r_rdy", "W waits"),
        ("lengths.r_en.eq(send & last)", "lengths.r_en.eq(send)", "WLAST"),
        ("sent.eq(Mux(last, 0, sent + 1))", "sent.eq(sent + 1)", "WLAST"),
        (
            "Mux(self.abort, 0, self.beats.payload.strobe)",
            "self.beats.payload.strobe",
            "abort writes nothing",
        ),
        ("count + accept - bus.bvalid", "count + (accept & ~bus.bvalid)", "counted"),
        ("addresses.o.ready.eq(bus.awready)", "addresses.o.ready.eq(1)", "AW waits"),
    ],
)
def test_broken(right, wrong, claim):
    refuted(spec_of(broken_module(writer, right, wrong)), claim, depth=12)
