"""Memories around what is simulated, all with random pauses."""

import itertools
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from cocotbext.axi import AxiBus, AxiRam

from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY
from cosim.bench import Bench


class ExternalMemory:
    """AxiRam whose channels all pause at random, and that refuses accesses outside with SLVERR.

    ``bench``: the component; ``bus``: ports of its master ``m_axi``; ``size``: bytes.
    """

    def __init__(self, bench: Bench, bus: Any, size: int) -> None:
        logging.getLogger(f"cocotb.{bench.dut._name}").setLevel(logging.ERROR)
        self.bench = bench
        self.bus = bus
        self.size = size
        clock, reset = bench.dut.clk, bench.dut.rst
        self.ram: Any = AxiRam(AxiBus.from_prefix(bench.dut, "m_axi_"), clock, reset, size=size)
        reads, writes = self.ram.read_if, self.ram.write_if
        reads._read = self._checked(reads._read, lambda length: length)
        writes._write = self._checked(writes._write, len)
        channels = (reads.ar_channel, reads.r_channel)
        for channel in (*channels, writes.aw_channel, writes.w_channel, writes.b_channel):
            channel.set_pause_generator(bench.rests() for _ in itertools.count())

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
            await self.bench.edge
            for channel in ("aw", "w", "ar", "b", "r"):
                assert not getattr(self.bus, f"{channel}valid").bits, f"{channel} after the end"


def lanes(bench: Bench, access: Any) -> tuple[np.ndarray, bool]:
    """Return the byte of each lane of an access of the unified buffer, -1 for masked ones.

    Also returns True if a lane that is not masked lies outside; the bytes of those are -1, too.
    """
    numbers, config = np.arange(bench.config.rows), bench.config
    # Only from the row before the buffer a lane may reach row 0.
    wraps = 1 << (config.unified_bytes - 1).bit_length() + 1
    first = access.address - wraps * (access.address >= wraps - config.rows)
    places = first + numbers + np.array(list(access.skip)) * config.rows
    named = (access.mask >> numbers & 1).astype(bool)
    outside = named & ((places < 0) | (places >= config.unified_bytes))
    return np.where(named & ~outside, places, -1), bool(outside.any())


class UnifiedReads:
    """Read port of the unified buffer; responses come a fixed number of cycles after requests.

    ``memory``: its bytes; ``latency``: cycles to a response; ``cycles``: those of the requests;
    ``touched``: addresses that were read; ``wrong``: the one whose byte has wrong parity, or None;
    ``under_way``: responses to come.
    """

    def __init__(self, bench: Bench, port: Any, memory: np.ndarray, latency: int) -> None:
        self.bench, self.port = bench, port
        self.memory, self.latency = memory, latency
        self.cycles: list[int] = []
        self.touched: set[int] = set()
        self.wrong: int | None = None
        self.under_way = 0

    def report(self, address: int | None) -> None:
        """Report the byte of an address as wrong."""
        self.wrong = address

    async def serve(self) -> None:
        """Respond to requests, for ever."""
        bench, port, request = self.bench, self.port, self.port.request
        late: deque[Any] = deque([None] * (self.latency - 1))
        is_wrong = False
        while True:
            ready = not bench.rests()
            request.ready.drive(ready)
            await bench.edge
            late.append(None)
            if ready and request.valid.bits:
                self.cycles.append(bench.cycle)
                places, outside = lanes(bench, request.payload.value)
                self.touched |= set(places[places >= 0].tolist())
                is_bad = self.wrong in places
                late[-1] = np.where(places < 0, 0, self.memory[places]), outside, is_bad
            if bench.config.parity:
                port.wrong.drive(is_wrong)  # one cycle after the response
            response = late.popleft()
            self.under_way = len(late) - late.count(None)
            is_wrong = response is not None and response[2]
            port.valid.drive(response is not None)
            port.fault.drive(response is not None and response[1])
            noise = bench.rng.getrandbits(8 * bench.config.rows)
            port.data.drive(noise if response is None else response[0].tolist())


