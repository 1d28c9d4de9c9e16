"""The SDRAM controller: AXI4 on one side, the chip's pins on the other."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.axi.signature import axi4, axi4_read, axi4_write
from celosia.hw.sdram.chunks import Arbiter
from celosia.hw.sdram.data_path import DataPath
from celosia.hw.sdram.reads import Reads
from celosia.hw.sdram.scheduler import Scheduler
from celosia.hw.sdram.signature import check, pins
from celosia.hw.sdram.timing import Part, Timing
from celosia.hw.sdram.writes import Writes


class SdramController(wiring.Component):
    """Serves AXI4 bursts from an SDRAM chip of 16 data pins.

    Parameters
    ----------
    part : Part
        The chip.
    clock_hz : int
        Clock of ``sync`` and of the chip.
    cas_latency : int
        2 or 3, as the part allows at that clock.
    data_bytes : int
        Bytes of a beat: 4, 8 or 16. The chip's bursts are as long.
    address_bits, id_bits : int
        As for ``axi4``.
    read_delay : int
        When read data is captured, see ``DataPath``.

    Members
    -------
    bus : In(axi4)
        INCR bursts of whole beats. Reads are answered in order, writes are answered in order.
    pins : Out(signature.pins)
        The chip's pins, all from registers, but for the clock.
    started : Out(1)
        The chip may be used. Bursts before that wait.

    Raises
    ------
    ValueError
        If the part cannot do what is asked for.

    Timing
    ------
    See ``docs/reference/sdram.md``.
    """

    bus: Any
    pins: Any
    started: Signal

    def __init__(
        self,
        *,
        part: Part,
        clock_hz: int,
        cas_latency: int = 3,
        data_bytes: int = 16,
        address_bits: int = 32,
        id_bits: int = 1,
        read_delay: int = 0,
    ) -> None:
        check(part, data_bytes=data_bytes, address_bits=address_bits, read_delay=read_delay)
        self.part = part
        self.timing = Timing.derive(part, clock_hz=clock_hz, cas_latency=cas_latency)
        self.data_bytes = data_bytes
        self.address_bits = address_bits
        self.id_bits = id_bits
        self.read_delay = read_delay
        super().__init__(
            {
                "bus": In(axi4(data_bytes, address_bits, id_bits)),
                "pins": Out(pins(part.row_bits)),
                "started": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes: dict[str, Any] = {"part": self.part, "data_bytes": self.data_bytes}
        axi: dict[str, Any] = sizes | {"address_bits": self.address_bits, "id_bits": self.id_bits}
        m.submodules.reads = reads = Reads(**axi)
        m.submodules.writes = writes = Writes(**axi)
        m.submodules.arbiter = arbiter = Arbiter(**sizes)
        m.submodules.scheduler = scheduler = Scheduler(timing=self.timing, **sizes)
        m.submodules.path = path = DataPath(timing=self.timing, read_delay=self.read_delay, **sizes)
        for side, signature in ((reads, axi4_read), (writes, axi4_write)):
            for name, member in signature(self.data_bytes).members.items():
                ours, theirs = getattr(self.bus, name), getattr(side.bus, name)
                m.d.comb += theirs.eq(ours) if member.flow == Out else ours.eq(theirs)
        wiring.connect(m, reads.chunks, arbiter.reads)
        wiring.connect(m, writes.chunks, arbiter.writes)
        wiring.connect(m, arbiter.o, scheduler.i)
        wiring.connect(m, wiring.flipped(self.pins), path.pins)
        m.d.comb += [
            path.command.eq(scheduler.command),
            path.started.eq(scheduler.started),
            path.read.eq(scheduler.read),
            path.write.eq(scheduler.write),
            path.void.eq(scheduler.void),
            path.beat.eq(writes.beat),
            path.strobe.eq(writes.strobe),
            writes.next.eq(scheduler.write),
            reads.valid.eq(path.valid),
            reads.data.eq(path.data),
            self.started.eq(scheduler.started),
        ]
        return m
