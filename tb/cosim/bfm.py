"""Ports of the component that a bench drives.

Everything samples just before the rising edge and drives just after it, as registers do.
"""

import json
import os
import random
from collections.abc import Callable
from typing import Any

import cocotb
import numpy as np
from amaranth.hdl import Shape
from amaranth.lib import data
from amaranth.lib.wiring import In
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from duts import make

from celosia.hw.arch.config import Config

PERIOD_NS = 10


def pack(shape: Any, value: Any) -> int:
    """Return the bits of a value: a number, or a dict or sequence of them; what is absent is 0."""
    if isinstance(shape, data.Layout):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        bits = 0
        for name, part in items:
            field = shape[name]
            bits |= pack(field.shape, part) << field.offset
        return bits
    width = Shape.cast(shape).width
    number = int(getattr(value, "value", value))
    if not -(1 << width >> 1) <= number < 1 << width:
        raise ValueError(f"field: wanted a number of {width} bits, got {number}")
    return number & ((1 << width) - 1)


def unpack(shape: Any, bits: int) -> Any:
    """Return what bits say: a number, or a dict or list of them."""
    if isinstance(shape, data.Layout):
        parts = {name: unpack(f.shape, bits >> f.offset) for name, f in shape}
        return list(parts.values()) if isinstance(shape, data.ArrayLayout) else parts
    plain = Shape.cast(shape)
    bits &= (1 << plain.width) - 1
    return bits - (1 << plain.width) if plain.signed and bits >> plain.width - 1 else bits


class Ports:
    """The ports of the component that is simulated, by their names in Verilog.

    ``config``: its sizes; ``options``: what the test passed besides; ``rng``: all that is random;
    ``numbers``: the same for arrays; ``cycle``: rising edges so far.
    """

    def __init__(self, dut: Any) -> None:
        settings = json.loads(os.environ["CELOSIA_COSIM"])
        self.config = Config(**settings["sizes"])
        self.options = settings["options"]
        self.rng = random.Random(settings["seed"])
        self.numbers = np.random.default_rng(settings["seed"])
        self.dut = dut
        self.component = make(settings["dut"], self.config)
        self.edge = RisingEdge(dut.clk)
        self.cycle = 0
        self.shapes: dict[str, Any] = {}
        self.inputs: list[str] = []
        self._handles: dict[str, Any] = {}
        for path, member, value in self.component.signature.flatten(self.component):
            name = "__".join(str(part) for part in path)
            self.shapes[name] = value.shape()
            self._handles[name] = getattr(dut, name)
            if member.flow == In:
                self.inputs.append(name)

    def set(self, name: str, value: Any) -> None:
        """Drive a port from the next edge on; see ``pack``."""
        self._handles[name].value = pack(self.shapes[name], value)

    def bits(self, name: str) -> int:
        """Return the bits of a port."""
        return int(self._handles[name].value)

    def get(self, name: str) -> Any:
        """Return what a port says; see ``unpack``."""
        return unpack(self.shapes[name], self.bits(name))

    async def start(self) -> None:
        """Start the clock, with all inputs zero, and reset."""
        for name in self.inputs:
            self._handles[name].value = 0
        self.dut.rst.value = 1
        Clock(self.dut.clk, PERIOD_NS, "ns").start(start_high=False)
        cocotb.start_soon(self._count())
        await self.reset()

    async def _count(self) -> None:
        while True:
            await self.edge
            self.cycle += 1

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
