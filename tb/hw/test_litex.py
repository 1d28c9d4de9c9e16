import re
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import prerequisites
import pytest

from celosia.hw.arch import link
from celosia.hw.arch.presets import preset
from celosia.hw.build import verilog

migen = prerequisites.package("migen")
stream = prerequisites.package("litex.soc.interconnect.stream")
boards = prerequisites.package("celosia.hw.litex.boards")
bridge = prerequisites.package("celosia.hw.litex.bridge")
build = prerequisites.package("celosia.hw.litex.build")
core = prerequisites.package("celosia.hw.litex.core")
narrow = prerequisites.package("celosia.hw.litex.narrow")
port = prerequisites.package("celosia.hw.litex.port")
common = prerequisites.package("litedram.common")
simulated = prerequisites.package("celosia.hw.litex.simulated")
system = prerequisites.package("celosia.hw.litex.system")
target = prerequisites.package("celosia.hw.litex.target")

pytestmark = pytest.mark.thorough

CONFIG = preset("pico")


def instance(made):
    """Return the instance of the Verilog in a module."""
    (only,) = [special for special in made.get_fragment().specials if special.of == "celosia"]
    return only


@pytest.mark.parametrize("name", ["pico", "micro"])
def test_instance_has_the_ports_of_the_verilog(name):
    config = preset(name)
    text = verilog(config).rpartition("module celosia(")[2].partition("endmodule")[0]
    ports = re.findall(r"(?m)^  (input|output) (?:\[(\d+):0\] )?(\w+)", text)
    wanted = {(way[0], port, int(top or 0) + 1) for way, top, port in ports}
    items = [item for item in instance(core.Celosia(config)).items if item.expr is not None]
    got = {(type(item).__name__[0].lower(), item.name, len(item.expr)) for item in items}
    assert got == wanted


class Bridged(migen.Module):
    """A bridge before a memory that takes its time, and refuses what is not in it."""

    def __init__(self):
        self.sink, self.source = (stream.Endpoint([("data", 8)]) for _ in range(2))
        self.submodules.bridge = bridge.Bridge(self)
        self.memory: dict[int, int] = {}
        self.writes: list[tuple[int, int]] = []

    def serve(self):
        bus = self.bridge.bus
        while True:
            yield bus.ack.eq(0)
            yield bus.err.eq(0)
            yield
            if not (yield bus.cyc) or not (yield bus.stb):
                continue
            yield
            yield
            address = 4 * (yield bus.adr)
            if (yield bus.we):
                self.writes.append((address, (yield bus.dat_w)))
                self.memory[address] = yield bus.dat_w
            yield bus.dat_r.eq(self.memory.get(address, 0))
            yield (bus.ack if address < 1 << 20 else bus.err).eq(1)
            yield


def exchanged(made, sent, *, gap=160):
    """Return the bytes that come back for each of some bytes of the host, ``gap`` cycles apart."""
    got = [bytearray() for _ in sent]

    def host():
        for n, data in enumerate(sent):
            for cycle in range(len(data) + gap):
                yield made.source.valid.eq(cycle < len(data))
                yield made.source.data.eq(data[cycle] if cycle < len(data) else 0)
                yield made.sink.ready.eq(cycle % 3 > 0)
                yield
                if (yield made.sink.valid) and (yield made.sink.ready):
                    got[n].append((yield made.sink.data))

    migen.run_simulation(made, [host(), migen.passive(made.serve)()])
    return [bytes(each) for each in got]


def request(number, address, *words, read=0):
    """Return the contents of a request."""
    header = (number | read << 16, address)
    return b"".join(word.to_bytes(4, "little") for word in (*header, *words))


def response(number, *words, read=0, error=False):
    """Return the bytes of a response."""
    control = number | read << 16 | (link.ERROR if error else 0)
    return link.framed(b"".join(word.to_bytes(4, "little") for word in (*words, control)))


def test_a_bridge_writes_and_reads():
    words = (0x7D7E7F7D, 0x12345678, 0x7E7E7E7E)
    sent = [request(5, 64, *words), request(6, 64, read=4), request(0x7E7D, 1 << 20, read=1)]
    made = Bridged()
    assert exchanged(made, [link.framed(contents) for contents in sent]) == [
        response(5),
        response(6, *words, 0, read=4),
        response(0x7E7D, 0, read=1, error=True),
    ]
    assert made.writes == list(zip((64, 68, 72), words, strict=True))


