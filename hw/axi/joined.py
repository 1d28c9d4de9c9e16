"""Reads of several AXI4 masters; one burst serves all that ask for the same shared bytes."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from celosia.hw.axi.signature import ADDRESS, axi4_read
from celosia.hw.lib.component import Component


class JoinedReads(Component):
    """Read channels of masters on one memory.

    Masters that run the same program ask for the same shared bytes, one a little later than the
    other. A shared burst waits until all that work ask for shared bytes, or for ``patience``
    cycles. Then one burst of the memory serves all that ask for the same. A master that did not
    come in time is not waited for until it asks again. Private bursts are taken in turn.

    Parameters
    ----------
    masters : int
        Number of masters, at least 2.
    data_bytes : int
        Bytes of one beat, a power of two.
    patience : int
        Cycles.
    bursts : int
        Most bursts of one id whose last beat has not come.

    Members
    -------
    port_0, ... : In(axi4_read(data_bytes))
        Masters.
    working : In(masters)
        The master works.
    shared : In(masters)
        The address that a master offers is one of shared bytes.
    bus : Out(axi4_read(data_bytes))
        Memory; ids are those of the masters.

    Timing
    ------
    The memory sees an address one cycle after it was taken. A beat is taken when all masters have
    taken it.
    """

    def __init__(
        self, *, masters: int, data_bytes: int, patience: int = 512, bursts: int = 64
    ) -> None:
        self.masters = masters
        self.patience = patience
        self.bursts = bursts
        port = axi4_read(data_bytes)
        super().__init__(
            {
                **{f"port_{n}": In(port) for n in range(masters)},
                "working": In(masters),
                "shared": In(masters),
                "bus": Out(port),
            }
        )

    @property
    def _ports(self) -> list[Any]:
        return [getattr(self, f"port_{n}") for n in range(self.masters)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # For each id, the masters of the bursts under way.
        queues = [SyncFIFOBuffered(width=self.masters, depth=self.bursts) for _ in range(2)]
        for number, queue in enumerate(queues):
            m.submodules[f"queue_{number}"] = queue
        self._addresses(m, queues)
        self._beats(m, queues)
        return m

    def _addresses(self, m: Module, queues: list[Any]) -> None:
        bus, ports = self.bus, self._ports
        asks = Cat(port.arvalid for port in ports)
        go = Signal()
        m.d.comb += go.eq(self._may(m, asks))
        candidates = Signal(self.masters)
        m.d.comb += candidates.eq(asks & (~self.shared | go.replicate(self.masters)))
        chosen = self._next(m, candidates)
        first = {
            name: Array(getattr(port, f"ar{name}") for port in ports)[chosen] for name in ADDRESS
        }
        shared = Array(self.shared)[chosen]
        # Those that the burst serves.
        served = Signal(self.masters)
        for n, port in enumerate(ports):
            same = Cat(*(getattr(port, f"ar{name}") == first[name] for name in ADDRESS)).all()
            joins = candidates[n] & self.shared[n] & shared & same
            m.d.comb += served[n].eq(joins | (candidates[n] & (chosen == n)))
        room = Mux(first["id"], queues[1].w_rdy, queues[0].w_rdy)
        taken = Signal()
        m.d.comb += taken.eq(candidates.any() & room & (~bus.arvalid | bus.arready))
        for number, queue in enumerate(queues):
            m.d.comb += [queue.w_data.eq(served), queue.w_en.eq(taken & (first["id"] == number))]
        m.d.comb += [port.arready.eq(taken & served[n]) for n, port in enumerate(ports)]
        with m.If(bus.arready):
            m.d.sync += bus.arvalid.eq(0)
        with m.If(taken):
            m.d.sync += bus.arvalid.eq(1)
            m.d.sync += [getattr(bus, f"ar{name}").eq(value) for name, value in first.items()]

    def _may(self, m: Module, asks: Value) -> Value:
        """Return whether shared bursts may be taken."""
        present = Signal(self.masters, init=(1 << self.masters) - 1)
        waited = Signal(range(self.patience))
        expired = waited == self.patience - 1
        wants = asks & self.shared
        come = (wants | ~present | ~self.working).all()
        m.d.sync += present.eq(present | asks)
        with m.If(~wants.any() | come | expired):
            m.d.sync += waited.eq(0)
        with m.Else():
            m.d.sync += waited.eq(waited + 1)
        with m.If(expired):
            m.d.sync += present.eq(asks)
        return come | expired

    def _next(self, m: Module, candidates: Signal) -> Signal:
        """Return the candidate that follows the one chosen before."""
        chosen, latest = Signal(range(self.masters)), Signal(range(self.masters))
        with m.Switch(latest):
            for before in range(self.masters):
                with m.Case(before):
                    for after in range(self.masters):
                        n = (before - after) % self.masters
                        with m.If(candidates[n]):
                            m.d.comb += chosen.eq(n)
        with m.If(candidates.any()):
            m.d.sync += latest.eq(chosen)
        return chosen

    def _beats(self, m: Module, queues: list[Any]) -> None:
        """Give each beat to the masters of its burst."""
        bus, ports = self.bus, self._ports
        wanted = Mux(bus.rid, queues[1].r_data, queues[0].r_data)
        valid = bus.rvalid & Mux(bus.rid, queues[1].r_rdy, queues[0].r_rdy)
        given = Signal(self.masters)
        takes = Cat(port.rvalid & port.rready for port in ports)
        m.d.comb += bus.rready.eq(valid & (given | takes | ~wanted).all())
        for n, port in enumerate(ports):
            m.d.comb += port.rvalid.eq(valid & wanted[n] & ~given[n])
            m.d.comb += [
                getattr(port, f"r{name}").eq(getattr(bus, f"r{name}"))
                for name in ("id", "data", "resp", "last")
            ]
        with m.If(valid):
            m.d.sync += given.eq(Mux(bus.rready, 0, given | takes))
        for number, queue in enumerate(queues):
            ends = bus.rready & bus.rlast & (bus.rid == number)
            m.d.comb += queue.r_en.eq(ends)
