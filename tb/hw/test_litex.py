import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import prerequisites
import pytest

from celosia.hw.arch import link
from celosia.hw.arch.pod import PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.flow.parts import ECP5, GOWIN, SPARTAN6
from celosia.sim.rtl.converted import core_verilog
from celosia.sw.driver.frames import framed

migen = prerequisites.package("migen")
stream = prerequisites.package("litex.soc.interconnect.stream")
boards = prerequisites.package("celosia.hw.litex.boards")
bridge = prerequisites.package("celosia.hw.litex.bridge")
build = prerequisites.package("celosia.hw.litex.build")
core = prerequisites.package("celosia.hw.litex.core")
port = prerequisites.package("celosia.hw.litex.port")
simulated = prerequisites.package("celosia.hw.litex.simulated")
system = prerequisites.package("celosia.hw.litex.system")
target = prerequisites.package("celosia.hw.litex.target")

pytestmark = pytest.mark.thorough

CONFIG = preset("pico")


def instance(made):
    """Return the instance of the Verilog in a module."""
    (only,) = [special for special in made.get_fragment().specials if special.of == "celosia"]
    return only


@pytest.mark.parametrize(
    "config",
    [CONFIG, preset("micro"), PodConfig(CONFIG, 4, 2)],
    ids=["pico", "wide", "pod"],
)
def test_instance_has_the_ports_of_the_verilog(config):
    text = core_verilog(config).rpartition("module celosia(")[2].partition("endmodule")[0]
    ports = re.findall(
        r"(?m)^  (?:\(\*.*\*\) )?(input|output) (?:reg )?(?:\[(\d+):0\] )?(\w+)", text
    )
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
    return framed(b"".join(word.to_bytes(4, "little") for word in (*words, control)))


def test_a_bridge_writes_and_reads():
    words = (0x7D7E7F7D, 0x12345678, 0x7E7E7E7E)
    sent = [request(5, 64, *words), request(6, 64, read=4), request(0x7E7D, 1 << 20, read=1)]
    made = Bridged()
    assert exchanged(made, [framed(contents) for contents in sent]) == [
        response(5),
        response(6, *words, 0, read=4),
        response(0x7E7D, 0, read=1, error=True),
    ]
    assert made.writes == list(zip((64, 68, 72), words, strict=True))


def test_a_bridge_writes_once():
    start, other = framed(request(9, 8, 1)), framed(request(10, 1 << 20, 2))
    read = framed(request(11, 8, read=1))
    made = Bridged()
    refused = response(10, error=True)
    got = exchanged(made, [start, start, other, other, read, other])
    assert got == [response(9), response(9), refused, refused, response(11, 1, read=1), refused]
    assert made.writes == [(8, 1), (1 << 20, 2), (1 << 20, 2)]


FLAG = bytes((link.FLAG,))


@pytest.mark.parametrize(
    ("damaged", "response_to"),
    [
        (framed(request(3, 8, 1)).replace(b"\x03", b"\x02"), FLAG),
        (framed(request(3, 8, 1)).replace(b"\x03", b"\x03\x03"), FLAG),
        (framed(request(3, 8, 1)[:-1]), FLAG),
        (framed(request(3, 8)[:4]), FLAG),
        (framed(request(3, 8)[:4])[:-1] + bytes((link.ESCAPE,)) + FLAG, FLAG),
        (FLAG, b""),
        (framed(request(3, 8, *range(link.REQUEST_WORDS))), b""),
    ],
)
def test_a_bridge_does_nothing_damaged(damaged, response_to):
    made = Bridged()
    good = framed(request(4, 16, 7))
    assert exchanged(made, [damaged, good]) == [response_to, response(4)]
    assert made.writes == [(16, 7)]