def test_a_bridge_writes_once():
    start, other = link.framed(request(9, 8, 1)), link.framed(request(10, 1 << 20, 2))
    read = link.framed(request(11, 8, read=1))
    made = Bridged()
    refused = response(10, error=True)
    got = exchanged(made, [start, start, other, other, read, other])
    assert got == [response(9), response(9), refused, refused, response(11, 1, read=1), refused]
    assert made.writes == [(8, 1), (1 << 20, 2), (1 << 20, 2)]


FLAG = bytes((link.FLAG,))


@pytest.mark.parametrize(
    ("damaged", "answer"),
    [
        (link.framed(request(3, 8, 1)).replace(b"\x03", b"\x02"), FLAG),
        (link.framed(request(3, 8, 1)).replace(b"\x03", b"\x03\x03"), FLAG),
        (link.framed(request(3, 8, 1)[:-1]), FLAG),
        (link.framed(request(3, 8)[:4]), FLAG),
        (FLAG, b""),
        (link.framed(request(3, 8, *range(link.REQUEST_WORDS))), b""),
    ],
)
def test_a_bridge_does_nothing_damaged(damaged, answer):
    made = Bridged()
    good = link.framed(request(4, 16, 7))
    assert exchanged(made, [damaged, good]) == [answer, response(4)]
    assert made.writes == [(16, 7)]


def test_a_bridge_drops_what_comes_while_it_works():
    """A later request is lost whole, without a response of its own."""
    first, late = link.framed(request(1, 0, *range(9))), link.framed(request(2, 0, 5))
    made = Bridged()
    assert exchanged(made, [first + late, late]) == [response(1), response(2)]
    assert made.writes[9:] == [(0, 5)]
    most = link.framed(request(1, 0, *range(link.MOST_WORDS)))
    made = Bridged()
    assert exchanged(made, [most], gap=2000) == [response(1)]
    assert made.memory == {4 * n: n for n in range(link.MOST_WORDS)}


def memory_of(kind, phy):
    """Return as much of a LiteDRAM as names its kind of memory, and its PHY."""
    phy = SimpleNamespace(memtype=kind, phytype=phy)
    return SimpleNamespace(controller=SimpleNamespace(settings=SimpleNamespace(phy=phy)))


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({}, "wanted a system with LiteDRAM, got none"),
        ({"sdram": 1, "l2_cache": 1}, "without L2 cache, got one"),
        (
            {"sdram": memory_of("DDR3", "S7DDRPHY"), "cpu_type": None},
            "wanted SDR or ECP5DDRPHY without a processor .* memory, got DDR3 behind S7DDRPHY",
        ),
    ],
)
def test_refusals(members, says):
    soc = SimpleNamespace(**members)
    with pytest.raises(ValueError, match=says):
        system.equip(soc, CONFIG, None)


def test_description_of_a_simulated_system():
    text, description = simulated.simulated(CONFIG)
    assert len(re.findall(r"(?m)^module soc\b", text)) == 1
    assert description["fingerprint"] == CONFIG.fingerprint
    assert description["memory_bytes"] == 32 << 20
    starts, control = description["start"], description["start"][-1][0]
    # Clock enable, then PRECHARGE, MODE, PRECHARGE, two REFRESH, MODE, each on RAS, CAS, WE and CS.
    commands = [value for address, value, _ in starts if address == control + 4]
    assert commands == [0b1011, 0b1111, 0b1011, 0b1101, 0b1101, 0b1111]
    assert starts[-1][1] == 1 and [each[0] for each in starts].count(control) == 2
    # The chip wants its clock for 100 us.
    assert next(seconds for address, _, seconds in starts if address == control) > 1e-4
    assert description["levelling"] == {}


class Wide(migen.Module):
    def __init__(self, ratio):
        self.narrow = common.LiteDRAMNativePort("both", address_width=8, data_width=8)
        self.submodules.widened = port.Widened(self.narrow, 8 * ratio)
        self.port = self.widened.port


