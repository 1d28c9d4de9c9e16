"""Does what requests of the host link ask for, on AXI4 and AXI4-Lite, and answers them."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch.link import (
    CRC_BYTES,
    HEADER_BYTES,
    INFO_BYTES,
    RESPONSE,
    RESPONSE_BYTES,
    SLOT_OVERHEAD,
    VERSION,
    Info,
    Operation,
    Status,
)
from celosia.hw.arch.registers import REGISTER_ADDRESS_BITS
from celosia.hw.axi.signature import INCR, axi4, axi4_lite
from celosia.hw.link.frames import FRAME_BYTE
from celosia.hw.link.slots import Slots

#: Header of a request, as it lies in its slot.
HEADER = data.StructLayout({"sequence": 8, "operation": 8, "count": 16, "address": 32})


class Bridge(wiring.Component):
    """Takes requests out of their slots, one after the other.

    A transfer on a bus is one beat, with strobes for the bytes that are meant. What is read goes
    into the slot of the request, behind its header, and leaves from there.

    Parameters
    ----------
    bus_bytes : int
        Bytes of one beat of external memory, a power of two from 4 to 128.
    slots, slot_bytes : int
        See ``Slots``.
    memory_bytes : int
        External memory as INFO tells it, 0 to 2**32.

    Members
    -------
    pending, length, read_place, read_data, put, put_place, put_data, put_ready, release
        As of ``Slots``, the other way round; ``length`` is ``pending_length``.
    answer : Out(stream of FRAME_BYTE)
        Contents of the answers' frames.
    m_axi : Out(axi4(bus_bytes))
        External memory; ids are 0.
    m_axil : Out(axi4_lite())
        Registers.

    Timing
    ------
    Some 16 cycles for a request, 2 or 3 for each byte written or read, and for each beat the time of its
    transfer. The answer begins when all transfers are done.
    """

    pending: Signal
    length: Signal
    read_place: Signal
    read_data: Signal
    put: Signal
    put_place: Signal
    put_data: Signal
    put_ready: Signal
    release: Signal
    answer: stream.Interface
    m_axi: Any
    m_axil: Any

    def __init__(
        self, *, bus_bytes: int, slots: int, slot_bytes: int, memory_bytes: int = 0
    ) -> None:
        if not 4 <= bus_bytes <= 128 or bus_bytes & (bus_bytes - 1):
            raise ValueError(f"bus_bytes: wanted a power of two from 4 to 128, got {bus_bytes}")
        if not 0 <= memory_bytes <= 1 << 32:
            raise ValueError(f"memory_bytes: wanted 0 to 2**32, got {memory_bytes}")
        self.bus_bytes = bus_bytes
        self.slot_bytes = slot_bytes
        self.info = Info(VERSION, slots, slot_bytes - SLOT_OVERHEAD, memory_bytes % (1 << 32))
        place = range(slot_bytes)
        super().__init__(
            {
                "pending": In(1),
                "length": In(range(slot_bytes + 1)),
                "read_place": Out(place),
                "read_data": In(8),
                "put": Out(1),
                "put_place": Out(place),
                "put_data": Out(8),
                "put_ready": In(1),
                "release": Out(1),
                "answer": Out(stream.Signature(FRAME_BYTE)),
                "m_axi": Out(axi4(bus_bytes)),
                "m_axil": Out(axi4_lite()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        state = _State(self)
        self._connect(m, state)
        with m.FSM():
            self._begin(m, state)
            self._check(m, state)
            self._write(m, state)
            self._read(m, state)
            self._answer(m, state)
        return m

    def _connect(self, m: Module, s: "_State") -> None:
        """Drive both buses and the slots from the state."""
        axi, lite = self.m_axi, self.m_axil
        header = s.header
        beat_bits = (self.bus_bytes - 1).bit_length()
        m.d.comb += [
            s.is_info.eq(header.operation == Operation.INFO),
            s.is_write.eq(
                (header.operation == Operation.WRITE)
                | (header.operation == Operation.WRITE_REGISTERS)
            ),
            s.is_read.eq(
                (header.operation == Operation.READ)
                | (header.operation == Operation.READ_REGISTERS)
            ),
            s.lane.eq(header.address[:beat_bits] & Mux(s.to_registers, 3, self.bus_bytes - 1)),
            s.behind.eq(HEADER_BYTES + s.done),
            self.put_place.eq(s.behind),
            self.put_data.eq(s.byte),
        ]
        # Out of a register that has settled when it is looked at; bytes move in two steps or more.
        m.d.sync += [
            s.to_registers.eq(
                (header.operation == Operation.READ_REGISTERS)
                | (header.operation == Operation.WRITE_REGISTERS)
            ),
            s.byte.eq(s.beat.word_select(s.lane, 8)),
            s.is_last.eq(s.done + 1 == header.count),
            s.ends_beat.eq(s.lane == Mux(s.to_registers, 3, self.bus_bytes - 1)),
        ]
        for channel in ("aw", "ar"):
            m.d.comb += [
                getattr(axi, f"{channel}addr").eq(
                    Cat(Const(0, beat_bits), s.beat_address[beat_bits:])
                ),
                getattr(axi, f"{channel}size").eq(beat_bits),
                getattr(axi, f"{channel}burst").eq(INCR),
                getattr(lite, f"{channel}addr").eq(Cat(Const(0, 2), s.beat_address[2:])),
            ]
        m.d.comb += [
            axi.wdata.eq(s.beat),
            axi.wstrb.eq(s.strobes),
            axi.wlast.eq(1),
            lite.wdata.eq(s.beat),
            lite.wstrb.eq(s.strobes),
        ]
        for name in ("aw", "w", "ar"):
            valid, ready = s.offers[name], s.taken[name]
            m.d.comb += [
                getattr(axi, f"{name}valid").eq(valid & ~s.to_registers),
                getattr(lite, f"{name}valid").eq(valid & s.to_registers),
                ready.eq(
                    Mux(s.to_registers, getattr(lite, f"{name}ready"), getattr(axi, f"{name}ready"))
                ),
            ]
            with m.If(ready):
                m.d.sync += valid.eq(0)
        for name in ("b", "r"):
            m.d.comb += [
                getattr(axi, f"{name}ready").eq(s.takes[name]),
                getattr(lite, f"{name}ready").eq(s.takes[name]),
                s.arrives[name].eq(
                    Mux(s.to_registers, getattr(lite, f"{name}valid"), getattr(axi, f"{name}valid"))
                ),
                s.refused[name].eq(
                    Mux(s.to_registers, getattr(lite, f"{name}resp"), getattr(axi, f"{name}resp"))[
                        1
                    ]
                ),
            ]

    def _begin(self, m: Module, s: "_State") -> None:
        """Read the header of the oldest frame."""
        with m.State("IDLE"):
            m.d.sync += [s.done.eq(0), s.strobes.eq(0), s.status.eq(Status.OK), s.index.eq(0)]
            with m.If(self.pending & (self.length == 0)):
                m.d.sync += [s.header.eq(0), s.status.eq(Status.BAD_FRAME)]
                m.next = "ANSWER"
            with m.Elif(self.pending):
                m.next = "HEADER"
        with m.State("HEADER"):
            m.d.comb += self.read_place.eq(s.index)
            m.d.sync += s.index.eq(s.index + 1)
            raw = s.header.as_value()
            m.d.sync += raw.eq(Cat(raw[8:], self.read_data))
            # What arrives before the first byte is shifted out again.
            with m.If(s.index == HEADER_BYTES + Slots.LATENCY - 1):
                m.d.sync += s.index.eq(0)
                m.next = "SETTLE"
        with m.State("SETTLE"):
            m.next = "CHECK"

    def _check(self, m: Module, s: "_State") -> None:
        """Judge the request: in one cycle what is wrong, in the next what follows."""
        header = s.header
        wrong = Signal(6)
        repeated = Signal()
        end = Signal(33)
        last_place = Signal(33)
        wanted = Signal(17)
        m.d.comb += [
            end.eq(header.address + header.count),
            last_place.eq(Mux(s.to_registers, 1 << REGISTER_ADDRESS_BITS, 1 << 32)),
            wanted.eq(Mux(s.is_write, header.count, 0) + (HEADER_BYTES + CRC_BYTES)),
        ]
        with m.State("CHECK"):
            m.d.sync += [
                wrong[0].eq(~(s.is_info | s.is_read | s.is_write)),
                wrong[1].eq((header.count == 0) | (header.count > self.info.payload_bytes)),
                wrong[2].eq(self.length != wanted),
                wrong[3].eq(end > last_place),
                wrong[4].eq(s.to_registers & Cat(header.address[:2], header.count[:2]).any()),
                wrong[5].eq(s.is_info & (header.count != INFO_BYTES)),
                # Only the request in front of this one counts: what came between has been answered.
                repeated.eq(
                    s.kept
                    & (s.kept_sequence == header.sequence)
                    & (header.operation == Operation.WRITE_REGISTERS)
                ),
            ]
            m.next = "DECIDE"
        with m.State("DECIDE"):
            m.d.sync += s.kept.eq(repeated)
            with m.If(repeated):
                m.d.sync += s.status.eq(s.kept_status)
                m.next = "ANSWER"
            with m.Elif(wrong.any()):
                m.d.sync += s.status.eq(Status.BAD_REQUEST)
                m.next = "ANSWER"
            with m.Elif(s.is_info):
                m.next = "ANSWER"
            with m.Elif(s.is_write):
                m.next = "FETCH"
            with m.Else():
                m.next = "ASK"

    def _write(self, m: Module, s: "_State") -> None:
        """Gather the bytes of a beat, write it, and so on."""
        header = s.header
        with m.State("FETCH"):
            m.d.comb += self.read_place.eq(s.behind)
            m.next = "FETCHED"
        with m.State("FETCHED"):
            m.next = "GATHER"
        with m.State("GATHER"):
            m.d.sync += [
                s.beat.word_select(s.lane, 8).eq(self.read_data),
                s.strobes.bit_select(s.lane, 1).eq(1),
                s.done.eq(s.done + 1),
                s.beat_address.eq(header.address),
                header.address.eq(header.address + 1),
            ]
            with m.If(s.ends_beat | s.is_last):
                m.d.sync += [s.offers["aw"].eq(1), s.offers["w"].eq(1)]
                m.next = "WRITE"
            with m.Else():
                m.next = "FETCH"
        with m.State("WRITE"):
            m.d.comb += s.takes["b"].eq(1)
            with m.If(s.arrives["b"]):
                m.d.sync += s.strobes.eq(0)
                with m.If(s.refused["b"]):
                    m.d.sync += s.status.eq(Status.BUS_ERROR)
                m.next = "FETCH"
                with m.If(s.done == header.count):
                    m.next = "KEEP"
        with m.State("KEEP"):
            m.d.sync += [
                s.kept.eq(s.to_registers),
                s.kept_sequence.eq(header.sequence),
                s.kept_status.eq(s.status),
            ]
            m.next = "ANSWER"

    def _read(self, m: Module, s: "_State") -> None:
        """Read a beat, put its bytes into the slot, and so on."""
        header = s.header
        with m.State("ASK"):
            m.d.sync += [s.beat_address.eq(header.address), s.offers["ar"].eq(1)]
            m.next = "READ"
        with m.State("READ"):
            m.d.comb += s.takes["r"].eq(1)
            m.d.sync += s.beat.eq(Mux(s.to_registers, self.m_axil.rdata, self.m_axi.rdata))
            with m.If(s.arrives["r"]):
                with m.If(s.refused["r"]):
                    m.d.sync += s.status.eq(Status.BUS_ERROR)
                m.next = "PICK"
        with m.State("PICK"):
            m.next = "SCATTER"
        with m.State("SCATTER"):
            m.d.comb += self.put.eq(1)
            with m.If(self.put_ready):
                m.next = "NEXT"
        with m.State("NEXT"):
            m.d.sync += [s.done.eq(s.done + 1), header.address.eq(header.address + 1)]
            m.next = "PICK"
            with m.If(s.is_last):
                m.next = "ANSWER"
            with m.Elif(s.ends_beat):
                m.next = "ASK"

    def _answer(self, m: Module, s: "_State") -> None:
        """Send the header of the answer, what was read, and let go of the slot."""
        header, answer = s.header, self.answer
        head = Array([header.sequence, header.operation | RESPONSE, s.status.as_value()])
        said = Const(int.from_bytes(self.info.encode(), "little"), 8 * INFO_BYTES)
        carries = Signal()
        m.d.comb += carries.eq((s.is_read | s.is_info) & (s.status == Status.OK))
        with m.State("ANSWER"):
            m.d.sync += s.done.eq(0)
            m.d.comb += [
                answer.valid.eq(1),
                answer.payload.data.eq(head[s.index]),
                answer.payload.last.eq((s.index == RESPONSE_BYTES - 1) & ~carries),
            ]
            with m.If(answer.ready):
                m.d.sync += s.index.eq(s.index + 1)
                with m.If(s.index == RESPONSE_BYTES - 1):
                    m.next = "RELEASE"
                    with m.If(carries):
                        m.next = "LOOK_UP"
        with m.State("LOOK_UP"):
            m.d.comb += self.read_place.eq(s.behind)
            m.next = "LOOKED_UP"
        with m.State("LOOKED_UP"):
            m.d.comb += self.read_place.eq(s.behind)
            m.next = "DATA"
        with m.State("DATA"):
            m.d.comb += [
                self.read_place.eq(s.behind),
                answer.valid.eq(1),
                answer.payload.data.eq(
                    Mux(s.is_info, said.word_select(s.done[:3], 8), self.read_data)
                ),
                answer.payload.last.eq(s.is_last),
            ]
            with m.If(answer.ready):
                m.d.sync += s.done.eq(s.done + 1)
                m.next = "LOOK_UP"
                with m.If(answer.payload.last):
                    m.next = "RELEASE"
        with m.State("RELEASE"):
            m.d.comb += self.release.eq(1)
            m.next = "IDLE"


class _State:
    """Registers of a bridge, and what follows from them."""

    def __init__(self, bridge: Bridge) -> None:
        self.header: Any = Signal(HEADER)
        self.index = Signal(range(HEADER_BYTES + Slots.LATENCY))
        self.done = Signal(range(bridge.slot_bytes))
        self.behind = Signal(range(bridge.slot_bytes))
        self.beat = Signal(8 * bridge.bus_bytes)
        self.beat_address = Signal(32)
        self.strobes = Signal(bridge.bus_bytes)
        self.byte = Signal(8)
        self.is_last = Signal()
        self.lane = Signal(range(bridge.bus_bytes))
        self.ends_beat = Signal()
        self.status: Any = Signal(Status)
        self.is_info = Signal()
        self.is_read = Signal()
        self.is_write = Signal()
        self.to_registers = Signal()
        #: The latest request wrote registers; its number and how it ended.
        self.kept = Signal()
        self.kept_sequence = Signal(8)
        self.kept_status: Any = Signal(Status)
        self.offers = {name: Signal(name=f"{name}_offered") for name in ("aw", "w", "ar")}
        self.taken = {name: Signal(name=f"{name}_taken") for name in ("aw", "w", "ar")}
        self.takes = {name: Signal(name=f"{name}_wanted") for name in ("b", "r")}
        self.arrives = {name: Signal(name=f"{name}_arrived") for name in ("b", "r")}
        self.refused = {name: Signal(name=f"{name}_refused") for name in ("b", "r")}
