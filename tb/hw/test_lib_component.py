"""Components and bundles of ports: declared once, by assignment."""

import pysim
import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring

from celosia.hw.lib.component import Bundle, Component, In, Out, array


class Reads(Bundle):
    def __init__(self, bits: int) -> None:
        self.request = Out(stream.Signature(bits))
        self.fault = In(1)
        super().__init__()


class Client(Component):
    def __init__(self) -> None:
        self.bits = 8
        self.reads = Out(Reads(8))
        self.bad = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.reads.request.payload.eq(7), self.bad.eq(self.reads.fault)]
        return m


class Server(Component):
    def __init__(self, clients: int) -> None:
        self.ports = array(In(Reads(8)), clients)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for n, port in enumerate(self.ports):
            m.d.sync += port.fault.eq(port.request.payload == 7 + n)
        return m


class Pair(Component):
    def __init__(self) -> None:
        self.bad = array(Out(1), 2)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.server = server = Server(2)
        for n, port in enumerate(server.ports):
            m.submodules[f"client_{n}"] = client = Client()
            wiring.connect(m, client.reads, port)
            m.d.comb += self.bad[n].eq(client.bad)
        return m


def test_ports_are_those_assigned():
    dut = Client()
    assert list(dut.signature.members) == ["reads", "bad"] and dut.bits == 8
    assert list(dut.reads.signature.members) == ["request", "fault"]
    assert dut.reads.request.payload.name == "reads__request__payload"
    assert dut.signature.is_compliant(dut)


def test_a_name_is_of_one_port():
    with pytest.raises(NameError, match="elaborate"):

        class Wrong(Component):
            def __init__(self) -> None:
                self.elaborate = In(1)  # pyright: ignore[reportAttributeAccessIssue]
                super().__init__()

            def elaborate(self, platform: object) -> Module:
                return Module()

        Wrong()


async def test_bundles_connect():
    dut = Pair()
    ctx = await pysim.simulation(dut)
    await ctx.tick()
    assert [ctx.get(bad) for bad in dut.bad] == [1, 0]
