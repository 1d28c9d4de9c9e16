"""Master of single beats on AXI4 or AXI4-Lite."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from celosia.hw.axi.signature import INCR, axi4, axi4_lite
from celosia.hw.lib.component import Component

#: Bytes of one beat of AXI4-Lite.
REGISTER_BYTES = 4


class BeatMaster(Component):
    """Master of one beat at a time, on AXI4 or on AXI4-Lite.

    Parameters
    ----------
    bus_bytes : int
        Bytes of one beat of AXI4, a power of two from 4 to 128.

    Members
    -------
    to_registers, is_write : In(1), In(1)
        Bus and direction, constant from ``start`` to ``done``.
    start : In(1)
        Starts a beat.
    address : In(32)
        Address of a byte in the beat, taken at ``start``.
    data, strobes : In(8 * bus_bytes), In(bus_bytes)
        Bytes to be written, constant from the cycle after ``start`` to ``done``.
    done : Out(1)
        The beat is over.
    error : Out(1)
        With ``done``: the bus refused the beat.
    read_data : Out(8 * bus_bytes)
        With ``done``: bytes read.
    m_axi, m_axil : Out(axi4(bus_bytes)), Out(axi4_lite())
        The buses; ids are 0.

    Timing
    ------
    The channels of a request are valid from the cycle after ``start``. ``done`` comes in the cycle
    of the response.
    """

    def __init__(self, *, bus_bytes: int) -> None:
        if not 4 <= bus_bytes <= 128 or bus_bytes & (bus_bytes - 1):
            raise ValueError(f"bus_bytes: wanted a power of two from 4 to 128, got {bus_bytes}")
        self.bus_bytes = bus_bytes
        super().__init__(
            {
                "to_registers": In(1),
                "is_write": In(1),
                "start": In(1),
                "address": In(32),
                "data": In(8 * bus_bytes),
                "strobes": In(bus_bytes),
                "done": Out(1),
                "error": Out(1),
                "read_data": Out(8 * bus_bytes),
                "m_axi": Out(axi4(bus_bytes)),
                "m_axil": Out(axi4_lite()),
            }
        )

    def _select(self, name: str) -> Value:
        """Return the signal ``name`` of the bus of this beat."""
        return Mux(self.to_registers, getattr(self.m_axil, name), getattr(self.m_axi, name))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        axi, lite = self.m_axi, self.m_axil
        beat_bits = (self.bus_bytes - 1).bit_length()
        register_bits = (REGISTER_BYTES - 1).bit_length()
        address = Signal(32)
        waits = Signal()
        with m.If(self.start):
            m.d.sync += [address.eq(self.address), waits.eq(1)]
        with m.Elif(self.done):
            m.d.sync += waits.eq(0)
        for channel in ("aw", "ar"):
            m.d.comb += [
                getattr(axi, f"{channel}addr").eq(Cat(Const(0, beat_bits), address[beat_bits:])),
                getattr(axi, f"{channel}size").eq(beat_bits),
                getattr(axi, f"{channel}burst").eq(INCR),
                getattr(lite, f"{channel}addr").eq(
                    Cat(Const(0, register_bits), address[register_bits:])
                ),
            ]
        m.d.comb += axi.wlast.eq(1)
        for bus in (axi, lite):
            m.d.comb += [bus.wdata.eq(self.data), bus.wstrb.eq(self.strobes)]
            m.d.comb += [
                bus.bready.eq(waits & self.is_write),
                bus.rready.eq(waits & ~self.is_write),
            ]
        for name in ("aw", "w", "ar"):
            valid = Signal(name=f"{name}_valid")
            starts = self.start & (~self.is_write if name == "ar" else self.is_write)
            with m.If(starts):
                m.d.sync += valid.eq(1)
            with m.Elif(self._select(f"{name}ready")):
                m.d.sync += valid.eq(0)
            m.d.comb += [
                getattr(axi, f"{name}valid").eq(valid & ~self.to_registers),
                getattr(lite, f"{name}valid").eq(valid & self.to_registers),
            ]
        response = Mux(self.is_write, self._select("bresp"), self._select("rresp"))
        m.d.comb += [
            self.done.eq(
                waits & Mux(self.is_write, self._select("bvalid"), self._select("rvalid"))
            ),
            self.error.eq(response[1]),
            self.read_data.eq(self._select("rdata")),
        ]
        return m
