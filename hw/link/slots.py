"""Queue of requests: a ring of slots in one memory, a byte wide."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component
from celosia.hw.memory import race


class Slots(Component):
    """Ring of frames: the receiver fills the newest, the bridge works in the oldest.

    Parameters
    ----------
    slots : int
        Frames that may wait, a power of two.
    slot_bytes : int
        Bytes of one, a power of two, at least 32.

    Members
    -------
    write, place, data, commit, length, full
        As of ``FrameReceiver``, the other way round.
    pending : Out(1)
        There is an oldest frame.
    pending_length : Out(range(slot_bytes + 1))
        Its length.
    read_place, read_data : In(range(slot_bytes)), Out(8)
        A byte of it.
    put, put_place, put_data : In(1), In(range(slot_bytes)), In(8)
        Changes a byte of it.
    put_ready : Out(1)
        The byte is taken; not while the receiver writes.
    release : In(1)
        The oldest frame is done with.

    Timing
    ------
    ``read_data`` follows ``read_place`` by ``LATENCY`` cycles. The next frame is the oldest in the cycle
    after ``release``, and a frame is pending in the cycle after its ``commit``.

    Raises
    ------
    ValueError
        If a size is not as said above.
    """

    LATENCY = 2

    def __init__(self, *, slots: int, slot_bytes: int) -> None:
        if not 1 <= slots <= 64 or slots & (slots - 1):
            raise ValueError(f"slots: wanted a power of two up to 64, got {slots}")
        if not 32 <= slot_bytes <= 1 << 15 or slot_bytes & (slot_bytes - 1):
            raise ValueError(
                f"slot_bytes: wanted a power of two from 32 to 32768, got {slot_bytes}"
            )
        self.slots = slots
        self.slot_bytes = slot_bytes
        place = range(slot_bytes)
        super().__init__(
            {
                "write": In(1),
                "place": In(place),
                "data": In(8),
                "commit": In(1),
                "length": In(range(slot_bytes + 1)),
                "full": Out(1),
                "pending": Out(1),
                "pending_length": Out(range(slot_bytes + 1)),
                "read_place": In(place),
                "read_data": Out(8),
                "put": In(1),
                "put_place": In(place),
                "put_data": In(8),
                "put_ready": Out(1),
                "release": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(
            shape=unsigned(8), depth=self.slots * self.slot_bytes, init=[], attrs=race.UNDEFINED
        )
        write = memory.write_port()
        read = memory.read_port()
        slot_bits = (self.slots - 1).bit_length()
        newest = Signal(slot_bits)
        oldest = Signal(slot_bits)
        count = Signal(range(self.slots + 1))
        lengths = Array(
            Signal(range(self.slot_bytes + 1), name=f"length_{n}") for n in range(self.slots)
        )
        m.d.comb += [
            self.full.eq(count == self.slots),
            self.pending.eq(count != 0),
            self.pending_length.eq(lengths[oldest]),
            self.put_ready.eq(~self.write),
            write.en.eq(self.write | self.put),
            write.addr.eq(Mux(self.write, Cat(self.place, newest), Cat(self.put_place, oldest))),
            write.data.eq(Mux(self.write, self.data, self.put_data)),
            read.addr.eq(Cat(self.read_place, oldest)),
        ]
        # Block RAM gives its data late in the cycle.
        m.d.sync += self.read_data.eq(read.data)
        m.d.sync += count.eq(count + self.commit - self.release)
        with m.If(self.commit):
            m.d.sync += [lengths[newest].eq(self.length), newest.eq(newest + 1)]
        with m.If(self.release):
            m.d.sync += oldest.eq(oldest + 1)
        return m
