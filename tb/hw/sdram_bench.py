"""An AXI4 master with a scoreboard, and the controller tied to the judging chip."""

from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from devices.sdram import SdramChip
from devices.sdram_sheet import SHEETS
from pysim import rest, run

from celosia.hw.axi.signature import DECERR, INCR, OKAY, SLVERR
from celosia.hw.sdram.controller import SdramController
from celosia.hw.sdram.timing import PARTS

STARTUP_NS = 2_000
CLOCK_HZ = 120_000_000
#: Pages of the chip that random bursts fall into share banks and rows, at both ends of it.
WINDOW = 1 << 12


def build(part="IS42S16160G-7", *, clock_hz=CLOCK_HZ, sheet=None, **arguments):
    """Return a controller and its chip, both with a short start-up."""
    dut = SdramController(
        part=replace(PARTS[part], startup_ns=STARTUP_NS), clock_hz=clock_hz, **arguments
    )
    chip = SdramChip(sheet or replace(SHEETS[part], t_startup=STARTUP_NS), clock_hz=clock_hz)
    return dut, chip


@dataclass
class Burst:
    """One AXI burst; ``beats`` are (data, strobe) of a write, None for a read."""

    address: int
    length: int
    number: int = 0
    beats: list[tuple[int, int]] | None = None
    kind: int = 1
    size: int | None = None
    answer: Any = None

    def reach(self, data_bytes):
        first = self.address - self.address % data_bytes
        return first, first + self.length * data_bytes


def expected_response(dut, burst):
    if burst.address >> dut.part.address_bits:
        return DECERR
    whole = burst.size in (None, (dut.data_bytes - 1).bit_length())
    return OKAY if whole and burst.kind == INCR else SLVERR


@dataclass
class Master:
    """Issues bursts in order on each side; none overlaps one of the other side that is under way."""

    dut: SdramController
    rng: Any = None
    stall: float = 0.0
    stall_w: float = 0.0
    reference: bytearray | None = None
    under_way: list[Burst] = field(default_factory=list)
    cycle: int = 0
    data_cycles: list[int] = field(default_factory=list)

    async def count(self, ctx):
        async for _ in ctx.tick():
            self.cycle += 1

    def _clashes(self, burst):
        first, end = burst.reach(self.dut.data_bytes)
        for other in self.under_way:
            low, high = other.reach(self.dut.data_bytes)
            if first < high and low < end and (burst.beats is None) != (other.beats is None):
                return True
        return False

    def _compare(self, burst):
        """Judge a read: no write to its bytes was under way together with it."""
        if self.reference is None:
            return
        size = self.dut.data_bytes
        first, end = burst.reach(size)
        got = b"".join(word.to_bytes(size, "little") for word, _ in burst.answer)
        resp = expected_response(self.dut, burst)
        want = bytes(end - first) if resp else bytes(self.reference[first:end])
        assert got == want, f"read of {burst.length} beats at {first:#x}"
        assert {said for _, said in burst.answer} == {resp}

    def _apply(self, burst):
        """Write an answered burst to the reference."""
        if self.reference is None:
            return
        resp = expected_response(self.dut, burst)
        assert burst.answer == resp
        address, _ = burst.reach(self.dut.data_bytes)
        for word, strobe in burst.beats if not resp else ():
            for lane in range(self.dut.data_bytes):
                if strobe >> lane & 1:
                    self.reference[address + lane] = word >> 8 * lane & 0xFF
            address += self.dut.data_bytes

    async def ask(self, ctx, channel, bursts, asked):
        bus = self.dut.bus
        for burst in bursts:
            await rest(ctx, self.rng, self.stall)
            while self._clashes(burst):
                await ctx.tick()
            self.under_way.append(burst)
            size = (self.dut.data_bytes - 1).bit_length() if burst.size is None else burst.size
            for name, value in (
                ("addr", burst.address),
                ("len", burst.length - 1),
                ("id", burst.number),
                ("burst", burst.kind),
                ("size", size),
                ("valid", 1),
            ):
                ctx.set(getattr(bus, channel + name), value)
            asked.append(burst)
            await ctx.tick().until(getattr(bus, channel + "ready"))
            ctx.set(getattr(bus, channel + "valid"), 0)

    async def give(self, ctx, bursts):
        bus = self.dut.bus
        for burst in bursts:
            for number, (word, strobe) in enumerate(burst.beats):
                await rest(ctx, self.rng, self.stall_w)
                ctx.set(bus.wvalid, 1)
                ctx.set(bus.wdata, word)
                ctx.set(bus.wstrb, strobe)
                ctx.set(bus.wlast, number == burst.length - 1)
                await ctx.tick().until(bus.wready)
                ctx.set(bus.wvalid, 0)

    async def take_reads(self, ctx, count, asked):
        bus = self.dut.bus
        words = []
        while count:
            await rest(ctx, self.rng, self.stall)
            ctx.set(bus.rready, 1)
            word, number, resp, last = (
                await ctx.tick().sample(bus.rdata, bus.rid, bus.rresp, bus.rlast).until(bus.rvalid)
            )
            self.data_cycles.append(self.cycle)
            ctx.set(bus.rready, 0)
            words.append((word, resp))
            assert number == asked[0].number
            assert last == (len(words) == asked[0].length)
            if last:
                burst = asked.popleft()
                burst.answer = words
                self._compare(burst)
                self.under_way.remove(burst)
                words = []
                count -= 1

    async def take_answers(self, ctx, count, asked):
        bus = self.dut.bus
        for _ in range(count):
            await rest(ctx, self.rng, self.stall)
            ctx.set(bus.bready, 1)
            number, resp = await ctx.tick().sample(bus.bid, bus.bresp).until(bus.bvalid)
            ctx.set(bus.bready, 0)
            burst = asked.popleft()
            assert number == burst.number
            burst.answer = resp
            self._apply(burst)
            self.under_way.remove(burst)


