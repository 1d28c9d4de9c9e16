"""The host link: a serial line on one side, memory and registers on the other."""

from typing import Any

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from celosia.hw.axi.signature import axi4, axi4_lite
from celosia.hw.lib.slice import Slice
from celosia.hw.link.bridge import Bridge
from celosia.hw.link.frames import FRAME_BYTE, FrameReceiver, FrameTransmitter
from celosia.hw.link.slots import Slots
from celosia.hw.link.uart import UartReceiver, UartTransmitter


class Endpoint(wiring.Component):
    """A link behind bytes: everything but the line.

    Parameters
    ----------
    bus_bytes, slots, slot_bytes, memory_bytes : int
        See ``Bridge`` and ``Slots``.

    Members
    -------
    byte, valid : In(8), In(1)
        What arrives, at least ``FrameReceiver.GAP`` cycles apart.
    o : Out(stream of 8 bits)
        What is to be sent.
    m_axi, m_axil : Out(axi4(bus_bytes)), Out(axi4_lite())
        External memory and registers.
    """

    byte: Signal
    valid: Signal
    o: stream.Interface
    m_axi: Any
    m_axil: Any

    def __init__(
        self, *, bus_bytes: int, slots: int = 4, slot_bytes: int = 512, memory_bytes: int = 0
    ) -> None:
        self.bus_bytes = bus_bytes
        self.slots = Slots(slots=slots, slot_bytes=slot_bytes)
        self.receiver = FrameReceiver(slot_bytes=slot_bytes)
        self.bridge = Bridge(
            bus_bytes=bus_bytes, slots=slots, slot_bytes=slot_bytes, memory_bytes=memory_bytes
        )
        super().__init__(
            {
                "byte": In(8),
                "valid": In(1),
                "o": Out(stream.Signature(unsigned(8))),
                "m_axi": Out(axi4(bus_bytes)),
                "m_axil": Out(axi4_lite()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.slots = slots = self.slots
        m.submodules.receiver = receiver = self.receiver
        m.submodules.bridge = bridge = self.bridge
        m.submodules.transmitter = transmitter = FrameTransmitter()
        m.d.comb += [
            receiver.byte.eq(self.byte),
            receiver.valid.eq(self.valid),
            receiver.full.eq(slots.full),
            slots.write.eq(receiver.write),
            slots.place.eq(receiver.place),
            slots.data.eq(receiver.data),
            slots.commit.eq(receiver.commit),
            slots.length.eq(receiver.length),
            bridge.pending.eq(slots.pending),
            bridge.length.eq(slots.pending_length),
            slots.read_place.eq(bridge.read_place),
            bridge.read_data.eq(slots.read_data),
            slots.put.eq(bridge.put),
            slots.put_place.eq(bridge.put_place),
            slots.put_data.eq(bridge.put_data),
            bridge.put_ready.eq(slots.put_ready),
            slots.release.eq(bridge.release),
        ]
        # The line takes a byte in hundreds of cycles: paths through it need not be one.
        m.submodules.cut = cut = Slice(FRAME_BYTE)
        wiring.connect(m, bridge.answer, cut.i)
        wiring.connect(m, cut.o, transmitter.i)
        wiring.connect(m, transmitter.o, flipped(self.o))
        wiring.connect(m, flipped(self.m_axi), bridge.m_axi)
        wiring.connect(m, flipped(self.m_axil), bridge.m_axil)
        return m


class Link(wiring.Component):
    """Serial line to external memory and registers, see ``docs/reference/link.md``.

    Parameters
    ----------
    divisor : int
        Cycles of one bit, see ``uart.divisor_of``.
    bus_bytes : int
        Bytes of one beat of external memory, a power of two from 4 to 128.
    slots : int
        Requests that may wait, a power of two.
    slot_bytes : int
        Bytes of one of them, a power of two; 16 more than the largest payload.
    memory_bytes : int
        External memory as the host is told, 0 where it is not known.

    Members
    -------
    rx, tx : In(1), Out(1)
        The line; ``rx`` is asynchronous.
    m_axi : Out(axi4(bus_bytes))
        External memory; single beats, ids 0.
    m_axil : Out(axi4_lite())
        Registers.

    Timing
    ------
    See ``docs/reference/link.md``.

    Raises
    ------
    ValueError
        If a size is not as said above.
    """

    rx: Signal
    tx: Signal
    m_axi: Any
    m_axil: Any

    def __init__(
        self,
        *,
        divisor: int,
        bus_bytes: int,
        slots: int = 4,
        slot_bytes: int = 512,
        memory_bytes: int = 0,
    ) -> None:
        self.divisor = divisor
        self.bus_bytes = bus_bytes
        self.receiver = UartReceiver(divisor=divisor)
        self.transmitter = UartTransmitter(divisor=divisor)
        self.endpoint = Endpoint(
            bus_bytes=bus_bytes, slots=slots, slot_bytes=slot_bytes, memory_bytes=memory_bytes
        )
        super().__init__(
            {
                "rx": In(1, init=1),  # pyright: ignore[reportCallIssue]
                "tx": Out(1, init=1),  # pyright: ignore[reportCallIssue]
                "m_axi": Out(axi4(bus_bytes)),
                "m_axil": Out(axi4_lite()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.receiver = receiver = self.receiver
        m.submodules.transmitter = transmitter = self.transmitter
        m.submodules.endpoint = endpoint = self.endpoint
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            endpoint.byte.eq(receiver.byte),
            endpoint.valid.eq(receiver.valid),
        ]
        wiring.connect(m, endpoint.o, transmitter.i)
        wiring.connect(m, flipped(self.m_axi), endpoint.m_axi)
        wiring.connect(m, flipped(self.m_axil), endpoint.m_axil)
        return m
