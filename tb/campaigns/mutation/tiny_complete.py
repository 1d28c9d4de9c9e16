"""Tests of ``tiny`` that notice every change."""

import pysim

from mutation.tiny import Tally


def expected(total: int, state: str, bits: int, clear: bool) -> tuple[int, str]:
    """Return sum and state of the next cycle."""
    after, following = total, state
    if state == "COUNT":
        after = total + bits.bit_count()
        following = "HOLD" if after >= 9 else "COUNT"
    elif clear:
        following = "COUNT"
    # A sum that comes to 9 while it is cleared is held at 0.
    return 0 if clear else after, following


def test_first() -> None:
    """Nothing; the design is then one that other tests find in ``pysim``."""

    async def bench(ctx) -> None:
        await ctx.tick()

    pysim.run(pysim.made(Tally), bench)


def test_all(rng) -> None:
    dut = pysim.made(Tally)

    async def bench(ctx) -> None:
        total, state = 0, "COUNT"
        for _ in range(2000):
            bits, clear = int(rng.integers(4)), rng.random() < 0.1
            ctx.set(dut.bits, bits)
            ctx.set(dut.clear, clear)
            assert ctx.get(dut.sum) == total
            assert ctx.get(dut.state) == (total >= 9) + 2 * (total == 0)
            await ctx.tick()
            total, state = expected(total, state, bits, clear)

    pysim.run(dut, bench)
