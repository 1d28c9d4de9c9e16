"""Verilog of a pod: its ports, and its cores as instances of one module."""

import re
import subprocess
from pathlib import Path

import prerequisites

from celosia.hw.arch.pod import PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.build import verilog


def test_verilog(tmp_path: Path) -> None:
    text = verilog(PodConfig(preset("pico"), cores=4, ports=2))
    top = text[text.index("module celosia(") :]
    head, body = top.split(";", 1)
    for port in range(2):
        for signal in ("arvalid", "awid", "wdata", "bready"):
            assert f"m_axi_{port}__{signal}" in head
    assert "m_axi_2" not in head
    widths = {name: int(top) + 1 for top, name in re.findall(r"output \[(\d+):0\] (\w+);", body)}
    # Two cores of a port: one bit more.
    assert (widths["irq"], widths["m_axi_0__arid"], widths["m_axi_1__awid"]) == (4, 2, 2)
    assert [f"core_{n}" for n in range(4)] == re.findall(r"celosia_core +(core_\d) \(", body)
    assert len(re.findall(r"(?m)^module celosia_core\b", text)) == 1
    (tmp_path / "pod.v").write_text(text)
    command = [str(prerequisites.icarus()), "-g2012", "-Wall", "-t", "null", "pod.v"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert not printed.returncode and "port" not in printed.stderr, printed.stderr
