"""Parameter memory of the channels, and the store that joins it and the tables."""

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed, unsigned
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.config import EXPONENTIAL_TABLES, PARAMETER_BYTES, TABLE_BYTES
from celosia.hw.lib import race
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY, data_registers
from celosia.hw.memory import parity as guard
from celosia.hw.memory.table_memory import TableMemory


def parameters_payload(
    *, bus_bytes: int, parameter_channels: int, tables: int
) -> data.StructLayout:
    """Return the payload of a write to the parameter store, one beat of the bus.

    Members
    -------
    kind : isa.Kind
        Channels or tables.
    offset : unsigned
        Byte offset of the beat from channel 0 (16 bytes each) or table 0 (256 bytes each).
    data : ArrayLayout(unsigned(8), bus_bytes)
        The bytes.
    """
    total = max(parameter_channels * PARAMETER_BYTES, tables * TABLE_BYTES)
    return data.StructLayout(
        {
            "kind": isa.Kind,
            "offset": unsigned((total - 1).bit_length()),
            "data": data.ArrayLayout(unsigned(8), bus_bytes),
        }
    )


#: First byte of each field of ``streams.CHANNEL`` among the bytes of a channel.
_FIRST_BYTES = {"bias": 0, "multiplier": 4, "left": 8, "right": 9}


#: Multiplier and shift of all lanes that replace those of a group.
OVERRIDE = data.StructLayout({"valid": 1, "multiplier": unsigned(31), "right": unsigned(5)})


