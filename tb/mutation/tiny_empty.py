"""A test of ``tiny`` that sees nothing."""

from tiny import Tally

from celosia.sim import pysim


def test_nothing() -> None:
    async def bench(ctx) -> None:
        await ctx.tick()

    pysim.run(Tally(), bench)
