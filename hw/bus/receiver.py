"""The receiving side of the load unit: beats become writes."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.bus.decoder import LOAD_TAG, Target
from celosia.hw.bus.reader import read_beat
from celosia.hw.bus.slice import Slice
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
        Takes everything and writes nothing; no faults. To be said from the cycle after a fault on.
    idle : Out(1)
        No write waits.

    Timing
    ------
    A beat is offered to a memory ``LATENCY`` cycle after it was taken, if no other waits; one beat
    each cycle. A fault comes as late, and once everything before it has been written.
    """

    LATENCY = Slice.LATENCY

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
        #: What becomes of a beat, or of a burst out of range: who waits for it, with what.
        self._taken = data.StructLayout(
            {
                "waits": 3,
                "fault": 1,
                "bad": 1,
                "final": 1,
                "index": unsigned(streams.INDEX_BITS),
                "place": unsigned(place_bits),
                "mask": unsigned(bus_bytes),
                "tile": weights["tile"].shape,
                "row": weights["row"].shape,
                "block": weights["block"].shape,
                "kind": parameters["kind"].shape,
                "data": unsigned(8 * bus_bytes),
            }
        )
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

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Two entries, so that no beat waits for what writes wait for in the same cycle.
        m.submodules.taken = taken = Slice(self._taken)
        burst, beat = self.bursts.payload, self.beats.payload
        new, now = taken.i.payload, taken.o.payload
        accept = Signal()
        m.d.comb += [
            self.beats.ready.eq(self.bursts.valid & ~burst.bad & taken.i.ready),
            self.bursts.ready.eq(taken.i.ready & (burst.bad | (self.beats.valid & beat.last))),
            accept.eq(self.beats.valid & self.beats.ready),
            taken.i.valid.eq(self.bursts.valid & (burst.bad | self.beats.valid)),
            new.bad.eq(burst.bad),
            new.fault.eq(burst.bad | beat.error),
            new.index.eq(burst.tag.index),
            new.final.eq(burst.final & beat.last),
            new.kind.eq(burst.tag.target == Target.TABLES),
            new.data.eq(beat.data),
        ]
        # Nobody writes what the bus refused.
        with m.If(~new.fault):
            unified = burst.tag.target == Target.UNIFIED
            weights = burst.tag.target == Target.WEIGHTS
            m.d.comb += new.waits.eq(Cat(unified, weights, ~unified & ~weights))
        self._place(m, accept, new)

        outputs = (self.write, self.weights, self.parameters)
        valid = Signal()
        done = Signal()
        m.d.comb += [
            valid.eq(taken.o.valid & ~self.drop),
            done.eq((now.waits & Cat(output.ready for output in outputs)).any()),
            *(o.valid.eq(valid & waits) for o, waits in zip(outputs, now.waits, strict=True)),
            self.finished.eq(valid & done & now.final),
            self.fault_valid.eq(valid & now.fault),
            self.fault.code.eq(Mux(now.bad, isa.Error.RANGE.value, isa.Error.BUS.value)),
            self.fault.index.eq(now.index),
            taken.o.ready.eq(done | now.fault | self.drop),
            self.idle.eq(taken.idle),
            self.write.payload.address.eq(now.place),
            self.write.payload.mask.eq(now.mask),
            self.write.payload.data.eq(now.data),
            *(
                self.weights.payload[name].eq(now[name])
                for name in ("tile", "row", "block", "data")
            ),
            self.parameters.payload.offset.eq(now.place),
            self.parameters.payload.kind.eq(now.kind),
            self.parameters.payload.data.eq(now.data),
        ]
        return m

    def _place(self, m: Module, accept: Signal, new: data.View) -> None:
        """Say where the beat goes that is offered, and remember it once it is taken."""
        burst = self.bursts.payload
        begins = Signal(init=1)
        following = Signal.like(new.place, reset_less=True)
        first = Mux(begins, burst.first_offset, 0)
        last = Mux(self.beats.payload.last, burst.last_offset, self.bus_bytes - 1)
        m.d.comb += [
            new.place.eq(Mux(begins, burst.place, following)),
            new.mask.eq(lane_mask(first, last, lanes=self.bus_bytes)),
        ]
        tile, row, block = (
            Signal.like(new[name], name=name, reset_less=True) for name in ("tile", "row", "block")
        )
        with m.If(burst.start & begins):
            m.d.comb += [new.tile.eq(burst.place), new.row.eq(0), new.block.eq(0)]
        with m.Elif(block == self.blocks - 1):
            m.d.comb += [new.tile.eq(tile), new.row.eq(row + 1), new.block.eq(0)]
        with m.Else():
            m.d.comb += [new.tile.eq(tile), new.row.eq(row), new.block.eq(block + 1)]
        with m.If(accept):
            m.d.sync += [
                begins.eq(self.beats.payload.last),
                following.eq(new.place + self.bus_bytes),
                *(
                    held.eq(new[name])
                    for name, held in (("tile", tile), ("row", row), ("block", block))
                ),
            ]
