"""Load unit: copies from external memory to unified, weight and parameter memory."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring

from celosia.hw import streams
from celosia.hw.arch.registers import Activity
from celosia.hw.dma.decoder import LoadDecoder
from celosia.hw.dma.receiver import Receiver
from celosia.hw.dma.sizes import LoadSizes
from celosia.hw.dma.splitter import BurstSplitter
from celosia.hw.lib.component import In, Out
from celosia.hw.lib.queue import EagerFIFO


class LoadUnit(streams.Unit):
    """Executes LOAD, LOAD_WEIGHTS and LOAD_PARAMS.

    The request side (``LoadDecoder``, ``BurstSplitter``) splits instructions into bursts and
    requests them, up to ``outstanding`` bursts ahead and across instructions. The response side
    (``Receiver``) turns beats into writes. A queue between them holds the destination of each burst
    under way. A block out of range passes through that queue too, so that errors come in the order
    of the program.

    Parameters
    ----------
    sizes : LoadSizes
        Sizes of the unit.
    visible_cycles : int
        Cycles from a write that is taken to the first read that sees it, in the slowest of the
        three memories.

    Members
    -------
    instruction, done, fault_valid, fault, abort, idle, activity
        See "Contract of a unit" in ``docs/design/architecture.md``. Activity: BUSY when a burst is
        requested or a beat arrives, else DRAIN when everything is requested, else MEMORY.
    request : Out(stream of ``streams.burst``)
        Bursts, to ``ReadMaster``. An abort or a fault withdraws a request that is not taken yet.
    beats : In(stream of ``read_beat``)
        Their beats.
    write, weights, parameters : Out(stream)
        Writes to the unified buffer (``streams.unified_write``), the weight buffer
        (``weights_payload``) and the parameter memory (``parameters_payload``).

    Timing
    ------
    The first burst is requested ``LATENCY`` cycles after the instruction was taken. One burst and
    one beat each cycle. ``done`` comes ``visible_cycles`` cycles after the last write was taken.
    """

    LATENCY = BurstSplitter.LATENCY

    def __init__(self, *, sizes: LoadSizes, visible_cycles: int) -> None:
        if visible_cycles < 1:
            raise ValueError(f"visible_cycles: wanted at least 1, got {visible_cycles}")
        self.outstanding = sizes.outstanding
        self.visible_cycles = visible_cycles
        self._splitter = BurstSplitter(
            data_bytes=sizes.bus_bytes,
            burst_beats=sizes.burst_beats,
            local_bits=sizes.local_bits,
            extent_bits=sizes.extent_bits,
            # In the order of ``Target``. The local address of a tile is its number: the least sum
            # out of range is that of tile ``weight_tiles`` and the extent of any tile.
            limits=(
                sizes.unified_bytes,
                sizes.weight_tiles + sizes.tile_bytes - 1,
                sizes.channel_bytes,
                sizes.table_bytes,
            ),
            tag=unsigned(0),
        )
        self._decoder = LoadDecoder(tile_bytes=sizes.tile_bytes, block=self._splitter.block)
        self._receiver = Receiver(sizes=sizes)
        length_bits = self._splitter.burst["beats"].width
        receiver = self._receiver
        self.request = Out(stream.Signature(streams.burst(length_bits=length_bits)))
        self.beats = In(stream.Signature(receiver.beats.payload.shape()))
        self.write = Out(stream.Signature(sizes.write))
        self.weights = Out(stream.Signature(receiver.weights.payload.shape()))
        self.parameters = Out(stream.Signature(receiver.parameters.payload.shape()))
        super().__init__(self._decoder.i.payload.shape())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = self._decoder
        m.submodules.splitter = splitter = self._splitter
        m.submodules.receiver = receiver = self._receiver
        # More than ``outstanding``: beats of some bursts have arrived and wait to be written.
        expected = EagerFIFO(width=receiver.expected.size, depth=self.outstanding + 8)
        m.submodules.expected = expected
        # Tag of the oldest instruction that is not done.
        oldest = Signal(streams.TAG_BITS)
        wiring.connect(m, wiring.flipped(self.instruction), decoder.i)
        wiring.connect(m, decoder.o, splitter.i)
        wiring.connect(m, wiring.flipped(self.beats), receiver.beats)
        for name in ("write", "weights", "parameters"):
            wiring.connect(m, getattr(receiver, name), wiring.flipped(getattr(self, name)))

        stop = Signal()
        m.d.sync += [
            stop.eq(stop | self.abort | receiver.fault_valid),
            oldest.eq(oldest + receiver.finished),
        ]
        m.d.comb += [
            splitter.abort.eq(stop),
            receiver.drop.eq(stop),
            self.fault_valid.eq(receiver.fault_valid),
            self.fault.code.eq(receiver.code),
            self.fault.tag.eq(oldest),
        ]

        # The bus and the queue take a burst in the same cycle.
        burst = splitter.o.payload
        remembered = data.View(receiver.expected, expected.w_data)
        m.d.comb += [
            self.request.payload.address.eq(burst.address),
            self.request.payload.beats.eq(burst.beats),
            *(remembered[name].eq(burst[name]) for name, _ in receiver.expected),
            self.request.valid.eq(splitter.o.valid & ~burst.bad & expected.w_rdy & ~stop),
            splitter.o.ready.eq(expected.w_rdy & (self.request.ready | burst.bad)),
            expected.w_en.eq(splitter.o.valid & splitter.o.ready & ~stop),
            receiver.bursts.valid.eq(expected.r_rdy),
            receiver.bursts.payload.eq(expected.r_data),
            expected.r_en.eq(receiver.bursts.ready),
        ]

        visible = Signal(self.visible_cycles)
        m.d.sync += visible.eq(Cat(receiver.finished, visible))
        requested = self.request.valid & self.request.ready
        m.d.comb += [
            self.done.eq(visible[-1]),
            self.idle.eq(splitter.idle & (expected.r_level == 0) & receiver.idle & ~visible.any()),
        ]
        activity = streams.activity_of(
            (self.idle, Activity.IDLE),
            (requested | (self.beats.valid & self.beats.ready), Activity.BUSY),
            (~splitter.idle, Activity.MEMORY),
            otherwise=Activity.DRAIN,
        )
        m.d.comb += self.activity.eq(activity)
        return m
