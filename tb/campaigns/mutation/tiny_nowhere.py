"""A test of ``tiny`` that fails, as one does that is stopped, where Python may know no line."""

import pysim

from mutation.tiny import Tally

#: Eight instructions without a place, again and again.
PLACES = b"\xff" * 9
FAILURE = compile("raise AssertionError", "nowhere", "exec").replace(co_linetable=PLACES)


def test_somewhat() -> None:
    dut = Tally()

    async def bench(ctx) -> None:
        ctx.set(dut.bits, 3)
        for total in (0, 2, 4, 6, 8, 10):
            if ctx.get(dut.sum) != total:
                exec(FAILURE)
            await ctx.tick()

    pysim.run(dut, bench)