class UnifiedWrites:
    """Write port of the unified buffer; writes reach ``memory`` in the cycle of their ``fault``."""

    def __init__(
        self, bench: Bench, write: Any, memory: np.ndarray, latency: int, fault: Any = None
    ) -> None:
        self.bench, self.write, self.fault = bench, write, fault
        self.memory, self.latency = memory, latency
        self.cycles: list[int] = []

    async def serve(self) -> None:
        """Take writes, for ever."""
        bench, write = self.bench, self.write
        late: deque[Any] = deque([None] * (self.latency - 1))
        while True:
            ready = not bench.rests()
            write.ready.drive(ready)
            await bench.edge
            late.append(None)
            if ready and write.valid.bits:
                self.cycles.append(bench.cycle)
                access = write.payload.value
                late[-1] = *lanes(bench, access), np.array(list(access.data), np.uint8)
            change = late.popleft()
            if change is not None:
                places, _, values = change
                self.memory[places[places >= 0]] = values.view(np.int8)[places >= 0]
            if self.fault is not None:
                self.fault.drive(change is not None and change[1])


class Accumulators:
    """Accumulators as the vector unit sees them; what it reads at other times is noise.

    ``memory``: their sums; ``cycles``: those of reads; ``writes``: those in which sums are written;
    ``wrong``: row and column of the sum that has wrong parity, or None.
    """

    def __init__(self, bench: Bench, memory: np.ndarray) -> None:
        self.bench, self.memory = bench, memory
        self.cycles: list[int] = []
        self.writes: list[int] = []
        self.wrong: tuple[int, int] | None = None

    def report(self, address: int | None) -> None:
        """Report a sum, with its address in ``footprint``, as wrong."""
        self.wrong = None if address is None else divmod(address, self.bench.config.columns)

    async def serve(self) -> None:
        """Read and write rows, for ever."""
        bench, columns = self.bench, self.bench.config.columns
        port = bench.ports.accumulator_port
        noise = bench.numbers.integers(-(1 << 31), 1 << 31, (8, columns))
        late = deque([noise[0]] * (ACCUMULATOR_LATENCY - 2))
        flags = deque([0] * (ACCUMULATOR_LATENCY - 1))
        # Row to read of the cycle before; rows and masks to write of that and of the one before it.
        requested: int | None = None
        places: deque[tuple[int, np.ndarray] | None] = deque([None, None])
        while True:
            await bench.edge
            place = places.popleft()
            if place is not None:
                row, mask = place
                sums = np.array(list(port.write.value.sums))
                self.memory[row, mask] = sums[mask]
                self.writes.append(bench.cycle)
            # A sum that is written in the cycle of its read is undefined.
            found = noise[bench.rng.randrange(8)].copy()
            if requested is not None:
                known = np.ones(columns, bool)
                if (following := places[0]) is not None and following[0] == requested:
                    known = ~following[1]
                found[known] = self.memory[requested, known]
            late.append(found)
            port.sums.drive(late.popleft().tolist())
            # Sums that nobody reads may be wrong.
            flags.append(bench.rng.getrandbits(columns) if requested is None else 0)
            if self.wrong is not None and self.wrong[0] == requested:
                flags[-1] = 1 << self.wrong[1]
            if bench.config.parity:
                port.wrong.drive(flags.popleft())
            read, write = port.read.value, port.write.value
            requested = read.row if read.enable else None
            if read.enable:
                self.cycles.append(bench.cycle)
            mask = (write.mask >> np.arange(columns) & 1).astype(bool)
            places.append((write.row, mask) if write.enable else None)


