"""Words of wrong parity are reported for the request that used them."""

import pysim
import pytest

from celosia.hw.matrix.verdict import Verdict

READ, TILE, RESULTS = 6, 10, 14


async def reports(events, cycles=40):
    """Return the cycles of ``wrong``, for inputs that are high in these cycles."""
    dut = Verdict(read_latency=READ, verdict_latency=TILE, results_latency=RESULTS)
    ctx = await pysim.simulation(dut)
    wrong = []
    for cycle in range(cycles):
        for name in ("begins", "tile_wrong", "read_wrong"):
            ctx.set(getattr(dut, name), cycle in events.get(name, ()))
        wrong += [cycle] * ctx.get(dut.wrong)
        await ctx.tick()
    return wrong


async def test_wrong_bytes():
    used = [3, 4, 9]
    assert await reports({"read_wrong": [at + READ + 1 for at in used]}) == [
        at + RESULTS for at in used
    ]


@pytest.mark.parametrize("at", range(3, 20))
async def test_wrong_weights_of_the_pass_that_uses_the_tile(at):
    """Parity of a tile is known at most ``TILE`` - 1 cycles after its pass's first request."""
    events = {"begins": [0, 8], "tile_wrong": [at]}
    known = [begin for begin in events["begins"] if at <= begin + TILE - 1]
    assert await reports(events) == [begin + RESULTS for begin in known[:1]]


async def test_each_request_once():
    """Wrong bytes and wrong weights of one request are one report."""
    events = {"begins": [2], "tile_wrong": [5, 11], "read_wrong": [2 + READ + 1]}
    assert await reports(events) == [2 + RESULTS]
