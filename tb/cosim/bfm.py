"""Drivers of the benches: ports, streams, units, all with random pauses.

Everything samples just before the rising edge and drives just after it, as registers do.
"""

import json
import os
import random
from collections import deque
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

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.registers import Activity

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
    ``numbers``: the same for arrays; ``cycle``: rising edges so far; ``resetting``: whether the
    reset is on, or was at the last edge.
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
        self.resetting = True
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

    def field(self, name: str, part: str) -> int:
        """Return one field of a port; the others may be undefined."""
        place = self.shapes[name][part]
        value = self._handles[name].value
        return unpack(place.shape, int(value[place.offset + place.width - 1 : place.offset]))

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
        self.resetting = True
        self.dut.rst.value = 1
        await self.ticks(3)
        self.dut.rst.value = 0
        await self.ticks(4)  # the core's own reset comes out of registers
        self.resetting = False

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


class Source:
    """Offers what is put into its queue on a stream, pausing at random.

    ``ports``: the component; ``name``: the stream; ``stall``: probability of a pause in each cycle
    before an offer, 0 to below 1.
    """

    def __init__(self, ports: Ports, name: str, stall: float = 0.0) -> None:
        self.ports = ports
        self.name = name
        self.stall = stall
        self.queue: deque[int] = deque()
        cocotb.start_soon(self._run())

    def put(self, value: Any) -> None:
        """Queue a payload."""
        self.queue.append(pack(self.ports.shapes[f"{self.name}__payload"], value))

    async def _run(self) -> None:
        ports, name = self.ports, self.name
        offered = False
        while True:
            await ports.edge
            if offered and ports.bits(f"{name}__ready"):
                self.queue.popleft()
                offered = False
            if not offered and self.queue and not ports.rests(self.stall):
                ports.dut[f"{name}__payload"].value = self.queue[0]
                offered = True
            ports.set(f"{name}__valid", offered)


class Sink:
    """Takes payloads from a stream, pausing at random, and hands each to a function."""

    def __init__(
        self, ports: Ports, name: str, take: Callable[[Any], None], stall: float = 0.0
    ) -> None:
        self.ports = ports
        self.name = name
        self.take = take
        self.stall = stall
        cocotb.start_soon(self._run())

    async def _run(self) -> None:
        ports, name = self.ports, self.name
        ready = False
        held: int | None = None
        while True:
            await ports.edge
            valid = ports.bits(f"{name}__valid")
            payload = ports.bits(f"{name}__payload") if valid else None
            assert held is None or payload == held, f"{name}: an offer changed before it was taken"
            held = None if ready else payload
            if payload is not None and ready:
                self.take(unpack(ports.shapes[f"{name}__payload"], payload))
            ready = not ports.rests(self.stall)
            ports.set(f"{name}__ready", ready)


class Unit:
    """Issues instructions to a unit, counts what it finishes, and watches over its contract.

    ``ports``: the component; ``prefix``: what stands before the names of the unit's ports;
    ``stall``: probability of a pause before each instruction.
    ``done``: instructions finished; ``faults`` (list of (isa.Error, int)): what the unit reported;
    ``activities``: cycles in each class.
    """

    def __init__(self, ports: Ports, prefix: str = "", stall: float = 0.0) -> None:
        self.ports = ports
        self.prefix = prefix
        self.source = Source(ports, f"{prefix}instruction", stall)
        self.issued = 0
        self.done = 0
        self.faults: list[tuple[isa.Error, int]] = []
        self.activities = [0] * len(Activity)
        cocotb.start_soon(self._watch())

    def put(self, instruction: isa.Instruction, index: int | None = None) -> None:
        """Queue an instruction, numbered as they come unless ``index`` is given."""
        word = int.from_bytes(isa.encode(instruction), "little")
        number = self.issued if index is None else index
        self.source.queue.append(number | word << streams.INDEX_BITS)
        self.issued += 1

    async def _watch(self) -> None:
        ports, prefix = self.ports, self.prefix
        given = 0
        while True:
            await ports.edge
            finished = ports.bits(f"{prefix}done")
            activity = Activity(ports.bits(f"{prefix}activity"))
            self.activities[list(Activity).index(activity)] += 1
            self.done += finished
            if ports.bits(f"{prefix}fault_valid"):
                fault = ports.get(f"{prefix}fault")
                self.faults.append((isa.Error(fault["code"]), fault["index"]))
            if ports.resetting or ports.bits(f"{prefix}abort") or self.faults:
                given = 0
                continue
            # Taken in earlier cycles: in the cycle of the handshake a unit may still be idle.
            assert finished <= given, f"{prefix} finished what it was not given"
            if given > finished:
                assert not ports.bits(f"{prefix}idle"), f"{prefix} is idle with work to do"
                assert activity is not Activity.IDLE, f"{prefix} counts as idle with work to do"
            given -= finished
            name = f"{prefix}instruction"
            given += ports.bits(f"{name}__valid") & ports.bits(f"{name}__ready")

    async def finish(self, limit: int = 20_000) -> None:
        """Wait until everything issued is done."""
        await self.ports.until(
            lambda: self.done == self.issued or self.faults, limit, f"{self.prefix} done"
        )
        assert not self.faults, f"{self.prefix} reported {self.faults}"
        await self.ports.until(lambda: self.ports.bits(f"{self.prefix}idle"), 100, "idle")

    async def fail(self, limit: int = 20_000) -> tuple[isa.Error, int]:
        """Wait for a fault; abort, drain and reset; return the fault."""
        ports, prefix = self.ports, self.prefix
        await ports.until(lambda: self.faults, limit, f"{prefix} fault")
        ports.set(f"{prefix}abort", 1)
        await ports.ticks(2)
        await ports.until(lambda: ports.bits(f"{prefix}idle"), 2000, f"{prefix} idle after abort")
        await ports.ticks(ports.rng.randrange(5))
        assert ports.bits(f"{prefix}idle") and len(self.faults) == 1
        return self.faults[0]

    def begin_again(self) -> None:
        """Forget everything, as the unit does at a reset."""
        self.source.queue.clear()
        self.issued = self.done = 0
        self.faults.clear()
