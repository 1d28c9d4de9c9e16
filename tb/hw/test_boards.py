"""Files of boards: what they may say, and what is refused."""

from dataclasses import replace
from importlib.resources import as_file, files

import documents
import prerequisites
import pytest

from celosia.hw.flow.parts import CONSTRAINTS
from celosia.hw.litex.boards import BOARDS, board_named, read_board
from celosia.hw.synthesis import megahertz

TEXT = """\
title = "Mine"
part = "GW2AR-18"
core = "nano,lanes=2"
clock_hz = 40_000_000

[memory]
chip = "IS42S16160"
bytes = 8_388_608
latency = 20

[litex]
target = "sipeed_tang_nano_20k"
options = { with_buttons = false }
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    return path


def test_a_board_is_a_file(path):
    board = board_named(str(path))
    assert board is not None
    assert (board.name, board.title, board.config.name) == ("mine", "Mine", "nano,lanes=2")
    assert (board.clock_hz, board.memory_bytes, board.memory_latency) == (40_000_000, 8 << 20, 20)
    assert (board.memory_width, board.seeds, board.loader, board.pins) == (4, 5, "", "")
    assert (board.module, board.options) == ("sipeed_tang_nano_20k", {"with_buttons": False})
    path.with_suffix(".cst").write_text("IO_LOC a 1;\n")
    assert read_board(path).pins == "IO_LOC a 1;\n"


def test_a_board_with_two_clocks(path, root):
    """A word takes as long as before, and a beat of the bus more cycles of a faster core."""
    page = documents.blocks((root / "docs/how-to/boards.md").read_text())
    (clocks,) = (block.text for block in page if block.argument == "tb/hw/test_boards.py")
    text = TEXT.replace("clock_hz = 40_000_000\n", clocks)
    one, path = read_board(path), path.with_name("two.toml")
    path.write_text(text)
    two = read_board(path)
    assert (one.has_own_clock, one.clocks) == (False, (40_000_000, 40_000_000))
    assert (two.has_own_clock, two.clocks) == (True, (62_500_000, 50_000_000))
    # Its own four cycles and those of the bus, 20 for the memory and four for the crossings.
    assert two.memory_latency == 4 + 1.25 * (20 + 4)
    assert two.memory_bandwidth == pytest.approx(one.memory_bandwidth / 1.25)
    slower = replace(two, clock_hz=25_000_000)
    assert slower.memory_bandwidth == one.memory_bandwidth


def test_each_file_is_a_board():
    paths = set(CONSTRAINTS.iterdir())
    assert set(BOARDS) == {path.stem for path in paths if path.suffix == ".toml"}
    pins = {
        CONSTRAINTS / f"{name}{board.fpga.family.suffixes[0]}" for name, board in BOARDS.items()
    }
    read = {path for path in paths if path.suffix == ".toml"} | {CONSTRAINTS / "core.sdc"}
    assert paths - read == {path for path in pins if path.is_file()}
    assert megahertz() == 90.0
    assert board_named("ulx3s-85f") is BOARDS["ulx3s-85f"] and board_named("none") is None


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("title", "name", "wanted keys of title, part, .*, got 'name'"),
        ('title = "Mine"\n', "", "wanted title, got none"),
        ("bytes = 8_388_608\n", "", "wanted memory.bytes, got none"),
        ("title =", "bus_clock_hz = 0\ntitle =", "bus_clock_hz: wanted a whole .* above 0, got 0"),
        ("40_000_000", "40.5", "clock_hz: wanted a whole number above 0, got 40.5"),
        ("40_000_000", "40", "clock_hz: wanted 1000000 to 1000000000 Hz, got 40"),
        ("title =", "bus_clock_hz = 7\ntitle =", "bus_clock_hz: wanted 1000000 to .* Hz, got 7"),
        ("= 20", "= 0", "memory.latency: wanted a whole number above 0, got 0"),
        ("= 20", "= true", "memory.latency: wanted a whole number above 0, got True"),
        ('"Mine"', "5", "title: wanted a text, got 5"),
        ("[memory]", "[memory.x]", "wanted keys of .*, got 'memory.x'"),
        ("[memory]", "memory = 3\n[other]", "memory: wanted a table, got 3"),
        ("nano,", "tiny,", "preset: wanted one of .*, got 'tiny'"),
        ("GW2AR-18", "XYZ", "LFE5U-25F-6BG256C, got XYZ"),
        ("title =", "title", "not the file of a board"),
    ],
)
def test_files_that_are_refused(before, after, message, path):
    assert before in TEXT
    path.write_text(TEXT.replace(before, after, 1))
    with pytest.raises(ValueError, match=message) as caught:
        read_board(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="mine.toml: not the file of a board"):
        read_board(tmp_path / "mine.toml")


def test_sites_of_the_memory_in_a_package():
    """Those of Apicula: name of the port, row, column, and which of two pins there."""
    chipdb = prerequisites.package("apycula.chipdb")
    with as_file(files("apycula") / "GW2A-18C.msgpack.xz") as database:
        sites = chipdb.load_chipdb(str(database)).sip_cst["GW2AR-18C"]["QFN88"]
    wanted = {f'IO_LOC "{name}" IO{"RL"[not x]}{y + 1}{half};' for name, y, x, half, _ in sites}
    lines = BOARDS["tang-nano-20k"].pins.splitlines()[1:]
    assert len(lines) == len(set(lines)) and set(lines) == wanted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"module": "nothing"}, "litex.target: wanted a module of litex_boards.targets, got 'noth"),
        (
            {"options": {"board": "i99"}},
            "litex.options: wanted those that colorlight_i5 takes, got",
        ),
        ({"serial_pins": "none"}, "litex.serial_pins: wanted a list of litex_boards.platforms.col"),
    ],
)
def test_what_litex_boards_does_not_have(changes, message):
    prerequisites.package("litex_boards")
    from celosia.hw.litex.target import target

    with pytest.raises(ValueError, match=f"^colorlight-i5: {message}"):
        target(replace(BOARDS["colorlight-i5"], **changes))
