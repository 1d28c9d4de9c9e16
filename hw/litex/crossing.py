"""Crossing of an AXI bus from one clock to another: a FIFO of LiteX in each channel."""

from typing import Any

from litex.gen import LiteXModule
from litex.soc.interconnect.stream import ClockDomainCrossing

#: Transfers in a channel. Full speed wants eight; a memory of LUTs has sixteen.
_DEPTH = 16

_Module: Any = LiteXModule


class Crossing(_Module):
    """AXI4 or AXI4-Lite bus between a master and a slave with different clocks.

    A reset is one of both domains, for three cycles of each: the counters of the FIFOs must agree.

    Parameters
    ----------
    master, slave : AXIInterface or AXILiteInterface
        Bus of the master, and one of the same sizes for the slave.
    master_domain, slave_domain : str
        Their clock domains.

    Timing
    ------
    A transfer each cycle of the slower clock. It takes ``CROSSING`` cycles of ``boards``: to write
    it; two until the receiver sees the sender's counter, one to compare it, and one register.
    """

    def __init__(self, master: Any, slave: Any, master_domain: str, slave_domain: str) -> None:
        requests = [(channel, master, slave) for channel in ("aw", "w", "ar")]
        responses = [(channel, slave, master) for channel in ("b", "r")]
        domains = {id(master): master_domain, id(slave): slave_domain}
        for channel, sender, receiver in requests + responses:
            source, sink = getattr(sender, channel), getattr(receiver, channel)
            fifo = ClockDomainCrossing(
                source.description,
                domains[id(sender)],
                domains[id(receiver)],
                depth=_DEPTH,
                buffered=True,
            )
            self.submodules += fifo
            self.comb += [source.connect(fifo.sink), fifo.source.connect(sink)]
