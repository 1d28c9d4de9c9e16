"""Ports of the core, which a bench samples just before the rising edge."""

import json
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from amaranth.lib.wiring import In
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from celosia.hw.arch.config import Config
from celosia.hw.core import Core
from celosia.hw.top import Top

PERIOD_NS = 10


class Ports:
    """The ports of the simulated core, by their names in Verilog.

    ``config``: its sizes; ``options``: what the test passed besides; ``rng``: all that is random;
    ``numbers``: the same for arrays.
    """

    def __init__(self, dut: Any) -> None:
        settings = json.loads(os.environ["CELOSIA_COSIM"])
        self.config = Config(**settings["sizes"])
        self.options = settings["options"]
        self.rng = random.Random(settings["seed"])
        self.numbers = np.random.default_rng(settings["seed"])
        self.dut = dut
        self.edge = RisingEdge(dut.clk)
        core = Top(Core(config=self.config))
        flat = core.signature.flatten(core)
        self.inputs = ["__".join(map(str, path)) for path, member, _ in flat if member.flow == In]

    def bits(self, name: str) -> int:
        """Return the bits of a port."""
        return int(getattr(self.dut, name).value)

    async def start(self) -> None:
        """Start the clock, with all inputs zero, and reset."""
        for name in self.inputs:
            getattr(self.dut, name).value = 0
        self.dut.rst.value = 1
        Clock(self.dut.clk, PERIOD_NS, "ns").start(start_high=False)
        await self.reset()

    async def reset(self) -> None:
        """Reset for some cycles."""
        self.dut.rst.value = 1
        await self.ticks(3)
        self.dut.rst.value = 0
        await self.ticks(4)  # the core's own reset comes out of registers

    async def ticks(self, count: int) -> None:
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

    def rests(self, probability: float) -> bool:
        """Draw whether something pauses for this cycle."""
        return self.rng.random() < probability
