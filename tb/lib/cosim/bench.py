"""Component in simulation: its ports by the names of its signature, clock and reset."""

import functools
import gc
import json
import os
import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import cocotb
import numpy as np
from amaranth.hdl import Shape
from amaranth.lib.wiring import In
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time

from celosia.hw.arch.config import Config

PERIOD_NS = 10

# As in tb/conftest.py: the values of ports are many objects that live for a cycle.
gc.set_threshold(50_000, 20, 20)


class Port:
    """Port of the simulated component: a signal with the shape of its member."""

    def __init__(self, handle: Any, shape: Any) -> None:
        self.handle = handle
        self.shape = shape
        self._mask = (1 << Shape.cast(shape).width) - 1

    @property
    def bits(self) -> int:
        """Its bits; raises ``ValueError`` if one is unknown."""
        return int(self.handle.value)

    @property
    def value(self) -> Any:
        """Its value, as Amaranth's simulator gives it: an integer, or a constant of the layout.

        Unknown bits are drawn at random: in fields that do not matter they may be there, in others
        they make a comparison fail.
        """
        bits = int(self.handle.value.resolve("random"))
        if hasattr(self.shape, "from_bits"):
            return self.shape.from_bits(bits)
        shape = Shape.cast(self.shape)
        negative = shape.signed and bits >> (shape.width - 1)
        return bits - (1 << shape.width) if negative else bits

    def drive(self, value: Any) -> None:
        """Give it a value after this edge: an integer, or fields of the layout."""
        if not isinstance(value, int):
            value = self.shape.const(value).as_bits()
        self.handle.value = value & self._mask


class Ports(SimpleNamespace):
    """Members of a signature: ports, and further members; those of arrays have numbers."""

    def __getitem__(self, number: int) -> Any:
        return getattr(self, str(number))


@functools.cache
def _unit(make: Callable[[Config], Any], config: Config) -> Any:
    """Return a component; of a core, all blocks are made for one of them."""
    return make(config)


class Bench:
    """Component in simulation.

    Everything happens at rising edges: a bench reads what was there just before the edge, and what
    it drives is there just after it.

    Parameters
    ----------
    dut : Any
        Top module, as cocotb gives it.
    make : Callable
        Returns the component of a configuration; a bench file has it for the runner.

    Attributes
    ----------
    config, options : Config, dict
        Sizes of the core, and the further options of the test.
    rng, numbers : random.Random, np.random.Generator
        All that is random.
    ports : Any
        ``Port`` of each member of the signature: ``bench.ports.request.valid``.
    unit : Any
        The component itself, for constants such as ``LATENCY``; nothing is elaborated.
    """

    def __init__(self, dut: Any, make: Callable[[Config], Any]) -> None:
        settings = json.loads(os.environ["CELOSIA_BENCH"])
        self.config = Config(**settings["sizes"])
        self.options: dict[str, Any] = settings["options"]
        self.rng = random.Random(settings["seed"])
        self.numbers = np.random.default_rng(settings["seed"])
        self.stall: float = self.options.get("stall", 0.0)
        self.dut = dut
        self.edge = RisingEdge(dut.clk)
        self.unit = _unit(make, self.config)
        self.ports: Any = Ports()
        self._inputs: list[Port] = []
        for path, member, _ in self.unit.signature.flatten(self.unit):
            self._add([str(step) for step in path], member)

    def _add(self, path: list[str], member: Any) -> None:
        handle = getattr(self.dut, "__".join(path), None)
        if handle is None:
            return  # of no bits
        node = self.ports
        for step in path[:-1]:
            if not hasattr(node, step):
                setattr(node, step, Ports())
            node = getattr(node, step)
        port = Port(handle, member.shape)
        setattr(node, path[-1], port)
        if member.flow == In:
            self._inputs.append(port)

    @property
    def cycle(self) -> int:
        """Number of this edge."""
        return int(get_sim_time("ns")) // PERIOD_NS

    @classmethod
    def test(cls, make: Callable[[Config], Any], needs: str = "", **settings: Any) -> Any:
        """Return a decorator of tests, each of which gets a bench that has begun.

        ``needs``: option without which a core passes; ``settings``: those of ``begin``.
        """

        def decorated(function: Callable[[Any], Awaitable[None]]) -> Any:
            @functools.wraps(function)
            async def test(dut: Any) -> None:
                bench = cls(dut, make)
                if not needs or getattr(bench.config, needs):
                    await bench.begin(**settings)
                    await function(bench)

            return cocotb.test()(test)

        return decorated

    async def begin(self) -> None:
        """Start; benches of a unit put into place what surrounds it, too."""
        await self.start()

    async def start(self) -> None:
        """Start the clock, with all inputs zero, and reset."""
        for port in self._inputs:
            port.drive(0)
        self.dut.rst.value = 1
        Clock(self.dut.clk, PERIOD_NS, "ns").start(start_high=False)
        await self.reset()

    async def reset(self) -> None:
        """Reset for some cycles."""
        self.dut.rst.value = 1
        await self.ticks(3)
        self.dut.rst.value = 0
        await self.ticks(4)  # the core's own reset comes out of registers

    async def ticks(self, count: int = 1) -> None:
        """Wait for a number of rising edges."""
        for _ in range(count):
            await self.edge

    async def until(self, holds: Callable[[], Any], limit: int, what: str) -> None:
        """Wait until something holds at an edge, at most ``limit`` cycles."""
        for _ in range(limit):
            if holds():
                return
            await self.edge
        raise TimeoutError(f"{what}: wanted within {limit} cycles, not seen")

    def rests(self, probability: float | None = None) -> bool:
        """Draw whether something pauses for this cycle, by default with ``stall``."""
        return self.rng.random() < (self.stall if probability is None else probability)
