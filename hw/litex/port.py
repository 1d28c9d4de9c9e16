"""Port of LiteDRAM as wide as the bus of a core, without long paths to the core."""

from typing import Any

from litedram.common import LiteDRAMNativePort
from litex.gen import LiteXModule
from litex.soc.interconnect.axi import AXIInterface
from litex.soc.interconnect.stream import Buffer, Pipeline, PipeReady, StrideConverter
from migen import Cat, If, Signal

from celosia.hw.litex.narrow import Narrowed

_Module: Any = LiteXModule


class Widened(_Module):
    """Port that makes several commands of each command, without a pause between them.

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


class Buffered(_Module):
    """Port whose commands pass a skid buffer: the arbiters of the banks are far from its master.

    Parameters
    ----------
    far : LiteDRAMNativePort
        Port of the memory controller.

    Attributes
    ----------
    port : LiteDRAMNativePort
        The same for the master.

    Timing
    ------
    A command takes one cycle more.
    """

    def __init__(self, far: Any) -> None:
        self.port = near = LiteDRAMNativePort(
            mode="both", address_width=far.address_width, data_width=far.data_width
        )
        self.commands = Buffer(far.cmd.description, pipe_valid=True, pipe_ready=True)
        self.submodules += Pipeline(near.cmd, self.commands, far.cmd)
        self.comb += [near.wdata.connect(far.wdata), far.rdata.connect(near.rdata)]


class Skidded(_Module):
    """AXI4 bus with ``arready`` and ``awready`` from registers.

    The other channels have registers in LiteDRAM and in the core.

    Parameters
    ----------
    master : AXIInterface
        Bus of the core.

    Attributes
    ----------
    bus : AXIInterface
        The same for a slave.

    Timing
    ------
    No channel takes more cycles.
    """

    def __init__(self, master: Any) -> None:
        sizes = {
            name: getattr(master, name) for name in ("data_width", "address_width", "id_width")
        }
        self.bus = bus = AXIInterface(**sizes)
        for source, sink in ((master.ar, bus.ar), (master.aw, bus.aw)):
            skid = PipeReady(source.description)
            self.submodules += skid, Pipeline(source, skid, sink)
        self.comb += [master.w.connect(bus.w), bus.r.connect(master.r), bus.b.connect(master.b)]


def port_of(soc: Any, data_width: int, name: str = "celosia") -> Any:
    """Return a port of a system's LiteDRAM with words of ``data_width`` bits.

    ``name``: of its modules.
    """
    port = soc.sdram.crossbar.get_port()
    buffered = Buffered(port)
    soc.add_module(f"{name}_buffered", buffered)
    if data_width == port.data_width:
        return buffered.port
    adapter = (Widened if data_width > port.data_width else Narrowed)(buffered.port, data_width)
    soc.add_module(f"{name}_port", adapter)
    return adapter.port
