"""Inputs and expected outputs of the blocks of SOFTMAX."""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from celosia.hw.arch.config import SOFTMAX_ROWS

#: Sums at the ends of the range, and those that a shift does not change.
CORNERS = [0, 1, 2, (1 << 27) - 1, 1 << 27, (1 << 28) - 1]


def exponentials(rng: np.random.Generator) -> np.ndarray:
    """Return 256 random exponentials of all magnitudes; bit 31 is random, too."""
    return rng.integers(0, 1 << 32, 256) >> rng.integers(0, 32, 256) * rng.integers(0, 2, 256)


def sums(rng: np.random.Generator, count: int) -> list[int]:
    """Return random sums of all magnitudes."""
    return (rng.integers(0, 1 << 28, count) >> rng.integers(0, 29, count)).tolist()


def mark(rng: np.random.Generator, **fields: int) -> dict[str, int]:
    """Return a mark; fields not given are rubbish, as they may be where it is not valid."""
    rubbish = {name: int(rng.integers(2)) for name in ("first", "last", "ends")}
    return {"valid": 0, "row": int(rng.integers(SOFTMAX_ROWS)), **rubbish, **fields}


def requantiser(
    latency: int, product: Callable[[Any], int | None], scaled: Any, rng: np.random.Generator
) -> Callable[[Any], Awaitable[None]]:
    """Return a lane of the requantiser, to play in the background.

    ``latency``: cycles from a product to its result in ``scaled``; ``product``: returns the exact
    product of this cycle's operands, or None where there are none, which gives rubbish.
    """

    async def bench(ctx: Any) -> None:
        late = deque([0] * (latency - 1))
        while True:
            exact = product(ctx)
            rubbish = int(rng.integers(-(1 << 31), 1 << 31))
            late.append(rubbish if exact is None else (exact + (1 << 30)) >> 31)
            await ctx.tick()
            ctx.set(scaled, late.popleft())

    return bench
