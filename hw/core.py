"""Core: connects the units, the unified buffer and the buses."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, ResetInserter, Signal, Value
from amaranth.lib import wiring

from celosia.hw import streams
from celosia.hw.arch.config import PROGRAM_BYTES, Config
from celosia.hw.arch.registers import BOUND_BITS
from celosia.hw.axi.interrupts import Interrupts
from celosia.hw.axi.reader import ReadMaster
from celosia.hw.axi.registers import RegisterFile
from celosia.hw.axi.signature import axi4, axi4_lite, join
from celosia.hw.dma.load import LoadUnit
from celosia.hw.dma.sizes import LoadSizes, StoreSizes
from celosia.hw.dma.store import StoreUnit
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY
from celosia.hw.lib.skid_buffer import PipelineRegister
from celosia.hw.matrix.sizes import MatrixSizes
from celosia.hw.matrix.unit import MatrixUnit
from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.hw.memory.weight_buffer import WeightBuffer
from celosia.hw.sequencer.sequencer import Sequencer
from celosia.hw.vector.task import VectorSizes
from celosia.hw.vector.unit import VectorUnit

#: Units that read the unified buffer, by priority; that write it.
READERS = ("store", "vector", "matrix")
WRITERS = ("vector", "load")
#: Units that execute instructions.
UNITS = ("load", "store", "matrix", "vector")

#: Cycles from a write of the load unit that is taken until the slowest memory has it.
VISIBLE_CYCLES = max(
    UnifiedBuffer.WRITE_LATENCY + UnifiedBuffer.VISIBLE, WeightBuffer.WRITE_LATENCY
)


@dataclass
class _Blocks:
    unified_buffer: UnifiedBuffer
    matrix: MatrixUnit
    vector: VectorUnit
    load: LoadUnit
    store: StoreUnit
    reader: ReadMaster
    sequencer: Sequencer


class Core(Component):
    """Tensor processing unit with an AXI4 master and an AXI4-Lite slave.

    Parameters
    ----------
    config : Config
        Sizes. ``bus_bytes`` is at most 64, a block of the program.

    Members
    -------
    m_axi : Out(axi4(bus_bytes))
        Master: programs, weights, activations.
    s_axil : In(axi4_lite)
        Slave: registers of ``hw/arch/registers.py``.
    irq : Out(1)
        Interrupt, level.
    reset : In(1)
        Brings every block back to its initial state; memories keep their contents.

    Timing
    ------
    ``reset`` takes effect one cycle later. Every output of the buses comes from a register, or
    from one through a few gates; without ``Config.skid``, ``rready`` passes more gates.
    """

    def __init__(self, *, config: Config) -> None:
        if config.bus_bytes > PROGRAM_BYTES:
            raise ValueError(
                f"bus_bytes: wanted at most {PROGRAM_BYTES} for gateware, got {config.bus_bytes}"
            )
        self.config = config
        self.m_axi = Out(axi4(config.bus_bytes))
        self.s_axil = In(axi4_lite())
        self.irq = Out(1)
        self.reset = In(1)
        super().__init__()

    def _sizes(self, names: str) -> dict[str, Any]:
        """Return the sizes of these names, as arguments."""
        return {name: getattr(self.config, name) for name in names.split()}

    def blocks(self) -> _Blocks:
        """Return the blocks that a soft reset clears."""
        config, sizes = self.config, self._sizes
        buffer = UnifiedBuffer(
            **sizes("rows unified_bytes parity"), readers=len(READERS), writers=len(WRITERS)
        )
        return _Blocks(
            unified_buffer=buffer,
            matrix=MatrixUnit(sizes=MatrixSizes.of(config), read_latency=buffer.READ_LATENCY),
            vector=VectorUnit(
                sizes=VectorSizes.of(config),
                bus_bytes=config.bus_bytes,
                visible_cycles=buffer.WRITE_LATENCY + PipelineRegister.LATENCY,
            ),
            load=LoadUnit(sizes=LoadSizes.of(config), visible_cycles=VISIBLE_CYCLES),
            store=StoreUnit(sizes=StoreSizes.of(config)),
            reader=ReadMaster(**sizes("burst_beats outstanding skid"), data_bytes=config.bus_bytes),
            sequencer=Sequencer(config=config),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        blocks = self.blocks()
        sequencer, reader, load, store = blocks.sequencer, blocks.reader, blocks.load, blocks.store
        matrix, vector = blocks.matrix, blocks.vector
        reset = self.reset | sequencer.status.clear
        for name, block in vars(blocks).items():
            m.submodules[name] = self._reset(m, name, block, reset)
        cleared = Signal()
        m.d.sync += cleared.eq(reset)
        for name in UNITS:
            self._connect_unit(m, name, getattr(sequencer, name), getattr(blocks, name), ~cleared)
        self._connect_buffer(m, blocks, reset)
        wiring.connect(m, load.weights, matrix.weights)
        wiring.connect(m, load.parameters, vector.parameters)
        wiring.connect(m, vector.accumulator_port, matrix.accumulator_port)
        for n, client in enumerate((sequencer, load)):
            wiring.connect(m, client.request, getattr(reader, f"request_{n}"))
            wiring.connect(m, getattr(reader, f"beats_{n}"), client.beats)
        join(m, self.m_axi, reader.bus, store.bus)
        self._connect_registers(m, sequencer, (reader, store))
        return m

    @staticmethod
    def _reset(m: Module, name: str, block: Any, when: Value) -> Any:
        """Return a block with its reset register, so that no reset net reaches all blocks."""
        reset = Signal(init=1, name=f"reset_{name}", reset_less=True, attrs=COPY)
        m.d.sync += reset.eq(when)
        return ResetInserter(reset)(block)

    @staticmethod
    def _connect_unit(m: Module, name: str, port: Any, unit: Any, runs: Value) -> None:
        wiring.connect(m, port.instruction, unit.instruction)
        streams.Unit.report(port, m, unit)
        # A copy of `abort` for each unit. It is cleared in the cycle in which the units are reset.
        abort = Signal(name=f"abort_{name}", attrs=COPY)
        m.d.sync += abort.eq(port.abort & runs)
        m.d.comb += unit.abort.eq(abort)

    def _connect_buffer(self, m: Module, blocks: _Blocks, reset: Value) -> None:
        # The writes of the vector unit pass a register: the load unit waits for them. Reads have
        # their register in the units.
        buffer, vector = blocks.unified_buffer, blocks.vector
        write = PipelineRegister(vector.unified_write.payload.shape())
        m.submodules.vector_write = self._reset(m, "vector_write", write, reset)
        wiring.connect(m, vector.unified_write, write.i)
        writers = {"vector": write.o, "load": blocks.load.write}
        for name, port in zip(READERS, buffer.reads, strict=True):
            wiring.connect(m, getattr(blocks, name).reads, port)
        for name, port in zip(WRITERS, buffer.writes, strict=True):
            wiring.connect(m, writers[name], port)
        m.d.comb += vector.write_fault.eq(buffer.write_fault[WRITERS.index("vector")])

    def _connect_registers(
        self, m: Module, sequencer: Sequencer, masters: tuple[ReadMaster, StoreUnit]
    ) -> None:
        registers: Any = RegisterFile()
        interrupts = Interrupts()
        for name, block in (("registers", registers), ("interrupts", interrupts)):
            m.submodules[name] = self._reset(m, name, block, self.reset)
        wiring.connect(m, wiring.flipped(self.s_axil), registers.bus)
        status = sequencer.status
        ends = Cat(status.done, status.error)
        m.d.comb += [
            registers.fingerprint.eq(self.config.fingerprint),
            registers.status.eq(Cat(status.busy, ends, status.draining)),
            registers.interrupt.eq(interrupts.pending),
            registers.error_code.eq(status.code),
            registers.error_unit.eq(status.unit),
            registers.error_index.eq(status.index),
            Cat(sequencer.start, sequencer.reset, sequencer.clear_counters).eq(
                registers.control_write
            ),
            interrupts.events.eq(ends),
            interrupts.enable.eq(registers.interrupt_enable),
            interrupts.clear.eq(registers.interrupt_clear),
            self.irq.eq(interrupts.irq),
            registers.cycles.eq(sequencer.cycles),
            registers.counter_value.eq(sequencer.counter_value),
            sequencer.counter_address.eq(registers.counter_address),
            sequencer.program_address.eq(registers.program_address),
            sequencer.program_length.eq(registers.program_length),
            sequencer.watchdog.eq(registers.watchdog),
        ]
        for n, block in enumerate(masters):
            # A copy beside the comparisons.
            bounds = Signal.like(block.bounds, name=f"bounds_{n}", reset_less=True, attrs=COPY)
            m.d.sync += [
                bounds.base.eq(registers.memory_base[BOUND_BITS:]),
                bounds.limit.eq(registers.memory_limit[BOUND_BITS:]),
            ]
            m.d.comb += block.bounds.eq(bounds)
