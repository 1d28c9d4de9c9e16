"""The store unit: unified buffer to external memory."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.registers import Activity
from celosia.hw.bus.decoder import STORE_TAG, StoreDecoder
from celosia.hw.bus.gather import Gatherer
from celosia.hw.bus.queue import EagerFIFO
from celosia.hw.bus.segments import Blocks
from celosia.hw.bus.signature import axi4_write
from celosia.hw.bus.slice import Slice
from celosia.hw.bus.writer import WriteMaster
from celosia.hw.fanout import reset_less

_PENDING = data.StructLayout({"final": 1, "bad": 1, "tag": STORE_TAG})


class StoreUnit(wiring.Component):
    """Executes STORE.

    Bursts go three ways at once: to the address channel, to the gatherer that reads their bytes,
    and into a queue of those that wait for an answer. The next instruction reads while the
    answers of the one before are awaited. A block out of range passes through the queue too, so
    that errors come in the order of the program.

    Parameters
    ----------
    rows, unified_bytes, bus_bytes, burst_beats : int
        See ``Config``.
    outstanding : int
        Bursts that may wait for an answer.
    parity : bool
        Whether the unified buffer tells of bytes of wrong parity.

    Members
    -------
    instruction, done, fault_valid, fault, abort, idle, activity
        See "Contract of a unit" in ``docs/design/architecture.md``. Activity: BUSY when a beat is
        asked for or sent, else DRAIN when everything has been asked for, else MEMORY.
    request, read_valid, read_data, read_fault
        Read port of the unified buffer. Addresses are checked before, so that ``read_fault`` is
        never seen; it would be RANGE of the oldest instruction.
    read_wrong : In(1)
        With ``parity``, one cycle behind an answer: a byte had wrong parity.
    bus : Out(axi4_write)
        Write half of the bus.

    Timing
    ------
    The first burst is on the address channel ``LATENCY`` cycles after the instruction was taken.
    One beat each cycle. ``done`` comes two cycles after the answer to the last burst.
    """

    LATENCY = StoreDecoder.LATENCY + Blocks.LATENCY + Slice.LATENCY + 1

    instruction: stream.Interface
    done: Signal
    fault_valid: Signal
    fault: data.View
    abort: Signal
    idle: Signal
    activity: Signal
    request: stream.Interface
    read_valid: Signal
    read_data: data.View
    read_fault: Signal
    read_wrong: Signal
    bus: Any

    def __init__(
        self,
        *,
        rows: int,
        unified_bytes: int,
        bus_bytes: int,
        burst_beats: int,
        outstanding: int = 64,
        parity: bool = False,
    ) -> None:
        self.parity = parity
        self.outstanding = outstanding
        request = streams.unified_read(rows=rows, unified_bytes=unified_bytes)
        place_bits = request["address"].width
        extent_bits = (unified_bytes - 1).bit_length()
        self._decoder = StoreDecoder(place_bits=place_bits, extent_bits=extent_bits)
        self._blocks = Blocks(
            data_bytes=bus_bytes,
            burst_beats=burst_beats,
            place_bits=place_bits,
            extent_bits=extent_bits,
            limit=unified_bytes,
            tag=STORE_TAG,
        )
        self._gatherer = Gatherer(
            rows=rows,
            unified_bytes=unified_bytes,
            bus_bytes=bus_bytes,
            length_bits=self._blocks.segment["beats"].width,
            place_bits=place_bits,
            tag=STORE_TAG if parity else None,
        )
        self._writer = WriteMaster(
            data_bytes=bus_bytes, burst_beats=burst_beats, outstanding=outstanding
        )
        super().__init__(
            {
                "instruction": In(stream.Signature(self._decoder.i.payload.shape())),
                "done": Out(1),
                "fault_valid": Out(1),
                "fault": Out(streams.FAULT),
                "abort": In(1),
                "idle": Out(1),
                "activity": Out(Activity),
                "request": Out(stream.Signature(request)),
                "read_valid": In(1),
                "read_data": In(data.ArrayLayout(unsigned(8), rows)),
                "read_fault": In(1),
                "bus": Out(axi4_write(bus_bytes)),
                **({"read_wrong": In(1)} if parity else {}),
            }
        )
        reset_less(self, "fault")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = self._decoder
        m.submodules.blocks = blocks = self._blocks
        m.submodules.gatherer = gatherer = self._gatherer
        m.submodules.writer = writer = self._writer
        m.submodules.pending = pending = EagerFIFO(width=_PENDING.size, depth=self.outstanding + 2)
        wiring.connect(m, wiring.flipped(self.instruction), decoder.i)
        wiring.connect(m, decoder.o, blocks.i)
        wiring.connect(m, gatherer.beats, writer.beats)
        wiring.connect(m, gatherer.request, wiring.flipped(self.request))
        wiring.connect(m, writer.bus, wiring.flipped(self.bus))

        # In a register, since everything waits for it; set by what is answered, too.
        stop = Signal()
        m.d.comb += [
            *(part.abort.eq(stop) for part in (decoder, gatherer, writer)),
            gatherer.valid.eq(self.read_valid),
            gatherer.data.eq(self.read_data),
        ]

        # What blocks still offer is dropped meanwhile, so that they may hear of it a cycle later.
        m.d.sync += blocks.abort.eq(stop)
        m.submodules.offered = offered = Slice(self._blocks.segment)
        m.d.comb += [
            offered.i.valid.eq(blocks.o.valid & ~stop),
            offered.i.payload.eq(blocks.o.payload),
            blocks.o.ready.eq(offered.i.ready),
        ]

        # All three take a burst in the same cycle. After an abort nobody does: it is dropped.
        segment = offered.o.payload
        remembered = Signal(_PENDING)
        fork = Signal()
        may = writer.request.ready & gatherer.bursts.ready & pending.w_rdy
        m.d.comb += [
            fork.eq(offered.o.valid & ~segment.bad & may),
            offered.o.ready.eq(stop | Mux(segment.bad, pending.w_rdy, may)),
            writer.request.valid.eq(fork),
            writer.request.payload.address.eq(segment.address),
            writer.request.payload.beats.eq(segment.beats),
            gatherer.bursts.valid.eq(fork),
            *(
                gatherer.bursts.payload[name].eq(segment[name])
                for name, _ in gatherer.bursts.payload.shape()
            ),
            *(remembered[name].eq(segment[name]) for name, _ in _PENDING),
            pending.w_data.eq(remembered),
            pending.w_en.eq(offered.o.valid & offered.o.ready & ~stop),
        ]
        self._answer(m, pending, stop)

        asking = ~decoder.idle | ~blocks.idle | ~offered.idle | ~gatherer.idle
        m.d.comb += self.idle.eq(~asking & writer.idle & (pending.r_level == 0) & ~self.done)
        with m.If(self.idle):
            m.d.comb += self.activity.eq(Activity.IDLE)
        with m.Elif(
            (self.request.valid & self.request.ready) | (self.bus.wvalid & self.bus.wready)
        ):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(asking):
            m.d.comb += self.activity.eq(Activity.MEMORY)
        with m.Else():
            m.d.comb += self.activity.eq(Activity.DRAIN)
        return m

    def _answer(self, m: Module, pending: EagerFIFO, stop: Signal) -> None:
        """Take bursts from ``pending`` as they are answered, and report."""
        writer = self._writer
        oldest = Signal(_PENDING)
        bad = Signal()
        fails = Signal()
        causes: Value = bad | self.read_fault | writer.refused
        if self.parity:
            causes |= self.read_wrong
        m.d.comb += [
            oldest.eq(pending.r_data),
            bad.eq(pending.r_rdy & oldest.bad),
            pending.r_en.eq(bad | writer.answered),
            fails.eq(causes & ~stop),
        ]
        m.d.sync += [
            self.done.eq(writer.answered & oldest.final & ~fails & ~stop),
            self.fault_valid.eq(fails),
            self.fault.code.eq(Mux(writer.refused, isa.Error.BUS.value, isa.Error.RANGE.value)),
            self.fault.index.eq(oldest.tag.index),
            stop.eq(stop | self.abort | fails),
        ]
        if self.parity:
            with m.If(self.read_wrong):
                m.d.sync += [
                    self.fault.code.eq(isa.Error.MEMORY),
                    self.fault.index.eq(self._gatherer.tag.index),
                ]
