"""Reads of several masters: each request becomes one burst, each beat comes to whom it serves."""

import pytest
from amaranth.hdl import Cat, Mux, Signal, Value
from prove import Spec, broken_module, changes, proved, refuted
from queues import Fifo, in_order

from celosia.hw.axi import joined

OUTSTANDING = 2
PATIENCE = 4
BURSTS = 2
ANSWER = ("id", "data", "resp", "last")


def requests_of(masters=2, module=joined):
    """Requests of one id: each is of one burst, which begins in time."""
    spec = Spec()
    sizes = {"masters": masters, "outstanding": OUTSTANDING, "patience": PATIENCE}
    dut = spec.open("dut", module.JoinedRequests(**sizes))
    burst = dut.burst
    taken = burst.valid & burst.ready
    heads = []
    for n in range(masters):
        request, path = getattr(dut, f"request_{n}"), f"dut.queue_{n}"
        queue = Fifo(spec, path, width=joined.REQUEST.size, depth=OUTSTANDING)
        front = spec.see(f"{path}.r_data", joined.REQUEST.size)
        served = taken & burst.payload.masters[n]
        in_order(
            spec,
            name=f"{n} ",
            push=request.valid & request.ready,
            value=request.payload,
            pop=served,
            front=front,
            entries=queue.entries(front),
            level=queue.level,
        )
        same = front[:40] == Cat(burst.payload.address, burst.payload.beats)
        spec.claim(f"{n} unchanged by a burst", ~served | (queue.ready & same))
        spec.claim(f"{n} is refused if full only", request.ready | (queue.level >= OUTSTANDING - 1))
        heads.append((queue.ready, front[40], burst.payload.masters[n]))
    several = Cat(served for _, _, served in heads)
    alone = (several & (several - 1)) == 0
    all_shared = Cat(~served | shared for _, shared, served in heads).all()
    spec.claim("private bytes are of one", ~burst.valid | alone | all_shared)
    spec.claim("a burst serves one", ~burst.valid | several.any())
    together(spec, dut, heads)
    in_time(spec, dut, heads)
    spec.cover("of all", taken & several.all())
    spec.cover("of one after a wait", taken & alone & all_shared & (spec.past(burst.valid) == 0))
    return spec


def together(spec, dut, heads):
    """Claim that shared requests wait for those of the masters that work, and for no others."""
    masters = len(heads)
    shared_waiting = Cat(waiting & shared for waiting, shared, _ in heads)
    served = Cat(served for _, _, served in heads)
    present = spec.see("dut.present", masters)
    late = spec.see("dut.waited", range(PATIENCE)) == PATIENCE - 1
    missing = (present & dut.working & ~shared_waiting).any()
    joint = dut.burst.valid & (served & shared_waiting).any()
    spec.claim("shared bytes are read for all", ~joint | ~missing | late)
    spec.claim("no wait without a reason", ~shared_waiting.any() | missing | dut.burst.valid)
    payload = Cat(dut.burst.payload.address, dut.burst.payload.beats)
    for n in range(masters):
        same = shared_waiting[n] & (spec.see(f"dut.queue_{n}.r_data", 41)[:40] == payload)
        spec.claim(f"{n} is served with the others", ~joint | ~same | served[n])
        waiting = spec.past(heads[n][0])
        spec.claim(f"{n} is waited for when it has asked", ~waiting | present[n])


def in_time(spec, dut, heads):
    """Claim that a burst is offered within the time that a request waits, in turn."""
    burst = dut.burst
    waits = Signal(range(PATIENCE + 1))
    idle = Cat(waiting for waiting, _, _ in heads).any() & ~burst.valid
    spec.m.d.sync += waits.eq(Mux(idle, waits + (waits < PATIENCE), 0))
    waited = spec.see("dut.waited", range(PATIENCE))
    spec.claim("no wait without an end", waits < PATIENCE)
    spec.claim("waits are counted", waits <= waited)
    spec.claim("the count is in bounds", waited < PATIENCE)
    latest = spec.see("dut.turns.latest", range(len(heads)))
    spec.claim("a turn is of a master", latest < len(heads))
    if len(heads) > 2:
        return
    for n, (waiting, shared, served) in enumerate(heads):
        # An offer that serves another although this one could be served.
        passed = Signal(2, name=f"passed_{n}")
        others = burst.valid & burst.ready & ~served & waiting & ~shared
        spec.m.d.sync += passed.eq(Mux(served & burst.ready, 0, passed + others))
        spec.claim(f"{n} is next after another", (passed == 0) | (latest != n))
        spec.claim(f"{n} is passed once at most", passed <= 1)


