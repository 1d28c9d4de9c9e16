"""AXI4 read master: what is offered stays, responses are counted, nothing is lost."""

import pytest
from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.lib import data
from prove import Spec, broken_module, changes, proved, refuted
from queues import Pair, Single, in_order

from celosia.hw.axi import reader

BYTES = 4
BEATS = 16
OUTSTANDING = 3
CLIENTS = range(2)


def spec_of(module=reader, skid=True):
    spec = Spec()
    sizes = {"data_bytes": BYTES, "burst_beats": BEATS, "outstanding": OUTSTANDING}
    dut = spec.open("dut", module.ReadMaster(**sizes, skid=skid), "bounds")
    limits = spec.free("bounds", dut.bounds.shape(), fixed=True)
    spec.m.d.comb += dut.bounds.eq(limits)
    bus = dut.bus
    requests = [getattr(dut, f"request_{n}") for n in CLIENTS]
    there, entries, level = content = addresses(spec, limits, Pair if skid else Single)
    refused = there[0] & entries[0].outside
    error = spec.see("dut.error", 1)
    errs = Signal()
    spec.m.d.comb += errs.eq(error & bus.rready)
    spec.claim("error alone", ~error | (refused & (sum(counted(spec)) == 1)))
    under_way = counts(spec, dut, content)
    for n in CLIENTS:
        end = getattr(dut, f"beats_{n}")
        spec.claim(f"beats {n} wait", spec.waits(end.valid, end.ready, end.payload))
        burst = requests[n].payload
        spec.given(f"client {n}: aligned", burst.address[:2] == 0)
        spec.given(f"client {n}: 4 KiB", burst.address[2:12] + burst.beats < 1024)

    spec.claim("AR waits", spec.waits(bus.arvalid, bus.arready, bus.arid, bus.araddr, bus.arlen))
    spec.claim("AR legal", (bus.arburst == 1) & (bus.arsize == 2) & (bus.arlen < BEATS))
    inside = (bus.araddr[2:12] + bus.arlen < 1024) & (bus.araddr[:2] == 0)
    spec.claim("AR 4 KiB", ~bus.arvalid | inside)
    within = (bus.araddr[12:] >= limits.base) & (bus.araddr[12:] <= limits.limit)
    spec.claim("AR within bounds", ~bus.arvalid | within)
    spec.claim("refused", ~refused | ~(within | bus.arvalid))
    spec.claim("alone at its error", ~(errs & bus.rvalid))
    requested = Cat(*(request.valid & request.ready for request in requests))
    spec.claim("one client at a time", requested != 3)
    in_order(
        spec,
        name="AR ",
        push=requested.any(),
        value=Cat(
            requested[1], Mux(requested[1], *(Value.cast(r.payload) for r in reversed(requests)))
        ),
        pop=(bus.arvalid & bus.arready) | errs,
        front=Cat(bus.arid, bus.araddr, bus.arlen[:4]),
        # Without `outside`, which the claims above compare.
        entries=[Value.cast(entry)[1:] for entry in entries],
        level=level,
    )
    beats(spec, dut, Pair if skid else Single, errs)
    spec.cover("all under way", Cat(count == OUTSTANDING for count in under_way).all())
    spec.cover("refused at last", errs & (spec.past(bus.rvalid & bus.rready, 2) == 1))
    spec.cover("last response", (under_way[0] == 1) & bus.rvalid & bus.rready & bus.rlast)
    return spec


def counted(spec):
    """Return the bursts of each client that the master counts."""
    return [spec.see(f"dut.under_way_{n}", 2) for n in CLIENTS]


def addresses(spec, limits, inner):
    """Claim what waits for the address channel; return valid bits, entries, and how many.

    ``inner``: content of their register.
    """
    kind = data.StructLayout({"outside": 1, "id": 1, "address": 32, "beats": 4})
    direct = {"direct": 1} if inner is Pair else {}
    waits = spec.see("dut.address.o__valid", 1)
    queue = inner(spec, "dut.address", width=kind.size, valid=waits, **direct)
    entries = [data.View(kind, entry) for entry in queue.entries]
    there = [queue.level > n for n in range(len(entries))]
    for n, entry in enumerate(entries):
        within = (entry.address[12:] >= limits.base) & (entry.address[12:] <= limits.limit)
        legal = (entry.address[2:12] + entry.beats < 1024) & (entry.address[:2] == 0)
        spec.claim(f"address {n}: bounds", ~there[n] | (entry.outside == ~within))
        spec.claim(f"address {n}: legal", ~there[n] | legal)
    if inner is Pair:
        spec.claim("nothing after a refused burst", ~(there[1] & entries[0].outside))
    outside = [valid & entry.outside for valid, entry in zip(there, entries, strict=True)]
    spec.claim("closed", spec.see("dut.closed", 1) == Cat(outside).any())
    return there, entries, queue.level


