"""Both ends of Amaranth streams, with random pauses."""

from collections.abc import Callable
from typing import Any

from cosim.bench import Bench

#: Cycles after which a payload that is not taken counts as stuck.
LONGEST = 5_000


async def put(bench: Bench, stream: Any, payload: Any) -> None:
    """Offer a payload after a random pause, and return at the edge after it was taken."""
    while bench.rests():
        await bench.edge
    stream.payload.drive(payload)
    stream.valid.drive(1)
    await bench.edge
    await bench.until(lambda: stream.ready.bits, LONGEST, "ready")
    stream.valid.drive(0)


async def take(bench: Bench, stream: Any, use: Callable[[Any], None]) -> None:
    """Call ``use`` with each payload, for ever; ``ready`` pauses at random."""
    while True:
        ready = not bench.rests()
        stream.ready.drive(ready)
        await bench.edge
        if ready and stream.valid.bits:
            use(stream.payload.value)
