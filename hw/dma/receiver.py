"""Response side of the load unit: turns beats into writes."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream

from celosia.hw.arch import isa
from celosia.hw.axi.reader import read_beat
from celosia.hw.dma.decoder import TARGETS, Target
from celosia.hw.dma.sizes import LoadSizes
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.memory.parameter_memory import parameters_payload
from celosia.hw.memory.weight_buffer import weights_payload


def lane_mask(first: Value, last: Value, *, lanes: int) -> Value:
    """Return ``lanes`` bits, set from bit ``first`` to bit ``last``."""
    return Cat(*((first <= lane) & (last >= lane) for lane in range(lanes)))


def expected_layout(*, data_bytes: int, local_bits: int) -> data.StructLayout:
    """Return the payload of the receiver's bursts: members of ``burst_layout`` that it reads."""
    offset_bits = (data_bytes - 1).bit_length()
    return data.StructLayout(
        {
            "local": unsigned(local_bits),
            "first_offset": unsigned(offset_bits),
            "last_offset": unsigned(offset_bits),
            "start": 1,
            "final": 1,
            "bad": 1,
            "target": unsigned((TARGETS - 1).bit_length()),
        }
    )


class Receiver(Component):
    """Writes each beat to the memory that is the target of its burst.

    The register of the write on offer is also the state of the address generator: the address of
    the next beat of a row is that of the last one plus ``bus_bytes``.

    Parameters
    ----------
    sizes : LoadSizes
        Sizes of the load unit.

    Members
    -------
    bursts : In(stream of :func:`expected_layout`)
        Bursts in flight, in order.
    beats : In(stream of ``read_beat``)
        Their beats.
    write, weights, parameters : Out(stream)
        Writes to the unified buffer, the weight buffer and the parameter memory.
    finished : Out(1)
        The last write of an instruction is taken in this cycle.
    fault_valid, code : Out(1), Out(isa.Error)
        RANGE of a burst, or BUS of a beat; one cycle.
    drop : In(1)
        Takes all beats, writes nothing, reports no fault. Set from the cycle after a fault on.
    idle : Out(1)
        No write is on offer.

    Timing
    ------
    A write is on offer ``LATENCY`` cycle after its beat was taken. One beat each cycle while writes
    are taken. A fault has the same latency and comes after all earlier writes.
    """

    LATENCY = 1

    def __init__(self, *, sizes: LoadSizes) -> None:
        self.blocks = sizes.tile_blocks
        self.bus_bytes = bus_bytes = sizes.bus_bytes
        weights = weights_payload(
            rows=sizes.rows,
            columns=sizes.columns,
            weight_tiles=sizes.weight_tiles,
            bus_bytes=bus_bytes,
        )
        parameters = parameters_payload(
            bus_bytes=bus_bytes,
            parameter_channels=sizes.parameter_channels,
            tables=sizes.table_slots,
        )
        self.expected = expected_layout(data_bytes=bus_bytes, local_bits=sizes.local_bits)
        #: Write on offer, or a fault. ``waits``: one bit for each memory that has to take it.
        self._taken = data.StructLayout(
            {
                "waits": 3,
                "fault": 1,
                "bad": 1,
                "final": 1,
                "local": unsigned(sizes.local_bits),
                "mask": unsigned(bus_bytes),
                "row": weights["row"].shape,
                "block": weights["block"].shape,
                "kind": parameters["kind"].shape,
                "data": unsigned(8 * bus_bytes),
            }
        )
        self.bursts = In(stream.Signature(self.expected))
        self.beats = In(stream.Signature(read_beat(bus_bytes)))
        self.write = Out(stream.Signature(sizes.write))
        self.weights = Out(stream.Signature(weights))
        self.parameters = Out(stream.Signature(parameters))
        self.finished = Out(1)
        self.fault_valid = Out(1)
        self.code = Out(isa.Error)
        self.drop = In(1)
        self.idle = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        valid = Signal()
        now = Signal(self._taken, reset_less=True)
        new = Signal(self._taken)
        # The next beat is the first of its burst.
        begins = Signal(init=1)
        burst, beat = self.bursts.payload, self.beats.payload
        outputs = (self.write, self.weights, self.parameters)
        # There is a beat or an error for the register; its write is taken; it can be filled.
        accept = Signal()
        done = Signal()
        free = Signal()
        m.d.comb += [
            done.eq((now.waits & Cat(output.ready for output in outputs)).any()),
            free.eq(~valid | done | now.fault),
            self.beats.ready.eq(self.bursts.valid & ~burst.bad & free),
            self.bursts.ready.eq(free & (burst.bad | (self.beats.valid & beat.last))),
            accept.eq(self.bursts.valid & (burst.bad | self.beats.valid)),
            self._following(now, new, begins),
        ]
        # Without `drop` in `free`, because the read master depends on it.
        m.d.sync += valid.eq(Mux(free, accept, valid) & ~self.drop)
        with m.If(free & accept):
            m.d.sync += [now.eq(new), begins.eq(beat.last)]

        offered = valid & ~self.drop
        m.d.comb += [
            *(o.valid.eq(offered & waits) for o, waits in zip(outputs, now.waits, strict=True)),
            self.finished.eq(offered & done & now.final),
            self.fault_valid.eq(offered & now.fault),
            self.code.eq(Mux(now.bad, isa.Error.RANGE.value, isa.Error.BUS.value)),
            self.idle.eq(~valid),
            self.write.payload.address.eq(now.local),
            self.write.payload.mask.eq(now.mask),
            self.write.payload.data.eq(now.data),
            self.weights.payload.tile.eq(now.local),
            *(self.weights.payload[name].eq(now[name]) for name in ("row", "block", "data")),
            self.parameters.payload.offset.eq(now.local),
            self.parameters.payload.kind.eq(now.kind),
            self.parameters.payload.data.eq(now.data),
        ]
        return m

    def _following(self, now: data.View, new: data.View, begins: Value) -> list[Any]:
        """Return the assignments of the write of the beat that is offered, after ``now``."""
        burst, beat = self.bursts.payload, self.beats.payload
        unified, weights = (burst.target == target for target in (Target.UNIFIED, Target.WEIGHTS))
        starts = begins & burst.start
        first = Mux(begins, burst.first_offset, 0)
        last = Mux(beat.last, burst.last_offset, self.bus_bytes - 1)
        step = Mux(weights, 0, self.bus_bytes)
        full = now.block == self.blocks - 1
        # A beat that the bus refused is not written.
        fault = burst.bad | beat.error
        return [
            new.waits.eq(Mux(fault, 0, Cat(unified, weights, ~unified & ~weights))),
            new.bad.eq(burst.bad),
            new.fault.eq(fault),
            new.final.eq(burst.final & beat.last),
            new.local.eq(Mux(starts, burst.local, now.local + step)),
            new.mask.eq(lane_mask(first, last, lanes=self.bus_bytes)),
            new.row.eq(Mux(starts, 0, now.row + full)),
            new.block.eq(Mux(starts | full, 0, now.block + 1)),
            new.kind.eq(burst.target == Target.TABLES),
            new.data.eq(beat.data),
        ]