def counts(spec, dut, content):
    """Claim that the bursts of each client are counted; return how many are on the bus.

    ``content``: what waits for the address channel.
    """
    bus = dut.bus
    there, entries, _ = content
    under_way = [Signal(4, name=f"on_bus_{n}") for n in CLIENTS]
    for n, count in enumerate(under_way):
        begins = bus.arvalid & bus.arready & (bus.arid == n)
        ends = bus.rvalid & bus.rready & bus.rlast & (bus.rid == n)
        spec.m.d.sync += count.eq(count + begins - ends)
        waits = (valid & (entry.id == n) for valid, entry in zip(there, entries, strict=True))
        taken = count + sum(waits)
        spec.claim(f"client {n}: counted", counted(spec)[n] == taken)
        spec.claim(f"client {n}: bounded", taken <= OUTSTANDING)
        spec.claim(f"client {n}: full", spec.see(f"dut.full_{n}", 1) == (taken == OUTSTANDING))
        spec.claim(f"client {n}: idle", ~dut.idle | (taken == 0))
    spec.given(
        "responds to what was requested", ~bus.rvalid | (Mux(bus.rid, *reversed(under_way)) != 0)
    )
    return under_way


def beats(spec, dut, inner, errs):
    """Claim that each beat of the bus, and each error, comes to its client.

    ``inner``: content of their register; ``errs``: a refused burst gets its beat.
    """
    bus = dut.bus
    ends = [getattr(dut, f"beats_{n}") for n in CLIENTS]
    valid = Cat(end.valid for end in ends)
    spec.claim("one client's beat", valid != 3)
    front = Cat(valid[1], Mux(valid[1], *(Value.cast(end.payload) for end in reversed(ends))))
    inside = inner(spec, "dut.beats", width=len(front), valid=valid.any())
    spec.claim("whose", ~valid.any() | (front == inside.entries[0]))
    in_order(
        spec,
        name="R ",
        push=(bus.rvalid & bus.rready) | errs,
        value=Cat(Mux(errs, bus.arid, bus.rid), bus.rdata, bus.rresp[1] | errs, bus.rlast | errs),
        pop=Cat(end.valid & end.ready for end in ends).any(),
        front=front,
        entries=inside.entries,
        level=inside.level,
    )
    spec.claim("no beat is left when idle", ~dut.idle | ~valid.any())


@pytest.mark.parametrize("skid", [False, True])
def test_reader(skid):
    proved(spec_of(skid=skid), depth=1, reach=12)


@changes(
    ("valid & ~full[n]", "valid & ~(full[n] & bus.rvalid)", "client 0: bounded"),
    ("(full[n] | fills) & ~ended", "full[n] & ~ended | fills", "client 0: full"),
    ("free.eq(address.i.ready & ~closed)", "free.eq(address.i.ready)", "AR not lost"),
    ("arbiter.grants.any() & ~closed", "arbiter.grants.any()", "nothing after a refused burst"),
    ("valid.eq(arbiter.grants.any()", "valid.eq(arbiter.grants[0]", "AR not lost"),
    ("address.o.valid & ~ahead.outside", "address.o.valid", "AR within bounds"),
    ("address.i.ready & outside", "outside", "closed"),
    ("ahead.outside, answered, bus", "ahead.outside, refused, bus", "AR not lost"),
    ("refused & low.xor() & ~high.any()", "refused & low.xor()", "error alone"),
    (
        "chosen.id.eq(arbiter.grants[-1] if self.clients > 1 else 0)",
        "chosen.id.eq(0)",
        "AR in order",
    ),
    ("mine = register.o.payload.id == n", "mine = bus.rid == n", "R in order"),
    ("~Cat(counts).any() & ~register.o.valid", "~Cat(counts).any()", "no beat is left when idle"),
    ("ends = register.i.valid & register.i.ready", "ends = register.i.valid", "client 0: counted"),
)
def test_broken(right, wrong, claim):
    refuted(spec_of(broken_module(reader, right, wrong)), claim, depth=10)
