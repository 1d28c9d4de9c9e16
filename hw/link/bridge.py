"""Executor of the requests of the host link, on AXI4 and AXI4-Lite."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch.link import HEADER_BYTES, SLOT_OVERHEAD, VERSION, Info, Operation, Status
from celosia.hw.axi.signature import axi4, axi4_lite
from celosia.hw.lib.component import Component
from celosia.hw.link.frames import FRAME_BYTE
from celosia.hw.link.request import HEADER, RequestCheck
from celosia.hw.link.response import ResponseSender
from celosia.hw.link.slots import Slots
from celosia.hw.link.transfer import Transfer


class Bridge(Component):
    """Executor of requests, one after the other.

    ``RequestCheck`` checks the request in the oldest slot, ``Transfer`` moves its bytes, and
    ``ResponseSender`` sends the response. Bytes that are read go into the slot of the request,
    after its header, and leave from there.

    Parameters
    ----------
    bus_bytes : int
        Bytes of one beat of external memory, a power of two from 4 to 128.
    slots, slot_bytes : int
        See ``Slots``.
    memory_bytes : int
        Bytes of external memory that INFO reports, 0 to 2**32.

    Members
    -------
    pending, length, read_place, read_data, put, put_place, put_data, put_ready, release
        As of ``Slots``, the other way round; ``length`` is ``pending_length``.
    answer : Out(stream of FRAME_BYTE)
        Contents of the responses' frames.
    m_axi : Out(axi4(bus_bytes))
        External memory; ids are 0.
    m_axil : Out(axi4_lite())
        Registers.

    Timing
    ------
    Some 16 cycles for a request, besides ``Transfer`` and ``ResponseSender``. The response begins
    after all transfers.
    """

    def __init__(
        self, *, bus_bytes: int, slots: int, slot_bytes: int, memory_bytes: int = 0
    ) -> None:
        if not 0 <= memory_bytes <= 1 << 32:
            raise ValueError(f"memory_bytes: wanted 0 to 2**32, got {memory_bytes}")
        self.slot_bytes = slot_bytes
        info = Info(VERSION, slots, slot_bytes - SLOT_OVERHEAD, memory_bytes % (1 << 32))
        self.transfer = Transfer(bus_bytes=bus_bytes)
        self.check = RequestCheck(slot_bytes=slot_bytes, payload_bytes=info.payload_bytes)
        self.sender = ResponseSender(info=info)
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
        m.submodules.check = check = self.check
        m.submodules.transfer = transfer = self.transfer
        m.submodules.sender = sender = self.sender
        wiring.connect(m, transfer.m_axi, wiring.flipped(self.m_axi))
        wiring.connect(m, transfer.m_axil, wiring.flipped(self.m_axil))
        wiring.connect(m, sender.o, wiring.flipped(self.answer))
        header: Any = Signal(HEADER)
        status: Any = Signal(Status)
        # Current byte in the slot: of the header, then of the data.
        place = Signal(range(self.slot_bytes))
        is_last = Signal()
        m.d.sync += is_last.eq(place == (header.count + (HEADER_BYTES - 1))[: len(place)])
        m.d.comb += [
            self.read_place.eq(place),
            self.put_place.eq(place),
            self.put.eq(transfer.put),
            self.put_data.eq(transfer.put_data),
            check.header.eq(header),
            check.length.eq(self.length),
            transfer.to_registers.eq(check.to_registers),
            transfer.is_write.eq(check.is_write),
            transfer.address.eq(header.address),
            transfer.put_ready.eq(self.put_ready),
            sender.sequence.eq(header.sequence),
            sender.operation.eq(header.operation),
            sender.status.eq(status),
            sender.has_data.eq((check.is_read | check.is_info) & (status == Status.OK)),
            sender.is_info.eq(check.is_info),
            sender.position.eq(place - HEADER_BYTES),
            self.release.eq(sender.done),
        ]
        for block in (transfer, sender):
            m.d.comb += [block.is_last.eq(is_last), block.read_data.eq(self.read_data)]
        self._execute(m, header, status, place)
        return m

    def _execute(self, m: Module, header: Any, status: Any, place: Signal) -> None:
        """Read the header, check it, transfer the bytes and respond."""
        check, transfer, sender = self.check, self.transfer, self.sender
        # The latest request wrote registers; its number and how it ended.
        kept = Signal()
        kept_sequence = Signal(8)
        kept_status: Any = Signal(Status)
        repeated = Signal()
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [place.eq(0), status.eq(Status.OK)]
                with m.If(self.pending & (self.length == 0)):
                    m.d.sync += [header.eq(0), status.eq(Status.BAD_FRAME)]
                    m.next = "RESPOND"
                with m.Elif(self.pending):
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.sync += [
                    place.eq(place + 1),
                    header.eq(Cat(header.as_value()[8:], self.read_data)),
                ]
                # What arrives before the first byte is shifted out again.
                with m.If(place == HEADER_BYTES + Slots.LATENCY - 1):
                    m.d.sync += place.eq(HEADER_BYTES)
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += check.check.eq(1)
                # Only the latest request counts: what came between has been answered.
                m.d.sync += repeated.eq(
                    kept
                    & (kept_sequence == header.sequence)
                    & (header.operation == Operation.WRITE_REGISTERS)
                )
                m.next = "DECIDE"
            with m.State("DECIDE"):
                m.d.sync += kept.eq(repeated)
                m.next = "RESPOND"
                with m.If(repeated):
                    m.d.sync += status.eq(kept_status)
                with m.Elif(check.wrong):
                    m.d.sync += status.eq(Status.BAD_REQUEST)
                with m.Elif(~check.is_info):
                    m.d.comb += transfer.start.eq(1)
                    m.next = "TRANSFER"
            with m.State("TRANSFER"):
                with m.If(transfer.step):
                    m.d.sync += [place.eq(place + 1), header.address.eq(header.address + 1)]
                with m.If(transfer.error):
                    m.d.sync += status.eq(Status.BUS_ERROR)
                with m.If(transfer.done):
                    m.d.sync += place.eq(HEADER_BYTES)
                    m.next = "RESPOND"
                    with m.If(check.is_write):
                        m.next = "KEEP"
            with m.State("KEEP"):
                m.d.sync += [
                    kept.eq(check.to_registers),
                    kept_sequence.eq(header.sequence),
                    kept_status.eq(status),
                ]
                m.next = "RESPOND"
            with m.State("RESPOND"):
                m.d.comb += sender.send.eq(1)
                with m.If(sender.step):
                    m.d.sync += place.eq(place + 1)
                with m.If(sender.done):
                    m.next = "IDLE"