def reads_of(masters=2, module=joined):
    """Read channels: bursts of both ids on the bus, and their beats."""
    spec = Spec()
    sizes = {"masters": masters, "outstanding": OUTSTANDING, "patience": PATIENCE}
    dut = spec.open("dut", module.JoinedReads(data_bytes=1, bursts=BURSTS, **sizes))
    bus = dut.bus
    spec.claim("AR waits", spec.waits(bus.arvalid, bus.arready, bus.arid, bus.araddr, bus.arlen))
    r_waits = spec.waits(bus.rvalid, bus.rready, *(getattr(bus, f"r{name}") for name in ANSWER))
    spec.given("R waits", r_waits)
    bursts = [joined.burst for joined in dut.requests]
    addresses(spec, dut, bursts)
    wanted = served_by(spec, dut, bursts)
    for n in range(masters):
        port = getattr(dut, f"port_{n}")
        ends = [getattr(joined, f"request_{n}") for joined in dut.requests]
        for number, end in enumerate(ends):
            mine = port.arvalid & (port.arid == number)
            same = Cat(port.araddr, port.arlen, dut.shared[n]) == Value.cast(end.payload)
            spec.claim(f"{n} waiting {number}", (end.valid == mine) & (~mine | same))
            spec.claim(f"{n} is taken by {number}", ~mine | (port.arready == end.ready))
    beats(spec, dut, wanted)
    return spec


def addresses(spec, dut, bursts):
    """Claim that each burst of an id is once on the bus, and that both ids have their turns."""
    bus = dut.bus
    taken = Cat(burst.valid & burst.ready for burst in bursts)
    spec.claim("AR of one id", taken != 3)
    spec.claim("AR taken is offered", ~spec.past(taken.any()) | bus.arvalid)
    address = Cat(bus.arid, bus.araddr, bus.arlen)
    in_order(
        spec,
        name="AR ",
        push=taken.any(),
        value=Cat(taken[1], Mux(taken[1], *(Value.cast(b.payload)[:40] for b in reversed(bursts)))),
        pop=bus.arvalid & bus.arready,
        front=address,
        entries=[address],
        level=bus.arvalid,
    )
    latest = spec.see("dut.turns.latest", 1)
    for number in range(2):
        passed = taken[1 - number] & bursts[number].valid
        spec.claim(
            f"AR {number} has its turn", ~passed | (latest == number) | ~spaces(spec, number)
        )


def spaces(spec, number):
    """Return whether the queue of an id has space for one more burst."""
    return spec.see(f"dut.queue_{number}.inner_level", range(BURSTS)) < BURSTS - 1


def served_by(spec, dut, bursts):
    """Claim that a burst's masters are known while it is on the bus; return those of a beat."""
    bus = dut.bus
    counts, fronts = [], []
    for number, burst in enumerate(bursts):
        path = f"dut.queue_{number}"
        width = len(burst.payload.masters)
        queue = Fifo(spec, path, width=width, depth=BURSTS)
        front = spec.see(f"{path}.r_data", width)
        begins = bus.arvalid & bus.arready & (bus.arid == number)
        ends = bus.rvalid & bus.rready & bus.rlast & (bus.rid == number)
        count = Signal(3, name=f"on_bus_{number}")
        spec.m.d.sync += count.eq(count + begins - ends)
        spec.claim(f"{number} counted", queue.level == count + (bus.arvalid & (bus.arid == number)))
        in_order(
            spec,
            name=f"masters of {number} ",
            push=burst.valid & burst.ready,
            value=burst.payload.masters,
            pop=ends,
            front=front,
            entries=queue.entries(front),
            level=queue.level,
        )
        counts.append(count)
        fronts.append((queue.ready, front))
        spec.cover(f"{number} full", queue.level == BURSTS)
    spec.given("answers what was asked", ~bus.rvalid | (Mux(bus.rid, *reversed(counts)) != 0))
    spec.claim("masters are known", ~bus.rvalid | Mux(bus.rid, fronts[1][0], fronts[0][0]))
    return Mux(bus.rid, fronts[1][1], fronts[0][1])


