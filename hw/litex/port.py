"""Port of LiteDRAM as wide as the bus of a core."""

from typing import Any

from litedram.common import LiteDRAMNativePort
from litex.gen import LiteXModule
from litex.soc.interconnect.stream import Pipeline, StrideConverter
from migen import Cat, If, Signal

from celosia.hw.litex.narrow import Narrowed

_Module: Any = LiteXModule


class Widened(_Module):
    """Port that makes several commands of each of its own, without a pause between them.

    LiteDRAM's own converter stops for a cycle at each command: a third of the bandwidth where a
    word of the core is two of the memory.

    Parameters
    ----------
    narrow : LiteDRAMNativePort
        Port of the memory controller.
    data_width : int
        Bits of a word: two, four or more times as many as the controller has.

    Attributes
    ----------
    port : LiteDRAMNativePort
        The wide port.
    """

    def __init__(self, narrow: Any, data_width: int) -> None:
        shift = (data_width // narrow.data_width).bit_length() - 1
        self.port = wide = LiteDRAMNativePort(
            mode="both", address_width=narrow.address_width - shift, data_width=data_width
        )
        number = Signal(shift)
        last = number == 2**shift - 1
        self.comb += [
            narrow.cmd.valid.eq(wide.cmd.valid),
            narrow.cmd.we.eq(wide.cmd.we),
            narrow.cmd.last.eq(wide.cmd.last & last),
            narrow.cmd.addr.eq(Cat(number, wide.cmd.addr)),
            wide.cmd.ready.eq(narrow.cmd.ready & last),
        ]
        self.sync += If(narrow.cmd.valid & narrow.cmd.ready, number.eq(number + 1))
        for source, sink in ((wide.wdata, narrow.wdata), (narrow.rdata, wide.rdata)):
            converter = StrideConverter(source.description, sink.description)
            self.submodules += converter, Pipeline(source, converter, sink)


def port_of(soc: Any, data_width: int) -> Any:
    """Return a port of a system's LiteDRAM with words of ``data_width`` bits."""
    port = soc.sdram.crossbar.get_port()
    if data_width == port.data_width:
        return port
    made = Widened if data_width > port.data_width else Narrowed
    soc.celosia_port = made(port, data_width)
    return soc.celosia_port.port
