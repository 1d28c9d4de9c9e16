"""Pipe of the vector unit: parameters, requantiser, clamp and table, group after group."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.lib.fanout import data_registers
from celosia.hw.memory.parameter_memory import (
    OVERRIDE,
    ParameterMemory,
    ParameterStore,
    parameters_payload,
)
from celosia.hw.memory.table_memory import TableMemory, written_layout
from celosia.hw.vector.requantize import Clamp, Requantizer
from celosia.hw.vector.sequential import SequentialRequantizer
from celosia.hw.vector.task import MARK, TAG, Launch, VectorSizes
from celosia.hw.vector.window import group_layout


class ParameterAddresses(Component):
    """Address generator of the parameter memory.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    launch : In(Launch)
        Start of a task.
    step : In(1)
        A group reads its parameters in this cycle.
    group : Out(group_bits + 1)
        Group of channels in the parameter memory.
    outside : Out(1)
        ``group`` is past the end of the memory.

    Timing
    ------
    Outputs change in the cycle after ``launch`` or ``step``.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        self.launch = In(Launch(sizes))
        self.step = In(1)
        self.group = Out(sizes.group_bits + 1)
        self.outside = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [group] = data_registers(m, self.group)
        bits = self.sizes.group_bits
        first = Signal(bits, reset_less=True)
        last = Signal(bits, reset_less=True)
        left = Signal(bits, reset_less=True)
        per_channel = Signal(reset_less=True)
        with m.If(self.launch.valid):
            m.d.sync += [
                first.eq(self.launch.task.params),
                last.eq(self.launch.task.group_last),
                per_channel.eq(self.launch.task.per_channel),
                group.eq(self.launch.task.params),
                left.eq(self.launch.task.group_last),
            ]
        with m.Elif(self.step & (left == 0)):
            m.d.sync += [group.eq(first), left.eq(last)]
        with m.Elif(self.step):
            m.d.sync += [group.eq(group + per_channel), left.eq(left - 1)]
        groups = self.sizes.parameter_channels // self.sizes.lanes
        m.d.comb += self.outside.eq(group >= groups)
        return m


def scaled_latency(sizes: VectorSizes) -> int:
    """Return the cycles from a group to its scaled results."""
    if sizes.group_cycles > 1:
        return SequentialRequantizer.LATENCY
    return Requantizer.LATENCY


def latency(sizes: VectorSizes) -> int:
    """Return the cycles from a group to its bytes."""
    return scaled_latency(sizes) + Clamp.LATENCY + TableMemory.LATENCY