def beats(spec, dut, wanted):
    """Claim that each beat comes once to each master that its burst serves, and to no other."""
    bus = dut.bus
    ports = [getattr(dut, name) for name in sorted(dut.signature.members) if "port_" in name]
    got = Signal(len(ports))
    takes = Cat(port.rvalid & port.rready for port in ports)
    done = bus.rvalid & bus.rready
    spec.m.d.sync += got.eq(Mux(done, 0, got | takes))
    spec.claim("given", spec.see("dut.served", len(ports)) == got)
    spec.claim("given of a beat that waits", (got == 0) | (bus.rvalid & ~(got & ~wanted).any()))
    for n, port in enumerate(ports):
        offered = bus.rvalid & wanted[n] & ~got[n]
        same = Cat(getattr(port, f"r{name}") == getattr(bus, f"r{name}") for name in ANSWER).all()
        spec.claim(f"beat to {n}", port.rvalid == offered)
        spec.claim(f"beat of {n} unchanged", ~offered | same)
    spec.claim("a beat ends with the last", done == (bus.rvalid & ((got | takes) == wanted)))
    spec.cover("one after the other", done & (got != 0) & wanted.all())


@pytest.mark.parametrize("masters", [2, 3])
def test_requests(masters):
    proved(requests_of(masters), depth=1, reach=14)


@pytest.mark.parametrize("masters", [2, 3])
def test_reads(masters):
    proved(reads_of(masters), depth=1, reach=14)


@changes(
    ("first.shared & same", "first.shared", "1 unchanged by a burst"),
    ("first.shared & same", "same", "private bytes are of one"),
    ("self.burst.ready & served", "served", "0 not lost"),
    ("waited + ~expired", "waited", "no wait without an end"),
    ("return come | expired", "return come", "no wait without an end"),
    (
        "return come | expired",
        "return shared_waiting.any() | expired",
        "shared bytes are read for all",
    ),
    ("~present | ~self.working", "~present", "no wait without a reason"),
    (
        "Mux(expired, 0, present) | waiting",
        "Mux(expired, 0, present)",
        "0 is waited for when it has asked",
    ),
    ("waiting & (~shared |", "waiting & (shared |", "no wait without an end"),
    ("turns.advance.eq(self.burst.ready)", "turns.advance.eq(0)", "0 is passed once at most"),
)
def test_broken_requests(right, wrong, claim):
    refuted(requests_of(module=broken_module(joined, right, wrong)), claim, depth=10)


@changes(
    ("turns.advance & turns.grants[number]", "turns.grants[number]", "AR not lost"),
    ("r.burst.valid & q.w_rdy", "r.burst.valid", "0 counted"),
    (
        "bus.arvalid.eq(turns.grants.any())",
        "bus.arvalid.eq(turns.grants[0])",
        "AR taken is offered",
    ),
    ("turns.advance.eq(~bus.arvalid | bus.arready)", "turns.advance.eq(1)", "AR waits"),
    ("bus.arid.eq(number)", "bus.arid.eq(0)", "AR in order"),
    ("queue.w_data.eq(payload.masters)", "queue.w_data.eq(3)", "masters of 0 in order"),
    ("bus.rready & bus.rlast & (", "bus.rready & (", "masters of 0 not lost"),
    ("Mux(bus.rready, 0, served | takes)", "0", "given"),
    ("expected[n] & ~served[n]", "expected[n]", "beat to 0"),
    ("expected[n] & ~served[n]", "~served[n]", "beat to 0"),
    ("(served | takes | ~expected).all()", "takes.any()", "a beat ends with the last"),
    ("port.arvalid & (port.arid == number)", "port.arvalid", "0 waiting 0"),
    ("Mux(port.arid, ends[1].ready,", "Mux(port.arid, ends[0].ready,", "0 is taken by 1"),
)
def test_broken_reads(right, wrong, claim):
    refuted(reads_of(module=broken_module(joined, right, wrong)), claim, depth=10)
