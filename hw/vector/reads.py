"""Reads of a task: their addresses, lanes and places in the windows."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch import isa
from celosia.hw.lib.component import Component
from celosia.hw.lib.nest import Nest
from celosia.hw.lib.slice import FAR, link
from celosia.hw.memory.runs import Runs
from celosia.hw.vector.destination import is_outside
from celosia.hw.vector.task import VectorSizes, lane_mask


def task_read(sizes: VectorSizes) -> data.StructLayout:
    """Return the layout of one read.

    ``address``, ``skip``, ``mask``: as of ``streams.unified_read``; the address is a row of the
    accumulators if the task reads those. ``first``, ``last``: of its window. ``groups_last``:
    groups, less one. ``outside``: the address is past the end of the memory.
    """
    return data.StructLayout(
        {
            "address": sizes.address_bits,
            "skip": data.ArrayLayout(sizes.row_bits, sizes.lanes),
            "mask": sizes.rows,
            "first": 1,
            "last": 1,
            "groups_last": range(sizes.column_groups),
            "outside": 1,
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
    prepare, run, skip_rows, prepared, launch, task
        As for ``Destination``.
    o : Out(stream of ``task_read``)
        Reads, in order.
    running : Out(1)
        The loops have more reads.

    Timing
    ------
    A register separates the loops from ``o``: the first read comes two cycles after ``launch``,
    then one each cycle.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        super().__init__(
            {
                "prepare": In(1),
                "run": In(isa.COUNT_BITS),
                "skip_rows": In(sizes.row_bits),
                "prepared": Out(1),
                "launch": In(1),
                "task": In(sizes.task),
                "o": Out(stream.Signature(task_read(sizes))),
                "running": Out(1),
            }
        )

    def _loops(self, m: Module, taken: Signal) -> tuple[Nest, Runs]:
        """Return the loop nest and the skips, which step with ``taken``."""
        sizes = self.sizes
        task = self.task
        m.submodules.runs = runs = Runs(
            lanes=sizes.lanes, row_bits=sizes.row_bits, count_bits=isa.COUNT_BITS
        )
        reads_last = task.group_last[(sizes.read_groups - 1).bit_length() :]
        m.submodules.nest = nest = Nest(
            bits=sizes.address_bits,
            count_bits=(8, 8, sizes.group_bits, *[isa.COUNT_BITS] * 3),
            firsts=(1, 1, 0, 1, 1, 1),
        )
        by_read = task.source == isa.Space.UNIFIED
        wide = task.wide
        read_ends = nest.last[:2].all()
        m.d.comb += [
            runs.start.eq(self.prepare),
            runs.run.eq(self.run),
            runs.skip_rows.eq(self.skip_rows),
            self.prepared.eq(runs.ready),
            # Without effect if reads are wide: skips are zero then.
            runs.restart.eq(self.launch | (taken & read_ends & nest.last[2])),
            runs.advance.eq(taken & read_ends),
            nest.start.eq(self.launch),
            nest.base.eq(task.source_base),
            nest.strides[2].eq(Mux(wide, sizes.lanes * sizes.read_groups, sizes.lanes)),
            nest.counts["2"].eq(Mux(by_read, Mux(wide, reads_last, task.group_last), 0)),
            nest.step.eq(taken),
        ]
        for n in range(2):
            m.d.comb += nest.strides[n].eq(task.window_strides[n])
            m.d.comb += nest.counts[str(n)].eq(task.window_elements[n])
        for n in range(3):
            m.d.comb += nest.strides[n + 3].eq(task.source_strides[n])
            m.d.comb += nest.counts[str(n + 3)].eq(task.pixels[n])
        return nest, runs

    def _groups_last(self, m: Module, last_read: Value) -> tuple[Value, Value]:
        """Return the groups of a read, less one: of either memory, and of the unified buffer."""
        task = self.task
        read_groups = self.sizes.read_groups
        of_bytes = Signal(range(read_groups))
        of_any = Signal(range(self.sizes.column_groups))
        with m.If(task.wide):
            m.d.comb += of_bytes.eq(
                Mux(last_read, task.group_last[: len(of_bytes)], read_groups - 1)
            )
        from_rows = task.source == isa.Space.ACCUMULATORS
        m.d.comb += of_any.eq(Mux(from_rows, task.group_last, of_bytes))
        return of_any, of_bytes

    def _mask(self, last_read: Value, groups_last: Value) -> Value:
        """Return the lanes of a read of the unified buffer that are channels."""
        lanes = self.sizes.lanes
        ends = lane_mask(self.task, last_read, lanes=lanes)
        return Cat(
            Mux(groups_last == group, ends, (group < groups_last).replicate(lanes))
            for group in range(self.sizes.read_groups)
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        m.submodules.register = register = link(self.o.payload.shape(), skid=sizes.skid, block=FAR)
        taken = Signal()
        wiring.connect(m, register.o, wiring.flipped(self.o))
        nest, runs = self._loops(m, taken)
        groups_last, byte_groups_last = self._groups_last(m, nest.last[2])
        window_first = Signal(reset_less=True)
        window_last = nest.last[:2].all()
        outside = ~self.task.constant & is_outside(nest.address, self.task.source, sizes)
        found = register.i.payload
        m.d.comb += [
            register.i.valid.eq(self.running),
            taken.eq(self.running & register.i.ready),
            found.address.eq(nest.address),
            *(found.skip[lane].eq(runs.skip[lane]) for lane in range(sizes.lanes)),
            found.mask.eq(Mux(outside, 0, self._mask(nest.last[2], byte_groups_last))),
            found.first.eq(window_first),
            found.last.eq(window_last),
            found.groups_last.eq(groups_last),
            found.outside.eq(outside),
        ]
        with m.If(self.launch):
            m.d.sync += [self.running.eq(1), window_first.eq(1)]
        with m.Elif(taken):
            m.d.sync += window_first.eq(window_last)
            with m.If(nest.last.all()):
                m.d.sync += self.running.eq(0)
        return m