class ParameterMemory(Component):
    """Bias, multiplier and shifts of every channel, one memory for each lane.

    Parameters
    ----------
    lanes : int
        Channels read at once, a power of two.
    channels : int
        Channels in all, a multiple of ``lanes``.
    bus_bytes : int
        Bytes of a beat, a power of two from 4 to 16 · ``lanes``.
    offset_bits : int
        Width of ``offset``.
    parity : bool
        Every word has parity bits.
    overrides : bool
        There is ``override``. Not with ``parity``.

    Members
    -------
    enable, offset, data : In(1), In(unsigned(offset_bits)), In(ArrayLayout(unsigned(8), bus_bytes))
        Write of one beat. Beats narrower than a channel must come in order. Channels past the end
        are not written.
    group : In(unsigned)
        Number of the group of ``lanes`` channels to read.
    parameters : Out(ArrayLayout(streams.CHANNEL, lanes))
        Parameters of the group.
    override : In({valid, multiplier, right})
        Only with ``overrides``, one cycle before ``parameters``: multiplier and shift to the right
        of all lanes, without bias and shift to the left, instead of those of the group.
    wrong : Out(lanes)
        With ``parity``, one cycle after ``parameters``: lanes of wrong parity.

    Timing
    ------
    ``parameters`` follow ``group`` by ``LATENCY`` cycles. A beat is written two cycles after
    ``enable``. One read and one beat each cycle.

    Raises
    ------
    ValueError
        If a size is not as described above.
    """

    LATENCY = 2

    def __init__(
        self,
        *,
        lanes: int,
        channels: int,
        bus_bytes: int,
        offset_bits: int,
        parity: bool = False,
        overrides: bool = False,
    ) -> None:
        if lanes < 1 or lanes & (lanes - 1):
            raise ValueError(f"lanes: wanted a power of two, got {lanes}")
        if channels < lanes or channels % lanes:
            raise ValueError(f"channels: wanted a multiple of lanes = {lanes}, got {channels}")
        if not 4 <= bus_bytes <= PARAMETER_BYTES * lanes or bus_bytes & (bus_bytes - 1):
            most = PARAMETER_BYTES * lanes
            raise ValueError(f"bus_bytes: wanted a power of two from 4 to {most}, got {bus_bytes}")
        self.lanes = lanes
        self.channels = channels
        self.bus_bytes = bus_bytes
        self.parity = parity
        self.overrides = overrides
        # At least two words, because a port needs an address bit.
        self.depth = max(2, channels // lanes)
        self.enable = In(1)
        self.offset = In(offset_bits)
        self.data = In(data.ArrayLayout(unsigned(8), bus_bytes))
        self.group = In((self.depth - 1).bit_length())
        self.parameters = Out(data.ArrayLayout(streams.CHANNEL, lanes))
        self.wrong = Out(lanes)
        if overrides:
            self.override = In(OVERRIDE)
        super().__init__()

    @property
    def _part(self) -> Value:
        """Number of the beat in its channel; no bits if a beat has a whole channel or more."""
        return self.offset[min(4, (self.bus_bytes - 1).bit_length()) : 4]

    def _collect(self, m: Module, number: int) -> list[data.View]:
        """Return the channels that the beats so far have filled, a register for each in a beat.

        ``number`` is part of the names of equal registers.
        """
        channels = [
            Signal(streams.CHANNEL, name=f"channel_{number}_{j}", reset_less=True, attrs=COPY)
            for j in range(max(1, self.bus_bytes // PARAMETER_BYTES))
        ]
        for j, channel in enumerate(channels):
            for name, first in _FIRST_BYTES.items():
                beat, byte = divmod(PARAMETER_BYTES * j + first, self.bus_bytes)
                value = Cat(self.data[byte:])[: len(Value.cast(channel[name]))]
                # A beat with all of a channel is taken without regard to `enable`.
                taken = self.enable & (self._part == beat) if len(self._part) else Const(1)
                with m.If(taken):
                    m.d.sync += channel[name].eq(value)
        return channels

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [parameters] = data_registers(m, self.parameters)
        first = self.offset[4:]
        lane_bits = (self.lanes - 1).bit_length()
        # The last beat of a channel completes it.
        held = Signal()
        m.d.sync += held.eq(self.enable & self._part.all())
        channels: list[data.View] = []
        for lane in range(self.lanes):
            # A copy of the channels for two lanes, and one of their number for each lane.
            if lane % 2 == 0:
                channels = self._collect(m, lane)
            held_first = Signal(len(first), name=f"first_{lane}", reset_less=True, attrs=COPY)
            m.d.sync += held_first.eq(first)
            row = held_first[lane_bits:]
            m.submodules[f"lane_{lane}"] = memory = Memory(
                shape=guard.stored_shape(streams.CHANNEL, self.parity),
                depth=self.depth,
                init=[],
                attrs=race.UNDEFINED,
            )
            write = memory.write_port()
            read = memory.read_port()
            channel = Signal(streams.CHANNEL, name=f"written_{lane}")
            # The beat's channel that belongs to this lane, and its row.
            turn = Signal(max(1, lane_bits), name=f"turn_{lane}")
            written = Signal(len(row) + 1, name=f"written_row_{lane}")
            m.d.comb += [
                turn.eq(lane - held_first[:lane_bits] if lane_bits else 0),
                written.eq(row + (lane < held_first[:lane_bits])),
                write.addr.eq(written),
                write.en.eq(
                    held & (turn < len(channels)) & (written < self.channels // self.lanes)
                ),
                write.data.eq(guard.stored(channel)),
                read.addr.eq(self.group),
            ]
            with m.Switch(turn):
                for j, complete in enumerate(channels):
                    with m.Case(j):
                        m.d.comb += channel.eq(complete)
            wrong = guard.checked(m, parameters[lane], read.data, name=f"parity_{lane}")
            m.d.sync += self.wrong[lane].eq(wrong)
            if self.overrides:
                with m.If(self.override.valid):
                    m.d.sync += [
                        parameters[lane].bias.eq(0),
                        parameters[lane].multiplier.eq(self.override.multiplier),
                        parameters[lane].left.eq(0),
                        parameters[lane].right.eq(self.override.right),
                    ]
        return m


class ParameterStore(Component):
    """Parameter memory and tables, written by the load unit.

    Parameters
    ----------
    lanes, parameter_channels, tables, bus_bytes : int
        See ``Config``.
    parity : bool
        Every word of both has parity bits.
    softmax : bool
        Writes past the tables are taken, for the exponentials; and there is ``override``.

    Members
    -------
    parameters : In(stream of :func:`parameters_payload`)
        Writes, one beat each. A beat of a table is taken when its last byte has been written.
    group, channels : In(unsigned), Out(ArrayLayout(streams.CHANNEL, lanes))
        Group of channels to read, and its parameters ``ParameterMemory.LATENCY`` cycles later.
    table, entries, values : In(unsigned), In(ArrayLayout(8)), Out(ArrayLayout(signed(8)))
        Table and one entry for each lane, and the results ``TableMemory.LATENCY`` cycles later.
    written, override : Out, In(OVERRIDE)
        See ``TableMemory``, and ``ParameterMemory``.
    channels_wrong, values_wrong : Out(lanes)
        With ``parity``, one cycle after ``channels`` and ``values``: lanes of wrong parity.

    Timing
    ------
    Reads see a beat that was taken at least two cycles before.
    """

    def __init__(
        self,
        *,
        lanes: int,
        parameter_channels: int,
        tables: int,
        bus_bytes: int,
        parity: bool = False,
        softmax: bool = False,
    ) -> None:
        payload = parameters_payload(
            bus_bytes=bus_bytes,
            parameter_channels=parameter_channels,
            tables=tables + (EXPONENTIAL_TABLES if softmax else 0),
        )
        offset_bits = payload["offset"].width
        self.memory = ParameterMemory(
            lanes=lanes,
            channels=parameter_channels,
            bus_bytes=bus_bytes,
            offset_bits=offset_bits,
            parity=parity,
            overrides=softmax,
        )
        self.tables = TableMemory(
            lanes=lanes,
            tables=tables,
            bus_bytes=bus_bytes,
            offset_bits=offset_bits,
            parity=parity,
        )
        self.softmax = softmax
        self.parameters = In(stream.Signature(payload))
        self.group = In(len(self.memory.group))
        self.channels = Out(data.ArrayLayout(streams.CHANNEL, lanes))
        self.table = In(len(self.tables.table))
        self.entries = In(data.ArrayLayout(unsigned(8), lanes))
        self.values = Out(data.ArrayLayout(signed(8), lanes))
        self.written = Out(self.tables.written.shape())
        if softmax:
            self.override = In(OVERRIDE)
        self.channels_wrong = Out(lanes)
        self.values_wrong = Out(lanes)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = self.memory
        m.submodules.tables = tables = self.tables
        beat = self.parameters.payload
        to_table = beat.kind == isa.Kind.TABLES
        m.d.comb += [
            memory.enable.eq(self.parameters.valid & ~to_table),
            memory.offset.eq(beat.offset),
            memory.data.eq(beat.data),
            memory.group.eq(self.group),
            self.channels.eq(memory.parameters),
            tables.enable.eq(self.parameters.valid & to_table),
            tables.offset.eq(beat.offset),
            tables.data.eq(beat.data),
            tables.table.eq(self.table),
            tables.entries.eq(self.entries),
            self.values.eq(tables.values),
            self.channels_wrong.eq(memory.wrong),
            self.values_wrong.eq(tables.wrong),
            self.written.eq(tables.written),
            self.parameters.ready.eq(~to_table | tables.last),
        ]
        if self.softmax:
            m.d.comb += memory.override.eq(self.override)
        return m
