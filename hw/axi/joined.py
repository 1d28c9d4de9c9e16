"""Reads of several AXI4 masters; one burst serves all requests for the same shared bytes."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.fifo import SyncFIFOBuffered

from celosia.hw.axi.reader import RoundRobin
from celosia.hw.axi.signature import INCR, axi4_read
from celosia.hw.lib.component import Component, In, Out

#: Requested burst of a master: ``beats`` less one; ``shared``: its bytes are the same for all.
REQUEST = data.StructLayout({"address": 32, "beats": 8, "shared": 1})


def burst(masters: int) -> data.StructLayout:
    """Return the payload of a burst of the memory: a request, and the masters that it serves."""
    return data.StructLayout({"address": 32, "beats": 8, "masters": masters})


class JoinedRequests(Component):
    """Requests of several masters, of one id, each kept in a queue.

    Masters that run the same program request the same shared bytes in the same order, one a little
    later than the other. A shared request waits until the oldest of all masters that work are of
    shared bytes, or for ``patience`` cycles. Then one burst serves all requests for those bytes. A
    master that did not come in time is not waited for until its next request. Private requests are
    taken in turn.

    Parameters
    ----------
    masters : int
        Number of masters, at least 2.
    outstanding : int
        Requests of a queue, at least 2.
    patience : int
        Cycles.

    Members
    -------
    request_0, ... : In(stream of REQUEST)
        Masters.
    working : In(masters)
        The master works.
    burst : Out(stream of :func:`burst`)
        Bursts. An offer may change until it is taken.

    Timing
    ------
    A burst is offered two cycles after the last request of those that it serves was taken.
    """

    def __init__(self, *, masters: int, outstanding: int, patience: int) -> None:
        self.masters = masters
        self.outstanding = outstanding
        self.patience = patience
        request = stream.Signature(REQUEST)
        self.working = In(masters)
        self.burst = Out(stream.Signature(burst(masters)))
        for n in range(masters):
            setattr(self, f"request_{n}", In(request))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        queues: list[Any] = []
        for n in range(self.masters):
            request = getattr(self, f"request_{n}")
            queue = SyncFIFOBuffered(width=REQUEST.size, depth=self.outstanding)
            m.submodules[f"queue_{n}"] = queue
            m.d.comb += [
                queue.w_data.eq(request.payload),
                queue.w_en.eq(request.valid),
                request.ready.eq(queue.w_rdy),
            ]
            queues.append(queue)
        oldest: list[Any] = [data.View(REQUEST, queue.r_data) for queue in queues]
        waiting = Cat(queue.r_rdy for queue in queues)
        shared = Cat(request.shared for request in oldest)
        may, first = Signal(), Signal(REQUEST)
        m.submodules.turns = turns = RoundRobin(self.masters)
        m.d.comb += [
            turns.requests.eq(waiting & (~shared | may.replicate(self.masters))),
            turns.advance.eq(self.burst.ready),
            self.burst.valid.eq(turns.requests.any()),
            self.burst.payload.address.eq(first.address),
            self.burst.payload.beats.eq(first.beats),
        ]
        for n, queue in enumerate(queues):
            with m.If(turns.grants[n]):
                m.d.comb += first.eq(oldest[n])
            same = oldest[n].as_value() == first.as_value()
            served = self.burst.payload.masters[n]
            m.d.comb += [
                served.eq(turns.grants[n] | (turns.requests[n] & first.shared & same)),
                queue.r_en.eq(self.burst.ready & served),
            ]
        taken = self.burst.valid & self.burst.ready & first.shared
        m.d.comb += may.eq(self._may(m, waiting, waiting & shared, taken))
        return m

    def _may(self, m: Module, waiting: Value, shared_waiting: Value, taken: Value) -> Value:
        """Return whether shared requests may be taken.

        ``shared_waiting``: masters with one; ``taken``: one of them is.
        """
        present = Signal(self.masters, init=(1 << self.masters) - 1)
        waited = Signal(range(self.patience))
        come, expired = Signal(), Signal()
        m.d.comb += [
            come.eq((shared_waiting | ~present | ~self.working).all()),
            expired.eq(waited == self.patience - 1),
        ]
        m.d.sync += [
            present.eq(Mux(expired, 0, present) | waiting),
            waited.eq(Mux(~shared_waiting.any() | come | taken, 0, waited + ~expired)),
        ]
        return come | expired


class JoinedReads(Component):
    """Read channels of masters on one memory; shared bytes are read once, see ``JoinedRequests``.

    Each id has separate queues, with space for all requests of a master: those of one id come in
    the same order from all masters, and those of two ids do not.

    Parameters
    ----------
    masters : int
        Number of masters, at least 2.
    data_bytes : int
        Bytes of one beat, a power of two.
    outstanding : int
        Most requests of one id of a master whose last beat has not come, at least 2.
    patience : int
        Cycles that a shared request waits for other masters.
    bursts : int
        Most bursts of one id whose last beat has not come.

    Members
    -------
    port_0, ... : In(axi4_read(data_bytes))
        Masters, with bursts INCR of whole beats.
    working : In(masters)
        The master works.
    shared : In(masters)
        The address that a master offers is one of shared bytes.
    bus : Out(axi4_read(data_bytes))
        Memory; ids are those of the masters.

    Timing
    ------
    The memory sees an address three cycles after it was taken. A beat is taken when all masters
    have taken it.
    """

    def __init__(
        self,
        *,
        masters: int,
        data_bytes: int,
        outstanding: int = 32,
        patience: int = 1 << 16,
        bursts: int = 64,
    ) -> None:
        self.masters = masters
        self.data_bytes = data_bytes
        self.outstanding = outstanding
        self.patience = patience
        self.bursts = bursts
        sizes = {"masters": masters, "outstanding": outstanding, "patience": patience}
        self.requests: list[Any] = [JoinedRequests(**sizes) for _ in range(2)]
        port = axi4_read(data_bytes)
        self.working = In(masters)
        self.shared = In(masters)
        self.bus = Out(port)
        for n in range(masters):
            setattr(self, f"port_{n}", In(port))
        super().__init__()

    @property
    def _ports(self) -> list[Any]:
        return [getattr(self, f"port_{n}") for n in range(self.masters)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.bus
        requests = self.requests
        # For each id, the masters of the bursts under way.
        queues = [SyncFIFOBuffered(width=self.masters, depth=self.bursts) for _ in range(2)]
        m.submodules.turns = turns = RoundRobin(2)
        m.d.comb += [
            turns.requests.eq(
                Cat(r.burst.valid & q.w_rdy for r, q in zip(requests, queues, strict=True))
            ),
            turns.advance.eq(~bus.arvalid | bus.arready),
            bus.arsize.eq((self.data_bytes - 1).bit_length()),
            bus.arburst.eq(INCR),
        ]
        with m.If(turns.advance):
            m.d.sync += bus.arvalid.eq(turns.grants.any())
        for number, (joined, queue) in enumerate(zip(requests, queues, strict=True)):
            m.submodules[f"requests_{number}"] = joined
            m.submodules[f"queue_{number}"] = queue
            taken = joined.burst.ready
            payload = joined.burst.payload
            m.d.comb += [
                joined.working.eq(self.working),
                taken.eq(turns.advance & turns.grants[number]),
                queue.w_en.eq(taken),
                queue.w_data.eq(payload.masters),
            ]
            with m.If(taken):
                m.d.sync += [
                    bus.arid.eq(number),
                    bus.araddr.eq(payload.address),
                    bus.arlen.eq(payload.beats),
                ]
        self._split(m)
        self._beats(m, queues)
        return m

    def _split(self, m: Module) -> None:
        """Give the requests of the masters to the queues of their ids."""
        for n, port in enumerate(self._ports):
            ends = [getattr(joined, f"request_{n}") for joined in self.requests]
            for number, end in enumerate(ends):
                m.d.comb += [
                    end.valid.eq(port.arvalid & (port.arid == number)),
                    end.payload.address.eq(port.araddr),
                    end.payload.beats.eq(port.arlen),
                    end.payload.shared.eq(self.shared[n]),
                ]
            m.d.comb += port.arready.eq(Mux(port.arid, ends[1].ready, ends[0].ready))

    def _beats(self, m: Module, queues: list[Any]) -> None:
        """Give each beat to the masters of its burst."""
        bus, ports = self.bus, self._ports
        expected = Mux(bus.rid, queues[1].r_data, queues[0].r_data)
        valid = bus.rvalid & Mux(bus.rid, queues[1].r_rdy, queues[0].r_rdy)
        served = Signal(self.masters)
        takes = Cat(port.rvalid & port.rready for port in ports)
        m.d.comb += bus.rready.eq(valid & (served | takes | ~expected).all())
        for n, port in enumerate(ports):
            m.d.comb += port.rvalid.eq(valid & expected[n] & ~served[n])
            m.d.comb += [
                getattr(port, f"r{name}").eq(getattr(bus, f"r{name}"))
                for name in ("id", "data", "resp", "last")
            ]
        with m.If(valid):
            m.d.sync += served.eq(Mux(bus.rready, 0, served | takes))
        for number, queue in enumerate(queues):
            ends = bus.rready & bus.rlast & (bus.rid == number)
            m.d.comb += queue.r_en.eq(ends)