@pytest.mark.parametrize("ratio", [2, 4])
def test_a_widened_port_makes_a_command_each_cycle(rng, ratio):
    """Before a memory that is ready when it likes, and moves a command's word later."""
    made, words = Wide(ratio), 256 // ratio
    wanted = [int.from_bytes(rng.bytes(ratio), "little") for _ in range(words)]
    memory, got, cycles = {}, [], {"busy": 0, "all": 0}
    commands = [(True, n) for n in range(words)] + [(False, n) for n in range(words)]
    pipeline: list[Any] = [None, None, None]

    def master():
        for write, address in commands:
            yield made.port.cmd.valid.eq(1)
            yield made.port.cmd.we.eq(write)
            yield made.port.cmd.addr.eq(address)
            yield
            while not (yield made.port.cmd.ready):
                yield
        yield made.port.cmd.valid.eq(0)

    def writer():
        for word in wanted:
            yield made.port.wdata.valid.eq(1)
            yield made.port.wdata.data.eq(word)
            yield
            while not (yield made.port.wdata.ready):
                yield
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
                yield made.port.cmd.valid.eq(1)
                yield made.port.cmd.we.eq(write)
                yield made.port.cmd.addr.eq(address)
                yield made.port.cmd.last.eq(address == addresses[-1])
                yield
                while not (yield made.port.cmd.ready):
                    yield
                yield made.port.cmd.valid.eq(0)
                for _ in range(int(rng.integers(8)) * int(rng.integers(8) == 0)):
                    yield

    def writer():
        for byte in sent:
            yield made.port.wdata.valid.eq(1)
            yield made.port.wdata.we.eq(1)
            yield made.port.wdata.data.eq(byte)
            yield
            while not (yield made.port.wdata.ready):
                yield
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


class Interrupted(simulated.SimulatedSystem):
    """A system that hears interrupts, as with a processor."""

    def add_sdram(self, **options):
        super().add_sdram(**options)
        self.irq.enable()


def test_a_processor_gets_the_interrupt():
    with system.quiet():
        soc = Interrupted(CONFIG)
    assert "celosia" in soc.irq.locs


@pytest.fixture(scope="module", params=boards.BOARDS)
def built(request):
    """A board with a small core: its design, and its description."""
    board = boards.BOARDS[request.param]
    return board, *build.design(replace(board, config=CONFIG))


def test_a_board_has_clocks_pins_and_a_core(built):
    board, made, description = built
    assert description["fingerprint"] == CONFIG.fingerprint
    assert description["baud"] == boards.BAUD
    assert description["memory_bytes"] == board.memory_bytes
    assert len(description["start"]) > 10
    assert bool(description["levelling"]) == (board.memory == "MT41K256M16")
    located = re.findall(r'LOCATE COMP "([^"]*)" SITE "([^"]*)";', made.pins)
    assert len(located) == len({port for port, _ in located}) == len({pin for _, pin in located})
    assert {"serial_rx", "serial_tx"} <= {port for port, _ in located}
    assert {"sdram_clock", "ddram_clk_p"} & {port.partition("[")[0] for port, _ in located}
    assert re.search(r'FREQUENCY PORT "clk(25|100)" \1.0 MHz;', made.pins)
    assert made.megahertz == board.clock_hz / 1e6
    for module in ("board", "celosia", "celosia.core"):
        assert re.search(rf"(?m)^module \\?{re.escape(module)} ?\(", made.verilog), module
    assert "EHXPLLL" in made.verilog and "no_rw_check" in made.verilog
    source = made.sources["celosia.core.sequencer.cycles"]
    assert source.place.startswith("hw/sequencer/")


def test_a_board_with_a_processor():
    """The host starts the memory, writes the program, and lets the processor go."""
    prerequisites.package("pythondata_cpu_vexriscv")
    board = replace(boards.BOARDS["ecpix5-85f"], config=CONFIG, processor=True)
    made, description = build.design(board)
    assert len(re.findall(r"(?m)^module VexRiscv\b", made.verilog)) == 1
    # Held in reset from the first cycle.
    assert re.search(r"reset_storage = 2'd2;", made.verilog)
    assert description["processor"]["program"] == 4 << 20
    assert description["start"] and description["levelling"]


def test_a_processor_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pythondata_cpu_vexriscv", None)
    board = replace(boards.BOARDS["ulx3s-12f"], processor=True)
    with pytest.raises(ImportError) as caught:
        target.target(board)
    assert caught.value.name == "pythondata_cpu_vexriscv"


def test_a_board_is_the_same_tomorrow():
    board = replace(boards.BOARDS["colorlight-i5"], config=CONFIG)
    assert build.design(board)[0].verilog == build.design(board)[0].verilog
    assert "Date" not in build.design(board)[0].verilog


def test_a_clock_that_the_loop_cannot_make():
    board = replace(boards.BOARDS["ulx3s-12f"], config=CONFIG, clock_hz=900_000_000)
    with pytest.raises(ValueError, match="ulx3s-12f: No PLL config found, 900 MHz"):
        build.design(board)
