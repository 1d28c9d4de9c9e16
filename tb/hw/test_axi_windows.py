"""Registers of two cores and of their pod on one bus."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Component, In
from devices.axi_lite import AxiLiteHost
from pysim import simulation

from celosia.hw.arch.pod import BASES, CORES, PAGE, PRIVATE, WORKING, PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import MAGIC, OFFSETS
from celosia.hw.axi.registers import RegisterFile
from celosia.hw.axi.windows import Windows

OKAY, SLVERR, DECERR = 0, 2, 3
POD = PodConfig(preset("pico"), cores=2)


class Registers(Component):
    """Windows, with the registers of two cores."""

    bus: Any
    working: Any
    private: Any
    bases: Any

    def __init__(self) -> None:
        self.windows = Windows(config=POD)
        members = self.windows.signature.members
        outputs = {name: members[name] for name in ("working", "private", "bases")}
        super().__init__({"bus": In(members["bus"].signature.flip()), **outputs})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.windows = windows = self.windows
        wiring.connect(m, wiring.flipped(self.bus), windows.bus)
        for name in ("working", "private", "bases"):
            m.d.comb += getattr(self, name).eq(getattr(windows, name))
        for n in range(POD.cores):
            m.submodules[f"registers_{n}"] = registers = RegisterFile()
            wiring.connect(m, getattr(windows, f"core_{n}"), registers.bus)
        return m


@pytest.mark.parametrize("stall", [0.0, 0.5])
async def test_each_page_has_its_registers(rng: np.random.Generator, stall: float) -> None:
    dut = Registers()
    ctx = await simulation(dut, cycles_limit=200_000)
    host = AxiLiteHost(dut.bus, rng, stall)
    places = [
        n * PAGE + OFFSETS[name] for n in range(2) for name in ("program_address", "watchdog")
    ]
    places += [2 * PAGE + first for first in (WORKING, PRIVATE, PRIVATE + 4, BASES, BASES + 4)]
    state = {place: (await host.read(ctx, place))[0] for place in places}
    assert [state[place] for place in places] == [0, 1 << 20] * 2 + [2**32 - 1, 0, 2**32 - 1, 0, 0]
    for _ in range(100):
        place = int(rng.choice(places))
        if rng.random() < 0.5:
            value, strobes = int(rng.integers(0, 1 << 32)), int(rng.integers(0, 16))
            assert await host.write(ctx, place, value, strobes) == OKAY
            mask = sum(0xFF << 8 * n for n in range(4) if strobes >> n & 1)
            # Programs begin at multiples of 64 bytes.
            mask &= ~63 if place % PAGE == OFFSETS["program_address"] and place < 2 * PAGE else mask
            state[place] = state[place] & ~mask | value & mask
        else:
            assert await host.read(ctx, place) == (state[place], OKAY)
    found = [ctx.get(values[n]) for values in (dut.private, dut.bases) for n in range(2)]
    assert [ctx.get(dut.working), *found] == [state[place] for place in places[-5:]]


async def test_places_without_a_register() -> None:
    dut = Registers()
    ctx = await simulation(dut, cycles_limit=10_000)
    host = AxiLiteHost(dut.bus)
    count, absent = 2 * PAGE + CORES, (2 * PAGE + 16, 2 * PAGE + BASES + 8, 3 * PAGE, 0xFFC)
    assert await host.read(ctx, PAGE) == (MAGIC, OKAY)
    assert await host.read(ctx, count) == (2, OKAY)
    assert await host.write(ctx, PAGE, 1) == await host.write(ctx, count, 1) == SLVERR
    for place in absent:
        assert await host.read(ctx, place) == (0, DECERR)
        assert await host.write(ctx, place, 1) == DECERR
    assert await host.read(ctx, count) == (2, OKAY)


@pytest.mark.parametrize(
    ("cores", "ports", "message"),
    [
        (1, 1, "pod: cores: wanted a power of two, 2 to 16, got 1"),
        (3, 1, "pod: cores: wanted a power of two, 2 to 16, got 3"),
        (32, 1, "pod: cores: wanted a power of two, 2 to 16, got 32"),
        (4, 8, "pod: ports: wanted a power of two, 1 to 4, got 8"),
        (4, 3, "pod: ports: wanted a power of two, 1 to 4, got 3"),
    ],
)
def test_no_such_pod(cores: int, ports: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PodConfig(preset("pico"), cores, ports)
