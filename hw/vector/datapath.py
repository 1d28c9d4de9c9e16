"""Datapath of the vector unit: window unit, stage of SOFTMAX, and pipe."""

from amaranth.hdl import Module, signed
from amaranth.lib import data, stream, wiring

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.queue import QUEUE_LATENCY, EagerFIFO
from celosia.hw.lib.skid_buffer import PipelineRegister
from celosia.hw.memory.parameter_memory import parameters_payload
from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.hw.vector.pipe import Pipe, latency
from celosia.hw.vector.responses import element_layout
from celosia.hw.vector.softmax_stage import SoftmaxStage
from celosia.hw.vector.task import MARK, Launch, VectorSizes
from celosia.hw.vector.window import WindowUnit

#: Inputs of ``Pipe`` that pass ``SoftmaxStage``.
_LATE = ("next", "group")


def _cycles(sizes: VectorSizes) -> int:
    """Return the cycles from an element to its bytes, out of the queue of results."""
    stage = SoftmaxStage.LATENCY * sizes.softmax
    return WindowUnit.LATENCY + stage + latency(sizes) + QUEUE_LATENCY


def settle_cycles(sizes: VectorSizes) -> int:
    """Return the cycles from the last element until the unit is empty: its groups come in turn."""
    groups = sizes.column_groups * sizes.group_cycles
    return groups + _cycles(sizes) + PipelineRegister.LATENCY


def groups_in_flight(sizes: VectorSizes) -> int:
    """Return the groups that may be between their last read and their write, a power of two.

    Those on the way at full rate, and those of two windows: one that ends, and one that is checked
    in the same cycle.
    """
    cycles = PipelineRegister.LATENCY + UnifiedBuffer.READ_LATENCY + _cycles(sizes)
    groups = -(-cycles // sizes.group_cycles) + 2 * sizes.column_groups
    return 1 << (groups - 1).bit_length()


def group_queue(sizes: VectorSizes, layout: data.StructLayout) -> EagerFIFO:
    """Return a queue of an entry for each group in flight, and one in its output register."""
    depth = groups_in_flight(sizes) + 1
    return EagerFIFO(width=layout.size, depth=depth, in_luts=sizes.lut_memories)


class Datapath(Component):
    """From elements to results: ``WindowUnit``, ``SoftmaxStage`` if there is one, and ``Pipe``.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.
    bus_bytes : int
        See ``Config``.

    Members
    -------
    parameters : In(stream of parameters_payload)
        Writes of the parameter memory and the tables.
    launch : In(Launch)
        Elements from the next cycle on belong to its task.
    endings : In(ArrayLayout(VectorSizes.ending, 2))
        Ending of the task in each slot.
    element : In(element_layout)
        Elements, as in ``WindowUnit``.
    busy : Out(1)
        Groups are left in the window unit.
    soon, scaled, result, bytes : Out
        As in ``Pipe``.
    used : Out(1)
        A step of SOFTMAX has used a group, which does not reach the pipe.
    rows_finished, rows_fault : Out(1)
        With SOFTMAX: ``finished`` and ``fault`` of ``SoftmaxStage``.
    group : Out(1)
        With parity: a group reads its parameters, ``next`` or ``used`` of ``Pipe``.
    channels_wrong, values_wrong : Out(lanes)
        With parity: as in ``Pipe``.

    Timing
    ------
    ``bytes`` follow the last element of a window by ``WindowUnit.LATENCY`` + ``latency`` of the
    pipe cycles, with SOFTMAX ``SoftmaxStage.LATENCY`` more.
    """

    def __init__(self, *, sizes: VectorSizes, bus_bytes: int) -> None:
        self.sizes = sizes
        self.bus_bytes = bus_bytes
        self.payload = parameters_payload(
            bus_bytes=bus_bytes,
            parameter_channels=sizes.parameter_channels,
            tables=sizes.table_slots,
        )
        lanes = sizes.lanes
        self.parameters = In(stream.Signature(self.payload))
        self.launch = In(Launch(sizes))
        self.endings = In(data.ArrayLayout(sizes.ending, 2))
        self.element = In(element_layout(columns=sizes.columns, lanes=lanes))
        self.busy = Out(1)
        self.soon = Out(MARK)
        self.scaled = Out(data.ArrayLayout(signed(32), lanes))
        self.result = Out(MARK)
        self.bytes = Out(data.ArrayLayout(signed(8), lanes))
        self.used = Out(1)
        self.rows_finished = Out(1)
        self.rows_fault = Out(1)
        self.group = Out(1)
        self.channels_wrong = Out(lanes)
        self.values_wrong = Out(lanes)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        m.submodules.window = window = WindowUnit(
            columns=sizes.columns, lanes=sizes.lanes, group_cycles=sizes.group_cycles
        )
        m.submodules.pipe = pipe = Pipe(sizes=sizes, bus_bytes=self.bus_bytes)
        wiring.connect(m, wiring.flipped(self.parameters), pipe.parameters)
        m.d.comb += [
            window.launch.eq(self.launch.valid),
            window.element.eq(self.element),
            pipe.endings.eq(self.endings),
            self.soon.eq(pipe.soon),
            self.scaled.eq(pipe.scaled),
            self.result.eq(pipe.result),
            self.bytes.eq(pipe.bytes),
        ]
        m.d.comb += [window.window.eq(self.launch.task.window), self.busy.eq(window.busy)]
        m.d.comb += [
            self.channels_wrong.eq(pipe.channels_wrong),
            self.values_wrong.eq(pipe.values_wrong),
        ]
        m.d.comb += self.group.eq(pipe.used if sizes.group_cycles > 1 else pipe.next)
        if sizes.softmax:
            self._softmax(m, window, pipe)
            return m
        wiring.connect(m, wiring.flipped(self.launch), pipe.launch)
        m.d.comb += pipe.group.eq(window.group)
        if sizes.group_cycles == 1:
            m.d.comb += pipe.next.eq(window.soon)
        return m

    def _softmax(self, m: Module, window: WindowUnit, pipe: Pipe) -> None:
        """Connect the stage of SOFTMAX before the pipe."""
        offset_bits = self.payload["offset"].width
        m.submodules.softmax = stage = SoftmaxStage(sizes=self.sizes, offset_bits=offset_bits)
        wiring.connect(m, wiring.flipped(self.launch), stage.launch)
        wiring.connect(m, stage.late_launch, pipe.launch)
        m.d.comb += [
            stage.group.eq(window.group),
            stage.written.eq(pipe.written),
            pipe.override.eq(stage.override),
            self.used.eq(stage.used),
            stage.next.eq(window.soon),
            stage.scaled.eq(pipe.scaled[0]),
            *(getattr(pipe, n).eq(getattr(stage, f"late_{n}")) for n in _LATE),
            self.rows_finished.eq(stage.finished),
            self.rows_fault.eq(stage.fault),
        ]
