"""Two AXI4 masters on one memory: offers stay, data follow addresses, responses reach masters."""

from amaranth.hdl import Cat, Mux, Signal
from prove import Spec, broken_module, changes, proved, refuted
from queues import Fifo, in_order

from celosia.hw.axi import arbiter

BURSTS = 4
ADDRESS = ("id", "addr", "len", "size", "burst")
DATA = ("data", "strb", "last")


def fields(port, channel, names):
    return [getattr(port, f"{channel}{name}") for name in names]


def spec_of(module=arbiter):
    spec = Spec()
    dut = spec.open("dut", module.Arbiter(data_bytes=4, address_bits=12, write_bursts=BURSTS))
    ports, bus = (dut.port_0, dut.port_1), dut.bus
    for channel, names in (("ar", ADDRESS), ("aw", ADDRESS), ("w", DATA)):
        for n, port in enumerate(ports):
            offer = fields(port, channel, ("valid", "ready", *names))
            spec.given(f"{channel} of {n} waits", spec.waits(*offer))
        spec.claim(
            f"{channel} waits", spec.waits(*fields(bus, channel, ("valid", "ready", *names)))
        )
    chosen = {channel: addresses(spec, dut, channel) for channel in ("ar", "aw")}
    data(spec, dut, chosen["aw"])
    for channel, names in (("r", ("data", "resp", "last")), ("b", ("resp",))):
        claim_responses(spec, dut, channel, names)
    return spec


def addresses(spec, dut, channel):
    """Claim that each address is taken of one master in the cycle in which the memory takes it."""
    ports, bus = (dut.port_0, dut.port_1), dut.bus
    valid, ready, number = fields(bus, channel, ("valid", "ready", "id"))
    chosen = number[1]
    valids = [getattr(port, f"{channel}valid") for port in ports]
    for n, port in enumerate(ports):
        mine = valid & (chosen == n)
        taken = valids[n] & getattr(port, f"{channel}ready")
        spec.claim(f"{channel} of {n} taken", taken == (mine & ready))
        same = Cat(*fields(port, channel, ADDRESS)) == Cat(
            number[0], *fields(bus, channel, ADDRESS[1:])
        )
        spec.claim(f"{channel} of {n} unchanged", ~mine | (same & valids[n]))
    latest, offered = Signal(), Signal()
    spec.m.d.sync += offered.eq(valid)
    with spec.m.If(valid):
        spec.m.d.sync += latest.eq(chosen)
    spec.claim(f"{channel} latest", spec.see(f"dut.{channel}_latest", 1) == latest)
    held = spec.see(f"dut.{channel}_held", 1)
    spec.claim(f"{channel} held", held == spec.past(valid & ~ready))
    spec.claim(f"{channel} held by a valid one", ~held | Mux(latest, valids[1], valids[0]))
    space = 1 if channel == "ar" else spec.see("dut.order.inner_level", range(BURSTS)) < BURSTS - 1
    spec.claim(f"{channel} is offered", valid == (Cat(valids).any() & (held | space)))
    turns = ~valid | held | ~(valids[0] & valids[1]) | (chosen != latest)
    spec.claim(f"{channel} takes turns", turns)
    spec.cover(
        f"{channel} of both", valid & ready & valids[0] & valids[1] & spec.past(valid & ready)
    )
    return chosen


def data(spec, dut, chosen):
    """Claim that write data come in the order of their addresses, of the right master."""
    ports, bus = (dut.port_0, dut.port_1), dut.bus
    order = Fifo(spec, "dut.order", width=1, depth=BURSTS)
    front = spec.see("dut.order.r_data", 1)
    spec.claim("an address has space", ~bus.awvalid | (order.stored < BURSTS - 1))
    taken = Cat(port.wvalid & port.wready for port in ports)
    spec.claim("data of one master", taken != 3)
    spec.claim("data taken", taken.any() == (bus.wvalid & bus.wready))
    of_front = Mux(front, ports[1].wvalid, ports[0].wvalid)
    spec.claim("data offered", bus.wvalid == (order.ready & of_front))
    for n, port in enumerate(ports):
        mine = taken[n]
        spec.claim(f"data of {n} taken", port.wready == (bus.wready & order.ready & (front == n)))
        same = Cat(*fields(port, "w", DATA)) == Cat(*fields(bus, "w", DATA))
        spec.claim(f"data of {n} unchanged", ~mine | same)
    in_order(
        spec,
        name="W ",
        push=bus.awvalid & bus.awready,
        value=chosen,
        pop=bus.wvalid & bus.wready & bus.wlast,
        front=taken[1],
        entries=order.entries(front),
        level=order.level,
    )
    begun = Signal()
    with spec.m.If(bus.wvalid & bus.wready):
        spec.m.d.sync += begun.eq(~bus.wlast)
    of = spec.past(taken[1])
    spec.claim(
        "a burst is of one master",
        ~(spec.past(taken.any()) & begun & taken.any()) | (taken[1] == of),
    )
    spec.claim("a burst goes on", ~begun | order.ready)
    spec.cover("full", order.level == BURSTS)


def claim_responses(spec, dut, channel, names):
    """Claim that a response comes to the master of its request, and to no other."""
    bus = dut.bus
    valid, ready, number = fields(bus, channel, ("valid", "ready", "id"))
    for n, port in enumerate((dut.port_0, dut.port_1)):
        mine = valid & (number[1] == n)
        same = Cat(*fields(port, channel, names)) == Cat(*fields(bus, channel, names))
        spec.claim(f"{channel} to {n}", getattr(port, f"{channel}valid") == mine)
        spec.claim(
            f"{channel} of {n} unchanged",
            ~mine | (same & (getattr(port, f"{channel}id") == number[0])),
        )
        spec.claim(f"{channel} by {n} taken", ~mine | (ready == getattr(port, f"{channel}ready")))


def test_arbiter():
    proved(spec_of(), depth=1, reach=12)


@changes(
    ("chosen.eq(Mux(held, latest, ", "chosen.eq(Mux(held, ~latest, ", "ar waits"),
    ("& (held | space)", "", "an address has space"),
    (
        "valids[0] & valids[1], ~latest, valids[1]",
        "valids[0] & valids[1], 0, valids[1]",
        "aw takes turns",
    ),
    ("order.w_data.eq(chosen)", "order.w_data.eq(~chosen)", "W in order"),
    ("bus.wvalid & bus.wready & bus.wlast)", "bus.wvalid & bus.wready)", "a burst goes on"),
    ("mine = number[self.id_bits] == n", "mine = number[0] == n", "r to 0"),
    ("getattr(bus, ready) & offered & mine", "getattr(bus, ready) & mine", "aw of 0 taken"),
    ("& (held | space)", "& held", "ar is offered"),
    ("bus.wvalid.eq(port.wvalid)", "bus.wvalid.eq(port.wvalid & bus.bready)", "data offered"),
    (
        "wready.eq(bus.wready & mine)",
        "wready.eq(port.wvalid & bus.wready & mine)",
        "data of 0 taken",
    ),
)
def test_broken(right, wrong, claim):
    refuted(spec_of(broken_module(arbiter, right, wrong)), claim, depth=10)
