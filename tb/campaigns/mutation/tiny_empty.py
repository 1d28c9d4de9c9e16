"""Test of ``tiny`` that notices no change."""

import pysim

from mutation.tiny import Tally


def test_nothing() -> None:
    async def bench(ctx) -> None:
        await ctx.tick()

    pysim.run(Tally(), bench)
