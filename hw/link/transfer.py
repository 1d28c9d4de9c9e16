"""Transfer of the bytes of a request: from its slot to a bus, or from a bus to its slot."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.axi.signature import axi4, axi4_lite
from celosia.hw.lib.component import Component
from celosia.hw.link.beat import REGISTER_BYTES, BeatMaster


class Transfer(Component):
    """Transfer between a slot and a bus, byte by byte in the slot, beat by beat on the bus.

    The parent counts: it has the position in the slot and the address of the current byte, and
    moves both on with ``step``.

    Parameters
    ----------
    bus_bytes : int
        See ``BeatMaster``.

    Members
    -------
    start : In(1)
        Starts a transfer.
    to_registers, is_write : In(1), In(1)
        Bus and direction, constant from ``start`` to ``done``.
    address : In(32)
        Address of the current byte.
    is_last : In(1)
        The current byte is the last one; valid in the third cycle after ``start`` or ``step``.
    read_data : In(8)
        The current byte of the slot, valid as ``is_last``.
    put, put_data, put_ready : Out(1), Out(8), In(1)
        Write of the current byte of the slot, as of ``Slots``.
    step : Out(1)
        The next byte is the current one in the next cycle.
    error : Out(1)
        The bus refused a beat.
    done : Out(1)
        The transfer ends in this cycle.
    m_axi, m_axil : Out(axi4(bus_bytes)), Out(axi4_lite())
        See ``BeatMaster``.

    Timing
    ------
    Three cycles for each byte, and for each beat the time of the bus.
    """

    def __init__(self, *, bus_bytes: int) -> None:
        self.beat = BeatMaster(bus_bytes=bus_bytes)
        super().__init__(
            {
                "start": In(1),
                "to_registers": In(1),
                "is_write": In(1),
                "address": In(32),
                "is_last": In(1),
                "read_data": In(8),
                "put": Out(1),
                "put_data": Out(8),
                "put_ready": In(1),
                "step": Out(1),
                "error": Out(1),
                "done": Out(1),
                "m_axi": Out(axi4(bus_bytes)),
                "m_axil": Out(axi4_lite()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.beat = beat = self.beat
        wiring.connect(m, beat.m_axi, wiring.flipped(self.m_axi))
        wiring.connect(m, beat.m_axil, wiring.flipped(self.m_axil))
        last_lane = beat.bus_bytes - 1
        lane = Signal(range(beat.bus_bytes))
        beat_ends = Signal()
        ends = Signal()
        m.d.comb += [
            lane.eq(self.address & Mux(self.to_registers, REGISTER_BYTES - 1, last_lane)),
            beat.to_registers.eq(self.to_registers),
            beat.is_write.eq(self.is_write),
            beat.address.eq(self.address),
            self.error.eq(beat.done & beat.error),
        ]
        # From a register that has settled when it is used: a byte takes three cycles.
        m.d.sync += [
            self.put_data.eq(beat.data.word_select(lane, 8)),
            beat_ends.eq(lane == Mux(self.to_registers, REGISTER_BYTES - 1, last_lane)),
        ]
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start):
                    m.next = "REQUEST"
                with m.If(self.start & self.is_write):
                    m.next = "FETCH"
            self._write(m, lane, beat_ends, ends)
            self._read(m, beat_ends)
        return m

    def _write(self, m: Module, lane: Signal, beat_ends: Signal, ends: Signal) -> None:
        """Collect the bytes of a beat, write it, and so on."""
        beat = self.beat
        with m.State("FETCH"):
            m.next = "FETCHED"
        with m.State("FETCHED"):
            m.next = "COLLECT"
        with m.State("COLLECT"):
            m.d.sync += [
                beat.data.word_select(lane, 8).eq(self.read_data),
                beat.strobes.bit_select(lane, 1).eq(1),
                ends.eq(self.is_last),
            ]
            m.d.comb += [self.step.eq(1), beat.start.eq(beat_ends | self.is_last)]
            m.next = "FETCH"
            with m.If(beat.start):
                m.next = "WRITE"
        with m.State("WRITE"):
            with m.If(beat.done):
                m.d.sync += beat.strobes.eq(0)
                m.d.comb += self.done.eq(ends)
                m.next = "FETCH"
                with m.If(ends):
                    m.next = "IDLE"

    def _read(self, m: Module, beat_ends: Signal) -> None:
        """Read a beat, put its bytes into the slot, and so on."""
        beat = self.beat
        with m.State("REQUEST"):
            m.d.comb += beat.start.eq(1)
            m.next = "READ"
        with m.State("READ"):
            m.d.sync += beat.data.eq(beat.read_data)
            with m.If(beat.done):
                m.next = "SELECT"
        with m.State("SELECT"):
            m.next = "PUT"
        with m.State("PUT"):
            m.d.comb += self.put.eq(1)
            with m.If(self.put_ready):
                m.next = "NEXT"
        with m.State("NEXT"):
            m.d.comb += [self.step.eq(1), self.done.eq(self.is_last)]
            m.next = "SELECT"
            with m.If(self.is_last):
                m.next = "IDLE"
            with m.Elif(beat_ends):
                m.next = "REQUEST"
