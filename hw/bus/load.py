"""The load unit: external memory to unified buffer, weight buffer and parameter memory."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch.registers import Activity
from celosia.hw.bus.decoder import LOAD_TAG, LoadDecoder
from celosia.hw.bus.receiver import Receiver, expected_layout
from celosia.hw.bus.segments import Blocks
from celosia.hw.bus.slice import Slice


class LoadUnit(wiring.Component):
    """Executes LOAD, LOAD_WEIGHTS and LOAD_PARAMS.

    One side cuts instructions into bursts and asks for them, as far ahead as ``outstanding`` lets
    it and across instructions; the other turns beats into writes. Between them, a queue says what
    each burst under way is for. A block out of range passes through that queue too, so that errors
    come in the order of the program.

    Parameters
    ----------
    rows, columns, unified_bytes, weight_tiles, parameter_channels, tables : int
        See ``Config``.
    bus_bytes, burst_beats, outstanding : int
        See ``Config``.
    visible_cycles : int
        Cycles from a write that is taken to the first read or use that sees it, of the slowest of
        the three memories.

    Members
    -------
    instruction, done, fault_valid, fault, abort, idle, activity
        See "Contract of a unit" in ``docs/design/architecture.md``. Activity: BUSY when a burst is
        asked for or a beat arrives, else DRAIN when everything is asked for, else MEMORY.
    request : Out(stream of ``streams.burst``)
        Bursts, to ``ReadMaster``. After an abort or a fault, those that wait are still asked for:
        two at most.
    beats : In(stream of ``read_beat``)
        Their beats.
    write, weights, parameters : Out(stream)
        Writes to the unified buffer (``streams.unified_write``), the weight buffer
        (``weights_payload``) and the parameter memory (``parameters_payload``).

    Timing
    ------
    The first burst is asked for ``LATENCY`` cycles after the instruction was taken. One burst and
    one beat each cycle. ``done`` comes ``visible_cycles`` cycles after the last write was taken.
    """

    LATENCY = LoadDecoder.LATENCY + Blocks.LATENCY + Slice.LATENCY

    instruction: stream.Interface
    done: Signal
    fault_valid: Signal
    fault: data.View
    abort: Signal
    idle: Signal
    activity: Signal
    request: stream.Interface
    beats: stream.Interface
    write: stream.Interface
    weights: stream.Interface
    parameters: stream.Interface

    def __init__(
        self,
        *,
        rows: int,
        columns: int,
        unified_bytes: int,
        weight_tiles: int,
        parameter_channels: int,
        tables: int,
        bus_bytes: int,
        burst_beats: int,
        outstanding: int,
        visible_cycles: int,
    ) -> None:
        if visible_cycles < 1:
            raise ValueError(f"visible_cycles: wanted at least 1, got {visible_cycles}")
        self.outstanding = outstanding
        self.visible_cycles = visible_cycles
        tile_bytes = rows * -(-columns // bus_bytes) * bus_bytes
        sizes = {
            "rows": rows,
            "columns": columns,
            "unified_bytes": unified_bytes,
            "weight_tiles": weight_tiles,
            "parameter_channels": parameter_channels,
            "tables": tables,
            "bus_bytes": bus_bytes,
        }
        write = streams.unified_write(rows=rows, unified_bytes=unified_bytes)
        longest = max(unified_bytes, tile_bytes, parameter_channels * 16, tables * 256)
        extent_bits = (longest - 1).bit_length()
        place_bits = max(write["address"].width, extent_bits, weight_tiles.bit_length())
        self._receiver = Receiver(**sizes, place_bits=place_bits)
        self._blocks = Blocks(
            data_bytes=bus_bytes,
            burst_beats=burst_beats,
            place_bits=place_bits,
            extent_bits=extent_bits,
            limit=unified_bytes,
            tag=LOAD_TAG,
        )
        self._decoder = LoadDecoder(
            weight_tiles=weight_tiles,
            tile_bytes=tile_bytes,
            parameter_channels=parameter_channels,
            tables=tables,
            place_bits=place_bits,
            extent_bits=extent_bits,
        )
        self.expected = expected_layout(data_bytes=bus_bytes, place_bits=place_bits)
        length_bits = self._blocks.segment["beats"].width
        receiver = self._receiver
        super().__init__(
            {
                "instruction": In(stream.Signature(self._decoder.i.payload.shape())),
                "done": Out(1),
                "fault_valid": Out(1),
                "fault": Out(streams.FAULT),
                "abort": In(1),
                "idle": Out(1),
                "activity": Out(Activity),
                "request": Out(stream.Signature(streams.burst(length_bits=length_bits))),
                "beats": In(stream.Signature(receiver.beats.payload.shape())),
                "write": Out(stream.Signature(write)),
                "weights": Out(stream.Signature(receiver.weights.payload.shape())),
                "parameters": Out(stream.Signature(receiver.parameters.payload.shape())),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = self._decoder
        m.submodules.blocks = blocks = self._blocks
        m.submodules.receiver = receiver = self._receiver
        m.submodules.requests = requests = Slice(self.request.payload.shape())
        # A few more than bursts under way: those that wait to be asked for, those that are answered
        # and still in it, and the two for which `room` comes late.
        depth = self.outstanding + 8
        m.submodules.expected = expected = SyncFIFOBuffered(width=self.expected.size, depth=depth)
        wiring.connect(m, wiring.flipped(self.instruction), decoder.i)
        wiring.connect(m, decoder.o, blocks.i)
        wiring.connect(m, wiring.flipped(self.beats), receiver.beats)
        for name in ("write", "weights", "parameters"):
            wiring.connect(m, getattr(receiver, name), wiring.flipped(getattr(self, name)))

        # In a register, since everything waits for it. What blocks still offer is dropped
        # meanwhile, so that they may hear of it yet a cycle later.
        stop = Signal()
        m.d.sync += [stop.eq(stop | self.abort | receiver.fault_valid), blocks.abort.eq(stop)]
        m.d.comb += [
            decoder.abort.eq(stop),
            receiver.drop.eq(stop),
            self.fault_valid.eq(receiver.fault_valid),
            self.fault.eq(receiver.fault),
        ]

        # A burst goes two ways at once: it waits to be asked for, and what it is for is remembered.
        segment = blocks.o.payload
        remembered = Signal(self.expected)
        room = Signal()
        may = Signal()
        wiring.connect(m, requests.o, wiring.flipped(self.request))
        m.d.sync += room.eq(expected.w_level <= depth - 3)
        m.d.comb += [
            *(remembered[name].eq(segment[name]) for name, _ in self.expected),
            may.eq(room & requests.i.ready),
            blocks.o.ready.eq(may),
            requests.i.valid.eq(blocks.o.valid & ~segment.bad & room & ~stop),
            requests.i.payload.address.eq(segment.address),
            requests.i.payload.beats.eq(segment.beats),
            expected.w_en.eq(blocks.o.valid & may & ~stop),
            expected.w_data.eq(remembered),
            receiver.bursts.valid.eq(expected.r_rdy),
            receiver.bursts.payload.eq(expected.r_data),
            expected.r_en.eq(receiver.bursts.ready),
        ]

        visible = Signal(self.visible_cycles)
        m.d.sync += visible.eq(Cat(receiver.finished, visible))
        asked = self.request.valid & self.request.ready
        asking = ~decoder.idle | ~blocks.idle | ~requests.idle
        m.d.comb += [
            self.done.eq(visible[-1]),
            self.idle.eq(~asking & (expected.r_level == 0) & receiver.idle & ~visible.any()),
        ]
        with m.If(self.idle):
            m.d.comb += self.activity.eq(Activity.IDLE)
        with m.Elif(asked | (self.beats.valid & self.beats.ready)):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(asking):
            m.d.comb += self.activity.eq(Activity.MEMORY)
        with m.Else():
            m.d.comb += self.activity.eq(Activity.DRAIN)
        return m
