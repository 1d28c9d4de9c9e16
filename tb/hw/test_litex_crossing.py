"""An AXI bus between two clocks: transfers, their order, their time."""

import random

import prerequisites
import pytest

from celosia.hw.litex.boards import CROSSING

migen = prerequisites.package("migen")
simulation = prerequisites.package("migen.sim.core")
axi = prerequisites.package("litex.soc.interconnect.axi")
crossing = prerequisites.package("celosia.hw.litex.crossing")
core = prerequisites.package("celosia.hw.litex.core")

pytestmark = pytest.mark.thorough

CHANNELS = ("aw", "w", "ar", "b", "r")
SIZES = {"data_width": 32, "address_width": 32}


class Crossed(migen.Module):
    """A crossing between two buses."""

    def __init__(self, kind, **sizes):
        self.master, self.slave = kind(**SIZES, **sizes), kind(**SIZES, **sizes)
        self.clock_domains.cd_fast = migen.ClockDomain("fast")
        self.clock_domains.cd_slow = migen.ClockDomain("slow")
        self.submodules += crossing.Crossing(self.master, self.slave, "fast", "slow")

    def channel(self, name):
        """Return a channel at its sender and at its receiver, and the clocks of the two."""
        ends = [(getattr(self.master, name), "fast"), (getattr(self.slave, name), "slow")]
        return ends if name in ("aw", "w", "ar") else ends[::-1]


def fields(endpoint):
    layout = endpoint.description.payload_layout + endpoint.description.param_layout
    return [getattr(endpoint, name) for name, _ in layout] + [endpoint.last]


class Jittering:
    """Half a period of a clock, another one each time."""

    def __init__(self, rng, half, jitter):
        self.rng, self.half, self.jitter = rng, half, jitter
        self.high, self.time_before_trans = False, rng.randint(1, half)

    @property
    def half_period(self):
        return self.half + self.rng.randint(-self.jitter, self.jitter)


def run(made, processes, clocks, jitter=0, seed=1):
    """Run processes by their clock until all have ended; half periods are ``clocks``."""
    rng = random.Random(seed)
    simulator = simulation.Simulator(made, processes, clocks)
    simulator.time.clocks = {
        name: Jittering(rng, half, jitter * half // 100) for name, half in clocks.items()
    }
    with simulator:
        simulator.run()


def send(endpoint, values, rng, pause):
    for value in values:
        while rng.random() < pause:
            yield
        for field, part in zip(fields(endpoint), value, strict=True):
            yield field.eq(part)
        yield endpoint.valid.eq(1)
        yield
        while not (yield endpoint.ready):
            yield
        yield endpoint.valid.eq(0)


def receive(endpoint, got, count, rng, pause):
    while len(got) < count:
        yield endpoint.ready.eq(rng.random() >= pause)
        yield
        if (yield endpoint.valid) and (yield endpoint.ready):
            value = []
            for field in fields(endpoint):
                value.append((yield field))
            got.append(tuple(value))
    yield endpoint.ready.eq(0)


@pytest.mark.parametrize(
    ("clocks", "jitter", "pauses"),
    [
        ((500, 500), 0, (0.5, 0.5)),
        ((500, 733), 0, (0, 0.7)),
        ((733, 500), 20, (0.3, 0.3)),
        ((500, 501), 45, (0.2, 0)),
        ((100, 1370), 30, (0, 0)),
    ],
)
@pytest.mark.parametrize("kind", ["AXIInterface", "AXILiteInterface"])
def test_every_transfer_comes_once_and_in_order(kind, clocks, jitter, pauses, seed):
    rng = random.Random(f"{seed} {clocks}")
    made = Crossed(getattr(axi, kind), **({"id_width": 2} if kind == "AXIInterface" else {}))
    processes, sent, got = {"fast": [], "slow": []}, {}, {name: [] for name in CHANNELS}
    for name in CHANNELS:
        (sender, sending), (receiver, receiving) = made.channel(name)
        sent[name] = [
            tuple(rng.randrange(1 << len(field)) for field in fields(sender)) for _ in range(40)
        ]
        processes[sending].append(send(sender, sent[name], rng, pauses[0]))
        processes[receiving].append(receive(receiver, got[name], 40, rng, pauses[1]))
    run(made, processes, dict(zip(("fast", "slow"), clocks, strict=True)), jitter, seed)
    assert got == sent


@pytest.mark.parametrize("order", [("fast", "slow"), ("slow", "fast")])
@pytest.mark.parametrize("name", ["aw", "r"])
def test_a_reset_of_both_leaves_nothing(name, order, seed):
    """Waiting transfers are lost; those between the two ends of the reset are not."""
    rng = random.Random(f"{seed} {name} {order}")
    made = Crossed(axi.AXIInterface)
    (sender, sending), (receiver, receiving) = made.channel(name)
    old, new = (
        [tuple(rng.randrange(1 << len(field)) for field in fields(sender)) for _ in range(count)]
        for count in (7, 12)
    )
    resets = {"fast": made.cd_fast.rst, "slow": made.cd_slow.rst}
    got: list[tuple[int, ...]] = []

    def source():
        yield from send(sender, old, rng, 0)
        for reset in resets.values():
            yield reset.eq(1)
        yield from [None] * 12
        for domain in order:
            yield resets[domain].eq(0)
            yield
            if domain == sending:
                yield from send(sender, new, rng, 0)
            else:
                yield from [None] * 12

    def sink():
        yield from [None] * 80
        yield from receive(receiver, got, len(new), rng, 0.3)

    run(made, {sending: [source()], receiving: [sink()]}, {"fast": 500, "slow": 733}, 10, seed)
    assert got == new


@pytest.mark.parametrize("clocks", [(500, 733), (733, 500), (500, 1370), (500, 500)])
@pytest.mark.parametrize("name", ["ar", "r"])
def test_time_of_a_transfer_and_of_many(name, clocks):
    """The first takes about CROSSING cycles, then one comes in each cycle of the slower clock."""
    made = Crossed(axi.AXIInterface)
    (sender, sending), (receiver, receiving) = made.channel(name)
    halves: dict[str, int] = dict(zip(("fast", "slow"), clocks, strict=True))
    cycles, times = {sending: 0, receiving: 0}, {}
    count, first = 60, []

    def clock(domain):
        while len(times) < 2:
            yield
            cycles[domain] += 1
            if domain == receiving and "first" not in times and (yield receiver.valid):
                times["first"] = dict(cycles)

    def source():
        yield sender.valid.eq(1)
        first.append(dict(cycles))
        moved = 0
        while moved < count:
            yield
            moved += yield sender.ready
        yield sender.valid.eq(0)

    def sink():
        yield receiver.ready.eq(1)
        moved = 0
        while moved < count:
            yield
            moved += yield receiver.valid
        times["last"] = dict(cycles)

    processes = {sending: [clock(sending), source()], receiving: [clock(receiving), sink()]}
    run(made, processes, halves)
    taken = times["first"][receiving] - first[0][receiving]
    # The sender's first edge lies in a cycle of the receiver, and so does its next.
    wanted = CROSSING[0] * halves[sending] / halves[receiving] + CROSSING[1]
    assert abs(taken - wanted) <= 0.5 * halves[sending] / halves[receiving] + 1.5
    slower = max((halves[sending], sending), (halves[receiving], receiving))[1]
    assert times["last"][slower] - times["first"][slower] <= count + 1
