"""Verilog of a pod: its ports, and its cores as instances of one module."""

import re
import subprocess
from pathlib import Path

import icarus
import prerequisites

from celosia.hw.arch.pod import PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.pod import CORE, Pod
from celosia.hw.verilog.build import convert
from celosia.sim.rtl.converted import core_verilog

#: A core that does nothing but give two addresses, and a pod whose host has set its registers.
BENCH = """
module {core}({ports});
  input {inputs};
  output reg [31:0] m_axi__araddr, m_axi__awaddr;
endmodule
module bench;
  wire [31:0] read, write;
  celosia pod(.m_axi_0__araddr(read), .m_axi_0__awaddr(write));
  initial begin
    force pod.windows.private = 64'h{end:08x}_{begin:08x};
    force pod.windows.bases = 64'h0_{base:08x};
    {steps}
  end
endmodule
"""


def test_verilog(tmp_path: Path) -> None:
    text = core_verilog(PodConfig(preset("pico"), cores=4, ports=2))
    top = text[text.index("module celosia(") :]
    head, body = top.split(";", 1)
    for port in range(2):
        for signal in ("arvalid", "awid", "wdata", "bready"):
            assert f"m_axi_{port}__{signal}" in head
    assert "m_axi_2" not in head
    widths = {name: int(top) + 1 for top, name in re.findall(r"output \[(\d+):0\] (\w+)", head)}
    # Two cores of a port: one bit more.
    assert (widths["irq"], widths["m_axi_0__arid"], widths["m_axi_1__awid"]) == (4, 2, 2)
    assert [f"core_{n}" for n in range(4)] == re.findall(r"celosia_core +(core_\d) \(", body)
    assert len(re.findall(r"(?m)^module celosia_core\b", text)) == 1
    (tmp_path / "pod.v").write_text(text)
    command = [str(prerequisites.icarus()), "-g2012", "-Wall", "-t", "null", "pod.v"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert not printed.returncode and "port" not in printed.stderr, printed.stderr


BEGIN, END, BASE = 0x1000, 0x2000, 0x4000_0000
ADDRESSES = (BEGIN - 1, BEGIN, END - 1, END, 0, 0xFFFF_FFFF)


def printed(folder: Path, ports: int, results: dict[str, str]) -> list[int]:
    """Return what a pod of two cores prints: after each address of a channel, a Verilog value."""
    text = convert(Pod(config=PodConfig(preset("pico"), cores=2, ports=ports)), name="celosia")
    (instance,) = re.findall(rf"{CORE} +core_0 \((.*?)\);", text, re.DOTALL)
    names = re.findall(r"\.(\w+)\(", instance)
    steps = "".join(
        f'pod.core_0.m_axi__{channel} = 32\'h{address:x}; #1 $display("%0d", {result});\n'
        for address in ADDRESSES
        for channel, result in results.items()
    )
    inputs = ", ".join(name for name in names if not re.match("m_axi__a[rw]addr", name))
    values = {"begin": BEGIN, "end": END, "base": BASE, "inputs": inputs, "steps": steps}
    bench = BENCH.format(core=CORE, ports=", ".join(names), **values)
    (folder / "pod.v").write_text(text + bench)
    return list(map(int, icarus.printed(folder, "pod.v").split()))


def test_the_base_is_that_of_private_addresses_alone(tmp_path: Path) -> None:
    """The first address after the private ones is shared, as the one before them."""
    expected = [a | BASE if BEGIN <= a < END else a for a in ADDRESSES for _ in range(2)]
    assert printed(tmp_path, 2, {"araddr": "read", "awaddr": "write"}) == expected


def test_reads_of_shared_bytes_are_joined(tmp_path: Path) -> None:
    expected = [not BEGIN <= a < END for a in ADDRESSES]
    assert printed(tmp_path, 1, {"araddr": "pod.shared[0]"}) == expected
