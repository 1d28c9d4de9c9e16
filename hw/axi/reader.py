"""AXI4 read master shared by several clients."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream

from celosia.hw import streams
from celosia.hw.axi.signature import INCR, axi4_read
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.skid_buffer import link


def length_bits(burst_beats: int) -> int:
    """Return the width in bits of a number of beats, less one, in a burst request."""
    return max(1, (burst_beats - 1).bit_length())


def read_beat(data_bytes: int) -> data.StructLayout:
    """Return the payload of one beat read: ``data``, ``error`` (refused), ``last`` of its burst."""
    return data.StructLayout({"data": unsigned(8 * data_bytes), "error": 1, "last": 1})


class RoundRobin(Component):
    """Round-robin arbiter: the requester that was served last has the lowest priority.

    Parameters
    ----------
    count : int
        Requesters.

    Members
    -------
    requests : In(count)
        Requesters that want to be served.
    eligible : Out(count)
        Requesters that are granted if they request: no other one that does has priority. The bit of
        a requester does not depend on its own request.
    grants : Out(count)
        One bit of ``requests``, or none.
    advance : In(1)
        The granted requester is served in this cycle.

    Timing
    ------
    ``eligible`` and ``grants`` are combinational. Priorities change in the cycle after ``advance``.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.requests = In(count)
        self.eligible = Out(count)
        self.grants = Out(count)
        self.advance = In(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        latest = Signal(range(self.count))
        with m.Switch(latest):
            for n in range(self.count):
                with m.Case(n):
                    order = [(n + 1 + distance) % self.count for distance in range(self.count)]
                    for rank, candidate in enumerate(order):
                        earlier = Cat(self.requests[other] for other in order[:rank])
                        m.d.comb += self.eligible[candidate].eq(~earlier.any())
        m.d.comb += self.grants.eq(self.requests & self.eligible)
        for n in range(self.count):
            with m.If(self.advance & self.grants[n]):
                m.d.sync += latest.eq(n)
        return m


class ReadMaster(Component):
    """AXI4 read master with ``outstanding`` bursts in flight for each client.

    The id of a transaction is the number of its client, so a client gets its beats in order. Beats
    leave in the order of the bus: a client must be able to take every beat that it requested.

    A burst outside the bounds never reaches the bus. It gets one beat, ``last`` with ``error``,
    when all bursts before it have ended.

    Parameters
    ----------
    data_bytes : int
        Bytes of one beat, a power of two.
    burst_beats : int
        Longest burst in beats, at most 256.
    outstanding : int
        Most bursts of one client that are in flight.
    clients : int
        Clients, 1 to 2 with the one-bit id of the core's bus.
    skid : bool
        A skid buffer takes the beats; else a pipeline register, through which ``rready`` depends on
        the clients.

    Members
    -------
    request_<n> : In(stream of ``streams.burst``)
        Bursts of client ``n``, aligned to beats, not crossing 4 KiB.
    beats_<n> : Out(stream of :func:`read_beat`)
        Beats of client ``n``.
    bounds : In(``streams.BOUNDS``)
        External memory that may be read; constant while bursts are in flight.
    bus : Out(axi4_read)
        Read half of the bus.
    idle : Out(1)
        No burst is in flight or waits on the address channel.

    Timing
    ------
    A request taken in one cycle is on the address channel in the next; a beat of the bus is offered
    to its client one cycle later. One burst and one beat each cycle.

    Raises
    ------
    ValueError
        If there are more clients than ids, or ``outstanding`` is not positive.
    """

    def __init__(
        self,
        *,
        data_bytes: int,
        burst_beats: int,
        outstanding: int,
        clients: int = 2,
        skid: bool = True,
    ) -> None:
        if not 1 <= clients <= 2:
            raise ValueError(f"clients: wanted 1 or 2, got {clients}")
        if outstanding < 1:
            raise ValueError(f"outstanding: wanted at least 1, got {outstanding}")
        self.data_bytes = data_bytes
        self.burst_beats = burst_beats
        self.outstanding = outstanding
        self.clients = clients
        self.skid = skid
        burst = streams.burst(length_bits=length_bits(burst_beats))
        beat = stream.Signature(read_beat(data_bytes))
        #: Transfer of the address channel, or a burst outside the bounds.
        self._address = data.StructLayout({"outside": 1, "id": 1, "burst": burst})
        self.bounds = streams.bounds()
        self.bus = Out(axi4_read(data_bytes))
        self.idle = Out(1)
        for n in range(clients):
            setattr(self, f"request_{n}", In(stream.Signature(burst)))
            setattr(self, f"beats_{n}", Out(beat))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.bus
        numbers = range(self.clients)
        requests = [getattr(self, f"request_{n}") for n in numbers]
        beats = [getattr(self, f"beats_{n}") for n in numbers]
        counts = [Signal(range(self.outstanding + 1), name=f"under_way_{n}") for n in numbers]
        # Registered, because all requests depend on them.
        full = [Signal(name=f"full_{n}") for n in numbers]

        m.submodules.arbiter = arbiter = RoundRobin(self.clients)
        # With a skid buffer no request waits for `arready` or for a burst that is refused.
        m.submodules.address = address = link(self._address, skid=self.skid, direct=1)
        free = Signal()
        # A burst outside the bounds was taken: no other one is until it has its beat.
        closed = Signal()
        refused = Signal()
        outside = Signal()
        may = [requests[n].valid & ~full[n] for n in numbers]
        # Compared beside the choice, which comes late.
        beyond = [streams.outside(self.bounds, request.payload.address) for request in requests]
        chosen, ahead = address.i.payload, address.o.payload
        m.d.comb += [
            free.eq(address.i.ready & ~closed),
            arbiter.requests.eq(Cat(may)),
            arbiter.advance.eq(free),
            address.i.valid.eq(arbiter.grants.any() & ~closed),
            outside.eq(Mux(arbiter.grants[-1], beyond[-1], beyond[0])),
            chosen.outside.eq(outside),
            chosen.id.eq(arbiter.grants[-1] if self.clients > 1 else 0),
            chosen.burst.eq(Mux(arbiter.grants[-1], requests[-1].payload, requests[0].payload)),
            bus.arvalid.eq(address.o.valid & ~ahead.outside),
            refused.eq(address.o.valid & ahead.outside),
            bus.arid.eq(ahead.id),
            bus.araddr.eq(ahead.burst.address),
            bus.arlen.eq(ahead.burst.beats),
            bus.arsize.eq((self.data_bytes - 1).bit_length()),
            bus.arburst.eq(INCR),
        ]
        for n in numbers:
            # Not `grants`: the clients' own `valid` would come back to them as `ready`.
            m.d.comb += requests[n].ready.eq(free & ~full[n] & arbiter.eligible[n])

        # The refused burst alone is in flight: its beat comes from here.
        low, high = (Cat(part) for part in zip(*((c[0], c[1:].any()) for c in counts), strict=True))
        error = Signal()

        # The register holds the id with the beat.
        m.submodules.beats = register = link(
            data.StructLayout({"id": len(bus.rid), "beat": read_beat(self.data_bytes)}),
            skid=self.skid,
        )
        number = Signal.like(bus.rid)
        m.d.comb += [
            register.i.valid.eq(bus.rvalid | error),
            bus.rready.eq(register.i.ready),
            number.eq(Mux(error, bus.arid, bus.rid)),
            register.i.payload.id.eq(number),
            register.i.payload.beat.data.eq(bus.rdata),
            register.i.payload.beat.error.eq(bus.rresp[1] | error),
            register.i.payload.beat.last.eq(bus.rlast | error),
            self.idle.eq(~Cat(counts).any() & ~register.o.valid),
        ]
        ends = register.i.valid & register.i.ready & register.i.payload.beat.last
        answered = error & register.i.ready
        m.d.comb += address.o.ready.eq(Mux(ahead.outside, answered, bus.arready))
        m.d.sync += [
            closed.eq((closed | (address.i.valid & address.i.ready & outside)) & ~answered),
            error.eq(refused & low.xor() & ~high.any() & ~answered),
        ]
        for n in numbers:
            mine = register.o.payload.id == n
            m.d.comb += [
                beats[n].valid.eq(register.o.valid & mine),
                beats[n].payload.eq(register.o.payload.beat),
            ]
            with m.If(mine):
                m.d.comb += register.o.ready.eq(beats[n].ready)
            issued, ended = requests[n].valid & requests[n].ready, ends & (number == n)
            fills = issued & (counts[n] == self.outstanding - 1)
            m.d.sync += full[n].eq((full[n] | fills) & ~ended)
            # `ended` comes late: it reaches the enable only.
            with m.If(issued ^ ended):
                m.d.sync += counts[n].eq(Mux(issued, counts[n] + 1, counts[n] - 1))
        return m
