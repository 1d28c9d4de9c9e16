"""Instructions that are done, idle and the first fault, against a list of events in Python."""

from collections import Counter

import pytest
from pysim import drive, simulation

from celosia.hw.arch.isa import Error
from celosia.hw.matrix.completion import Completion
from celosia.hw.streams import TAG_BITS

READ_LATENCY, RESULTS_LATENCY = 6, 17
TAGS = 1 << TAG_BITS


class Reference:
    """The outputs of a cycle, from the inputs of all cycles up to it."""

    def __init__(self, parity):
        self.parity = parity
        self.seen = []
        self.stopped = False

    def ago(self, name, cycles):
        return self.seen[-1 - cycles][name] if cycles < len(self.seen) else 0

    def step(self, now):
        self.seen.append(now)
        finals = [n for n, one in enumerate(self.seen) if one["fired"] and one["final"]]
        ended = [n for n in finals if n + RESULTS_LATENCY < len(self.seen) - 1]
        wrong = self.parity and now["wrong"]
        ends = self.ago("fired", RESULTS_LATENCY) and self.ago("final", RESULTS_LATENCY)
        recent = any(one["fired"] for one in self.seen[-1 - RESULTS_LATENCY : -1])
        fault = None
        if wrong:
            fault = (Error.MEMORY, len(ended) % TAGS)
        elif self.ago("read_fault", 1):
            fault = (Error.RANGE, self.ago("tag", READ_LATENCY + 1))
        elif now["outside"]:
            fault = (Error.RANGE, now["tag"])
        elif now["tile_outside"]:
            fault = (Error.RANGE, now["tile_tag"])
        outputs = {
            "done": bool(ends and not self.stopped and not wrong),
            "idle": not recent and bool(now["abort"] or self.stopped or not now["pending"]),
            "fault": None if self.stopped else fault,
            "stopped": self.stopped,
        }
        self.stopped |= fault is not None
        return outputs


async def play(rng, rates, *, parity, cycles):
    """Compare with the reference in each cycle; return how often each output was set."""
    dut = Completion(read_latency=READ_LATENCY, results_latency=RESULTS_LATENCY)
    reference = Reference(parity)
    ctx = await simulation(dut)
    counts = Counter()
    names = ["fired", "final", "outside", "tile_outside", "read_fault", "pending", "abort"]
    names += ["wrong"] * parity
    for _ in range(cycles):
        now = {name: int(rng.random() < rates.get(name, 0.3)) for name in names}
        now |= {name: int(rng.integers(TAGS)) for name in ("tag", "tile_tag")}
        drive(ctx, dut, **now)
        fault = ctx.get(dut.fault)
        wanted = reference.step(now)
        for name, value in wanted.items():
            counts[name] += bool(value)
        assert {
            "done": ctx.get(dut.done),
            "idle": ctx.get(dut.idle),
            "fault": (fault.code, fault.tag) if ctx.get(dut.fault_valid) else None,
            "stopped": ctx.get(dut.stopped),
        } == wanted
        await ctx.tick()
    return counts


#: No events that are a fault.
GOOD = dict.fromkeys(("outside", "tile_outside", "read_fault", "wrong", "abort"), 0.0)


@pytest.mark.parametrize("parity", [False, True])
@pytest.mark.parametrize("busy", [0.02, 0.5])
async def test_instructions_are_done_after_their_last_request(rng, parity, busy):
    counts = await play(rng, GOOD | {"fired": busy}, parity=parity, cycles=400)
    assert counts["done"] and not counts["fault"]
    assert counts["idle"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["outside", "tile_outside", "read_fault", "wrong", "abort"])
async def test_the_first_fault_stops(rng, name, seed):
    parity = name == "wrong" or seed == 2
    rates = GOOD | {name: 0.04, "fired": 0.1 * (1 + seed)}
    counts = await play(rng, rates, parity=parity, cycles=200)
    assert counts["fault"] == (name != "abort") and counts["idle"]


@pytest.mark.parametrize("seed", range(3))
async def test_many_faults(rng, seed):
    await play(rng, dict.fromkeys(GOOD, 0.05 * (1 + seed)), parity=True, cycles=60)
