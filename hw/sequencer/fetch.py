"""Fetch of a program from external memory."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream

from celosia.hw import streams
from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import ADDRESS_BITS, PROGRAM_BYTES
from celosia.hw.arch.registers import LENGTH_BITS
from celosia.hw.axi.reader import length_bits, read_beat
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY
from celosia.hw.lib.queue import EagerFIFO

#: Word of a program; ``error`` if the bus refused it.
WORD = data.StructLayout({"bits": unsigned(8 * WORD_BYTES), "error": 1})


class Fetch(Component):
    """Prefetcher of a program's words.

    Parameters
    ----------
    bus_bytes, burst_beats, lut_memories : int, int, bool
        See ``Config``.
    ahead : int
        Most blocks of ``PROGRAM_BYTES`` that are requested and have not left; at least 2.

    Members
    -------
    begin : In(1)
        Starts a program. Only while ``idle``, and after a reset if ``stop`` was set.
    address : In(ADDRESS_BITS)
        Byte address of the program; bits within a block are ignored.
    length : In(LENGTH_BITS)
        Words of the program.
    stop : In(1)
        Level: from the next cycle on, requests nothing new and drops what arrives.
    request, beats : Out(stream of ``streams.burst``), In(stream of ``read_beat``)
        Client of ``ReadMaster``.
    words : Out(stream of WORD)
        The program, word by word.
    exhausted : Out(1)
        All words of the program have left.
    idle : Out(1)
        In the cycle before, every requested beat had arrived, and nothing more was to be requested:
        all of the program was, or ``stop`` had been set for a cycle.

    Timing
    ------
    One word a cycle; the first word of a beat two cycles after the beat. In the latency of one read
    of the bus, ``ahead`` blocks arrive at most.

    Raises
    ------
    ValueError
        If a beat is larger than a block, or ``ahead`` too small.
    """

    def __init__(
        self, *, bus_bytes: int, burst_beats: int, lut_memories: bool = False, ahead: int = 5
    ) -> None:
        if bus_bytes > PROGRAM_BYTES:
            raise ValueError(f"bus_bytes: wanted at most {PROGRAM_BYTES}, got {bus_bytes}")
        if ahead < 2:
            raise ValueError(f"ahead: wanted at least 2, got {ahead}")
        self.bus_bytes = bus_bytes
        self.beats_each = PROGRAM_BYTES // bus_bytes
        self.burst_beats = min(burst_beats, self.beats_each)
        self.ahead = ahead
        self.lut_memories = lut_memories
        burst = streams.burst(length_bits=length_bits(burst_beats))
        self.begin = In(1)
        self.address = In(ADDRESS_BITS)
        self.length = In(LENGTH_BITS)
        self.stop = In(1)
        self.request = Out(stream.Signature(burst))
        self.beats = In(stream.Signature(read_beat(bus_bytes)))
        self.words = Out(stream.Signature(WORD))
        self.exhausted = Out(1)
        self.idle = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = self.ahead * self.beats_each
        # The table of codes takes most of the cycle after this queue.
        m.submodules.store = store = EagerFIFO(
            width=8 * self.bus_bytes + 1, depth=depth, in_luts=self.lut_memories
        )
        requested, arrived, read = Signal(), Signal(), Signal()
        # One copy for what is requested, one for the queue.
        stopped, drops = (Signal(name=n, attrs=COPY) for n in ("stopped", "drops"))
        m.d.sync += [copy.eq(self.stop & ~self.begin) for copy in (stopped, drops)]
        size = self.burst_beats

        # A burst is requested when the queue has space for all its beats. Bursts that are `left` to
        # request, and a register for whether there are any, beats of free `space`, and a register
        # for whether a burst `fits`, bursts whose last beat is `missing`. The request is a
        # register, too, so that one comes every second cycle at most.
        block_words = PROGRAM_BYTES // WORD_BYTES
        bursts = self.beats_each // size
        left = Signal(range(((1 << LENGTH_BITS) // block_words + 1) * bursts))
        any_left = Signal()
        space = Signal(range(depth + 1), init=depth)
        fits = Signal(init=1)
        missing = Signal(range(depth // size + 1))
        address = Signal(ADDRESS_BITS, reset_less=True)
        m.d.comb += [
            self.request.payload.address.eq(address),
            self.request.payload.beats.eq(size - 1),
            requested.eq(self.request.valid & self.request.ready),
            arrived.eq(self.beats.valid & self.beats.payload.last),
        ]

        def reaches(beats: int) -> Value:
            return (space >= beats) | (read & (space == beats - 1))

        m.d.sync += [
            self.request.valid.eq(
                Mux(self.request.valid, ~requested, any_left & fits) & ~self.stop
            ),
            self.idle.eq(
                (missing == 0) & ~self.request.valid & (stopped | ~any_left) & ~self.begin
            ),
            space.eq(space - Mux(requested, size, 0) + read),
            fits.eq(Mux(requested, reaches(2 * size), reaches(size))),
            missing.eq(missing + requested - arrived),
        ]
        with m.If(self.begin):
            blocks = (self.length + block_words - 1) >> (block_words.bit_length() - 1)
            m.d.sync += [
                left.eq(blocks * bursts),
                any_left.eq(self.length != 0),
                address.eq(self.address & -PROGRAM_BYTES),
            ]
        with m.Elif(requested):
            m.d.sync += [
                left.eq(left - 1),
                any_left.eq(left != 1),
                address.eq(address + size * self.bus_bytes),
            ]

        # Words of the beat at the head of the queue.
        count = self.bus_bytes // WORD_BYTES
        index = Signal(range(count))
        words = Signal(LENGTH_BITS)
        more = Signal()
        taken = Signal()
        m.d.comb += [
            self.beats.ready.eq(1),
            store.w_en.eq(self.beats.valid & ~drops),
            store.w_data.eq(Cat(self.beats.payload.data, self.beats.payload.error)),
            self.words.valid.eq(store.r_rdy & more & ~drops),
            self.words.payload.bits.eq(store.r_data[:-1].word_select(index, 8 * WORD_BYTES)),
            self.words.payload.error.eq(store.r_data[-1]),
            taken.eq(self.words.valid & self.words.ready),
            read.eq(taken & (index == count - 1)),
            store.r_en.eq(read),
            self.exhausted.eq(~more),
        ]
        with m.If(self.begin):
            m.d.sync += [words.eq(self.length), more.eq(self.length != 0), index.eq(0)]
        with m.Elif(taken):
            m.d.sync += [words.eq(words - 1), more.eq(words != 1), index.eq(index + 1)]
        return m
