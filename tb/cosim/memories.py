"""Memories around what is simulated, made of Python, all with random pauses."""

import itertools
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import cocotb
import numpy as np
from bfm import Ports
from cocotbext.axi import AxiBus, AxiRam

from celosia.hw.matrix.accumulators import ACCUMULATOR_LATENCY


def lanes(access: dict[str, Any], rows: int, address_bits: int) -> list[int | None]:
    """Return the byte address of each lane of an access to the unified buffer, masked ones None."""
    first = access["address"]
    span = (1 << address_bits) - 1
    return [
        ((first + lane) & span) + access["skip"][lane] * rows
        if access["mask"] >> lane & 1
        else None
        for lane in range(rows)
    ]


class UnifiedBuffer:
    """A unified buffer behind a unit's read port, and its write port where it has one.

    ``ports``: the component; ``content`` (int8 array of shape (unified_bytes,)): the bytes; written
    in place; ``read``: the stream of requests; ``read_valid``, ``read_data``, ``read_fault`` answer
    it; ``write``: the stream of writes; ``write_fault`` answers it; ``latency``, ``write_latency``:
    cycles to an answer, and to the fault of a write; ``stall``: probability that a port rests for a
    cycle.
    """

    def __init__(
        self,
        ports: Ports,
        content: np.ndarray,
        *,
        read: str,
        write: str | None = None,
        latency: int,
        write_latency: int = 1,
        stall: float = 0.0,
    ) -> None:
        self.ports = ports
        self.content = content
        self.stall = stall
        self.latency = latency
        self.write_latency = write_latency
        self.reads = 0
        # Reads come first: one taken in the cycle of a write does not see it.
        cocotb.start_soon(self._serve(read, write))

    def _places(self, access: dict[str, Any]) -> list[int | None]:
        config = self.ports.config
        return lanes(access, config.rows, config.address_bits + 1)

    def _answer(self, access: dict[str, Any]) -> tuple[int, list[int], int]:
        size = self.content.size
        places = self._places(access)
        values = [
            int(self.content[place]) & 255 if place is not None and place < size else 0
            for place in places
        ]
        self.reads += 1
        return 1, values, int(any(place is not None and place >= size for place in places))

    def _store(self, access: dict[str, Any]) -> int:
        outside = 0
        for place, value in zip(self._places(access), access["data"], strict=True):
            if place is not None and place < self.content.size:
                self.content[place] = np.uint8(value).view(np.int8)
            elif place is not None:
                outside = 1
        return outside

    async def _serve(self, read: str, write: str | None) -> None:
        ports = self.ports
        nothing: tuple[int, list[int], int] = (0, [0] * ports.config.rows, 0)
        answers: deque[tuple[int, list[int], int]] = deque([nothing] * (self.latency - 1))
        faults = deque([0] * (self.write_latency - 1))
        may_read = may_write = False
        while True:
            await ports.edge
            taken = may_read and ports.bits(f"{read}__valid")
            answers.append(self._answer(ports.get(f"{read}__payload")) if taken else nothing)
            valid, values, fault = answers.popleft()
            ports.set("read_valid", valid)
            ports.set("read_data", values)
            ports.set("read_fault", fault)
            may_read = not ports.rests(self.stall)
            ports.set(f"{read}__ready", may_read)
            if write is None:
                continue
            taken = may_write and ports.bits(f"{write}__valid")
            faults.append(self._store(ports.get(f"{write}__payload")) if taken else 0)
            ports.set("write_fault", faults.popleft())
            may_write = not ports.rests(self.stall)
            ports.set(f"{write}__ready", may_write)


class AccumulatorMemory:
    """Accumulators behind the vector unit's ports.

    ``ports``: the component; ``content`` (int32 array of shape (accumulator_rows, columns)): the
    sums; written in place.
    """

    def __init__(self, ports: Ports, content: np.ndarray) -> None:
        self.ports = ports
        self.content = content
        cocotb.start_soon(self._serve())

    async def _serve(self) -> None:
        ports = self.ports
        answers = deque([[0] * ports.config.columns] * (ACCUMULATOR_LATENCY - 2))
        # The row to read of the cycle before; places to write of it and of the one before it.
        asked: int | None = None
        places: deque[tuple[int, ...] | None] = deque([None, None])
        while True:
            await ports.edge
            # The sums of a write come two cycles later, and then all reads told behind it see them.
            place = places.popleft()
            if place is not None:
                row, mask = place
                for column, value in enumerate(ports.get("accumulator_write")["sums"]):
                    if mask >> column & 1:
                        self.content[row, column] = value
            sums = np.full(ports.config.columns, -1)
            place = places[0]
            if asked is not None:
                sums = self.content[asked].copy()
                if place is not None and place[0] == asked:
                    sums[[column for column in range(len(sums)) if place[1] >> column & 1]] = -1
            asked = None
            if ports.field("accumulator_read", "enable"):
                asked = ports.get("accumulator_read")["row"]
            place = None
            if ports.field("accumulator_write", "enable"):
                place = tuple(ports.field("accumulator_write", name) for name in ("row", "mask"))
            places.append(place)
            answers.append([int(value) for value in sums])
            ports.set("sums", answers.popleft())


class ExternalMemory:
    """An AxiRam behind ``m_axi``, all channels pausing at random, that refuses what is not there.

    ``ports``: the component; ``size``: bytes; accesses past them are answered by SLVERR; ``stall``:
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
        """Assert that nothing is asked for and nothing answered for a number of cycles."""
        for _ in range(cycles):
            await self.ports.edge
            for channel in ("aw", "w", "ar", "b", "r"):
                assert not self.ports.bits(f"m_axi__{channel}valid"), f"{channel} after the end"
