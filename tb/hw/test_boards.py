"""Boards: clocks, pins, and the whole top in Verilog."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from celosia.hw.arch.presets import preset
from celosia.hw.boards import pll
from celosia.hw.boards.machine import Bench
from celosia.hw.boards.platform import BoardError
from celosia.hw.boards.table import BOARDS
from celosia.hw.boards.top import design
from celosia.hw.build import convert
from celosia.hw.flow.parts import PARTS
from celosia.hw.folded import Folded

SMALL = preset("nano,unified_bytes=1024,weight_tiles=4")


@pytest.mark.parametrize("limits", [pll.ECP5, pll.GOWIN])
@pytest.mark.parametrize("clock", [48, 60, 75, 100, 120])
def test_loops_make_the_clock_within_their_limits(limits, clock):
    made = 0
    for oscillator in (12, 25, 27, 48):
        try:
            found = pll.settings(limits, oscillator_hz=oscillator * 10**6, clock_hz=clock * 10**6)
        except ValueError:
            continue
        made += 1
        assert found.output_hz == clock * 10**6
        assert limits.loop_hz[0] <= found.loop_hz <= limits.loop_hz[1]
        compared = Fraction(oscillator * 10**6, found.reference)
        assert limits.compare_hz[0] <= compared <= limits.compare_hz[1]
        assert found.loop_hz == compared * found.feedback * found.feedback_output
        assert found.output in limits.output and found.feedback_output in limits.feedback_output
    assert made >= 2


def test_a_clock_that_is_no_whole_number_of_hz():
    found = pll.settings(pll.ECP5, oscillator_hz=25_000_000, clock_hz=39_285_714)
    assert found.output_hz == Fraction(550_000_000, 14)


@pytest.mark.parametrize(
    ("oscillator", "clock", "message"),
    [
        (
            25_000_000,
            120_000_001,
            "clock_hz: wanted a frequency that the loop makes of 25000000, 120000000 for inst",
        ),
        (25_000_000, 900_000_000, "clock_hz: wanted a frequency"),
        (25_000_000, 0, "clock_hz: wanted more than 0"),
        (1_000_000, 50_000_000, "oscillator_hz: wanted 8000000 to 400000000, got 1000000"),
    ],
)
def test_clocks_that_cannot_be(oscillator, clock, message):
    with pytest.raises(ValueError, match=message):
        pll.settings(pll.ECP5, oscillator_hz=oscillator, clock_hz=clock)


@pytest.mark.parametrize("limits", [pll.ECP5, pll.GOWIN])
@pytest.mark.parametrize("clock", [50, 75, 100])
@pytest.mark.parametrize("lead", [0.0, 0.7, 2.0, 5.0, 9.9])
def test_a_clock_that_comes_early(limits, clock, lead):
    found = pll.settings(limits, oscillator_hz=25_000_000, clock_hz=clock * 10**6)
    steps = pll.lag(limits, found, lead_ns=lead)
    period = 1e9 / float(found.output_hz)
    step = 1e9 / float(found.output_hz if limits.shared else found.loop_hz) / limits.steps
    assert 0 <= steps < round(period / step)
    assert min(abs(steps * step + lead - n * period) for n in (0, 1)) <= 0.51 * step
    for wrong in (-0.1, period, float("nan")):
        with pytest.raises(ValueError, match="lead_ns: wanted 0 to less than a period"):
            pll.lag(limits, found, lead_ns=wrong)


@pytest.mark.parametrize(
    ("clock_hz", "sdram", "what"),
    [
        # Faster than the way to the chip and back.
        (140_000_000, {}, "read_setup"),
        # As if the chip's clock were the board's own, or upside down.
        (75_000_000, {"clock_lead_ns": 0.0}, "command_hold"),
        (75_000_000, {"clock_lead_ns": 6.67}, "read_hold"),
        (75_000_000, {"clock_lead_ns": 12.0}, "command_setup"),
        (75_000_000, {"read_delay": 1}, "read_setup"),
        (75_000_000, {"read_delay": 3}, "read_hold"),
    ],
)
def test_levels_that_miss_the_edge_of_the_memory(clock_hz, sdram, what):
    board = BOARDS["ulx3s-85f"]
    board = replace(board, clock_hz=clock_hz, sdram=replace(board.sdram, **sdram))
    with pytest.raises(ValueError, match=f"sdram: wanted {what} to be kept at {clock_hz} Hz"):
        board.check()


def test_commands_and_words_at_the_edges_that_use_them():
    """Edge by edge at 80 MHz: pads 3 ns out and 1 ns in, clock 2 ns early."""
    board = replace(BOARDS["ulx3s-85f"], clock_hz=80_000_000)
    part, latency, period = board.chip, board.sdram.cas_latency, 12.5
    changes = [n * period + 3.0 for n in range(20)]
    rises = [n * period + 3.0 - 2.0 for n in range(20)]
    # Who changes at edge 4 is seen by the rise before edge 5, and its word used at the edge that
    # comes as many later as in simulation, where both are one.
    command, seen = changes[4], rises[5]
    word = rises[5 + latency - 1] + part.access_cl3_ns + 1.0
    gone = rises[5 + latency] + part.output_hold_ns
    used = (5 + latency) * period
    assert board.margins == pytest.approx(
        (seen - command - 1.5, changes[5] - seen - 0.8, used - word, gone - used)
    )


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_every_board_fits_together(board):
    assert min(board.margins) > 1
    assert board.divisor * board.baud == pytest.approx(board.clock_hz, rel=0.02)
    assert board.memory_bytes >= 1 << 20
    board.check()
    assert board.config == preset(board.config.name)


@pytest.fixture(scope="module")
def ulx3s():
    return design(replace(BOARDS["ulx3s-85f"], config=SMALL))


def test_the_top_of_a_board(ulx3s):
    text = ulx3s.verilog
    top = text[text.index("module celosia(") :]
    ports = top[top.index("(") + 1 : top.index(")")].split(", ")
    assert len(ports) == 15 and "sdram_0__dq__io" in ports
    for cell in ("EHXPLLL", "DCCA", "ODDRX1F", "IFS1P3DX", "OFS1P3DX", "BB"):
        assert re.search(rf"(?m)^  {cell} ", text), cell
    assert "no_rw_check" in text
    assert ulx3s.opened[-1] == "machine.system.core"


def test_every_port_has_a_pin(ulx3s):
    located = re.findall(r'LOCATE COMP "([^"]*)" SITE "([^"]*)";', ulx3s.pins)
    assert len(located) == len({port for port, _ in located}) == len({pin for _, pin in located})
    pins = dict(located)
    assert pins["clk25_0__io"] == "G2" and pins["sdram_0__clk__io"] == "F19"
    assert pins["uart_0__rx__io"] == "M1" and pins["uart_0__tx__io"] == "L4"
    assert len(pins) == 4 + 2 + 13 + 2 + 16 + 2 + 1 + 1 + 2 + 2 - 1
    assert 'FREQUENCY PORT "clk25_0__io" 25 MHZ;' in ulx3s.pins


def test_sources_reach_from_the_top(ulx3s):
    source = ulx3s.sources["machine.system.core.sequencer.cycles"]
    assert source.place.startswith("hw/sequencer/")


def test_the_simulated_top_is_the_same_machine():
    board = replace(BOARDS["ulx3s-85f"], config=SMALL)
    text = convert(Bench(board))
    top = text[text.rindex("module celosia(") :]
    for port in ("clk", "rx", "tx", "pins__cs_n", "pins__dq_i", "started", "irq"):
        assert re.search(rf"(?m)^  (input|output) .*\b{port};", top), port
    assert "rst" not in top[: top.index(");")]
    assert Folded(Bench(board)).inner is not None


def test_a_board_without_its_package(monkeypatch):
    board = replace(BOARDS["ulx3s-85f"], platform="amaranth_boards_not_there.ulx3s:X")
    with pytest.raises(BoardError, match="ulx3s-85f: wanted the package amaranth-boards"):
        design(board)


def test_a_clock_that_is_no_multiple_of_the_line():
    board = replace(BOARDS["ulx3s-85f"], clock_hz=10_000_000)
    with pytest.raises(ValueError, match="baud: wanted a whole part of 10000000 Hz"):
        assert board.divisor
    with pytest.raises(ValueError, match="clock_hz: wanted 192 cycles or more between refreshes"):
        board.check()


@pytest.mark.parametrize(
    ("part", "sizes", "columns"),
    [
        ("LFE5U-85F", "edge", 16),
        ("LFE5U-85F", "nano", 4),
        ("LFE5U-45F-CABGA381", "edge", 6),
        ("LFE5U-25F-CABGA381", "micro", 4),
        ("LFE5U-25F-CABGA381", "micro,requantizer=sequential", 6),
        ("LFE5U-12F-CABGA381", "edge,lanes=16", 0),
        ("iCE40UP5K", "nano", 4),
    ],
)
def test_multipliers_of_a_part(part, sizes, columns):
    part, config = PARTS[part], preset(sizes)
    suited = part.suited(config)
    assert suited.dsp_columns == columns
    used = columns // 2 * config.rows
    if config.requantizer == "pipelined":
        used += part.family.lane_multipliers * config.lanes
    assert used <= part.multipliers or columns == 0
    assert suited.fingerprint == config.fingerprint
    assert suited.cells == part.family.cells
    assert part.suited(suited) == suited
