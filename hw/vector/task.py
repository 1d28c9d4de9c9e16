"""Sizes and records that the blocks of the vector unit share.

- A *task* is a VECTOR, a FILL or one of the three steps of a SOFTMAX, in the form that the blocks
  use.
- A *slot* is the number of a task modulo 2: two tasks are in flight at most.
- An *element* is one position of a window: up to C channels, which are read in one cycle.
- A *group* is V neighbouring channels of a pixel; V is the number of lanes.
- A *descriptor* is the destination of one group.
- An *ending* is the part of a task that the last stages of the pipe use: clamp, table, mode.
- A *mark* moves through the pipe with a group: its valid bit, and its *tag*: slot, memory, fault.
"""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed, unsigned
from amaranth.lib import data, enum, stream

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.config import EXPONENTIAL_TABLES, REQUANTIZERS
from celosia.hw.lib.component import Bundle, Component, In, Out
from celosia.hw.lib.sizes import Sizes

#: Instructions of the vector unit. The fields of SOFTMAX lie at the bits of those of VECTOR.
INSTRUCTION = streams.issued(isa.Opcode.VECTOR, isa.Opcode.FILL)


class Step(enum.Enum, shape=2):
    """Step of SOFTMAX that a task is, see ``SoftmaxStage``."""

    NONE = 0
    MAXIMUM = 1
    SUM = 2
    SHARE = 3


