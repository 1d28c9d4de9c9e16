"""Destination of a task: one descriptor for each group, ahead of the results, and their queue."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream

from celosia.hw.arch import isa
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.loop_nest import LoopNest
from celosia.hw.memory.runs import Runs
from celosia.hw.vector.task import Launch, VectorSizes, lane_mask


def is_outside(address: Value, space: Value, sizes: VectorSizes) -> Value:
    """Return True if ``address`` is past the last byte, or the last row of the accumulators."""
    past_rows = address[sizes.accumulator_bits :].any()
    past_bytes = address[sizes.unified_address_bits - 1 :].any()
    return Mux(space == isa.Space.ACCUMULATORS, past_rows, past_bytes)


class Destination(Component):
    """Address generator of the destination of a task.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    prepare, run, skip_rows, prepared : In(1), In(COUNT_BITS), In(row_bits), Out(1)
        Prepare the skips of the next task: ``start`` to ``ready`` of ``Runs``.
    launch : In(Launch)
        Start of a task, whose skips are prepared. It is held until the last descriptor is taken.
    stop : In(1)
        Gives no descriptor.
    descriptors : Out(stream of VectorSizes.descriptor)
        One for each group, in order.
    running : Out(1)
        Descriptors are left.

    Timing
    ------
    The first descriptor comes in the cycle after ``launch``, then one each cycle.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        self.prepare = In(1)
        self.run = In(isa.COUNT_BITS)
        self.skip_rows = In(sizes.row_bits)
        self.prepared = Out(1)
        self.launch = In(Launch(sizes))
        self.stop = In(1)
        self.descriptors = Out(stream.Signature(sizes.descriptor))
        self.running = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        task = self.launch.task
        to_rows = task.destination == isa.Space.ACCUMULATORS
        m.submodules.runs = runs = Runs(
            lanes=sizes.lanes, row_bits=sizes.row_bits, count_bits=isa.COUNT_BITS
        )
        m.submodules.loops = loops = LoopNest(
            bits=sizes.address_bits,
            count_bits=(sizes.group_bits, *[isa.COUNT_BITS] * 3),
            firsts=(0, 1, 1, 1),
        )
        taken = self.descriptors.valid & self.descriptors.ready
        group = Signal(sizes.descriptor["group"].width, reset_less=True)
        m.d.comb += [
            runs.start.eq(self.prepare),
            runs.run.eq(self.run),
            runs.skip_rows.eq(self.skip_rows),
            self.prepared.eq(runs.ready),
            runs.restart.eq(self.launch.valid | (taken & loops.last[0])),
            runs.advance.eq(taken),
            loops.start.eq(self.launch.valid),
            loops.base.eq(task.destination_base),
            loops.strides[0].eq(Mux(to_rows, 0, sizes.lanes)),
            loops.counts["0"].eq(task.group_last),
            *(loops.strides[n + 1].eq(task.destination_strides[n]) for n in range(3)),
            *(loops.counts[str(n + 1)].eq(task.pixels[n]) for n in range(3)),
            loops.step.eq(taken),
            self.descriptors.valid.eq(self.running & ~self.stop),
            self.descriptors.payload.address.eq(loops.address),
            self.descriptors.payload.skip.eq(runs.skip),
            self.descriptors.payload.mask.eq(lane_mask(task, loops.last[0], lanes=sizes.lanes)),
            self.descriptors.payload.group.eq(group),
            self.descriptors.payload.last.eq(loops.ends[-1]),
            self.descriptors.payload.outside.eq(is_outside(loops.address, task.destination, sizes)),
        ]
        with m.If(self.launch.valid):
            m.d.sync += [self.running.eq(1), group.eq(0)]
        with m.Elif(taken):
            m.d.sync += group.eq(Mux(loops.last[0], 0, group + 1))
            with m.If(loops.ends[-1]):
                m.d.sync += self.running.eq(0)
        return m