class BurstMemory:
    """External memory at a client of the read master: bursts in, beats out.

    ``memory``: its bytes; accesses outside are refused, or repeat it if it ``repeats``;
    ``requested``: cycle, address and beats of each burst; ``latency``: cycles from a burst to its
    first beat.
    """

    def __init__(
        self, bench: Bench, request: Any, beats: Any, memory: np.ndarray, latency: int = 9
    ) -> None:
        self.bench, self.request, self.beats = bench, request, beats
        self.memory, self.latency = memory, latency
        self.repeats = False
        self.requested: list[tuple[int, int, int]] = []
        self.under_way: deque[tuple[int, dict[str, int]]] = deque()

    def forget(self) -> None:
        """Drop the beats under way: after a reset."""
        self.under_way.clear()

    def _take(self, burst: Any) -> None:
        bench, size = self.bench, self.bench.config.bus_bytes
        self.requested.append((bench.cycle, int(burst.address), int(burst.beats) + 1))
        for n in range(burst.beats + 1):
            first = burst.address // size * size + n * size
            first = first % self.memory.size if self.repeats else first
            error = first + size > self.memory.size
            word = 0 if error else int.from_bytes(self.memory[first : first + size], "little")
            beat = {"data": word, "error": error, "last": n == burst.beats}
            self.under_way.append((bench.cycle + self.latency + n, beat))

    async def serve(self) -> None:
        """Take bursts and give their beats, for ever."""
        bench, request, beats = self.bench, self.request, self.beats
        offered = False
        while True:
            ready = not bench.rests()
            request.ready.drive(ready)
            due = bool(self.under_way) and self.under_way[0][0] <= bench.cycle
            offered = due and (offered or not bench.rests())
            beats.valid.drive(offered)
            if offered:
                beats.payload.drive(self.under_way[0][1])
            await bench.edge
            if offered and beats.ready.bits:
                self.under_way.popleft()
                offered = False
            if ready and request.valid.bits:
                self._take(request.payload.value)


class WrittenMemory:
    """External memory at the write half of a bus; takes data before their address, too.

    ``content``: its bytes; ``bursts``: cycle, address and beats of each burst; ``beats``: cycles of
    the beats; ``refuses``: response with which it writes nothing, or 0; ``waits``: names of the
    channels on which it does nothing, of ``w`` and ``b``.
    """

    def __init__(self, bench: Bench, bus: Any, content: np.ndarray) -> None:
        self.bench, self.bus, self.content = bench, bus, content
        self.bursts: list[tuple[int, int, int]] = []
        self.beats: list[int] = []
        self.refuses = 0
        self.waits = ""
        self._data: deque[tuple[int, int, int]] = deque()
        self._answered = self._written = self._within = 0

    @property
    def open(self) -> bool:
        """True if an address, a beat or a response is missing."""
        return self._answered < len(self.bursts) or bool(self._data)

    def _write(self) -> None:
        """Write the beats whose address is known, and count the bursts that have ended."""
        size = self.bench.config.bus_bytes
        while self._data and self._written < len(self.bursts):
            data, strobes, last = self._data.popleft()
            _, address, beats = self.bursts[self._written]
            first = address // size * size + self._within * size
            for lane in range(size):
                if strobes >> lane & 1 and not self.refuses:
                    self.content[(first + lane) % self.content.size] = data >> 8 * lane & 255
            self._within += 1
            assert last == (self._within == beats), "wlast"
            if last:
                self._within = 0
                self._written += 1

    async def serve(self) -> None:
        """Take addresses and data, and respond, for ever."""
        bench, bus = self.bench, self.bus
        responding = False
        while True:
            ready = [not bench.rests() for _ in range(2)]
            bus.awready.drive(ready[0])
            ready[1] &= "w" not in self.waits
            bus.wready.drive(ready[1])
            waiting = self._answered < self._written and "b" not in self.waits
            responding = waiting and (responding or not bench.rests())
            bus.bvalid.drive(responding)
            bus.bresp.drive(self.refuses)
            await bench.edge
            if responding and bus.bready.bits:
                self._answered += 1
                responding = False
            if ready[0] and bus.awvalid.bits:
                self.bursts.append((bench.cycle, bus.awaddr.bits, bus.awlen.bits + 1))
            if ready[1] and bus.wvalid.bits:
                self.beats.append(bench.cycle)
                self._data.append((bus.wdata.value, bus.wstrb.bits, bus.wlast.bits))
            self._write()
