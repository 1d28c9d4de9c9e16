"""Reads of a task: their addresses, lanes and positions in the windows."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring

from celosia.hw.arch import isa
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.loop_nest import LoopNest
from celosia.hw.lib.skid_buffer import FAR, PipelineRegister, link
from celosia.hw.memory.runs import Runs
from celosia.hw.vector.destination import is_outside
from celosia.hw.vector.task import Launch, VectorSizes, lane_mask


def task_read(sizes: VectorSizes) -> data.StructLayout:
    """Return the layout of one read.

    ``first``, ``last``: of its window. ``groups_last``: groups, less one. ``outside``: the address
    is past the end of the memory. ``address``, ``skip``, ``mask``: as in ``streams.unified_read``;
    the address is a row of the accumulators if the task reads those.
    """
    # What the decision to issue a read depends on comes first.
    return data.StructLayout(
        {
            "first": 1,
            "last": 1,
            "groups_last": range(sizes.column_groups),
            "outside": 1,
            "address": sizes.address_bits,
            "skip": data.ArrayLayout(sizes.row_bits, sizes.lanes),
            "mask": sizes.rows,
        }
    )


class ReadAddresses(Component):
    """Address generator of the reads of a task.

    A read takes a whole row of the accumulators. In the unified buffer it takes
    ``VectorSizes.read_groups`` groups, or one group if ``source_skip`` is not 0.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    prepare, run, skip_rows, prepared, launch
        As for ``Destination``.
    o : Out(stream of ``task_read``)
        Reads, in order.
    running : Out(1)
        The loops have more reads.

    Timing
    ------
    A register separates the loops from ``o``: the first read comes ``LATENCY`` cycles after
    ``launch``, then one each cycle.
    """

    LATENCY = 1 + PipelineRegister.LATENCY

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        self.prepare = In(1)
        self.run = In(isa.COUNT_BITS)
        self.skip_rows = In(sizes.row_bits)
        self.prepared = Out(1)
        self.launch = In(Launch(sizes))
        self.o = Out(stream.Signature(task_read(sizes)))
        self.running = Out(1)
        super().__init__()

    def _loops(self, m: Module, taken: Signal, stepped: Value) -> tuple[LoopNest, Runs]:
        """Return the loop nest, which steps with ``taken``, and the skips with ``stepped``.

        Both are equal; ``stepped`` comes from a register near the skips.
        """
        sizes, task = self.sizes, self.launch.task
        m.submodules.runs = runs = Runs(
            lanes=sizes.lanes, row_bits=sizes.row_bits, count_bits=isa.COUNT_BITS
        )
        m.submodules.loops = loops = LoopNest(
            bits=sizes.address_bits,
            count_bits=(8, 8, sizes.group_bits, *[isa.COUNT_BITS] * 3),
            firsts=(1, 1, 0, 1, 1, 1),
        )
        wide_stride = Mux(task.wide, sizes.lanes * sizes.read_groups, sizes.lanes)
        reads_last = task.group_last[(sizes.read_groups - 1).bit_length() :]
        groups = Mux(task.wide, reads_last, task.group_last)
        of_bytes = task.source == isa.Space.UNIFIED
        # Innermost first: window x and y, reads of a pixel, x, y, z. Reads are numbered from 0 on,
        # because the task has their number less one; the others from 1 on.
        levels = [
            *((task.window_strides[n], task.window_elements[n]) for n in range(2)),
            (wide_stride, Mux(of_bytes, groups, 0)),
            *((task.source_strides[n], task.pixels[n]) for n in range(3)),
        ]
        for n, (stride, count) in enumerate(levels):
            m.d.comb += [loops.strides[n].eq(stride), loops.counts[str(n)].eq(count)]
        m.d.comb += [
            runs.run.eq(self.run),
            runs.skip_rows.eq(self.skip_rows),
            runs.start.eq(self.prepare),
            self.prepared.eq(runs.ready),
            # Without effect if reads are wide: skips are zero then.
            runs.restart.eq(self.launch.valid | (stepped & loops.ends[2])),
            runs.advance.eq(stepped & loops.ends[1]),
            loops.start.eq(self.launch.valid),
            loops.base.eq(task.source_base),
            loops.step.eq(taken),
        ]
        return loops, runs

    def _byte_groups_last(self, m: Module, last_read: Value) -> Value:
        """Return the groups of a read of the unified buffer, less one."""
        most = self.sizes.read_groups - 1
        groups_last = Signal(range(most + 1))
        with m.If(self.launch.task.wide):
            ends = self.launch.task.group_last[: len(groups_last)]
            m.d.comb += groups_last.eq(Mux(last_read, ends, most))
        return groups_last

    def _mask(self, last_read: Value, groups_last: Value) -> Value:
        """Return the lanes of a read of the unified buffer that are channels."""
        lanes = self.sizes.lanes
        ends = lane_mask(self.launch.task, last_read, lanes=lanes)
        return Cat(
            Mux(groups_last == group, ends, (group < groups_last).replicate(lanes))
            for group in range(self.sizes.read_groups)
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        layout = task_read(sizes)
        m.submodules.register = register = link(
            layout, skid=sizes.skid, block=FAR, direct=layout["address"].offset
        )
        taken = Signal()
        wiring.connect(m, register.o, wiring.flipped(self.o))
        loops, runs = self._loops(m, taken, self.running & register.space)
        groups_last = self._byte_groups_last(m, loops.last[2])
        from_rows = self.launch.task.source == isa.Space.ACCUMULATORS
        window_first = Signal(reset_less=True)
        outside = ~self.launch.task.constant & is_outside(
            loops.address, self.launch.task.source, sizes
        )
        read = register.i.payload
        m.d.comb += [
            register.i.valid.eq(self.running),
            taken.eq(self.running & register.i.ready),
            read.address.eq(loops.address),
            *(read.skip[lane].eq(runs.skip[lane]) for lane in range(sizes.lanes)),
            read.mask.eq(Mux(outside, 0, self._mask(loops.last[2], groups_last))),
            read.first.eq(window_first),
            read.last.eq(loops.ends[1]),
            read.groups_last.eq(Mux(from_rows, self.launch.task.group_last, groups_last)),
            read.outside.eq(outside),
        ]
        with m.If(self.launch.valid):
            m.d.sync += [self.running.eq(1), window_first.eq(1)]
        with m.Elif(taken):
            m.d.sync += window_first.eq(read.last)
            with m.If(loops.ends[-1]):
                m.d.sync += self.running.eq(0)
        return m
