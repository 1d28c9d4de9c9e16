"""Register windows of a pod: one AXI4-Lite slave for the registers of all cores."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data

from celosia.hw.arch.pod import BASES, CORES, PAGE, PRIVATE, WORKING, PodConfig
from celosia.hw.arch.registers import REGISTER_ADDRESS_BITS
from celosia.hw.axi.signature import DECERR, OKAY, SLVERR, axi4_lite
from celosia.hw.lib.component import Component, In, Out


class Windows(Component):
    """AXI4-Lite slave whose pages are the registers of the cores, and then those of the pod.

    The pod has the number of its cores, read only, a bit for each core that works, the range of
    private addresses, and a base address for each core. An access without a register gets DECERR,
    a write to the number of cores SLVERR.

    Parameters
    ----------
    config : PodConfig
        Sizes of the pod.

    Members
    -------
    bus : In(axi4_lite(config.address_bits))
        The host.
    core_0, ... : Out(axi4_lite)
        Registers of the cores.
    working : Out(32)
        Bit n: core n works. All ones at first.
    private : Out(ArrayLayout(32, 2))
        First private address, and the one after the last; all below 4 GiB - 1 at first.
    bases : Out(ArrayLayout(32, cores))
        Base addresses, 0 at first.

    Timing
    ------
    One read and one write at a time. A core sees an access one cycle after the last part of it was
    taken; the host sees the core's response one cycle after it came.
    """

    def __init__(self, *, config: PodConfig) -> None:
        self.config = config
        for n in range(config.cores):
            setattr(self, f"core_{n}", Out(axi4_lite()))
        ones = 0xFFFF_FFFF
        self.working = Out(32, init=ones)
        self.private = Out(data.ArrayLayout(32, 2), init=[0, ones])
        self.bases = Out(data.ArrayLayout(32, config.cores))
        self.bus = In(axi4_lite(config.address_bits))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _cores(self, address: Signal) -> list[tuple[Any, Value]]:
        """Return the port of each core, and whether an address is on its page."""
        page = address[REGISTER_ADDRESS_BITS:]
        return [(getattr(self, f"core_{n}"), page == n) for n in range(self.config.cores)]

    def _registers(self, address: Signal) -> list[tuple[Signal, Value]]:
        """Return the registers of the pod that can be written, and whether an address is theirs."""
        registers = {WORKING: self.working}
        registers |= {PRIVATE + 4 * n: self.private[n] for n in range(2)}
        registers |= {BASES + 4 * n: self.bases[n] for n in range(self.config.cores)}
        first = self.config.cores * PAGE
        return [(value, address[2:] == first + offset >> 2) for offset, value in registers.items()]

    def _is_count(self, address: Signal) -> Value:
        """Return whether an address is that of the number of cores."""
        return address[2:] == self.config.cores * PAGE + CORES >> 2

    def _write(self, m: Module) -> None:
        """Take address and data in either order; pass them on, or write; respond."""
        bus = self.bus
        address = Signal(self.config.address_bits)
        word, strobes = Signal(32), Signal(4)
        # Address and data: taken from the host; not yet taken by a core.
        taken, left = Signal(2), Signal(2)
        m.d.comb += [bus.awready.eq(~taken[0]), bus.wready.eq(~taken[1])]
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [address.eq(bus.awaddr), taken[0].eq(1), left[0].eq(1)]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [word.eq(bus.wdata), strobes.eq(bus.wstrb), taken[1].eq(1), left[1].eq(1)]
        with m.If(bus.bvalid & bus.bready):
            m.d.sync += [bus.bvalid.eq(0), taken.eq(0)]
        acts = taken.all() & ~bus.bvalid
        with m.If(acts & (address[REGISTER_ADDRESS_BITS:] >= self.config.cores)):
            m.d.sync += [
                bus.bvalid.eq(1),
                bus.bresp.eq(Mux(self._is_count(address), SLVERR, DECERR)),
            ]
        for value, chosen in self._registers(address):
            with m.If(acts & chosen):
                m.d.sync += bus.bresp.eq(OKAY)
                for n in range(4):
                    with m.If(strobes[n]):
                        m.d.sync += value.word_select(n, 8).eq(word.word_select(n, 8))
        for port, chosen in self._cores(address):
            m.d.comb += [port.awaddr.eq(address), port.wdata.eq(word), port.wstrb.eq(strobes)]
            m.d.comb += [
                port.awvalid.eq(acts & chosen & left[0]),
                port.wvalid.eq(acts & chosen & left[1]),
                port.bready.eq(acts),
            ]
            with m.If(port.awvalid & port.awready):
                m.d.sync += left[0].eq(0)
            with m.If(port.wvalid & port.wready):
                m.d.sync += left[1].eq(0)
            with m.If(port.bvalid & port.bready):
                m.d.sync += [bus.bvalid.eq(1), bus.bresp.eq(port.bresp)]

    def _read(self, m: Module) -> None:
        """Take an address; pass it on, or read; respond."""
        bus = self.bus
        address = Signal(self.config.address_bits)
        taken, left = Signal(), Signal()
        m.d.comb += bus.arready.eq(~taken)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [address.eq(bus.araddr), taken.eq(1), left.eq(1)]
        with m.If(bus.rvalid & bus.rready):
            m.d.sync += [bus.rvalid.eq(0), taken.eq(0)]
        acts = taken & ~bus.rvalid
        with m.If(acts & (address[REGISTER_ADDRESS_BITS:] >= self.config.cores)):
            m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(0), bus.rresp.eq(DECERR)]
        choices = [(Const(self.config.cores), self._is_count(address)), *self._registers(address)]
        for value, chosen in choices:
            with m.If(acts & chosen):
                m.d.sync += [bus.rdata.eq(value), bus.rresp.eq(OKAY)]
        for port, chosen in self._cores(address):
            m.d.comb += [
                port.araddr.eq(address),
                port.arvalid.eq(acts & chosen & left),
                port.rready.eq(acts),
            ]
            with m.If(port.arvalid & port.arready):
                m.d.sync += left.eq(0)
            with m.If(port.rvalid & port.rready):
                m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(port.rdata), bus.rresp.eq(port.rresp)]
