"""Sums over the bytes of a line, by which a host notices damage."""

from typing import Any

from litex.gen import LiteXModule
from litex.soc.interconnect.csr import CSRStatus
from migen import Cat, If, Signal

#: Polynomial of CRC-32, reflected.
_POLYNOMIAL = 0xEDB88320

_Module: Any = LiteXModule


class LineCheck(_Module):
    """CRC-32 of all bytes that a line has brought, and of all that it has taken.

    UARTBone itself has no check: a damaged request writes to another address. The host computes the
    same sums and compares.

    Parameters
    ----------
    phy : module
        The line: streams ``source`` and ``sink`` of bytes.

    Attributes
    ----------
    sent, received : CSRStatus
        Sum of the bytes to the host, and of those from it, as ``zlib.crc32`` continues them.
    """

    def __init__(self, phy: Any) -> None:
        self.sent = CSRStatus(32)
        self.received = CSRStatus(32)
        for stream, register in ((phy.sink, self.sent), (phy.source, self.received)):
            state = Signal(32, reset=0xFFFFFFFF)
            self.comb += register.status.eq(~state)
            self.sync += If(stream.valid & stream.ready, state.eq(_next(state, stream.data)))


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
