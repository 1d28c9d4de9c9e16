"""Two AXI4 masters on one memory."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFOBuffered

from celosia.hw.axi.signature import ADDRESS, axi4
from celosia.hw.lib.component import Component, In, Out


class Arbiter(Component):
    """Arbiter of two AXI4 masters on one memory, round robin, burst by burst.

    The memory's id is the master's id with one more bit on top: the number of the master. The
    responses return by it.

    Parameters
    ----------
    data_bytes : int
        Bytes of one beat, a power of two.
    address_bits, id_bits : int
        Widths of the masters' addresses and ids; ids of the memory have one bit more.
    write_bursts : int
        Most write bursts whose address was taken and whose data are not complete; at least 1.

    Members
    -------
    port_0, port_1 : In(axi4(data_bytes, address_bits, id_bits))
        Masters.
    bus : Out(axi4(data_bytes, address_bits, id_bits + 1))
        Memory.

    Timing
    ------
    Combinational: the memory takes an address in the cycle in which the master's is taken. Write
    data follow their address by two cycles or more.

    Raises
    ------
    ValueError
        If ``write_bursts`` is not positive.
    """

    def __init__(
        self, *, data_bytes: int, address_bits: int = 32, id_bits: int = 1, write_bursts: int = 8
    ) -> None:
        if write_bursts < 1:
            raise ValueError(f"write_bursts: wanted at least 1, got {write_bursts}")
        self.id_bits = id_bits
        self.write_bursts = write_bursts
        port = axi4(data_bytes, address_bits, id_bits)
        self.port_0 = In(port)
        self.port_1 = In(port)
        self.bus = Out(axi4(data_bytes, address_bits, id_bits + 1))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports = (self.port_0, self.port_1)
        bus = self.bus
        m.submodules.order = order = SyncFIFOBuffered(width=1, depth=self.write_bursts)
        self._addresses(m, "ar", 1)
        chosen = self._addresses(m, "aw", order.w_rdy)
        m.d.comb += [
            order.w_en.eq(bus.awvalid & bus.awready),
            order.w_data.eq(chosen),
            order.r_en.eq(bus.wvalid & bus.wready & bus.wlast),
        ]
        for number, port in enumerate(ports):
            mine = order.r_rdy & (order.r_data == number)
            m.d.comb += port.wready.eq(bus.wready & mine)
            with m.If(mine):
                m.d.comb += [
                    bus.wvalid.eq(port.wvalid),
                    bus.wdata.eq(port.wdata),
                    bus.wstrb.eq(port.wstrb),
                    bus.wlast.eq(port.wlast),
                ]
        for channel, fields in (("b", ("resp",)), ("r", ("data", "resp", "last"))):
            number = getattr(bus, f"{channel}id")
            for n, port in enumerate(ports):
                mine = number[self.id_bits] == n
                m.d.comb += [
                    getattr(port, f"{channel}valid").eq(getattr(bus, f"{channel}valid") & mine),
                    getattr(port, f"{channel}id").eq(number[: self.id_bits]),
                ]
                with m.If(mine):
                    m.d.comb += getattr(bus, f"{channel}ready").eq(getattr(port, f"{channel}ready"))
                for field in fields:
                    name = f"{channel}{field}"
                    m.d.comb += getattr(port, name).eq(getattr(bus, name))
        return m

    def _addresses(self, m: Module, channel: str, space: Any) -> Signal:
        """Pass the addresses of one master at a time; return the number of that master."""
        bus = self.bus
        valid, ready = f"{channel}valid", f"{channel}ready"
        latest = Signal(name=f"{channel}_latest")
        held = Signal(name=f"{channel}_held")
        chosen = Signal(name=f"{channel}_chosen")
        valids = [getattr(port, valid) for port in (self.port_0, self.port_1)]
        offered = getattr(bus, valid)
        # An address that is offered stays until it is taken.
        m.d.comb += [
            chosen.eq(Mux(held, latest, Mux(valids[0] & valids[1], ~latest, valids[1]))),
            offered.eq(Mux(chosen, valids[1], valids[0]) & (held | space)),
        ]
        m.d.sync += held.eq(offered & ~getattr(bus, ready))
        with m.If(offered):
            m.d.sync += latest.eq(chosen)
        for number, port in enumerate((self.port_0, self.port_1)):
            mine = chosen == number
            m.d.comb += getattr(port, ready).eq(getattr(bus, ready) & offered & mine)
            with m.If(mine):
                for field in ADDRESS:
                    value = getattr(port, f"{channel}{field}")
                    if field == "id":
                        value = Cat(value, Const(number, 1))
                    m.d.comb += getattr(bus, f"{channel}{field}").eq(value)
        return chosen
