"""Ports and registers between a core and the memory controller of LiteX."""

import itertools
from types import SimpleNamespace
from typing import Any

import prerequisites
import pytest

migen = prerequisites.package("migen")
phy = prerequisites.package("celosia.hw.litex.phy")
narrow = prerequisites.package("celosia.hw.litex.narrow")
port = prerequisites.package("celosia.hw.litex.port")
axi = prerequisites.package("litex.soc.interconnect.axi")
common = prerequisites.package("litedram.common")
dfi = prerequisites.package("litedram.phy.dfi")

pytestmark = pytest.mark.thorough


def offer(stream, **fields):
    """Offer a transfer, and return in the cycle after it was taken; it stays valid."""
    for name, value in {"valid": 1, **fields}.items():
        yield getattr(stream, name).eq(value)
    yield
    while not (yield stream.ready):
        yield


class Wide(migen.Module):
    def __init__(self, ratio):
        self.narrow = common.LiteDRAMNativePort("both", address_width=8, data_width=8)
        self.submodules.buffered = port.Buffered(self.narrow)
        self.port = self.buffered.port
        if ratio > 1:
            self.submodules.widened = port.Widened(self.port, 8 * ratio)
            self.port = self.widened.port


@pytest.mark.parametrize("ratio", [1, 2, 4])
def test_a_port_makes_a_command_each_cycle(rng, ratio):
    """Before a memory that is ready when it likes, and moves a command's word later."""
    made, words = Wide(ratio), 256 // ratio
    wanted = [int.from_bytes(rng.bytes(ratio), "little") for _ in range(words)]
    memory, got, cycles = {}, [], {"busy": 0, "all": 0}
    commands = [(True, n) for n in range(words)] + [(False, n) for n in range(words)]
    pipeline: list[Any] = [None, None, None]

    def master():
        for write, address in commands:
            yield from offer(made.port.cmd, we=write, addr=address)
        yield made.port.cmd.valid.eq(0)

    def writer():
        for word in wanted:
            yield from offer(made.port.wdata, data=word)
        yield made.port.wdata.valid.eq(0)

    def chip():
        narrow = made.narrow
        while len(got) < words:
            moved = pipeline.pop()
            if moved and moved[0]:
                memory[moved[1]] = yield narrow.wdata.data
            yield narrow.rdata.valid.eq(bool(moved and not moved[0]))
            yield narrow.rdata.data.eq(memory.get(moved[1], 0) if moved else 0)
            taken = (yield narrow.cmd.valid) and (yield narrow.cmd.ready)
            command = (yield narrow.cmd.we), (yield narrow.cmd.addr)
            pipeline.insert(0, command if taken else None)
            yield narrow.wdata.ready.eq(bool(pipeline[-1] and pipeline[-1][0]))
            ready = int(rng.integers(4)) > 0
            cycles["all"] += ready
            cycles["busy"] += bool(taken)
            yield narrow.cmd.ready.eq(ready)
            yield

    def reader():
        yield made.port.rdata.ready.eq(1)
        while len(got) < words:
            yield
            if (yield made.port.rdata.valid):
                got.append((yield made.port.rdata.data))

    migen.run_simulation(made, [master(), writer(), chip(), reader()])
    assert got == wanted
    content = b"".join(word.to_bytes(ratio, "little") for word in wanted)
    assert memory == dict(enumerate(content))
    assert cycles["busy"] == 2 * words * ratio
    assert cycles["all"] - cycles["busy"] < 16


class Skid(migen.Module):
    def __init__(self):
        self.master = axi.AXIInterface(data_width=32, address_width=32, id_width=1)
        self.submodules.skid = port.Skidded(self.master)
        self.slave = self.skid.bus


@pytest.mark.parametrize("channel", ["ar", "aw"])
def test_addresses_pass_a_skid_buffer(rng, channel):
    """Each once and in order; ``ready`` of the slave is seen one cycle later."""
    made = Skid()
    source, sink = getattr(made.master, channel), getattr(made.slave, channel)
    wanted = [(int(rng.integers(1 << 32)), n % 2, n) for n in range(100)]
    got, readies, cycles = [], [], []

    def master():
        for address, number, length in wanted:
            yield from offer(source, addr=address, id=number, len=length)
        yield source.valid.eq(0)

    def slave():
        while len(got) < len(wanted):
            readies.append((bool((yield sink.valid)), (yield sink.ready), (yield source.ready)))
            cycles.append(bool((yield sink.valid) and (yield sink.ready)))
            if cycles[-1]:
                got.append(((yield sink.addr), (yield sink.id), (yield sink.len)))
            yield sink.ready.eq(int(rng.integers(3)) > 0)
            yield

    migen.run_simulation(made, [master(), slave()])
    assert got == wanted
    for (valid, ready, _), (_, _, after) in itertools.pairwise(readies):
        assert after == (not valid or ready)
    # A beat leaves whenever the slave is ready.
    assert all(
        done == bool(ready) for done, (_, ready, _) in zip(cycles[2:], readies[2:], strict=True)
    )


