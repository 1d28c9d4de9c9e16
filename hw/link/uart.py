"""Serial line: 8 data bits, no parity, 1 stop bit, least significant bit first."""

from amaranth.hdl import Cat, Const, Module, Signal, unsigned
from amaranth.lib import stream
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component

#: Cycles of one bit below which a bit cannot be sampled near its middle.
LEAST_DIVISOR = 4
#: Share of a bit by which both ends together may differ.
TOLERANCE = 0.02


def divisor_of(clock_hz: float, baud: float) -> int:
    """Return the cycles of one bit.

    Raises
    ------
    ValueError
        If there are fewer than ``LEAST_DIVISOR``, or a whole number of them misses the bit by more
        than ``TOLERANCE``.

    Examples
    --------
    >>> divisor_of(120e6, 3e6)
    40
    """
    divisor = round(clock_hz / baud)
    if divisor < LEAST_DIVISOR or abs(divisor * baud - clock_hz) > TOLERANCE * clock_hz:
        raise ValueError(
            f"baud: wanted a whole part of {clock_hz:.0f} Hz, at most 1/{LEAST_DIVISOR}, "
            f"within {TOLERANCE:.0%}, got {baud:.0f}"
        )
    return divisor


def _checked(divisor: int) -> int:
    if divisor < LEAST_DIVISOR:
        raise ValueError(f"divisor: wanted at least {LEAST_DIVISOR}, got {divisor}")
    return divisor


class UartReceiver(Component):
    """Takes characters off a line.

    A character whose stop bit is missing is dropped, and the next one waits until the line has been
    high.

    Parameters
    ----------
    divisor : int
        Cycles of one bit, at least ``LEAST_DIVISOR``.

    Members
    -------
    rx : In(1)
        The line, asynchronous; high when nothing is sent.
    byte : Out(8)
        The latest character.
    valid : Out(1)
        It has just arrived; one cycle.

    Timing
    ------
    ``valid`` comes in the middle of the stop bit, and not again within nine bits.
    """

    def __init__(self, *, divisor: int) -> None:
        self.divisor = _checked(divisor)
        super().__init__({"rx": In(1, init=1), "byte": Out(8), "valid": Out(1)})  # pyright: ignore[reportCallIssue]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = Signal(init=1)
        m.submodules.line = FFSynchronizer(self.rx, line, init=1)
        timer = Signal(range(self.divisor))
        bits = Signal(range(10))
        m.d.sync += [timer.eq(timer - 1), self.valid.eq(0)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [timer.eq((self.divisor - 1) // 2), bits.eq(0)]
                with m.If(~line):
                    m.next = "BITS"
            with m.State("BITS"):
                with m.If(timer == 0):
                    m.d.sync += [timer.eq(self.divisor - 1), bits.eq(bits + 1)]
                    with m.If((bits == 0) & line):
                        m.next = "IDLE"
                    with m.Elif(bits == 9):
                        m.d.sync += self.valid.eq(line)
                        m.next = "HIGH"
                        with m.If(line):
                            m.next = "IDLE"
                    with m.Else():
                        m.d.sync += self.byte.eq(Cat(self.byte[1:], line))
            with m.State("HIGH"):
                with m.If(line):
                    m.next = "IDLE"
        return m


class UartTransmitter(Component):
    """Puts characters on a line.

    Parameters
    ----------
    divisor : int
        Cycles of one bit, at least ``LEAST_DIVISOR``.

    Members
    -------
    i : In(stream of 8 bits)
        Characters.
    tx : Out(1)
        The line.

    Timing
    ------
    ``10 * divisor`` cycles a character, without a gap while there are more.
    """

    def __init__(self, *, divisor: int) -> None:
        self.divisor = _checked(divisor)
        super().__init__({"i": In(stream.Signature(unsigned(8))), "tx": Out(1, init=1)})  # pyright: ignore[reportCallIssue]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = Signal(range(11))
        timer = Signal(range(self.divisor))
        rest = Signal(9, init=(1 << 9) - 1)
        ends = Signal()
        m.d.comb += [
            ends.eq(timer == 0),
            self.i.ready.eq((bits == 0) | ((bits == 1) & ends)),
        ]
        with m.If(self.i.ready):
            m.d.sync += [bits.eq(0), timer.eq(self.divisor - 1)]
            with m.If(self.i.valid):
                m.d.sync += [
                    bits.eq(10),
                    Cat(self.tx, rest).eq(Cat(Const(0, 1), self.i.payload, 1)),
                ]
        with m.Elif(ends):
            m.d.sync += [
                bits.eq(bits - 1),
                timer.eq(self.divisor - 1),
                Cat(self.tx, rest).eq(Cat(rest, 1)),
            ]
        with m.Else():
            m.d.sync += timer.eq(timer - 1)
        return m
