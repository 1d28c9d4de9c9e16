"""What the benches simulate: components by name, built from a configuration."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch.config import Config
from celosia.hw.bus.load import LoadUnit
from celosia.hw.bus.reader import ReadMaster
from celosia.hw.bus.signature import axi4, join
from celosia.hw.bus.store import StoreUnit
from celosia.hw.core import Core
from celosia.hw.matrix.accumulators import Accumulators
from celosia.hw.matrix.unit import MatrixUnit
from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.hw.sequencer.sequencer import Sequencer
from celosia.hw.top import Top
from celosia.hw.vector.unit import VectorUnit

UNIT_PORTS = ("instruction", "done", "fault_valid", "fault", "abort", "idle", "activity")


class Transfer(wiring.Component):
    """Load and store unit, read master and unified buffer behind one AXI4 port.

    ``config``: sizes.
    ``load_<port>``, ``store_<port>``: ports of the two units towards the sequencer; ``weights``,
    ``parameters`` (Out(stream)): where the load unit writes else; ``read_first``, ``answer_valid``,
    ``answer``, ``write_first``: A reader and a writer of the unified buffer that have priority;
    ``m_axi`` (Out(axi4(bus_bytes))): the bus.
    """

    weights: stream.Interface
    parameters: stream.Interface
    read_first: stream.Interface
    answer_valid: Signal
    answer: data.View
    write_first: stream.Interface
    m_axi: Any

    def __init__(self, *, config: Config) -> None:
        sizes: dict[str, Any] = {"rows": config.rows, "unified_bytes": config.unified_bytes}
        self.buffer: Any = UnifiedBuffer(**sizes, readers=2, writers=2)
        bus: dict[str, Any] = {"bus_bytes": config.bus_bytes, "burst_beats": config.burst_beats}
        self.load = LoadUnit(
            **sizes,
            **bus,
            columns=config.columns,
            weight_tiles=config.weight_tiles,
            parameter_channels=config.parameter_channels,
            tables=config.tables,
            outstanding=config.outstanding,
            visible_cycles=4,
        )
        self.store = StoreUnit(**sizes, **bus)
        self.reader: Any = ReadMaster(
            data_bytes=config.bus_bytes,
            burst_beats=config.burst_beats,
            outstanding=config.outstanding,
        )
        units = {"load": self.load, "store": self.store}
        super().__init__(
            {
                **{
                    f"{name}_{port}": unit.signature.members[port]
                    for name, unit in units.items()
                    for port in UNIT_PORTS
                },
                "weights": self.load.signature.members["weights"],
                "parameters": self.load.signature.members["parameters"],
                "read_first": In(stream.Signature(streams.unified_read(**sizes))),
                "answer_valid": Out(1),
                "answer": Out(self.buffer.read_data.shape()),
                "write_first": In(stream.Signature(streams.unified_write(**sizes))),
                "m_axi": Out(axi4(config.bus_bytes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        m.submodules.load = load = self.load
        m.submodules.store = store = self.store
        m.submodules.reader = reader = self.reader
        for name, unit in (("load", load), ("store", store)):
            for port in UNIT_PORTS:
                outer, inner = getattr(self, f"{name}_{port}"), getattr(unit, port)
                if port == "instruction":
                    wiring.connect(m, wiring.flipped(outer), inner)
                elif unit.signature.members[port].flow == In:
                    m.d.comb += inner.eq(outer)
                else:
                    m.d.comb += outer.eq(inner)
        for outer, inner in (
            (self.weights, load.weights),
            (self.parameters, load.parameters),
            (self.read_first, buffer.read_0),
            (self.write_first, buffer.write_0),
        ):
            wiring.connect(m, wiring.flipped(outer), inner)
        wiring.connect(m, store.request, buffer.read_1)
        wiring.connect(m, load.write, buffer.write_1)
        wiring.connect(m, load.request, reader.request_1)
        wiring.connect(m, reader.beats_1, load.beats)
        m.d.comb += [
            self.answer_valid.eq(buffer.read_valid[0]),
            self.answer.eq(buffer.read_data),
            store.read_valid.eq(buffer.read_valid[1]),
            store.read_data.eq(buffer.read_data),
            store.read_fault.eq(buffer.read_fault & buffer.read_valid[1]),
        ]
        join(m, self.m_axi, reader.bus, store.bus)
        return m


def make(name: str, config: Config) -> Any:
    """Return the component of that name with the sizes of a configuration.

    Raises ``ValueError`` if there is no such component.
    """
    sizes: dict[str, Any] = {"rows": config.rows, "unified_bytes": config.unified_bytes}
    depth = config.accumulator_depth
    match name:
        case "accumulators":
            return Accumulators(columns=config.columns, depth=depth, sum_bits=config.sum_bits)
        case "matrix":
            return MatrixUnit(
                **sizes,
                columns=config.columns,
                weight_tiles=config.weight_tiles,
                weight_rows=config.weight_rows,
                accumulator_depth=depth,
                bus_bytes=config.bus_bytes,
                dsp_columns=config.dsp_columns,
                cells=config.cells,
                read_latency=UnifiedBuffer.READ_LATENCY,
            )
        case "vector":
            return VectorUnit(
                **sizes,
                columns=config.columns,
                lanes=config.lanes,
                accumulator_depth=depth,
                parameter_channels=config.parameter_channels,
                tables=config.tables,
                bus_bytes=config.bus_bytes,
                visible_cycles=UnifiedBuffer.WRITE_LATENCY,
                primitive=config.primitive,
                requantizer=config.requantizer,
            )
        case "transfer":
            return Transfer(config=config)
        case "sequencer":
            return Sequencer(config=config)
        case "core":
            return Top(Core(config=config))
    raise ValueError(f"dut: wanted a component of duts.py, got {name!r}")
