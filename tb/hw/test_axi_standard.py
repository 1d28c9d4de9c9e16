"""A core with standard names of ports, and single blocks, as Verilog."""

import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import icarus
import prerequisites
import pytest

from celosia.hw.arch.pod import PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import OFFSETS
from celosia.hw.axi.standard import StandardAxi
from celosia.hw.pod import Pod
from celosia.hw.verilog import build
from celosia.hw.verilog.build import block_verilog, verilog
from celosia.sim.rtl import converted
from celosia.sw.cli import main

PICO = preset("pico")
BENCH = """
module bench;
  reg clk = 0, resetn = 0, valid = 0;
  wire ready, answered;
  wire [31:0] data;
  celosia_axi core(
    .aclk(clk), .aresetn(resetn), .s_axi_araddr(12'd{offset}), .s_axi_arvalid(valid),
    .s_axi_arready(ready), .s_axi_rready(1'b1), .s_axi_rvalid(answered), .s_axi_rdata(data),
    .s_axi_awvalid(1'b0), .s_axi_wvalid(1'b0), .m_axi_arready(1'b0), .m_axi_rvalid(1'b0)
  );
  integer n;
  initial begin
    for (n = 0; n < 60; n = n + 1) begin
      resetn = n > 8;
      valid = n > 20 && n < 40;
      #1 clk = 1; #1 clk = 0;
      if (answered && n > 20 && n < 40) begin $display("%h", data); $finish; end
    end
  end
endmodule
"""


def test_a_register_through_standard_names(tmp_path: Path) -> None:
    (tmp_path / "core.v").write_text(verilog(PICO, standard=True))
    (tmp_path / "bench.v").write_text(BENCH.format(offset=OFFSETS["fingerprint"]))
    printed = icarus.printed(tmp_path, "bench.v", "core.v", year=2005)
    assert printed == f"{PICO.fingerprint:08x}\n"


def test_names_of_ports() -> None:
    inner = Pod(config=PodConfig(PICO, cores=2, ports=2))
    ports = set(StandardAxi(inner, "celosia").signature.members)
    assert {"aclk", "aresetn", "m_axi_0_awaddr", "m_axi_1_rdata", "s_axi_awaddr", "irq"} <= ports
    assert not [port for port in ports if "__" in port or "axil" in port]


@pytest.mark.parametrize("cores", [1, 2])
def test_ip_xact(cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every port is described, and each of AXI is in one interface, by its name in the protocol."""
    text = "module {standard};\n".format
    monkeypatch.setattr(converted, "core_verilog", lambda _, **options: text(**options))
    pod = f"--cores {cores} --ports 2" if cores > 1 else ""
    files = f"-o {tmp_path}/rtl.v --ip-xact {tmp_path}/xml/core.xml"
    (tmp_path / "xml").mkdir()
    assert main(f"verilog --preset pico {pod} {files}".split()) == 0
    assert (tmp_path / "rtl.v").read_text().endswith("module True;\n")
    root = ElementTree.parse(tmp_path / "xml" / "core.xml").getroot()
    space = {"x": root.tag[1:].partition("}")[0]}
    texts = {
        path: [item.text or "" for item in root.iterfind(path, space)]
        for path in (".//x:port/x:name", ".//x:file/x:name", ".//x:busInterface/x:name")
    }
    config = PodConfig(PICO, cores=2, ports=2) if cores > 1 else PICO
    ports = set(StandardAxi(build._components(config)[-1][1], "celosia").signature.members)
    listed, sources, names = texts.values()
    assert set(listed) == ports and len(listed) == len(ports) and sources == ["../rtl.v"]
    masters = ["m_axi_0", "m_axi_1"] if cores > 1 else ["m_axi"]
    assert sorted(names) == [*masters, "s_axi"]
    mapped = set()
    for interface in root.iterfind(".//x:busInterface", space):
        name = interface.findtext("x:name", "", space)
        side = "master" if name in masters else "slave"
        assert interface.find(f"x:{side}", space) is not None
        for item in interface.iterfind(".//x:portMap", space):
            logical = item.findtext("x:logicalPort/x:name", "", space)
            physical = item.findtext("x:physicalPort/x:name", "", space)
            assert physical == f"{name}_{logical.lower()}"
            mapped.add(physical)
    assert mapped == ports - {"aclk", "aresetn", "irq"}
    vector = f".//x:port[x:name='{masters[0]}_awaddr']//x:vector"
    ends = [root.findtext(f"{vector}/x:{end}", "", space) for end in ("left", "right")]
    assert ends == ["31", "0"]


@pytest.mark.parametrize("block", ["load", pytest.param("matrix", marks=pytest.mark.thorough)])
def test_a_block_alone(block: str, tmp_path: Path) -> None:
    text = block_verilog(PICO, block)
    head = text[text.index(f"module celosia_{block}(") :].partition(");")[0]
    for port in ("clk", "rst", "instruction__valid", "done", "fault_valid"):
        assert re.search(rf"(input|output) .*\b{port}\b", head), port
    (tmp_path / "block.v").write_text(text)
    command = [str(prerequisites.icarus()), "-g2005", "-t", "null", "-s", f"celosia_{block}"]
    printed = subprocess.run(
        [*command, "block.v"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert not printed.returncode and not printed.stderr, printed.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--ip-xact {path}", "--ip-xact: wanted a file of its own, got "),
        ("--block tensor", "block: wanted one of unified_buffer, matrix, vector, load, store, "),
        (
            "--block load --all",
            "--block: wanted no --cores, --all, --standard-axi or --ip-xact beside",
        ),
        (
            "--block load --ip-xact x.xml",
            "--block: wanted no --cores, --all, --standard-axi or --ip",
        ),
    ],
)
def test_refusals(
    options: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "core.v"
    options = options.format(path=path)
    assert main(f"verilog --preset pico {options} -o {path}".split()) == 2
    assert message in capsys.readouterr().err and not path.exists()
