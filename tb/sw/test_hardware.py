"""Commands that make hardware, around tools that are made of shell."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.hw.environment.extras import install_command
from celosia.hw.flow import tools as flow_tools
from celosia.hw.flow.tools import ToolError
from celosia.hw.litex import boards as table
from celosia.sw import floorplan
from celosia.sw.cli import main
from celosia.sw.floorplan import draw

build_module = prerequisites.package("celosia.hw.litex.build")

pytestmark = pytest.mark.thorough

_FLOW_BENCH = Path(__file__).parents[1] / "hw" / "flow_bench.py"
_SPEC = importlib.util.spec_from_file_location("flow_bench", _FLOW_BENCH)
assert _SPEC is not None and _SPEC.loader is not None
flow_bench = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(flow_bench)

LOADER = """#!/bin/sh
echo "$@" >> loader.runs
[ -e unplugged ] && exit 1
exit 0
"""
SMALL = preset("nano,unified_bytes=1024,weight_tiles=4")
#: Last line of the router.
RAN = 'echo "ran $seed"'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


#: A board is elaborated once for all tests.
design = cache(build_module.design)


@pytest.fixture
def tools(folder, monkeypatch):
    monkeypatch.setattr(build_module, "design", design)
    made = flow_bench.make_tools(folder / "bin", {**flow_bench.TOOLS, "openFPGALoader": LOADER})
    monkeypatch.setenv("PATH", str(made), prepend=":")
    small = replace(table.BOARDS["ulx3s-12f"], config=SMALL, clock_hz=50_000_000, bus_clock_hz=0)
    monkeypatch.setitem(table.BOARDS, small.name, small)
    return made


def route(tools, commands):
    """Let the router do something else in place of its last line."""
    router = tools / "nextpnr-ecp5"
    router.write_text(router.read_text().replace(RAN, commands))


def test_build_keeps_the_best_seed_and_flash_loads_it(tools, capsys):
    assert main("build ulx3s-12f --seeds 2".split()) == 0
    printed = capsys.readouterr()
    made = Path("build/boards/ulx3s-12f")
    assert (made / "ulx3s-12f.bit").read_text() == "packed 2\n"
    description = json.loads((made / "celosia.json").read_text())
    assert description["preset"] == SMALL.name
    assert (made / "floorplan.png").read_bytes().startswith(b"\x89PNG")
    report = json.loads((made / "report.json").read_text())
    assert report["seed"] == 2 and report["board"] == "ulx3s-12f"
    assert report["core"] == SMALL.name
    assert report["tools"] == {"yosys": "yosys 0.99", "nextpnr-ecp5": "nextpnr-ecp5 0.99"}
    fmax = {"minimum": 91, "median": 91.5, "maximum": 92, "seeds": {"1": 91, "2": 92}}
    assert report["fmax_mhz"] == fmax
    assert report["cells"] == {"FF": {"used": 5, "available": 9}}
    assert report["blocks"] == {"matrix": {"LUT": 1, "FF": 1, "DSP": 0, "block RAM": 0}}
    (path,) = report["slowest_paths"]
    assert path["nanoseconds"] == 2.6 and path["start"]["block"] == "matrix"
    assert "seed 2: 92.0 MHz" in printed.err and "91.0 / 91.5 / 92.0 MHz" in printed.out
    assert "slowest paths" in printed.out
    assert report["late"]["count"] == len(report["late"]["starts"]) == 0 < report["late"]["of"]
    counts = [clock["count"] for clock in report["beyond"]]
    assert [round(clock["mhz"]) for clock in report["beyond"]] == [101, 115, 138, 184]
    assert counts == sorted(counts) and counts[-1] <= report["late"]["of"]

    for option, wanted in (("", []), (" --persistent", ["--write-flash"])):
        assert main(f"flash ulx3s-12f{option}".split()) == 0
        command = Path("loader.runs").read_text().splitlines()[-1].split()
        assert command == ["--board", "ulx3s", *wanted, str(made / "ulx3s-12f.bit")]
    Path("unplugged").touch()
    capsys.readouterr()
    assert main("flash ulx3s-12f".split()) == 1
    line = "celosia: openFPGALoader: exit code 1; is the board plugged in?\n"
    assert capsys.readouterr().err == line


def test_clock_and_core_of_a_board_may_be_others(tools, capsys):
    command = "build ulx3s-12f --seeds 1 --clock 80 --preset nano,unified_bytes=512,weight_tiles=4"
    assert main([*command.split(), "-o", "there"]) == 0
    assert json.loads(Path("there/report.json").read_text())["asked_mhz"] == 80
    assert "nano,unified_bytes=512" in capsys.readouterr().out


def test_what_was_built_before_stays_until_all_is_made(tools, capsys, monkeypatch):
    assert main("build ulx3s-12f --seeds 1".split()) == 0
    made = Path("build/boards/ulx3s-12f")
    names = ("ulx3s-12f.bit", "report.json", "floorplan.png")
    before = [(made / name).read_bytes() for name in names]

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(floorplan, "draw", interrupted)
    assert main("build ulx3s-12f --seeds 2".split()) == 130
    assert [(made / name).read_bytes() for name in names] == before


def test_a_missing_tool_is_reported_before_the_work(tools, capsys, monkeypatch):
    choose = flow_tools.choose

    def without(name):
        if name == "ecppack":
            raise ToolError("ecppack: wanted it, found none")
        return choose(name)

    monkeypatch.setattr(flow_tools, "choose", without)
    assert main("build ulx3s-12f --seeds 1".split()) == 1
    *chosen, last = capsys.readouterr().err.splitlines()
    assert last == "celosia: ecppack: wanted it, found none"
    names = ("yosys", "nextpnr-ecp5")
    assert [line.split(None, 1)[1] for line in chosen] == [f"{n}: {choose(n)}" for n in names]
    assert not list(Path().rglob("yosys.runs"))


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [("build ulx3s-12f", "litex", "litex"), ("synth --preset nano", "scipy", "synth")],
)
def test_a_missing_package_is_one_line(command, package, extra):
    text = f"import sys; sys.modules['{package}'] = None; from celosia.sw.cli import main"
    text += f"; sys.exit(main({command.split()}))"
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"celosia: {package}") and ended.stderr.count("\n") == 1
    assert install_command(extra) in ended.stderr


@pytest.mark.parametrize(("option", "wanted"), [("", False), (" --cpu vexriscv", True)])
def test_a_processor_is_an_option(option, wanted, monkeypatch, tmp_path):
    built = []

    def build(board, **_):
        built.append(board)
        raise flow_tools.ToolError("no more")

    monkeypatch.setattr(build_module, "build", build)
    assert main([*f"build ulx3s-12f{option}".split(), "-o", str(tmp_path)]) == 1
    assert [board.processor for board in built] == [wanted]


@pytest.mark.parametrize("command", ["build ulx3s-12f -o", "synth --directory"])
def test_a_folder_that_cannot_be_made_is_reported_at_once(tools, refused, command):
    printed = refused(f"{command} /proc/nothing/there")
    assert printed.startswith("celosia: /proc/nothing/there: wanted a directory to write into (")


def test_a_build_wants_seeds():
    with pytest.raises(ValueError, match="seeds: wanted at least one, got none"):
        build_module.build(table.BOARDS["ulx3s-12f"], seeds=(), directory=Path("x"))


def test_a_clock_that_no_seed_reaches_is_reported(tools, capsys):
    assert main("build ulx3s-12f --seeds 1 --clock 100".split()) == 1
    hint = "the bitstream may fail (a lower --clock, more --seeds)"
    line = f"celosia: ulx3s-12f: wanted 100 MHz, got 91.0; {hint}"
    assert capsys.readouterr().err.splitlines()[-1] == line
    assert Path("build/boards/ulx3s-12f/ulx3s-12f.bit").exists()


def test_seeds_that_the_router_gives_up_on_are_left_out(tools, capsys):
    """It fails on two of three; and where it fails on all, so does the build."""
    route(tools, f"[ $seed = 2 ] || exit 125\n{RAN}")
    assert main("build ulx3s-12f --seeds 3".split()) == 0
    printed = capsys.readouterr()
    assert "seed 1: nextpnr-ecp5: exit code 125; its words are in " in printed.err
    assert "92.0 / 92.0 / 92.0 MHz (minimum / median / maximum of 1 seed)" in printed.out
    route(tools, "exit 125")
    assert main("build ulx3s-12f --seeds 2 -o other".split()) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("celosia: nextpnr-ecp5: exit code 125; its words are in ")
    assert not Path("other/ulx3s-12f.bit").exists()


def test_a_core_that_is_too_large_is_reported_before_it_is_placed(tools, capsys):
    counts = "TRELLIS_FF: 30000/24288 123%", "DCCA: 57/56 101%", "DP16KD: 60/56 107%", "LSR: 1/2 5%"
    printed = "".join(f'echo "Info:   {count}"; ' for count in counts)
    route(tools, f'{printed} echo "Info: "; exec sleep 600')
    seeds = 2 * len(os.sched_getaffinity(0))
    assert main(f"build ulx3s-12f --seeds {seeds}".split()) == 1
    lines = capsys.readouterr().err.splitlines()
    told = "too large: wanted at most 24,288 TRELLIS_FF, got 30,000; at most 56 DP16KD, got 60"
    assert [line for line in lines if "too large" in line] == [f"celosia: {told}"] == lines[-1:]
    # Seeds that wait for a core are not begun.
    assert sum("placing and routing" in line for line in lines) <= seeds // 2


@pytest.mark.parametrize(
    ("wires", "end"),
    [
        # It stays, and it rises without end; what rises for a while alone may go on.
        ("3", "3 wires after 600"),
        ("$((n < 90 ? 9999 - 100 * n : 100 * n - 8000))", "8100 wires after 161"),
        ("$((n < 90 ? 99 - n : n % 3 + 1))", "1 wires after 600"),
    ],
)
def test_a_seed_that_the_router_gets_nowhere_with_is_ended(wires, end, tools, capsys):
    line = f"Info:     iter=$n wires=9 overused={wires} overuse=4"
    rounds = f'for n in $(seq 700); do echo "{line}"; done'
    route(tools, f"[ $seed = 2 ] || {{ {rounds}; exec sleep 600; }}\n{RAN}")
    assert main("build ulx3s-12f --seeds 2".split()) == 0
    printed = capsys.readouterr()
    assert f"seed 1: no way for {end} rounds of the router" in printed.err
    assert "92.0 / 92.0 / 92.0 MHz (minimum / median / maximum of 1 seed)" in printed.out


@pytest.mark.parametrize(("last", "is_ended"), [(2000, False), (2100, True)])
def test_a_seed_that_looks_for_faster_ways_has_more_rounds(last, is_ended, tools, capsys):
    line = "Info:     iter=$n wires=9 overused=$wires overuse=1 tmgfail=2 archfail=NA"
    rounds = f'for n in $(seq {last}); do wires=$((n < {last})); echo "{line}"; done'
    if is_ended:
        rounds = rounds.replace(f"n < {last}", "1") + "; exec sleep 600"
    route(tools, f"[ $seed = 2 ] || {{ {rounds}\n}}\n{RAN}")
    assert main("build ulx3s-12f --seeds 2".split()) == 0
    told = capsys.readouterr().err
    assert "seed 1: round 400 of the router, too late: 2 inputs" in told
    assert ("seed 1: no way for 1 wires after 2100 rounds of the router" in told) == is_ended


def test_a_run_that_the_router_leaves_unfinished_has_no_clock(tools, capsys):
    line = "echo 'Info: iter={} wires=9 overused={} overuse=1'"
    route(tools, f"[ $seed = 2 ] || {{ {line.format(1, 5)}\n{line.format(2, 3)}\n}}\n{RAN}")
    assert main("build ulx3s-12f --seeds 2".split()) == 0
    printed = capsys.readouterr()
    assert "seed 1: the router ended with 3 wires used twice" in printed.err
    assert "92.0 / 92.0 / 92.0 MHz (minimum / median / maximum of 1 seed)" in printed.out


def test_sources(tools, folder, capsys, monkeypatch):
    small = replace(table.BOARDS["minispartan6"], config=table.BOARDS["ulx3s-12f"].config)
    monkeypatch.setitem(table.BOARDS, small.name, small)
    assert main("build minispartan6 --sources -o made".split()) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{small.config.name} on miniSpartan6+ with XC6SLX25"
    paths = [folder / line.split()[1] for line in printed[1:]]
    project = ["board.prj", "board.xst", "build_board.sh"]
    assert [path.name for path in paths] == ["board.v", "board.ucf", *project, "celosia.json"]
    assert paths[2].read_text() == "verilog work board.v\n"
    assert sorted(paths) == sorted((folder / "made").iterdir())
    ports = set(re.findall(r'NET "(\w+)[^"]*" LOC', paths[1].read_text()))
    top = re.search(r"(?s)\nmodule board \((.*?)\);", paths[0].read_text())
    assert top and ports == set(re.findall(r"(\w+)\s*(?:,|$)", top[1]))
    assert json.loads(paths[-1].read_text())["fingerprint"] == small.config.fingerprint


def test_what_only_vendors_place(refused):
    said = "minispartan6: wanted --sources, no open tool makes its bitstream"
    assert refused("build minispartan6") == f"celosia: {said}\n"
    said = refused("synth --part XC6SLX25")
    assert said.endswith(", iCE40UP5K, got 'XC6SLX25'\n") and said.count("XC6SLX25") == 1


def test_a_board_that_only_litex_boards_knows(tools, folder, capsys, refused):
    # The core of the test of sources above.
    assert main(f"build qmtech_ep4cex5 --preset {SMALL.name} --sources -o made".split()) == 0
    line = f"{SMALL.name} on qmtech ep4cex5 with EP4CE15F23C8\n"
    assert capsys.readouterr().out.startswith(line)
    made = {path.name for path in (folder / "made").iterdir()}
    assert made == {"board.v", "board.qsf", "board.sdc", "build_board.sh", "celosia.json"}
    said = refused("build digilent_basys3")
    assert said == "celosia: digilent_basys3: soc: wanted a system with LiteDRAM, got none\n"
    assert not Path("build/boards").exists()
    said = refused("build ulx3s-99f")
    wanted = ", ulx3s-85f, a file of a board, or a target of litex-boards, got 'ulx3s-99f'\n"
    assert said.endswith(wanted)
    assert "got 'hackaday_hadbadge'" in refused("flash hackaday_hadbadge")


def test_flash_without_bitstream_or_loader(folder, capsys, monkeypatch):
    assert main("flash ulx3s-85f".split()) == 2
    bitstream = Path("build/boards/ulx3s-85f/ulx3s-85f.bit")
    printed = capsys.readouterr().err
    assert printed == f"celosia: {bitstream}: no such file (celosia build ulx3s-85f)\n"
    bitstream.parent.mkdir(parents=True)
    bitstream.touch()
    monkeypatch.setenv("PATH", str(folder))
    assert main("flash ulx3s-85f".split()) == 1
    hint = "wanted it on PATH, found none (apt-get install openfpgaloader)"
    assert capsys.readouterr().err == f"celosia: openFPGALoader: {hint}\n"


def test_a_failing_tool_is_one_line(tools, capsys):
    (tools / "ecppack").write_text("#!/bin/sh\nexit 7\n")
    assert main("build ulx3s-12f --seeds 1".split()) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("celosia: ecppack: exit code 7; its words are in ")


def test_an_empty_floorplan():
    assert draw([], title="nothing").startswith(b"\x89PNG")
