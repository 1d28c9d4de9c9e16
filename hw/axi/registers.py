"""Host registers: AXI4-Lite slave made from the table in ``hw/arch/registers.py``."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal

from celosia.hw.arch import isa
from celosia.hw.arch.registers import (
    COUNTERS,
    COUNTERS_PER_UNIT,
    REGISTER_ADDRESS_BITS,
    REGISTERS,
    Register,
    width,
)
from celosia.hw.axi.signature import DECERR, OKAY, SLVERR, axi4_lite
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import data_registers

#: Counters that the host can read.
COUNTER_COUNT = len(isa.Unit) * COUNTERS_PER_UNIT

#: Ports on which the ones written to a ``w1`` register appear.
STROBES = {"control": "control_write", "interrupt": "interrupt_clear"}


def _port(register: Register) -> dict[str, Any]:
    flow = Out if register.access == "rw" else In
    bits = width(register) if register.access == "rw" else 32
    ports = {register.name: flow(bits, init=register.init)}
    if register.access == "w1":
        ports[STROBES[register.name]] = Out(32)
    return ports


class RegisterFile(Component):
    """AXI4-Lite slave with the registers of ``REGISTERS`` and the counters.

    An access without a register gets DECERR, a write to a read-only register SLVERR; neither
    changes anything. The lowest two bits of an address are ignored.

    Members
    -------
    bus : In(axi4_lite)
        The host.
    <name> : Out(``registers.width``) or In(32)
        Value of each register: an output if its access is ``rw``, else an input. An input without
        a driver has the ``init`` of the table.
    control_write, interrupt_clear : Out(32)
        Ones written to ``control`` and ``interrupt``, for one cycle.
    counter_address : Out(range(COUNTER_COUNT))
        Number of the counter that is read.
    counter_value : In(32)
        Its value, one cycle later.

    Timing
    ------
    A write takes effect two cycles after the later of its address and its data was taken. The
    response to a read comes four cycles after its address was taken. One read and one write at a
    time.
    """

    def __init__(self) -> None:
        self.bus = In(axi4_lite(REGISTER_ADDRESS_BITS))
        self.counter_address = Out(range(COUNTER_COUNT))
        self.counter_value = In(32)
        for register in REGISTERS:
            for name, port in _port(register).items():
                setattr(self, name, port)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _write(self, m: Module) -> None:
        """Take address and data in either order, write, respond."""
        bus = self.bus
        [bresp] = data_registers(m, bus.bresp)
        address = Signal(REGISTER_ADDRESS_BITS - 2)
        address_valid = Signal()
        word = Signal(32, reset_less=True)
        strobes = Signal(4, reset_less=True)
        word_valid = Signal()
        act = Signal()
        m.d.comb += [
            bus.awready.eq(~address_valid),
            bus.wready.eq(~word_valid),
            act.eq(address_valid & word_valid & ~bus.bvalid),
        ]
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [address.eq(bus.awaddr[2:]), address_valid.eq(1)]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [word.eq(bus.wdata), strobes.eq(bus.wstrb), word_valid.eq(1)]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(act):
            m.d.sync += [address_valid.eq(0), word_valid.eq(0), bus.bvalid.eq(1)]
            m.d.sync += bresp.eq(Mux(self._is_counter(address), SLVERR, DECERR))

        mask = Cat(*(strobe.replicate(8) for strobe in strobes))
        m.d.sync += [getattr(self, name).eq(0) for name in STROBES.values()]
        for register in REGISTERS:
            with m.If(act & (address == register.offset >> 2)):
                m.d.sync += bresp.eq(SLVERR if register.access == "r" else OKAY)
                value = getattr(self, register.name)
                if register.access == "rw":
                    for lane, strobe in enumerate(strobes[: -(-len(value) // 8)]):
                        bits = slice(
                            max(8 * lane, min(register.lowest, 8 * lane + 8)), 8 * lane + 8
                        )
                        with m.If(strobe):
                            m.d.sync += value[bits].eq(word[bits])
                elif register.access == "w1":
                    m.d.sync += getattr(self, STROBES[register.name]).eq(word & mask)

    def _read(self, m: Module) -> None:
        """Take an address, read, respond."""
        bus = self.bus
        rdata, rresp = data_registers(m, bus.rdata, bus.rresp)
        address = Signal(REGISTER_ADDRESS_BITS - 2)
        # A bit for each register, one for the counters: sums of products are smaller than a choice.
        chosen = Signal(len(REGISTERS) + 1, reset_less=True)
        values = [getattr(self, register.name) for register in REGISTERS] + [self.counter_value]
        m.d.comb += self.counter_address.eq(address - (COUNTERS >> 2))
        with m.FSM():
            with m.State("ADDRESS"):
                m.d.comb += bus.arready.eq(1)
                m.d.sync += address.eq(bus.araddr[2:])
                with m.If(bus.arvalid):
                    m.next = "LOOK_UP"
            with m.State("LOOK_UP"):
                hits = (address == register.offset >> 2 for register in REGISTERS)
                m.d.sync += chosen.eq(Cat(*hits, self._is_counter(address)))
                m.next = "READ"
            with m.State("READ"):
                # Counters follow their address by two cycles.
                m.next = "RESPOND"
            with m.State("RESPOND"):
                terms = (
                    value & bit.replicate(32) for bit, value in zip(chosen, values, strict=True)
                )
                m.d.sync += [
                    bus.rvalid.eq(1),
                    rdata.eq(reduce(or_, terms)),
                    rresp.eq(Mux(chosen.any(), OKAY, DECERR)),
                ]
                m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(bus.rready):
                    m.d.sync += bus.rvalid.eq(0)
                    m.next = "ADDRESS"

    @staticmethod
    def _is_counter(address: Signal) -> Any:
        first = COUNTERS >> 2
        return (address >= first) & (address < first + COUNTER_COUNT)
