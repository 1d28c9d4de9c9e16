"""Memories around what is simulated, made of Python, all with random pauses."""

import itertools
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from bfm import Ports
from cocotbext.axi import AxiBus, AxiRam


class ExternalMemory:
    """An AxiRam at ``m_axi``, all channels pausing at random, that refuses what is not there.

    ``ports``: the component; ``size``: bytes; accesses past them get SLVERR; ``stall``:
    probability that a channel pauses for a cycle.
    """

    def __init__(self, ports: Ports, size: int, stall: float) -> None:
        logging.getLogger(f"cocotb.{ports.dut._name}").setLevel(logging.ERROR)
        self.ports = ports
        self.size = size
        bus = AxiBus.from_prefix(ports.dut, "m_axi_")
        self.ram: Any = AxiRam(bus, ports.dut.clk, ports.dut.rst, size=size)
        reads, writes = self.ram.read_if, self.ram.write_if
        reads._read = self._checked(reads._read, lambda length: length)
        writes._write = self._checked(writes._write, len)
        channels = (reads.ar_channel, reads.r_channel)
        for channel in (*channels, writes.aw_channel, writes.w_channel, writes.b_channel):
            channel.set_pause_generator(ports.rests(stall) for _ in itertools.count())

    def _checked(self, access: Any, length: Callable[[Any], int]) -> Any:
        async def checked(address: int, what: Any) -> Any:
            if address + length(what) > self.size:
                raise ValueError(f"address: wanted below {self.size}, got {address}")
            return await access(address, what)

        return checked

    @property
    def content(self) -> np.ndarray:
        """A copy of all bytes, uint8."""
        return np.frombuffer(self.ram.read(0, self.size), np.uint8)

    def write(self, address: int, content: bytes | np.ndarray) -> None:
        """Put bytes there, as the host does."""
        self.ram.write(address, bytes(content))

    async def stays_quiet(self, cycles: int) -> None:
        """Assert that there is no request and no response for a number of cycles."""
        for _ in range(cycles):
            await self.ports.edge
            for channel in ("aw", "w", "ar", "b", "r"):
                assert not self.ports.bits(f"m_axi__{channel}valid"), f"{channel} after the end"