def test_data_pass_beside_the_skid_buffers():
    made = Skid()
    pairs = [(made.master.w, made.slave.w, "data strb last"), (made.slave.b, made.master.b, "id")]
    pairs.append((made.slave.r, made.master.r, "data id last"))

    def bench():
        for source, sink, names in pairs:
            for name in ("valid", *names.split()):
                yield getattr(source, name).eq(1)
            yield sink.ready.eq(1)
            yield
            yield
            for name in ("valid", *names.split()):
                assert (yield getattr(sink, name)) == 1
            assert (yield source.ready) == 1

    migen.run_simulation(made, bench())


def test_a_phy_with_registers():
    settings = common.PhySettings("", "SDR", 8, 8, 2, 0, 0, 2, read_latency=4, write_latency=0)
    far = SimpleNamespace(dfi=dfi.Interface(13, 2, 1, 8, nphases=2), settings=settings)
    made = phy.RegisteredPhy(far)
    assert (settings.read_latency, made.settings.read_latency) == (4, 6)
    sent = [
        (near, other, name)
        for near, other in zip(made.dfi.phases, far.dfi.phases, strict=True)
        for name in ("address", "bank", "wrdata", "wrdata_en", "wrdata_mask", "rddata_en")
    ]
    taken = [
        (other, near, name) for near, other, _ in sent[::6] for name in ("rddata", "rddata_valid")
    ]

    def bench():
        for phase in far.dfi.phases:
            for name in ("cs_n", "ras_n", "cas_n", "we_n"):
                assert (yield getattr(phase, name)) == 1
        for source, sink, name in sent + taken:
            yield getattr(source, name).eq(1)
            yield
            assert (yield getattr(sink, name)) == 0
            yield
            assert (yield getattr(sink, name)) == 1

    migen.run_simulation(made, bench())


class Divided(migen.Module):
    """A narrow port before a memory that is ready when it likes, and moves a word later."""

    def __init__(self, ratio, rng):
        self.bytes = ratio
        self.rng = rng
        self.wide = common.LiteDRAMNativePort("both", address_width=4, data_width=8 * ratio)
        self.submodules.narrowed = narrow.Narrowed(self.wide, 8, depth=6)
        self.port = self.narrowed.port
        self.memory = bytearray(16 * ratio)
        self.commands: list[tuple[bool, int]] = []

    def serve(self):
        wide, pipeline = self.wide, [None, None, None]
        while True:
            moved: Any = pipeline.pop()
            write, first = (moved[0], self.bytes * moved[1]) if moved else (False, 0)
            if write:
                assert (yield wide.wdata.valid)
                data, enable = (yield wide.wdata.data), (yield wide.wdata.we)
                for n in range(self.bytes):
                    if enable >> n & 1:
                        self.memory[first + n] = data >> 8 * n & 255
            assert not (yield wide.rdata.valid) or (yield wide.rdata.ready)
            yield wide.rdata.valid.eq(bool(moved) and not write)
            word = int.from_bytes(self.memory[first : first + self.bytes], "little")
            yield wide.rdata.data.eq(word if moved and not write else int(self.rng.integers(256)))
            taken = (yield wide.cmd.valid) and (yield wide.cmd.ready)
            command: Any = ((yield wide.cmd.we), (yield wide.cmd.addr)) if taken else None
            self.commands += [command] * taken
            pipeline.insert(0, command)
            yield wide.wdata.ready.eq(bool(pipeline[-1] and pipeline[-1][0]))
            yield wide.cmd.ready.eq(int(self.rng.integers(4)) > 0)
            yield


@pytest.mark.parametrize("ratio", [2, 4, 16])
def test_a_narrowed_port(rng, ratio):
    """Random bursts: the bytes of a memory, and one command for the reads of a wide word."""
    made = Divided(ratio, rng)
    size = len(made.memory)
    mirror, wanted, sent, got, bursts, commands = bytearray(size), [], [], [], [], 0
    for _ in range(60):
        write, first = bool(rng.integers(2)), int(rng.integers(size))
        end = min(size, first + int(rng.integers(1, 12)))
        bursts.append((write, range(first, end)))
        if write:
            mirror[first:end] = data = rng.bytes(end - first)
            sent += data
        else:
            wanted += mirror[first:end]
        commands += end - first if write else (end - 1) // ratio - first // ratio + 1

    def master():
        for write, addresses in bursts:
            for address in addresses:
                last = address == addresses[-1]
                yield from offer(made.port.cmd, we=write, addr=address, last=last)
                yield made.port.cmd.valid.eq(0)
                for _ in range(int(rng.integers(8)) * int(rng.integers(8) == 0)):
                    yield

    def writer():
        for byte in sent:
            yield from offer(made.port.wdata, we=1, data=byte)
        yield made.port.wdata.valid.eq(0)

    def reader():
        while len(got) < len(wanted) or made.memory != mirror:
            yield made.port.rdata.ready.eq(int(rng.integers(3)) > 0)
            yield
            if (yield made.port.rdata.valid) and (yield made.port.rdata.ready):
                got.append((yield made.port.rdata.data))

    processes = [master(), writer(), migen.passive(made.serve)(), reader()]
    migen.run_simulation(made, processes)
    assert got == wanted
    assert len(made.commands) == commands