@dataclass(frozen=True, kw_only=True)
class VectorSizes(Sizes):
    """Sizes of a vector unit, see ``Config``, and what derives from them.

    Parameters
    ----------
    rows, columns, lanes, unified_bytes, accumulator_depth, parameter_channels, tables : int
        See ``Config``.
    primitive : str
        Multipliers of the requantiser, see ``Product``.
    parity : bool
        Words of memories have parity bits.
    requantizer, skid, lut_memories, softmax, elementwise_products
        See ``Config``.

    Raises
    ------
    ValueError
        If ``lanes`` is no power of two, above ``rows``, or does not divide ``columns``; if
        ``requantizer`` is unknown, or is not pipelined and ``softmax`` is set.
    """

    rows: int
    columns: int
    lanes: int
    unified_bytes: int
    accumulator_depth: int
    parameter_channels: int
    tables: int
    primitive: str = "portable"
    parity: bool = False
    requantizer: str = "pipelined"
    skid: bool = True
    lut_memories: bool = False
    softmax: bool = False
    elementwise_products: bool = False

    def __post_init__(self) -> None:
        """Refuse lanes that no vector unit can have."""
        lanes = self.lanes
        if lanes < 1 or lanes & (lanes - 1) or lanes > self.rows or self.columns % lanes:
            raise ValueError(
                f"lanes: wanted a power of two up to rows = {self.rows} that divides columns = "
                f"{self.columns}, got {lanes}"
            )
        if self.requantizer not in REQUANTIZERS:
            allowed = ", ".join(REQUANTIZERS)
            raise ValueError(f"requantizer: wanted one of {allowed}, got {self.requantizer!r}")
        if self.softmax and self.group_cycles > 1:
            raise ValueError(f"requantizer: wanted pipelined, for softmax, got {self.requantizer}")

    @property
    def group_cycles(self) -> int:
        """Least number of cycles from one group that enters the pipe to the next."""
        return REQUANTIZERS[self.requantizer]

    @property
    def lane_bits(self) -> int:
        """Width of a lane's number; 0 where there is one lane."""
        return (self.lanes - 1).bit_length()

    @property
    def group_bits(self) -> int:
        """Width of the number of a group of channels."""
        return isa.COUNT_BITS - self.lane_bits

    @property
    def column_groups(self) -> int:
        """Groups of channels in a row of the accumulators."""
        return self.columns // self.lanes

    @property
    def read_groups(self) -> int:
        """Most groups in one read of the unified buffer, a power of two."""
        return 1 << ((min(self.rows, self.columns) // self.lanes).bit_length() - 1)

    @property
    def unified_address_bits(self) -> int:
        """Width of an address in the unified buffer, with one more bit for 'outside'."""
        return (self.unified_bytes - 1).bit_length() + 1

    @property
    def accumulator_bits(self) -> int:
        """Width of the number of an accumulator row."""
        return self.accumulator_depth.bit_length()

    @property
    def address_bits(self) -> int:
        """Width of an address of either memory; one stride past the end does not wrap."""
        return max(self.unified_address_bits, self.accumulator_bits + 1)

    @property
    def row_bits(self) -> int:
        """Width of a skip, in rows of the unified buffer."""
        return (self.unified_bytes // self.rows - 1).bit_length() + 1

    @property
    def table_slots(self) -> int:
        """Tables that the load unit writes: those of bytes, and the exponentials."""
        return self.tables + (EXPONENTIAL_TABLES if self.softmax else 0)

    @property
    def table_bits(self) -> int:
        """Width of the number of a table."""
        return max(1, (self.tables - 1).bit_length())

    @property
    def task(self) -> data.StructLayout:
        """Layout of a task.

        ``tag`` is the tag of the instruction. ``constant`` is 1 for FILL. ``_last`` is a count
        less one: of groups, of channels in the last group (``lane_last``). ``pixels`` are counts in
        x, y, z, ``window_elements`` in x, y. ``wide``: a read of the unified buffer takes
        ``read_groups`` groups, because the channels of a pixel are neighbours; else it takes one.
        """
        address = unsigned(self.address_bits)
        strides = data.ArrayLayout(address, 3)
        return data.StructLayout(
            {
                "tag": streams.TAG_BITS,
                "constant": 1,
                "source": isa.Space,
                "destination": isa.Space,
                "pixels": data.ArrayLayout(isa.COUNT_BITS, 3),
                "group_last": self.group_bits,
                "lane_last": max(1, self.lane_bits),
                "source_base": address,
                "source_strides": strides,
                "wide": 1,
                "window": isa.Window,
                "window_elements": data.ArrayLayout(8, 2),
                "window_strides": data.ArrayLayout(address, 2),
                "destination_base": address,
                "destination_strides": strides,
                "params": self.group_bits,
                "per_channel": 1,
                "rounding": isa.Rounding,
                "ending": self.ending,
                **({"step": Step} if self.softmax else {}),
            }
        )

    @property
    def decoded(self) -> data.StructLayout:
        """Layout of a task, with ``run`` and ``skip_rows`` of ``source`` and ``destination``."""
        runs = data.StructLayout({"run": isa.COUNT_BITS, "skip_rows": self.row_bits})
        return data.StructLayout({"task": self.task, "source": runs, "destination": runs})

    @property
    def ending(self) -> data.StructLayout:
        """Layout of an ending."""
        return data.StructLayout(
            {
                "zero_point": signed(8),
                "low": signed(8),
                "high": signed(8),
                "use_table": 1,
                "table": self.table_bits,
                "mode": isa.Mode,
            }
        )

    @property
    def descriptor(self) -> data.StructLayout:
        """Layout of a descriptor.

        ``address`` is a byte address or a row, ``skip`` as in ``streams.unified_write``. ``mask``
        has the lanes that are channels. ``group`` is the number of the group in its pixel.
        ``last``: last group of the task. ``outside``: the address is outside the memory.
        """
        return data.StructLayout(
            {
                "address": unsigned(self.address_bits),
                "skip": data.ArrayLayout(self.row_bits, self.lanes),
                "mask": self.lanes,
                "group": max(1, (self.column_groups - 1).bit_length()),
                "last": 1,
                "outside": 1,
            }
        )


#: Tag of a group: slot of its task, memory of its destination, and that it must not be written.
TAG = data.StructLayout({"slot": 1, "to_accumulators": 1, "fault": 1})

#: Valid bit and tag of a group.
MARK = data.StructLayout({"valid": 1, "tag": TAG})


class Launch(Bundle):
    """Start of a task; ``VectorControl`` declares it ``Out``.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    valid : Out(1)
        ``task`` starts: what enters a block from the next cycle on belongs to it.
    task, slot : Out(VectorSizes.task), Out(1)
        The task that was taken last, and its slot.
    """

    def __init__(self, sizes: VectorSizes) -> None:
        self.valid = Out(1)
        self.task = Out(sizes.task)
        self.slot = Out(1)
        super().__init__()


class Decoder(Component):
    """Decoder of VECTOR, FILL and SOFTMAX to tasks.

    FILL becomes a task without a source, whose results are clamped to its value. SOFTMAX becomes
    three tasks, its steps.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    i : In(stream of INSTRUCTION)
        Instructions.
    o : Out(stream of VectorSizes.decoded)
        Their tasks.

    Timing
    ------
    Combinational, but for the number of the step. SOFTMAX is taken with its third task.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        self.i = In(stream.Signature(INSTRUCTION))
        self.o = Out(stream.Signature(sizes.decoded))
        super().__init__()

    def _shared(self, decoded: data.View, last: Signal, fields: data.View) -> list:
        """Return the assignments of the fields that both instructions have."""
        task = decoded.task
        return [
            *(task.pixels[n].eq(fields[f"{a}_count"]) for n, a in enumerate("xyz")),
            last.eq(fields.channels - 1),
            task.destination_base.eq(fields.destination_base),
            *(
                task.destination_strides[n].eq(fields[f"destination_{a}_stride"])
                for n, a in enumerate("xyz")
            ),
            decoded.destination.run.eq(fields.destination_run),
            decoded.destination.skip_rows.eq(fields.destination_skip),
        ]

    def _softmax(self, m: Module) -> Value:
        """Return True for SOFTMAX; drive the step, and take the instruction with the last one."""
        if not self.sizes.softmax:
            return Const(0)
        softmax = self.i.payload.fields.vector.opcode == isa.Opcode.SOFTMAX
        step = Signal(Step, init=Step.MAXIMUM)
        with m.If(softmax):
            m.d.comb += [
                self.o.payload.task.step.eq(step),
                self.i.ready.eq(self.o.ready & (step == Step.SHARE)),
            ]
        with m.If(softmax & self.o.valid & self.o.ready):
            with m.Switch(step):
                for one, after in zip(list(Step)[1:], [*list(Step)[2:], Step.MAXIMUM], strict=True):
                    with m.Case(one):
                        m.d.sync += step.eq(after)
        return softmax

    def elaborate(self, platform: object) -> Module:
        m = Module()
        decoded = self.o.payload
        task = decoded.task
        instruction = self.i.payload
        vector, fill = instruction.fields.vector, instruction.fields.fill
        last = Signal(isa.COUNT_BITS)  # Channel.
        m.d.comb += [
            task.group_last.eq(last[self.sizes.lane_bits :]),
            task.lane_last.eq(last[: self.sizes.lane_bits]),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready),
            task.tag.eq(instruction.tag),
            task.constant.eq(vector.opcode == isa.Opcode.FILL),
            task.source_base.eq(vector.source_base),
            *(task.source_strides[n].eq(vector[f"source_{a}_stride"]) for n, a in enumerate("xyz")),
            *(task.window_strides[n].eq(vector[f"window_{a}_stride"]) for n, a in enumerate("xy")),
            task.params.eq(vector.params[self.sizes.lane_bits :]),
            decoded.source.run.eq(vector.source_run),
            decoded.source.skip_rows.eq(vector.source_skip),
        ]
        m.d.comb += [
            task.window.eq(vector.window),
            task.rounding.eq(vector.rounding),
            task.ending.table.eq(vector.table),
            task.ending.mode.eq(vector.mode),
        ]
        softmax = self._softmax(m)
        m.d.comb += self._shared(decoded, last, vector)
        with m.If(task.constant):
            m.d.comb += self._shared(decoded, last, fill)
            m.d.comb += [
                task.source.eq(isa.Space.UNIFIED),
                task.destination.eq(isa.Space.UNIFIED),
                *(task.window_elements[n].eq(1) for n in range(2)),
                task.ending.low.eq(fill.value),
                task.ending.high.eq(fill.value),
            ]
        with m.Elif(softmax):
            m.d.comb += [
                *(task.pixels[n].eq(1) for n in (1, 2)),
                task.wide.eq(1),
                *(task.window_elements[n].eq(1) for n in range(2)),
                task.ending.zero_point.eq(-128),
                task.ending.low.eq(-128),
                task.ending.high.eq(127),
                task.rounding.eq(isa.Rounding.DOUBLE),
            ]
            for side in (decoded.source, decoded.destination):
                m.d.comb += [side.run.eq((1 << isa.COUNT_BITS) - 1), side.skip_rows.eq(0)]
        with m.Else():
            m.d.comb += [
                task.source.eq(vector.source),
                task.destination.eq(vector.destination),
                task.per_channel.eq(vector.per_channel),
                task.ending.zero_point.eq(vector.zero_point),
                task.ending.low.eq(vector.low),
                task.ending.high.eq(vector.high),
                task.ending.use_table.eq(vector.use_table),
            ]
            m.d.comb += task.wide.eq(vector.source_skip == 0)
            for n, axis in enumerate("xy"):
                m.d.comb += task.window_elements[n].eq(vector[f"window_{axis}_count"])
        return m


def lane_mask(task: data.View, last_group: Value, *, lanes: int) -> Value:
    """Return the lanes of a group that are channels: all, except in the last group of a pixel."""
    return Cat(~last_group | (lane <= task.lane_last) for lane in range(lanes))
