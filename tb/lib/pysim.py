"""Helpers for Amaranth simulations: put and get on streams, and run benches with a time limit.

A bench is ``async def bench(ctx)``. A test that is one bench is a coroutine itself, and starts its
simulation with ``ctx = await simulation(dut)``. A stall is the probability that a side of a stream
pauses for a cycle before its next transfer; draws come from the generator that the bench passes, so
that a simulation can be repeated.
"""

import weakref
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import coroutine
from typing import Any, Protocol

from amaranth.sim import Simulator

Bench = Callable[[Any], Coroutine[Any, Any, None]]

_PERIOD = 1e-6


class Draws(Protocol):
    """Generator of random numbers: Python's or NumPy's."""

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        ...


async def put(ctx: Any, stream: Any, payload: Any) -> None:
    """Offer ``payload`` on ``stream`` and return in the cycle after it was taken."""
    ctx.set(stream.payload, payload)
    ctx.set(stream.valid, 1)
    await ctx.tick().until(stream.ready)
    ctx.set(stream.valid, 0)


async def get(ctx: Any, stream: Any) -> Any:
    """Take one payload from ``stream`` and return it in the cycle after."""
    ctx.set(stream.ready, 1)
    (payload,) = await ctx.tick().sample(stream.payload).until(stream.valid)
    ctx.set(stream.ready, 0)
    return payload


def drive(ctx: Any, component: Any, **values: Any) -> None:
    """Give inputs of a component, or of an interface, these values, by their names."""
    for name, value in values.items():
        ctx.set(getattr(component, name), value)


async def pulse(ctx: Any, signal: Any, value: Any = 1) -> None:
    """Give ``signal`` a value for one cycle, then zero."""
    ctx.set(signal, value)
    await ctx.tick()
    ctx.set(signal, 0)


async def rest(ctx: Any, rng: Draws | None, stall: float) -> None:
    """Wait a random number of cycles, each further one with probability ``stall`` below 1."""
    while rng is not None and rng.random() < stall:
        await ctx.tick()


async def put_all(
    ctx: Any, stream: Any, payloads: Iterable[Any], *, rng: Draws | None = None, stall: float = 0.0
) -> None:
    """Put ``payloads`` one after the other, with pauses of probability ``stall`` before each."""
    for payload in payloads:
        await rest(ctx, rng, stall)
        await put(ctx, stream, payload)


async def get_all(
    ctx: Any, stream: Any, count: int, *, rng: Draws | None = None, stall: float = 0.0
) -> list[Any]:
    """Take and return ``count`` payloads, with pauses of probability ``stall`` before each."""
    payloads = []
    for _ in range(count):
        await rest(ctx, rng, stall)
        payloads.append(await get(ctx, stream))
    return payloads


def _close(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Drop benches that still wait when the simulation ends."""
    for each in coroutines:
        # Amaranth's until() and repeat() raise when they are closed while they wait.
        with suppress(RuntimeError):
            each.close()


class _Simulation:
    """Simulator of a design, and the benches that it runs from its next start on."""

    def __init__(self, dut: Any, backgrounds: int, foregrounds: int) -> None:
        self.simulator = Simulator(dut)
        self.simulator.add_clock(_PERIOD)
        self.benches: list[Bench] = []
        self.started: list[Coroutine[Any, Any, None]] = []
        for number in range(backgrounds + foregrounds):
            self._add(number, background=number < backgrounds)

    def _add(self, number: int, *, background: bool) -> None:
        async def start(ctx: Any) -> None:
            self.started.append(self.benches[number](ctx))
            await self.started[-1]

        self.simulator.add_testbench(start, background=background)


#: Simulators of the designs that ``made`` keeps, by ``id`` and the numbers of benches.
_KEPT: dict[int, dict[tuple[int, int], _Simulation]] = {}


@lru_cache(maxsize=4)
def made(kind: Any, **settings: Any) -> Any:
    """Return ``kind(**settings)``, the same one for the same settings.

    ``run`` compiles its simulation once, which often takes longer than a test.
    """
    dut = kind(**settings)
    _KEPT[id(dut)] = {}
    weakref.finalize(dut, _KEPT.pop, id(dut))
    return dut


def anew(kind: Any, **settings: Any) -> Any:
    """Return ``kind(**settings)``: for tests that change what a design is made of."""
    return kind(**settings)


def run(
    dut: Any,
    *benches: Bench,
    background: Iterable[Bench] = (),
    cycles_limit: int = 10_000,
    vcd: str | Path | None = None,
) -> None:
    """Simulate ``dut`` in clock domain ``sync`` until all ``benches`` have returned.

    ``dut``: design under test; ``*benches``: run concurrently, all from time zero; ``background``:
    run concurrently without being waited for: memories, monitors; ``cycles_limit``: clock cycles
    after which the benches count as hung; ``vcd``: file of the waves.
    Raises ``TimeoutError`` if a bench has not returned after ``cycles_limit`` cycles.
    """

    async def limit(ctx: Any) -> None:
        await ctx.delay(_PERIOD * cycles_limit)
        raise TimeoutError(f"simulation: wanted an end within {cycles_limit} cycles, got none")

    backgrounds = (limit, *background)
    kept = _KEPT.get(id(dut), {})
    # Taken out for the run: one that fails is not used again.
    simulation = kept.pop((len(backgrounds), len(benches)), None)
    if simulation is None:
        simulation = _Simulation(dut, len(backgrounds), len(benches))
    else:
        simulation.simulator.reset()
    simulation.benches = [*backgrounds, *benches]
    try:
        if vcd is None:
            simulation.simulator.run()
        else:
            with simulation.simulator.write_vcd(str(vcd)):
                simulation.simulator.run()
    finally:
        _close(simulation.started)
        simulation.started.clear()
    kept[len(backgrounds), len(benches)] = simulation


@coroutine
def simulation(dut: Any, *benches: Bench, **options: Any) -> Generator[Any, Any, Any]:
    """Start the simulation of a test, which ends with it; arguments as in ``run``.

    Returns the context of the test's own bench.
    """
    return (yield dut, benches, options)


def play(test: Coroutine[Any, Any, None]) -> None:
    """Run a test that calls ``simulation`` first of all that waits."""
    dut, benches, options = test.send(None)

    @coroutine
    def resumed(value: Any) -> Generator[Any, Any, None]:
        with suppress(StopIteration):
            while True:
                value = yield test.send(value)

    async def bench(ctx: Any) -> None:
        await resumed(ctx)

    try:
        run(dut, bench, *benches, **options)
    finally:
        _close([test])
