"""AXI4 write master: what is offered stays, beats come in order, responses are counted."""

from amaranth.hdl import Cat, Mux, Signal, Value
from prove import Spec, broken_module, changes, proved, refuted
from queues import in_order

from celosia.hw.axi import writer

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
    spec.claim("a beat is taken", dut.beats.ready == (~bus.wvalid | bus.wready))
    free = (~bus.awvalid | bus.awready) & ~spec.see("dut.full", 1)
    spec.claim("a request is taken", dut.request.ready == (free & ~dut.abort))
    addresses(spec, dut, accept)
    beats(spec, dut)
    responses(spec, dut, accept)
    return spec


def addresses(spec, dut, accept):
    """Claim that each burst requested comes to the address channel, and crosses no 4 KiB."""
    bus = dut.bus
    front = Cat(bus.awaddr, bus.awlen[:4])
    legal = (bus.awaddr[2:12] + bus.awlen < 1024) & (bus.awaddr[:2] == 0)
    spec.claim("4 KiB", ~bus.awvalid | legal)
    in_order(
        spec,
        name="AW ",
        push=accept,
        value=Value.cast(dut.request.payload),
        pop=bus.awvalid & bus.awready,
        front=front,
        entries=[front],
        level=bus.awvalid,
    )


def beats(spec, dut):
    """Claim that each beat reaches the data channel in the next cycle; an abort writes nothing."""
    bus, beat = dut.bus, dut.beats
    took = spec.past(beat.valid & beat.ready)
    strobe = Mux(dut.abort, 0, beat.payload.strobe)
    given = spec.past(Cat(beat.payload.data, strobe, beat.payload.last))
    spec.claim("W", ~took | (bus.wvalid & (Cat(bus.wdata, bus.wstrb, bus.wlast) == given)))
    spec.claim("W once", ~bus.wvalid | took | spec.past(bus.wvalid & ~bus.wready))
    spec.claim("abort writes nothing", ~(took & spec.past(dut.abort)) | (bus.wstrb == 0))
    spec.cover("beats without a gap", took & spec.past(took, 2) & bus.wvalid & bus.wready)


def responses(spec, dut, accept):
    """Claim that bursts under way are counted."""
    bus = dut.bus
    under_way = Signal(4)
    spec.m.d.sync += under_way.eq(under_way + accept - bus.bvalid)
    # The response follows the address.
    spec.given("answers what was sent", ~bus.bvalid | (under_way > bus.awvalid))
    spec.claim("counted", spec.see("dut.count", 3) == under_way)
    spec.claim("full", spec.see("dut.full", 1) == (under_way == OUTSTANDING))
    spec.claim("bounded", under_way <= OUTSTANDING)
    spec.claim("sent", bus.awvalid <= under_way)
    spec.claim("idle", dut.idle == (under_way == 0))
    spec.claim("responded", dut.responded == spec.past(bus.bvalid))
    spec.claim("refused", dut.refused == spec.past(bus.bvalid & bus.bresp[1]))
    spec.claim("abort takes nothing", ~dut.abort | ~dut.request.ready)
    spec.cover("all under way", under_way == OUTSTANDING)


def test_writer():
    proved(spec_of(), depth=2, reach=16)


@changes(
    ("ready & ~full &", "ready & ~(full & bus.bvalid) &", "bounded"),
    ("== self.outstanding - 1))) & ~bus.bvalid", "== self.outstanding - 1)))", "full"),
    ("self.beats.ready.eq(~bus.wvalid | bus.wready)", "self.beats.ready.eq(1)", "W waits"),
    ("bus.wvalid.eq(self.beats.valid)", "bus.wvalid.eq(1)", "W once"),
    ("wlast.eq(self.beats.payload.last)", "wlast.eq(0)", "W"),
    (
        "Mux(self.abort, 0, self.beats.payload.strobe)",
        "self.beats.payload.strobe",
        "abort writes nothing",
    ),
    ("count + accept - bus.bvalid", "count + (accept & ~bus.bvalid)", "counted"),
    ("addresses.o.ready.eq(bus.awready)", "addresses.o.ready.eq(1)", "AW waits"),
    ("~full & ~self.abort", "~full & ~self.abort & bus.wready", "a request is taken"),
    ("self.beats.ready.eq(~bus.wvalid | bus.wready)", "self.beats.ready.eq(0)", "a beat is taken"),
)
def test_broken(right, wrong, claim):
    refuted(spec_of(broken_module(writer, right, wrong)), claim, depth=12)
