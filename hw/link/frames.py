"""Frames of the host link: delimiters, escapes, checksum. The format is that of ``hw/arch/link.py``."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.wiring import In, Out

from celosia.hw.arch.link import CRC_BYTES, ESCAPE, ESCAPED, FLAG, HEADER_BYTES
from celosia.hw.lib.component import Component

#: Payload of bytes on the way into a frame: ``last`` is the one before the checksum.
FRAME_BYTE = data.StructLayout({"data": unsigned(8), "last": 1})


class FrameReceiver(Component):
    """Cuts bytes into frames, takes the escapes out, and judges the checksum.

    Parameters
    ----------
    slot_bytes : int
        Most bytes of a frame, checksum included.

    Members
    -------
    byte, valid : In(8), In(1)
        What arrives.
    full : In(1)
        There is no room for a frame: one that begins now is dropped up to its end.
    write : Out(1)
        ``data`` belongs at ``place`` in the frame.
    place, data : Out(range(slot_bytes)), Out(8)
        See ``write``.
    commit : Out(1)
        The frame has ended; one cycle.
    length : Out(range(slot_bytes + 1))
        With ``commit``: its bytes, checksum included; 0 if it is damaged, too short or too long.

    Timing
    ------
    ``write`` comes one cycle after ``valid``, ``commit`` two cycles after the delimiter. Bytes
    arrive at least ``GAP`` cycles apart; those of a line do.
    """

    GAP = 4

    def __init__(self, *, slot_bytes: int) -> None:
        self.slot_bytes = slot_bytes
        super().__init__(
            {
                "byte": In(8),
                "valid": In(1),
                "full": In(1),
                "write": Out(1),
                "place": Out(range(slot_bytes)),
                "data": Out(8),
                "commit": Out(1),
                "length": Out(range(slot_bytes + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        escaped = Signal()
        strobe = Signal()
        end = Signal()
        m.d.sync += [strobe.eq(0), end.eq(0)]
        with m.If(self.valid):
            m.d.sync += [
                escaped.eq(self.byte == ESCAPE),
                self.data.eq(Mux(escaped, self.byte ^ ESCAPED, self.byte)),
                strobe.eq((self.byte != ESCAPE) & (self.byte != FLAG)),
                end.eq(self.byte == FLAG),
            ]

        crc: Any = CRC32_ISO_HDLC(data_width=8).create()
        m.submodules.crc = crc
        count = Signal(range(self.slot_bytes + 1))
        too_long = Signal()
        dropped = Signal()
        drop = Signal()
        good = Signal()
        m.d.comb += [
            drop.eq(Mux(count == 0, self.full, dropped)),
            self.place.eq(count),
            self.write.eq(strobe & ~drop & (count != self.slot_bytes)),
            crc.valid.eq(strobe),
            crc.data.eq(self.data),
            crc.start.eq(end),
            good.eq(crc.match_detected & ~too_long & (count >= HEADER_BYTES + CRC_BYTES)),
        ]
        m.d.sync += self.commit.eq(end & (count != 0) & ~dropped)
        with m.If(strobe):
            m.d.sync += dropped.eq(drop)
            with m.If(count == self.slot_bytes):
                m.d.sync += too_long.eq(1)
            with m.Else():
                m.d.sync += count.eq(count + 1)
        with m.If(end):
            m.d.sync += [self.length.eq(Mux(good, count, 0)), count.eq(0), too_long.eq(0)]
            m.d.sync += dropped.eq(0)
        return m


class FrameTransmitter(Component):
    """Puts delimiters, escapes and the checksum around bytes.

    Members
    -------
    i : In(stream of FRAME_BYTE)
        Contents of frames, each at least one byte.
    o : Out(stream of 8 bits)
        What goes over the line.

    Timing
    ------
    One byte each cycle; a frame takes its bytes, one more for each that is escaped, and 6.
    """

    def __init__(self) -> None:
        super().__init__(
            {"i": In(stream.Signature(FRAME_BYTE)), "o": Out(stream.Signature(unsigned(8)))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        crc: Any = CRC32_ISO_HDLC(data_width=8).create()
        m.submodules.crc = crc
        escaping = Signal()
        byte = Signal(8)
        special = Signal()
        whole = Signal()
        place = Signal(range(CRC_BYTES))
        m.d.comb += [
            special.eq(((byte == FLAG) | (byte == ESCAPE)) & ~escaping),
            whole.eq(self.o.valid & self.o.ready & ~special),
            crc.data.eq(byte),
        ]
        stuffed = Mux(special, ESCAPE, Mux(escaping, byte ^ ESCAPED, byte))
        with m.FSM():
            for name, following in (("OPEN", "DATA"), ("CLOSE", "OPEN")):
                with m.State(name):
                    m.d.comb += [self.o.payload.eq(FLAG), crc.start.eq(1)]
                    m.d.comb += self.o.valid.eq(self.i.valid if name == "OPEN" else 1)
                    with m.If(self.o.valid & self.o.ready):
                        m.next = following
            with m.State("DATA"):
                m.d.comb += [
                    byte.eq(self.i.payload.data),
                    self.o.valid.eq(self.i.valid),
                    self.o.payload.eq(stuffed),
                    self.i.ready.eq(self.o.ready & ~special),
                    crc.valid.eq(whole),
                ]
                with m.If(whole & self.i.payload.last):
                    m.next = "CRC"
            with m.State("CRC"):
                m.d.comb += [
                    byte.eq(crc.crc.word_select(place, 8)),
                    self.o.valid.eq(1),
                    self.o.payload.eq(stuffed),
                ]
                with m.If(whole):
                    m.d.sync += place.eq(place + 1)
                    with m.If(place == CRC_BYTES - 1):
                        m.next = "CLOSE"
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += escaping.eq(special)
        return m
