"""The receiving side of the load unit: beats become writes."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.bus.decoder import LOAD_TAG, Target
from celosia.hw.bus.reader import read_beat
from celosia.hw.fanout import reset_less
from celosia.hw.memory.parameter_memory import parameters_payload
from celosia.hw.memory.weight_buffer import weights_payload


def lane_mask(first: Value, last: Value, *, lanes: int) -> Value:
    """Return ``lanes`` bits, set from bit ``first`` to bit ``last``."""
    return Cat(*((first <= lane) & (last >= lane) for lane in range(lanes)))


def expected_layout(*, data_bytes: int, place_bits: int) -> data.StructLayout:
    """Return what the receiver must know of a burst: part of ``segment_layout``."""
    offset_bits = (data_bytes - 1).bit_length()
    return data.StructLayout(
        {
            "place": unsigned(place_bits),
            "first_offset": unsigned(offset_bits),
            "last_offset": unsigned(offset_bits),
            "start": 1,
            "final": 1,
            "bad": 1,
            "tag": LOAD_TAG,
        }
    )


class Receiver(wiring.Component):
    """Writes beats to the memory that their burst is meant for.

    Parameters
    ----------
    rows, columns, unified_bytes, weight_tiles, parameter_channels, tables, bus_bytes : int
        See ``Config``.
    place_bits : int
        As for ``segment_layout``.

    Members
    -------
    bursts : In(stream of :func:`expected_layout`)
        Bursts under way, in order.
    beats : In(stream of ``read_beat``)
        Their beats.
    write, weights, parameters : Out(stream)
        Writes to the unified buffer, the weight buffer and the parameter memory.
    finished : Out(1)
        The last write of an instruction is taken in this cycle.
    fault_valid, fault : Out
        A burst that is out of range, or a beat that was refused. One cycle.
    drop : In(1)
        Takes everything and writes nothing; no faults.
    idle : Out(1)
        No write waits.

    Timing
    ------
    A beat is offered to a memory ``LATENCY`` cycle after it was taken; one beat each cycle.
    """

    LATENCY = 1

    bursts: stream.Interface
    beats: stream.Interface
    write: stream.Interface
    weights: stream.Interface
    parameters: stream.Interface
    finished: Signal
    fault_valid: Signal
    fault: data.View
    drop: Signal
    idle: Signal

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
        place_bits: int,
    ) -> None:
        self.rows = rows
        self.blocks = -(-columns // bus_bytes)
        self.bus_bytes = bus_bytes
        write = streams.unified_write(rows=rows, unified_bytes=unified_bytes)
        weights = weights_payload(
            rows=rows, columns=columns, weight_tiles=weight_tiles, bus_bytes=bus_bytes
        )
        parameters = parameters_payload(
            bus_bytes=bus_bytes, parameter_channels=parameter_channels, tables=tables
        )
        expected = expected_layout(data_bytes=bus_bytes, place_bits=place_bits)
        super().__init__(
            {
                "bursts": In(stream.Signature(expected)),
                "beats": In(stream.Signature(read_beat(bus_bytes))),
                "write": Out(stream.Signature(write)),
                "weights": Out(stream.Signature(weights)),
                "parameters": Out(stream.Signature(parameters)),
                "finished": Out(1),
                "fault_valid": Out(1),
                "fault": Out(streams.FAULT),
                "drop": In(1),
                "idle": Out(1),
            }
        )
        reset_less(self, "fault")
        reset_less(self.write, "payload")
        reset_less(self.weights, "payload")
        reset_less(self.parameters, "payload")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        burst = self.bursts.payload
        beat = self.beats.payload
        outputs = (self.write, self.weights, self.parameters)
        waiting = Signal(len(outputs))
        final = Signal(reset_less=True)
        begins = Signal(init=1)

        free = Signal()
        accept = Signal()
        taken = Cat(*(output.valid & output.ready for output in outputs))
        m.d.comb += [
            *(o.valid.eq(waits & ~self.drop) for o, waits in zip(outputs, waiting, strict=True)),
            self.finished.eq(taken.any() & final),
            self.idle.eq(~waiting.any()),
            free.eq(~waiting.any() | taken.any() | self.drop),
            self.beats.ready.eq(self.bursts.valid & ~burst.bad & free),
            accept.eq(self.beats.valid & self.beats.ready),
            self.bursts.ready.eq(Mux(burst.bad, free, accept & beat.last)),
        ]

        refused = Mux(burst.bad, self.bursts.valid & free, accept & beat.error)
        m.d.sync += [
            # Once: what is to be dropped is known a cycle after it was said.
            self.fault_valid.eq(refused & ~self.drop & ~self.fault_valid),
            self.fault.code.eq(Mux(burst.bad, isa.Error.RANGE.value, isa.Error.BUS.value)),
            self.fault.index.eq(burst.tag.index),
        ]
        with m.If(free):
            m.d.sync += waiting.eq(0)
        with m.If(accept):
            target = burst.tag.target
            unified = target == Target.UNIFIED
            weights = target == Target.WEIGHTS
            m.d.sync += [
                begins.eq(beat.last),
                final.eq(burst.final & beat.last),
                # Nobody writes what the bus refused.
                waiting.eq(Mux(beat.error, 0, Cat(unified, weights, ~unified & ~weights))),
            ]
            self._place(m, begins, weights)
        return m

    def _place(self, m: Module, begins: Signal, weights: Value) -> None:
        """Move the places of all outputs on to the beat that is taken."""
        burst = self.bursts.payload
        beat = self.beats.payload
        write = self.write.payload
        first = Mux(begins, burst.first_offset, 0)
        last = Mux(beat.last, burst.last_offset, self.bus_bytes - 1)
        place = Mux(begins, burst.place, write.address + self.bus_bytes)
        offset = Mux(begins, burst.place, self.parameters.payload.offset + self.bus_bytes)
        m.d.sync += [
            write.address.eq(place),
            write.mask.eq(lane_mask(first, last, lanes=self.bus_bytes)),
            self.parameters.payload.offset.eq(offset),
            self.parameters.payload.kind.eq(burst.tag.target == Target.TABLES),
            *(out.payload.data.eq(beat.data) for out in (self.weights, self.parameters)),
            write.data.eq(beat.data),
        ]
        tile = self.weights.payload
        with m.If(burst.start & begins):
            m.d.sync += [tile.tile.eq(burst.place), tile.row.eq(0), tile.block.eq(0)]
        with m.Elif(tile.block == self.blocks - 1):
            m.d.sync += [tile.row.eq(tile.row + 1), tile.block.eq(0)]
        with m.Else():
            m.d.sync += tile.block.eq(tile.block + 1)
