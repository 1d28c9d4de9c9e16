"""Instruction fetch."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch.config import ADDRESS_BITS, INSTRUCTION_BYTES
from celosia.hw.bus.reader import length_bits, read_beat
from celosia.hw.sequencer.pieces import PIECE_BITS

#: An instruction as read: its place, its bits, and whether the bus refused part of it.
FETCHED = data.StructLayout(
    {"index": unsigned(streams.INDEX_BITS), "word": unsigned(8 * INSTRUCTION_BYTES), "error": 1}
)


class Fetch(wiring.Component):
    """Reads the instructions of a program ahead of their use.

    Parameters
    ----------
    bus_bytes, burst_beats : int
        See ``Config``.
    ahead : int
        Instructions asked for and not handed on, at most; at least 2.

    Members
    -------
    begin : In(1)
        Starts with ``address``, whose bits below an instruction are taken as zero, and ``length``;
        only while idle, and after a reset if it was stopped.
    stop : In(1)
        Level: asks for nothing new and drops what arrives.
    request, beats
        A client's side of ``ReadMaster``.
    fetched : Out(stream of FETCHED)
        Instructions in order.
    shift : In(1)
        The word that is offered moves down by PIECE_BITS: who takes it has seen its lowest piece.
    exhausted : Out(1)
        All instructions of the program were handed on.
    idle : Out(1)
        No beat that was asked for is missing.

    Timing
    ------
    An instruction is gathered in INSTRUCTION_BYTES / bus_bytes cycles, from the one on after that in
    which the one before was taken; ``ahead`` of them per bus latency.
    """

    begin: Signal
    address: Signal
    length: Signal
    stop: Signal
    request: stream.Interface
    beats: stream.Interface
    fetched: stream.Interface
    shift: Signal
    exhausted: Signal
    idle: Signal

    def __init__(self, *, bus_bytes: int, burst_beats: int, ahead: int = 5) -> None:
        self.bus_bytes = bus_bytes
        self.beats_each = max(1, INSTRUCTION_BYTES // bus_bytes)
        self.burst_beats = min(burst_beats, self.beats_each)
        self.ahead = ahead
        if bus_bytes > PIECE_BITS // 8:
            raise ValueError(f"bus_bytes: wanted at most {PIECE_BITS // 8}, got {bus_bytes}")
        if ahead < 2:
            raise ValueError(f"ahead: wanted at least 2, got {ahead}")
        burst = streams.burst(length_bits=length_bits(burst_beats))
        super().__init__(
            {
                "begin": In(1),
                "address": In(ADDRESS_BITS),
                "length": In(streams.INDEX_BITS),
                "stop": In(1),
                "request": Out(stream.Signature(burst)),
                "beats": In(stream.Signature(read_beat(bus_bytes))),
                "fetched": Out(stream.Signature(FETCHED)),
                "shift": In(1),
                "exhausted": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # One instruction is in the register behind it.
        depth = (self.ahead - 1) * self.beats_each
        m.submodules.store = store = SyncFIFOBuffered(width=8 * self.bus_bytes + 1, depth=depth)
        taken = Signal()
        m.d.comb += taken.eq(self.fetched.valid & self.fetched.ready)

        # Bursts, while there is room for the instructions they bring.
        bursts = self.beats_each // self.burst_beats
        bursts_left = Signal(streams.INDEX_BITS + bursts.bit_length())
        room = Signal(range(self.ahead * bursts + 1), init=self.ahead * bursts)
        asked = Signal()
        address = Signal(ADDRESS_BITS, reset_less=True)
        m.d.comb += [
            self.request.valid.eq((bursts_left != 0) & (room != 0) & ~self.stop),
            self.request.payload.address.eq(address),
            self.request.payload.beats.eq(self.burst_beats - 1),
            asked.eq(self.request.valid & self.request.ready),
        ]
        with m.If(asked):
            m.d.sync += [
                bursts_left.eq(bursts_left - 1),
                address.eq(address + self.burst_beats * self.bus_bytes),
            ]
        m.d.sync += room.eq(room - asked + (taken * bursts))
        missing = Signal(range(self.ahead * bursts + 1))
        arrived = self.beats.valid & self.beats.payload.last
        m.d.sync += missing.eq(missing + asked - arrived)
        m.d.comb += self.idle.eq(missing == 0)
        index = Signal(streams.INDEX_BITS, reset_less=True)
        left = Signal(streams.INDEX_BITS)
        with m.If(self.begin):
            m.d.sync += [
                bursts_left.eq(self.length * bursts),
                address.eq(self.address & ~(INSTRUCTION_BYTES - 1)),
                index.eq(0),
                left.eq(self.length),
            ]
        with m.Elif(taken):
            m.d.sync += [index.eq(index + 1), left.eq(left - 1)]
        m.d.comb += self.exhausted.eq(left == 0)

        # Beats into words, from above, and words into pieces, downwards: in one register, since so
        # many wires side by side are what a part has least of.
        beat = 8 * self.bus_bytes
        gathered = Signal(range(self.beats_each + 1))
        word = Signal(8 * INSTRUCTION_BYTES, reset_less=True)
        error = Signal()
        full = Signal()
        m.d.comb += [
            self.beats.ready.eq(1),
            store.w_en.eq(self.beats.valid & ~self.stop),
            store.w_data.eq(Cat(self.beats.payload.data, self.beats.payload.error)),
            full.eq(gathered == self.beats_each),
            store.r_en.eq(~full),
            self.fetched.valid.eq(full & ~self.stop),
            self.fetched.payload.index.eq(index),
            self.fetched.payload.word.eq(word),
            self.fetched.payload.error.eq(error),
        ]
        arriving = store.r_data[:-1]
        with m.If(self.shift):
            # What comes in is of no use. It is what would be gathered: no choice where they agree.
            m.d.sync += word.eq(Cat(word, arriving.replicate(PIECE_BITS // beat))[PIECE_BITS:])
        with m.Elif(~full & store.r_rdy):
            m.d.sync += [
                word.eq(Cat(word, arriving)[beat:]),
                error.eq(error | store.r_data[-1]),
                gathered.eq(gathered + 1),
            ]
        with m.If(taken):
            m.d.sync += [gathered.eq(0), error.eq(0)]
        return m