class Scaler(Component):
    """Requantiser of either kind, with the tags of its groups.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    launch, group
        As in ``Pipe``.
    outside, channels : In(1), In(ArrayLayout(streams.CHANNEL, lanes))
        Parameters of the group are outside their memory, in the cycle of its ``next`` or ``used``;
        and the parameters.
    used, soon, scaled
        As in ``Pipe``.
    store_wrong, channels_wrong : In(lanes), Out(lanes)
        With parity: as in ``ParameterStore``; as in ``Pipe``.

    Timing
    ------
    ``scaled`` follows ``group`` by ``scaled_latency`` cycles, ``soon`` ``Pipe.SOON`` earlier.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        lanes = sizes.lanes
        self.store_wrong = In(lanes)
        self.channels_wrong = Out(lanes)
        self.launch = In(Launch(sizes))
        self.group = In(group_layout(lanes=lanes))
        self.outside = In(1)
        self.channels = In(data.ArrayLayout(streams.CHANNEL, lanes))
        if sizes.group_cycles > 1:
            self.used = Out(1)
        self.soon = Out(MARK)
        self.scaled = Out(data.ArrayLayout(signed(32), lanes))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        layout = data.StructLayout({"rounding": isa.Rounding, "tag": TAG})
        task = Signal(layout, reset_less=True)
        with m.If(self.launch.valid):
            m.d.sync += [
                task.rounding.eq(self.launch.task.rounding),
                task.tag.slot.eq(self.launch.slot),
                task.tag.to_accumulators.eq(self.launch.task.destination == isa.Space.ACCUMULATORS),
            ]
        mark = Signal(MARK)
        m.d.comb += [mark.valid.eq(self.group.valid), mark.tag.eq(task.tag)]
        kind = SequentialRequantizer if sizes.group_cycles > 1 else Requantizer
        requantizer: Any = kind(lanes=sizes.lanes, primitive=sizes.primitive)
        m.submodules.requantizer = requantizer
        m.d.comb += [
            requantizer.sums.eq(self.group["values"]),
            requantizer.parameters.eq(self.channels),
            requantizer.rounding.eq(task.rounding),
        ]
        m.d.comb += self.scaled.eq(requantizer.scaled)
        if sizes.group_cycles > 1:
            m.d.comb += [
                self.used.eq(requantizer.used),
                self.soon.eq(requantizer.soon),
                mark.tag.fault.eq(self.group.fault | self.outside),
                requantizer.mark.eq(mark),
            ]
        else:
            outside = delayed(
                m, self.outside, ParameterMemory.LATENCY, name="outside", reset_less=True
            )
            soon = delayed(m, mark, scaled_latency(sizes) - Pipe.SOON, name="soon")
            m.d.comb += [
                mark.tag.fault.eq(self.group.fault | outside[-1]),
                self.soon.eq(soon[-1]),
            ]
        if sizes.group_cycles > 1:
            # Parameters are read again in each cycle of the group.
            wrong = Signal(sizes.lanes)
            m.d.sync += wrong.eq(Mux(mark.valid, 0, self.channels_wrong))
            m.d.comb += self.channels_wrong.eq(wrong | self.store_wrong)
        else:
            m.d.comb += self.channels_wrong.eq(self.store_wrong)
        return m


class Pipe(Component):
    """Requantises groups of int32 elements to scaled int32 and to bytes.

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
        Groups from the next cycle on belong to its task.
    endings : In(ArrayLayout(VectorSizes.ending, 2))
        Ending of the task in each slot.
    next : In(1)
        Pipelined requantiser only: a group comes in ``ParameterMemory.LATENCY`` cycles.
    group : In(group_layout)
        Groups.
    used : Out(1)
        Sequential requantiser only: group and parameters are read for the last time.
    soon : Out(MARK)
        Tag of the group whose results come in ``scaled`` ``SOON`` cycles later.
    scaled : Out(ArrayLayout(signed(32), lanes))
        Results before zero point, clamp and table.
    result, bytes : Out(MARK), Out(ArrayLayout(signed(8), lanes))
        Tag of a group, and its results after zero point, clamp and table.
    written, override : Out, In
        With SOFTMAX: see ``ParameterStore``.
    channels_wrong, values_wrong : Out(lanes)
        With parity: wrong parameters, ``ParameterMemory.LATENCY`` + 1 cycles after ``next`` or
        ``used``, and wrong entries of the table, one cycle after ``result``.

    Timing
    ------
    ``scaled`` follows ``group`` by ``scaled_latency`` cycles, ``bytes`` by ``latency``. No
    backpressure. Pipelined: one group each cycle. Sequential: one group every
    ``VectorSizes.group_cycles`` at most; the group is constant until ``used``, and ``launch`` comes
    later than that. The parameters of the next group are read from ``used`` on.
    """

    SOON = SequentialRequantizer.SOON

    def __init__(self, *, sizes: VectorSizes, bus_bytes: int) -> None:
        self.sizes = sizes
        self.bus_bytes = bus_bytes
        self.scaled_latency = scaled_latency(sizes)
        self.latency = latency(sizes)
        payload = parameters_payload(
            bus_bytes=bus_bytes,
            parameter_channels=sizes.parameter_channels,
            tables=sizes.table_slots,
        )
        self.parameters = In(stream.Signature(payload))
        self.launch = In(Launch(sizes))
        self.endings = In(data.ArrayLayout(sizes.ending, 2))
        self.group = In(group_layout(lanes=sizes.lanes))
        self.soon = Out(MARK)
        self.scaled = Out(data.ArrayLayout(signed(32), sizes.lanes))
        self.result = Out(MARK)
        self.bytes = Out(data.ArrayLayout(signed(8), sizes.lanes))
        if sizes.softmax:
            self.written = Out(written_layout(payload["offset"].width))
            self.override = In(OVERRIDE)
        self.channels_wrong = Out(sizes.lanes)
        self.values_wrong = Out(sizes.lanes)
        if sizes.group_cycles > 1:
            self.used = Out(1)
        else:
            self.next = In(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        m.submodules.store = store = ParameterStore(
            lanes=sizes.lanes,
            parameter_channels=sizes.parameter_channels,
            tables=sizes.tables,
            bus_bytes=self.bus_bytes,
            parity=sizes.parity,
            softmax=sizes.softmax,
        )
        if sizes.softmax:
            m.d.comb += [self.written.eq(store.written), store.override.eq(self.override)]
        m.submodules.scaler = scaler = Scaler(sizes=sizes)
        sequential = sizes.group_cycles > 1
        m.d.comb += scaler.store_wrong.eq(store.channels_wrong)
        m.d.comb += [
            self.channels_wrong.eq(scaler.channels_wrong),
            self.values_wrong.eq(store.values_wrong),
        ]
        wiring.connect(m, wiring.flipped(self.parameters), store.parameters)
        m.submodules.addresses = addresses = ParameterAddresses(sizes=sizes)
        wiring.connect(m, wiring.flipped(self.launch), addresses.launch, scaler.launch)
        m.d.comb += [
            store.group.eq(addresses.group),
            scaler.group.eq(self.group),
            scaler.outside.eq(addresses.outside),
            scaler.channels.eq(store.channels),
            self.soon.eq(scaler.soon),
            self.scaled.eq(scaler.scaled),
        ]
        if sequential:
            m.d.comb += [self.used.eq(scaler.used), addresses.step.eq(scaler.used)]
        else:
            m.d.comb += addresses.step.eq(self.next)
        # Ages of a mark, counted from `soon`, whose group enters the clamp, and the table. The
        # ending for the clamp is registered, so it is chosen one cycle earlier.
        scaled, table = self.SOON, self.SOON + Clamp.LATENCY
        marks = delayed(m, scaler.soon, table + TableMemory.LATENCY, name="mark")

        m.submodules.clamp = clamp = Clamp(lanes=sizes.lanes)
        ending = Signal(sizes.ending, reset_less=True)
        m.d.sync += ending.eq(self.endings[marks[scaled - 1].tag.slot])
        m.d.comb += [
            clamp.zero_point.eq(ending.zero_point),
            clamp.low.eq(ending.low),
            clamp.high.eq(ending.high),
        ]
        plain = delayed(m, clamp.bytes, TableMemory.LATENCY, name="plain", reset_less=True)[-1]
        use_table = self.endings[marks[-1].tag.slot].use_table
        m.d.comb += [
            clamp.scaled.eq(self.scaled),
            *(store.entries[lane].eq(clamp.bytes[lane]) for lane in range(sizes.lanes)),
            store.table.eq(self.endings[marks[table].tag.slot].table),
            *(
                self.bytes[lane].eq(Mux(use_table, store.values[lane], plain[lane]))
                for lane in range(sizes.lanes)
            ),
            self.result.eq(marks[-1]),
        ]
        return m
