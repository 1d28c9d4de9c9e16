"""AXI4 write master."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream

from celosia.hw import streams
from celosia.hw.axi.reader import length_bits
from celosia.hw.axi.signature import INCR, axi4_write
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import data_registers
from celosia.hw.lib.skid_buffer import PipelineRegister


def write_beat(data_bytes: int) -> data.StructLayout:
    """Return the payload of one beat to write: ``data``, ``strobe`` (one bit a byte), ``last``."""
    return data.StructLayout(
        {"data": unsigned(8 * data_bytes), "strobe": unsigned(data_bytes), "last": 1}
    )


class WriteMaster(Component):
    """AXI4 write master with ``outstanding`` bursts in flight.

    Parameters
    ----------
    data_bytes : int
        Bytes of one beat, a power of two.
    burst_beats : int
        Longest burst in beats, at most 256.
    outstanding : int
        Most bursts that wait for a response.

    Members
    -------
    request : In(stream of ``streams.burst``)
        Bursts, aligned to beats, not crossing 4 KiB.
    beats : In(stream of :func:`write_beat`)
        Their beats, in the same order, each after the request of its burst. The channels do not
        wait for each other: on the bus a beat may come before the address of its burst.
    responded, refused : Out(1)
        The oldest burst got its response in the cycle before; the response was an error.
    abort : In(1)
        Takes no more requests. Beats are sent with zero strobes.
    bus : Out(axi4_write)
        Write half of the bus.
    idle : Out(1)
        Every burst that was taken has its response.

    Timing
    ------
    A request taken in one cycle is on the address channel in the next, a beat on the data channel
    likewise. One of each a cycle.

    Raises
    ------
    ValueError
        If ``outstanding`` is not positive.
    """

    def __init__(self, *, data_bytes: int, burst_beats: int, outstanding: int) -> None:
        if outstanding < 1:
            raise ValueError(f"outstanding: wanted at least 1, got {outstanding}")
        self.data_bytes = data_bytes
        self.outstanding = outstanding
        self.burst = streams.burst(length_bits=length_bits(burst_beats))
        self.request = In(stream.Signature(self.burst))
        self.beats = In(stream.Signature(write_beat(data_bytes)))
        self.responded = Out(1)
        self.refused = Out(1)
        self.abort = In(1)
        self.bus = Out(axi4_write(data_bytes))
        self.idle = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wdata, wstrb, wlast = data_registers(m, self.bus.wdata, self.bus.wstrb, self.bus.wlast)
        bus = self.bus
        count = Signal(range(self.outstanding + 1))
        # Registered, because every request depends on it.
        full = Signal()
        m.submodules.addresses = addresses = PipelineRegister(self.burst)
        accept = Signal()
        may = addresses.i.ready & ~full & ~self.abort
        m.d.comb += [
            self.request.ready.eq(may),
            accept.eq(may & self.request.valid),
            addresses.i.valid.eq(accept),
            addresses.i.payload.eq(self.request.payload),
            bus.awvalid.eq(addresses.o.valid),
            bus.awaddr.eq(addresses.o.payload.address),
            bus.awlen.eq(addresses.o.payload.beats),
            bus.awsize.eq((self.data_bytes - 1).bit_length()),
            bus.awburst.eq(INCR),
            addresses.o.ready.eq(bus.awready),
            self.beats.ready.eq(~bus.wvalid | bus.wready),
            self.idle.eq(count == 0),
        ]
        with m.If(self.beats.ready):
            m.d.sync += [
                bus.wvalid.eq(self.beats.valid),
                wdata.eq(self.beats.payload.data),
                wstrb.eq(Mux(self.abort, 0, self.beats.payload.strobe)),
                wlast.eq(self.beats.payload.last),
            ]

        m.d.comb += bus.bready.eq(1)
        m.d.sync += [
            Cat(self.responded, self.refused).eq(Cat(bus.bvalid, bus.bvalid & bus.bresp[1])),
            count.eq(count + accept - bus.bvalid),
            full.eq((full | (accept & (count == self.outstanding - 1))) & ~bus.bvalid),
        ]
        return m
