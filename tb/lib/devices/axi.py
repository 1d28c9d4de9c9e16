"""AXI4 memory for Amaranth simulations: checks timing and protocol of the master."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pysim import Draws

_PAYLOADS = {
    "ar": ("arid", "araddr", "arlen", "arsize", "arburst"),
    "aw": ("awid", "awaddr", "awlen", "awsize", "awburst"),
    "w": ("wdata", "wstrb", "wlast"),
}


@dataclass
class _Burst:
    number: int
    address: int
    beats: int
    due: int


class _Watch:
    """Checker of one channel: an offer must not change until it is taken."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.offered: tuple[int, ...] | None = None

    def step(self, valid: int, ready: int, payload: Sequence[int]) -> bool:
        """Check one cycle; return True if a transfer took place in it."""
        if self.offered is not None:
            assert valid, f"{self.channel}valid fell before {self.channel}ready"
            assert tuple(payload) == self.offered, f"{self.channel} changed while it waited"
        self.offered = tuple(payload) if valid and not ready else None
        return bool(valid and ready)


@dataclass
class AxiMemory:
    """Byte memory that responds to bursts after a latency.

    ``content``: the bytes; addresses wrap at its end; ``data_bytes``: bytes of one
    beat; ``burst_beats``: longest burst that is allowed; ``latency``: cycles from a burst's
    address, or its last beat written, to its response, at least 1; ``rng``: random numbers for
    ``stall``, and for the order in which ids are served; ``stall``: probability that a channel
    pauses for a cycle, 0 to below 1; ``refuses``: true for a byte address whose beat
    gets ``refusal``, SLVERR or DECERR.
    ``reads`` (list of (id, address, beats)): bursts so far; ``under_way``, ``most_under_way``
    (dict of int by id): read bursts with a taken address and without a taken last beat; their
    greatest number.
    """

    content: bytearray
    data_bytes: int
    burst_beats: int
    latency: int = 32
    rng: Draws | None = None
    stall: float = 0.0
    refuses: Callable[[int], bool] = lambda address: False
    refusal: int = 2
    reads: list[tuple[int, int, int]] = field(default_factory=list)
    under_way: dict[int, int] = field(default_factory=dict)
    most_under_way: dict[int, int] = field(default_factory=dict)

    def _rests(self) -> bool:
        return self.rng is not None and self.rng.random() < self.stall

    def _burst(self, payload: Sequence[int], cycle: int) -> _Burst:
        number, address, length, width, kind = payload
        beats = length + 1
        assert 1 << width == self.data_bytes and kind == 1, f"burst type {kind}, width {width}"
        assert address % self.data_bytes == 0, f"address {address:#x} is not aligned to a beat"
        assert beats <= self.burst_beats, f"{beats} beats, at most {self.burst_beats} allowed"
        end = address + beats * self.data_bytes - 1
        assert address >> 12 == end >> 12, f"burst at {address:#x} crosses 4 KiB"
        return _Burst(number, address, beats, cycle + self.latency)

    def _next_read(self, queue: list[_Burst], cycle: int) -> _Burst | None:
        """Return the burst to serve: the oldest, or at random the oldest of another id."""
        oldest: dict[int, _Burst] = {}
        for burst in queue:
            oldest.setdefault(burst.number, burst)
        due = [burst for burst in oldest.values() if burst.due <= cycle + 1]
        if not due:
            return None
        return due[int(self.rng.random() * len(due))] if self.rng is not None else due[0]

    async def serve_reads(self, ctx: Any, bus: Any) -> None:
        """Serve the read channels of ``bus``, endlessly: a background bench."""
        watch = _Watch("ar")
        names = ("arvalid", *_PAYLOADS["ar"], "rready")
        queue: list[_Burst] = []
        cycle = ready = valid = 0
        served: _Burst | None = None
        async for _, _, offered, *payload, taken in ctx.tick().sample(
            *(getattr(bus, name) for name in names)
        ):
            cycle += 1
            if watch.step(offered, ready, payload):
                burst = self._burst(payload, cycle)
                queue.append(burst)
                self.reads.append((burst.number, burst.address, burst.beats))
                count = self.under_way[burst.number] = self.under_way.get(burst.number, 0) + 1
                self.most_under_way[burst.number] = max(
                    count, self.most_under_way.get(burst.number, 0)
                )
            if valid and taken and served is not None:
                valid = 0
                served.address += self.data_bytes
                served.beats -= 1
                if not served.beats:
                    queue.remove(served)
                    self.under_way[served.number] -= 1
            if not valid and not self._rests():
                served = self._next_read(queue, cycle)
                if served is not None:
                    valid = 1
                    self._respond(ctx, bus, served)
            ready = int(not self._rests())
            ctx.set(bus.rvalid, valid)
            ctx.set(bus.arready, ready)

    def _respond(self, ctx: Any, bus: Any, burst: _Burst) -> None:
        at = burst.address % len(self.content)
        ctx.set(bus.rid, burst.number)
        ctx.set(bus.rdata, int.from_bytes(self.content[at : at + self.data_bytes], "little"))
        ctx.set(bus.rresp, self.refusal if self.refuses(burst.address) else 0)
        ctx.set(bus.rlast, burst.beats == 1)

    async def serve_writes(self, ctx: Any, bus: Any) -> None:
        """Serve the write channels of ``bus``, endlessly: a background bench."""
        addresses, beats = _Watch("aw"), _Watch("w")
        names = ("awvalid", *_PAYLOADS["aw"], "wvalid", *_PAYLOADS["w"], "bready")
        bursts: deque[_Burst] = deque()
        received: deque[Sequence[int]] = deque()
        responses: deque[tuple[int, int, int]] = deque()
        cycle = address_ready = beat_ready = valid = refused = 0
        async for _, _, *values in ctx.tick().sample(*(getattr(bus, name) for name in names)):
            cycle += 1
            if addresses.step(values[0], address_ready, values[1:6]):
                bursts.append(self._burst(values[1:6], cycle))
            if beats.step(values[6], beat_ready, values[7:10]):
                received.append(values[7:10])
            while bursts and received:
                burst = bursts[0]
                word, strobes, last = received.popleft()
                refused |= self._write(burst.address, word, strobes)
                burst.address += self.data_bytes
                burst.beats -= 1
                assert last == (burst.beats == 0), "wlast is not on the last beat of its burst"
                if last:
                    responses.append((cycle + self.latency, burst.number, refused))
                    bursts.popleft()
                    refused = 0
            if valid and values[-1]:
                responses.popleft()
                valid = 0
            if responses and not valid and responses[0][0] <= cycle + 1 and not self._rests():
                valid = 1
                ctx.set(bus.bid, responses[0][1])
                ctx.set(bus.bresp, self.refusal * responses[0][2])
            address_ready, beat_ready = int(not self._rests()), int(not self._rests())
            ctx.set(bus.bvalid, valid)
            ctx.set(bus.awready, address_ready)
            ctx.set(bus.wready, beat_ready)

    def _write(self, address: int, word: int, strobes: int) -> int:
        """Write one beat unless it is refused; return 1 if it is."""
        if self.refuses(address):
            return 1
        for lane in range(self.data_bytes):
            if strobes >> lane & 1:
                at = (address + lane) % len(self.content)
                self.content[at] = word >> 8 * lane & 0xFF
        return 0