async def keeps_offers(ctx, bus):
    """Assert that what R and B offer stays until it is taken."""
    names = "rvalid rready rdata rid rresp rlast bvalid bready bid bresp".split()
    offered_r = offered_b = None
    async for _, _, *levels in ctx.tick().sample(*(getattr(bus, name) for name in names)):
        r, b = levels[2:6], levels[8:]
        assert offered_r is None or (levels[0] and r == offered_r), "R changed while it waited"
        assert offered_b is None or (levels[6] and b == offered_b), "B changed while it waited"
        offered_r = r if levels[0] and not levels[1] else None
        offered_b = b if levels[6] and not levels[7] else None


def simulate(dut, chip, reads=(), writes=(), *, master=None, delay=0, limit=40_000):
    """Run all bursts and return the master."""
    master = master or Master(dut)
    to_read, to_write = deque(), deque()
    benches = []
    if reads:
        benches += [
            partial(master.ask, channel="ar", bursts=reads, asked=to_read),
            partial(master.take_reads, count=len(reads), asked=to_read),
        ]
    if writes:
        benches += [
            partial(master.ask, channel="aw", bursts=writes, asked=to_write),
            partial(master.give, bursts=writes),
            partial(master.take_answers, count=len(writes), asked=to_write),
        ]

    async def settle(ctx):
        """Return when all is answered and what was answered early is in the chip."""
        while any(burst.answer is None for burst in (*reads, *writes)):
            await ctx.tick()
        before = -1
        while before != chip.data_cycles:
            before = chip.data_cycles
            await ctx.tick().repeat(50)

    benches.append(settle)
    background = [
        partial(chip.serve, pins=dut.pins, delay=delay),
        partial(keeps_offers, bus=dut.bus),
        master.count,
    ]
    run(dut, *benches, background=background, cycles_limit=limit)
    return master


def random_address(rng, dut):
    pages = (0, 1, 5, 8, (1 << dut.part.address_bits) // WINDOW - 1)
    return int(rng.choice(pages)) * WINDOW + int(rng.integers(WINDOW))


def random_burst(rng, dut, *, write, longest):
    size = dut.data_bytes
    address = random_address(rng, dut)
    room = (WINDOW - address % WINDOW + size - 1) // size
    length = min(int(rng.integers(1, longest + 1)), room)
    burst = Burst(address, length, int(rng.integers(2)))
    if write:
        full = (1 << size) - 1
        strobes = [
            full if rng.random() < 0.5 else int(rng.integers(full + 1)) for _ in range(length)
        ]
        words = [int.from_bytes(rng.bytes(size), "little") for _ in range(length)]
        burst.beats = list(zip(words, strobes, strict=True))
    return burst


def traffic(rng, dut, chip, count, *, longest=20, stall=0.0, stall_w=0.0, spoil=0.0, **arguments):
    """Run random bursts both ways; every byte read and every byte left is judged."""
    for page in range(10):
        chip.content[page * WINDOW : (page + 1) * WINDOW] = rng.bytes(WINDOW)
    reads, writes = (
        [random_burst(rng, dut, write=write, longest=longest) for _ in range(count)]
        for write in (False, True)
    )
    for burst in reads + writes:
        if rng.random() < spoil:
            name, value = (("kind", 0), ("kind", 2), ("size", 1), ("address", 1 << 31))[
                int(rng.integers(4))
            ]
            setattr(burst, name, value)
    master = Master(dut, rng, stall, stall_w, bytearray(chip.content))
    simulate(dut, chip, reads, writes, master=master, **arguments)
    assert chip.content == master.reference
    return reads, writes, master
