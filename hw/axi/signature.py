"""Signatures of AXI4 and AXI4-Lite, with the signal names of the protocol."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

#: Values of ``awburst`` / ``arburst`` and of ``bresp`` / ``rresp``.
INCR = 1
OKAY = 0
SLVERR = 2
DECERR = 3


#: Fields of AR and AW.
ADDRESS = ("id", "addr", "len", "size", "burst")


def _address(channel: str, address_bits: int, id_bits: int) -> dict[str, Any]:
    return {
        f"{channel}valid": Out(1),
        f"{channel}ready": In(1),
        f"{channel}id": Out(id_bits),
        f"{channel}addr": Out(address_bits),
        f"{channel}len": Out(8),
        f"{channel}size": Out(3),
        f"{channel}burst": Out(2),
    }


def axi4_read(data_bytes: int, address_bits: int = 32, id_bits: int = 1) -> wiring.Signature:
    """Return the read half of :func:`axi4`: channels AR and R."""
    return wiring.Signature(
        _address("ar", address_bits, id_bits)
        | {
            "rvalid": In(1),
            "rready": Out(1),
            "rid": In(id_bits),
            "rdata": In(8 * data_bytes),
            "rresp": In(2),
            "rlast": In(1),
        }
    )


def axi4_write(data_bytes: int, address_bits: int = 32, id_bits: int = 1) -> wiring.Signature:
    """Return the write half of :func:`axi4`: channels AW, W and B."""
    return wiring.Signature(
        _address("aw", address_bits, id_bits)
        | {
            "wvalid": Out(1),
            "wready": In(1),
            "wdata": Out(8 * data_bytes),
            "wstrb": Out(data_bytes),
            "wlast": Out(1),
            "bvalid": In(1),
            "bready": Out(1),
            "bid": In(id_bits),
            "bresp": In(2),
        }
    )


def axi4(data_bytes: int, address_bits: int = 32, id_bits: int = 1) -> wiring.Signature:
    """Return the signature of AXI4 as its master sees it, with the signals that every slave needs.

    A port ``m_axi`` of this signature becomes ``m_axi__awvalid`` and so on in Verilog.

    Parameters
    ----------
    data_bytes : int
        Bytes of one beat, a power of two.
    address_bits, id_bits : int
        Widths of addresses and of transaction numbers.
    """
    sizes = (data_bytes, address_bits, id_bits)
    return wiring.Signature({**axi4_write(*sizes).members, **axi4_read(*sizes).members})


def axi4_lite(address_bits: int = 12) -> wiring.Signature:
    """Return the signature of AXI4-Lite with 32-bit data, as its master sees it."""
    return wiring.Signature(
        {
            "awvalid": Out(1),
            "awready": In(1),
            "awaddr": Out(address_bits),
            "wvalid": Out(1),
            "wready": In(1),
            "wdata": Out(32),
            "wstrb": Out(4),
            "bvalid": In(1),
            "bready": Out(1),
            "bresp": In(2),
            "arvalid": Out(1),
            "arready": In(1),
            "araddr": Out(address_bits),
            "rvalid": In(1),
            "rready": Out(1),
            "rdata": In(32),
            "rresp": In(2),
        }
    )


def join(m: Module, bus: Any, *parts: Any) -> None:
    """Connect ``bus``, an :func:`axi4` port of the component of ``m``, with its two halves.

    Parameters
    ----------
    m : Module
        Module of the component.
    bus : interface
        Port of signature ``Out(axi4(...))`` of the component itself.
    *parts : interface
        Ports of signature ``Out(axi4_read(...))`` or ``Out(axi4_write(...))`` of submodules.
    """
    for part in parts:
        connect(m, part.signature, part, bus)


def connect(m: Module, channels: wiring.Signature, master: Any, slave: Any) -> None:
    """Connect some channels of a master with those of a slave, which may have more bits of an id.

    Parameters
    ----------
    m : Module
        Gets the assignments.
    channels : Signature
        :func:`axi4_read` or :func:`axi4_write`; sizes do not matter.
    master, slave : interface
        The master's port, or one of the component itself that is driven by it.
    """
    for name, member in channels.members.items():
        source, sink = (master, slave) if member.flow == Out else (slave, master)
        m.d.comb += getattr(sink, name).eq(getattr(source, name))
