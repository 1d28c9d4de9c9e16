"""Test of ``tiny`` that fails at an unknown line of Python, as an interrupted one can."""

import pysim

from mutation.tiny import Tally

#: Line table of code without line numbers.
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
