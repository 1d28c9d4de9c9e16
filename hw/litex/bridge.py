"""Bridge from a serial line to the bus of a system. See ``docs/reference/link.md``."""

from typing import Any

from litex.gen import LiteXModule
from litex.soc.interconnect import wishbone
from litex.soc.interconnect.stream import Buffer
from migen import FSM, Cat, If, Memory, Mux, NextState, NextValue, Signal

from celosia.hw.arch import link

#: Polynomial of CRC-32, reflected.
_POLYNOMIAL = 0xEDB88320
_ONES = 0xFFFFFFFF

_Module: Any = LiteXModule


class Bridge(_Module):
    """Master of a system's bus that carries out the requests of a line, once each is checked.

    Parameters
    ----------
    phy : module
        The line: streams ``source`` and ``sink`` of bytes.

    Attributes
    ----------
    bus : wishbone.Interface
        Bus of the system.

    Timing
    ------
    It takes a byte each cycle while it waits for a request. While it carries one out and responds,
    bytes are lost: that request is dropped, and its host sends it again.
    """

    def __init__(self, phy: Any) -> None:
        self.bus: Any = wishbone.Interface(data_width=32, address_width=32, addressing="word")
        self.received = Buffer(phy.source.description)
        self.comb += phy.source.connect(self.received.sink)
        self.rx = self.received.source
        self.tx = phy.sink
        self.control = Signal(32)
        self.address = Signal(32)
        # The latest request: a write that comes again is not done again.
        self.last = Signal(32)
        self.error = Signal()
        # Bytes of the request; then, in words, the place in it and what remains to be moved.
        self.count = Signal(max=4 * link.REQUEST_WORDS)
        self.place = Signal(max=link.REQUEST_WORDS)
        self.left = Signal(max=link.REQUEST_WORDS)
        self.shift = Signal(32)
        self.escaped = Signal()
        self.crc = Signal(32, reset=_ONES)
        self.lost = Signal()
        self.raw = Signal(8)
        self.next_crc = Signal(32)
        self.is_write = Signal()
        # Registers before and after the bus: its other ends may be far away.
        self.access = Signal()
        self.writes = Signal()
        self.done = Signal()
        self.refused = Signal()
        self.word = Signal(32)
        # Words sent after those read: control, checksum.
        self.trailer = Signal(max=3)
        self.fsm = FSM(reset_state="RECEIVE")
        self._receive()
        self._move()
        self._send()

    def _receive(self) -> None:
        """Take the bytes of a request, words of data into a memory."""
        memory = Memory(32, link.REQUEST_WORDS)
        self.load: Any = memory.get_port()
        store: Any = memory.get_port(write_capable=True)
        self.specials += memory, self.load, store
        rx, shift, count = self.rx, self.shift, self.count
        receives, flag = self.fsm.ongoing("RECEIVE"), rx.data == link.FLAG
        escape = rx.data == link.ESCAPE
        word = Cat(shift[8:], self.raw)
        sent = shift[:8]
        self.comb += [
            rx.ready.eq(1),
            self.raw.eq(Mux(receives, rx.data ^ Mux(self.escaped, link.ESCAPED, 0), sent)),
            self.next_crc.eq(_next(self.crc, self.raw)),
            self.is_write.eq(self.control[16:24] == 0),
            store.adr.eq(count[2:]),
            store.dat_w.eq(word),
            store.we.eq(receives & rx.valid & (count[:2] == 3)),
            self.load.adr.eq(self.place),
        ]
        # A request that comes in part, or is too long, has no response.
        full = count == 4 * link.REQUEST_WORDS - 1
        self.sync += If(rx.valid, self.lost.eq(~flag & (self.lost | ~receives | full)))
        self.fsm.act(
            "RECEIVE",
            If(
                rx.valid & flag,
                *self._restart(),
                If((count != 0) & ~self.lost, NextState("CLOSE")),
                If(self._is_good() & ~self.lost, NextState("CHECK")),
            )
            .Elif(
                rx.valid & escape,
                NextValue(self.escaped, 1),
            )
            .Elif(
                rx.valid,
                NextValue(self.escaped, 0),
                NextValue(self.crc, self.next_crc),
                NextValue(shift, word),
                NextValue(count, count + 1),
                If(count == 3, NextValue(self.control, word)),
                If(count == 7, NextValue(self.address, word)),
                NextValue(self.place, link.HEADER_WORDS),
                NextValue(self.left, count[2:] - link.HEADER_WORDS),
            ),
        )

    def _is_good(self) -> Any:
        """Return whether the frame that ends now is whole."""
        least = 4 * (link.HEADER_WORDS + 1)
        return (self.crc == _ONES ^ link.RESIDUE) & (self.count[:2] == 0) & (self.count >= least)

    def _restart(self) -> list[Any]:
        """Return the statements before another frame, to or from the host."""
        return [
            NextValue(self.crc, _ONES),
            NextValue(self.count, 0),
            NextValue(self.escaped, 0),
            NextValue(self.trailer, 0),
        ]

    def _move(self) -> None:
        """Write the words of a request to the bus, or read words and send each."""
        bus, left, done = self.bus, self.left, self.done
        self.comb += [
            bus.cyc.eq(self.access),
            bus.stb.eq(self.access),
            bus.we.eq(self.writes),
            bus.sel.eq(0xF),
            bus.adr.eq(self.address[2:]),
            bus.dat_w.eq(self.shift),
        ]
        self.sync += [
            done.eq(self.access & (bus.ack | bus.err)),
            If(bus.ack | bus.err, self.access.eq(0)),
            self.refused.eq(bus.err),
            self.word.eq(bus.dat_r),
        ]
        step = [NextValue(self.address, self.address + 4), NextValue(left, left - 1)]
        step.append(NextValue(self.error, self.error | self.refused))
        self.fsm.act(
            "CHECK",
            NextValue(self.last, self.control),
            NextValue(self.writes, self.is_write),
            If(~self.is_write, NextValue(left, self.control[16:24])),
            If(self.is_write & (self.control == self.last), NextValue(left, 0)).Else(
                NextValue(self.error, 0)
            ),
            NextState("NEXT"),
        )
        self.fsm.act(
            "NEXT",
            NextValue(self.trailer, self.trailer + (left == 0)),
            If(left == 0, NextState("SEND"), *self._trail())
            .Elif(self.writes, NextState("FETCH"))
            .Else(NextValue(self.access, 1), NextState("READ")),
        )
        fetched = [NextValue(self.shift, self.load.dat_r), NextValue(self.access, 1)]
        self.fsm.act("FETCH", *fetched, NextState("WRITE"))
        self.fsm.act(
            "WRITE", If(done, *step, NextValue(self.place, self.place + 1), NextState("NEXT"))
        )
        self.fsm.act("READ", If(done, *step, NextValue(self.shift, self.word), NextState("SEND")))

    def _trail(self) -> list[Any]:
        """Return the statements that choose one of the words after those read."""
        control = Cat(self.control[:31], self.error)
        return [
            NextValue(self.shift, Mux(self.trailer == 0, control, ~self.crc)),
            If(self.trailer == 2, NextState("CLOSE")),
        ]

    def _send(self) -> None:
        """Send the four bytes of a word, or the end of a frame."""
        tx, shift, count = self.tx, self.shift, self.count
        byte = shift[:8]
        escapes = ((byte == link.FLAG) | (byte == link.ESCAPE)) & ~self.escaped
        changed = byte ^ Mux(self.escaped, link.ESCAPED, 0)
        closes = self.fsm.ongoing("CLOSE")
        self.comb += [
            tx.valid.eq(closes | self.fsm.ongoing("SEND")),
            tx.data.eq(Mux(closes, link.FLAG, Mux(escapes, link.ESCAPE, changed))),
        ]
        self.fsm.act(
            "SEND",
            If(tx.ready & escapes, NextValue(self.escaped, 1)).Elif(
                tx.ready,
                NextValue(self.escaped, 0),
                NextValue(self.crc, self.next_crc),
                NextValue(shift, shift[8:]),
                NextValue(count, count + 1),
                If(count[:2] == 3, NextState("NEXT")),
            ),
        )
        self.fsm.act("CLOSE", If(tx.ready, *self._restart(), NextState("RECEIVE")))


def _next(state: Any, byte: Any) -> Any:
    """Return the state of a CRC-32 after one more byte."""
    bits = [state[n] for n in range(32)]
    for n in range(8):
        feedback = bits[0] ^ byte[n]
        bits = [*bits[1:], 0]
        bits = [
            (bit ^ feedback if _POLYNOMIAL >> place & 1 else bit) for place, bit in enumerate(bits)
        ]
    return Cat(*bits)
