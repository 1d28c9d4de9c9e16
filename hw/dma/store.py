"""Store unit: copies from the unified buffer to external memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.registers import Activity
from celosia.hw.axi.signature import axi4_write
from celosia.hw.axi.writer import WriteMaster
from celosia.hw.dma.decoder import StoreDecoder
from celosia.hw.dma.gather import Gatherer
from celosia.hw.dma.sizes import StoreSizes
from celosia.hw.dma.splitter import BurstSplitter
from celosia.hw.lib.component import Out
from celosia.hw.lib.fanout import COPY, data_registers
from celosia.hw.lib.queue import EagerFIFO

#: Burst that waits for its response; ``bad`` has none: it was ``outside`` the bounds, or the row is
#: out of range.
_PENDING = data.StructLayout({"final": 1, "bad": 1, "outside": 1})


class StoreUnit(streams.Unit):
    """Executes STORE.

    ``BurstSplitter`` splits instructions into bursts. Each burst goes to the address channel, to
    the ``Gatherer``, which reads its bytes, and into a queue of bursts that wait for a response.
    The next instruction starts while responses of the last one are missing. A block out of range
    passes through the queue too, so that errors come in the order of the program.

    Parameters
    ----------
    sizes : StoreSizes
        Sizes of the unit.
    outstanding : int
        Most bursts that wait for a response.

    Members
    -------
    instruction, done, fault_valid, fault, abort, idle, activity
        See "Contract of a unit" in ``docs/design/architecture.md``. Activity: BUSY when a beat is
        requested or sent, else DRAIN when everything has been requested, else MEMORY.
    reads : Out(``streams.UnifiedReads``)
        Reads of the unified buffer; responses come in order, after any number of cycles. Addresses
        are checked before, so ``fault`` never comes; if it did, it would be RANGE of the oldest
        instruction.
    bounds : In(``streams.BOUNDS``)
        External memory that may be written; a burst outside is the error BUS, and not sent.
    bus : Out(axi4_write)
        Write half of the bus.

    Timing
    ------
    The first burst is on the address channel ``LATENCY`` cycles after the instruction was taken.
    One beat each cycle. ``done`` comes two cycles after the response to the last burst.
    """

    LATENCY = BurstSplitter.LATENCY + 1

    def __init__(self, *, sizes: StoreSizes, outstanding: int = 64) -> None:
        self.outstanding = outstanding
        unified = {"rows": sizes.rows, "unified_bytes": sizes.unified_bytes}
        bus = {"data_bytes": sizes.bus_bytes, "burst_beats": sizes.burst_beats}
        local_bits = streams.unified_read(**unified)["address"].width
        self._splitter = BurstSplitter(
            **bus,
            local_bits=local_bits,
            extent_bits=(sizes.unified_bytes - 1).bit_length(),
            limits=[sizes.unified_bytes],
            tag=sizes.tag,
        )
        self._decoder = StoreDecoder(block=self._splitter.block)
        self._gatherer = Gatherer(
            **unified,
            bus_bytes=sizes.bus_bytes,
            length_bits=self._splitter.burst["beats"].width,
            local_bits=local_bits,
            tag=sizes.tag,
            skid=sizes.skid,
        )
        self._writer = WriteMaster(**bus, outstanding=outstanding)
        self.reads = Out(streams.UnifiedReads(**unified))
        self.bounds = streams.bounds()
        self.bus = Out(axi4_write(sizes.bus_bytes))
        super().__init__(self._decoder.i.payload.shape())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = self._decoder
        m.submodules.splitter = splitter = self._splitter
        m.submodules.gatherer = gatherer = self._gatherer
        m.submodules.writer = writer = self._writer
        m.submodules.pending = pending = EagerFIFO(width=_PENDING.size, depth=self.outstanding + 2)
        # Tag of the oldest instruction that is not done.
        tag = Signal(streams.TAG_BITS)
        m.d.sync += tag.eq(tag + (writer.responded & pending.r_data[0]))
        wiring.connect(m, wiring.flipped(self.instruction), decoder.i)
        wiring.connect(m, decoder.o, splitter.i)
        wiring.connect(m, gatherer.beats, writer.beats)
        wiring.connect(m, gatherer.request, wiring.flipped(self.reads.request))
        wiring.connect(m, writer.bus, wiring.flipped(self.bus))
        # One copy for the splitter and the queue, one for the wide blocks.
        stop, halts = (Signal(name=name, attrs=COPY) for name in ("stop", "halts"))
        m.d.comb += [
            *(block.abort.eq(halts) for block in (gatherer, writer)),
            gatherer.valid.eq(self.reads.valid),
            gatherer.data.eq(self.reads.data),
        ]

        # All three take a burst in the same cycle. After an abort it is dropped; so is what follows
        # an error.
        burst = splitter.o.payload
        fork, closed, outside, bad = Signal(), Signal(), Signal(), Signal()
        valid = splitter.o.valid & ~closed
        entry = data.View(_PENDING, pending.w_data)
        may = writer.request.ready & gatherer.bursts.ready & pending.w_rdy
        m.d.comb += [
            outside.eq(streams.outside(self.bounds, burst.address)),
            bad.eq(burst.bad | outside),
            splitter.abort.eq(stop | closed),
            fork.eq(valid & ~bad & may),
            # The comparison of addresses comes late: it reaches no `ready`.
            splitter.o.ready.eq(may),
            writer.request.valid.eq(fork),
            writer.request.payload.address.eq(burst.address),
            writer.request.payload.beats.eq(burst.beats),
            gatherer.bursts.valid.eq(fork),
            *(gatherer.bursts.payload[name].eq(burst[name]) for name, _ in gatherer.burst),
            entry.final.eq(burst.final),
            entry.bad.eq(bad),
            entry.outside.eq(~burst.bad),
            pending.w_en.eq(valid & splitter.o.ready & ~stop),
        ]
        with m.If(valid & splitter.o.ready & bad):
            m.d.sync += closed.eq(1)
        self._respond(m, pending, tag, [stop, halts])

        requesting = ~splitter.idle | ~gatherer.idle
        m.d.comb += self.idle.eq(~requesting & writer.idle & (pending.r_level == 0) & ~self.done)
        issued = self.reads.request.valid & self.reads.request.ready
        activity = streams.activity_of(
            (self.idle, Activity.IDLE),
            (issued | (self.bus.wvalid & self.bus.wready), Activity.BUSY),
            (requesting, Activity.MEMORY),
            otherwise=Activity.DRAIN,
        )
        m.d.comb += self.activity.eq(activity)
        return m

    def _respond(self, m: Module, pending: EagerFIFO, tag: Signal, stops: list[Signal]) -> None:
        """Take bursts from ``pending`` with their responses, and report."""
        writer, stop = self._writer, stops[0]
        oldest = data.View(_PENDING, pending.r_data)
        bad = pending.r_rdy & oldest.bad
        causes = bad | self.reads.fault | writer.refused | self.reads.wrong
        fails = causes & ~stop
        [fault] = data_registers(m, self.fault)
        on_bus = writer.refused | (bad & oldest.outside)
        m.d.comb += pending.r_en.eq(bad | writer.responded)
        m.d.sync += [
            self.done.eq(writer.responded & oldest.final & ~fails & ~stop),
            self.fault_valid.eq(fails),
            fault.code.eq(Mux(on_bus, isa.Error.BUS.value, isa.Error.RANGE.value)),
            fault.tag.eq(tag),
            *(copy.eq(stop | self.abort | fails) for copy in stops),
        ]
        with m.If(self.reads.wrong):
            m.d.sync += [fault.code.eq(isa.Error.MEMORY), fault.tag.eq(self._gatherer.tag)]