def test_a_bridge_drops_what_comes_while_it_works():
    """A later request is lost whole, without a response."""
    first, late = framed(request(1, 0, *range(9))), framed(request(2, 0, 5))
    made = Bridged()
    assert exchanged(made, [first + late, late]) == [response(1), response(2)]
    assert made.writes[9:] == [(0, 5)]
    most = framed(request(1, 0, *range(link.MOST_WORDS)))
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
            "wanted SDR or ECP5DDRPHY or GW2DDRPHY without a processor .* memory, got DDR3 behind S7DDRPHY",
        ),
        # A processor that waits for the host trains nothing.
        (
            {"sdram": memory_of("DDR3", "S7DDRPHY"), "cpu_type": "any", "celosia_held": True},
            "wanted SDR or ECP5DDRPHY .* got DDR3 behind S7DDRPHY",
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


#: Of each family: a site in the file of pins, a port and its site; a clock; the clock generator.
FORMS = {
    ECP5: (
        r'LOCATE COMP "([^"]*)" SITE "([^"]*)";',
        r'FREQUENCY PORT "clk(25|48|100)" \1.0 MHz;',
        "EHXPLLL",
    ),
    GOWIN: (r'IO_LOC "([^"]*)" ([\w,]+);', None, "rPLL"),
    SPARTAN6: (r'NET "([^"]*)" LOC=(\w+)', r'TIMESPEC "TSclk32" = .* 31.25 ns', "PLL_ADV"),
}


def test_a_board_has_clocks_pins_and_a_core(built):
    board, made, description = built
    assert description["fingerprint"] == CONFIG.fingerprint
    assert description["baud"] == boards.BAUD
    assert description["memory_bytes"] == board.memory_bytes
    assert len(description["start"]) > 10
    assert bool(description["levelling"]) == board.memory.startswith("MT41K")
    site, frequency, loop = FORMS[board.fpga.family]
    located = re.findall(site, made.pins)
    assert len(located) == len({port for port, _ in located}) == len({pin for _, pin in located})
    assert {"serial_rx", "serial_tx"} <= {port for port, _ in located}
    clocks = {"O_sdram_clk", "sdram_clock", "ddram_clk_p"}
    assert len(clocks & {port.partition("[")[0] for port, _ in located}) == 1
    assert frequency is None or re.search(frequency, made.pins)
    assert len(located) > 30
    assert made.megahertz == board.clock_hz / 1e6
    for module in ("board", "celosia", "celosia_core"):
        assert re.search(rf"(?m)^module \\?{re.escape(module)} ?\(", made.verilog), module
    assert loop in made.verilog and "no_rw_check" in made.verilog
    source = made.sources["celosia.core.sequencer.quiet"]
    assert source.place.startswith("hw/sequencer/")


@pytest.mark.parametrize(
    ("name", "part", "core", "memory", "width", "pins"),
    [
        ("terasic_de0nano", "EP4CE22F17C6", target.SMALLER, 32 << 20, 2, "FILE board.v -library"),
        (
            "lattice_versa_ecp5",
            "LFE5UM5G-45F-8BG381C",
            "micro",
            128 << 20,
            8,
            'COMP "serial_tx" SITE "A11"',
        ),
    ],
)
def test_a_board_without_a_row(name, part, core, memory, width, pins):
    board = target.board_of_target(name)
    assert (board.part, board.config) == (part, preset(core))
    assert (board.memory_bytes, board.memory_width) == (memory, width)
    made, description = build.design(replace(board, config=CONFIG))
    assert pins in made.pins and "/tmp" not in made.pins
    # A file that the file of pins names has a text, too.
    assert all(name in made.project for name in re.findall(r"SDC_FILE (\S+)", made.pins))
    assert bool(made.project) == name.startswith("terasic")
    assert description["memory_bytes"] == memory and description["start"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "muselab_icesugar",
            "muselab_icesugar: .* from its name alone: TypeError: .* 'bios_flash_off",
        ),
        ("digilent_basys3", "digilent_basys3: soc: wanted a system with LiteDRAM, got none"),
        ("digilent_arty", "digilent_arty: soc: wanted SDR .* got DDR3 behind A7DDRPHY"),
        ("sqrl_acorn", "sqrl_acorn: its target wants the package litepcie"),
        (
            "radiona_ulx3s",
            "board: wanted ulx3s-12f or .*, got the name of its target, radiona_ulx3s",
        ),
    ],
)
def test_targets_that_are_refused(name, says):
    with pytest.raises(ValueError, match=says):
        target.board_of_target(name)


@pytest.mark.parametrize("name", ["ulx3s-99f", "no_board", "__init__", "", "a.b"])
def test_names_that_are_no_target(name):
    assert target.board_of_target(name) is None


def test_a_target_takes_nothing_from_the_network(monkeypatch):
    """A video terminal of LiteX fetches its font."""
    monkeypatch.setattr("os.system", lambda command: pytest.fail(command))
    assert target.board_of_target("lattice_ecp5_vip").memory_bytes > 0


def test_a_board_without_serial_pins():
    board = replace(boards.BOARDS["orangecrab-25f"], config=CONFIG, serial_pins="")
    with pytest.raises(ValueError, match="orangecrab-25f: pins: Resource not found: serial"):
        build.design(board)


def test_a_board_with_a_processor():
    """The host starts the memory, writes the program, and lets the processor go."""
    prerequisites.package("pythondata_cpu_vexriscv")
    board = replace(boards.BOARDS["ecpix5-85f"], config=CONFIG, processor=True)
    made, description = build.design(board)
    assert len(re.findall(r"(?m)^module VexRiscv\b", made.verilog)) == 1
    # Held in reset from the first cycle.
    assert re.search(r"reset_storage = 2'd2;", made.verilog)
    assert description["processor"]["program"] == 4 << 20
    # The other end of the UART at 0xF0008000, which docs/how-to/processor/system.h has.
    assert description["processor"]["uart"] == 0xF0008020
    assert description["start"] and description["levelling"]


def test_a_board_with_a_pod():
    board = replace(boards.BOARDS["ulx3s-85f"], config=CONFIG, cores=2)
    made, description = build.design(board)
    assert len(re.findall(r"(?m)^module celosia_core\(", made.verilog)) == 1
    assert description["cores"] == 2 and description["fingerprint"] == CONFIG.fingerprint
    places = [made.sources[f"celosia.core_{n}.core.sequencer.quiet"].place for n in range(2)]
    assert places[0] == places[1] and places[0].startswith("hw/sequencer/")
    assert made.sources["celosia.windows.working"].place.startswith("hw/axi/")
    with pytest.raises(ValueError, match="soc: wanted one core beside a processor, got 2"):
        build.design(replace(board, processor=True))


def test_multipliers_of_a_part_are_divided_among_cores():
    part = boards.BOARDS["ulx3s-45f"].fpga
    config = preset("micro")
    alone, shared = part.suited(config), part.suited(config, 2)
    assert 0 < shared.dsp_columns * shared.rows // 2 + 3 * config.lanes <= part.multipliers // 2
    assert shared.dsp_columns < alone.dsp_columns


def test_a_processor_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pythondata_cpu_vexriscv", None)
    board = replace(boards.BOARDS["ulx3s-12f"], processor=True)
    with pytest.raises(ImportError) as caught:
        target.target(board)
    assert caught.value.name == "pythondata_cpu_vexriscv"


def test_a_board_is_the_same_tomorrow():
    board = replace(boards.BOARDS["colorlight-i5"], config=CONFIG)
    text = build.design(board)[0].verilog
    assert text == build.design(board)[0].verilog
    assert "Date" not in text
