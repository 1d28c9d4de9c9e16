"""Registers of attribute ``COPY`` have no equal register without it: Yosys makes one of both."""

import re
from pathlib import Path

import pytest

from celosia.hw.arch.presets import preset
from celosia.hw.flow import tools
from celosia.hw.vector import control
from celosia.hw.verilog.build import block_verilog, verilog

CORE = preset("nano,links=skid,counters=luts,softmax=true,elementwise_products=true")

_READ = """\
read_verilog core.v
hierarchy -top {top}
proc -norom
opt_clean -purge
setattr -set keep 1 a:keep %ci1:+[Q] t:$dff %i
flatten
opt_expr
opt_dff
opt_clean
tee -q -o kept.txt select -list t:$*dff* a:keep %i
tee -q -o merged.txt debug opt_merge
"""
_MERGED = re.compile(r"Cell `(\S+)' is identical to cell `(\S+)'")


def merged(text: str, top: str, folder: Path) -> tuple[int, list[tuple[str, str]]]:
    """Return the number of copies in Verilog, and the equal registers of which one is a copy."""
    (folder / "core.v").write_text(text)
    (folder / "copies.ys").write_text(_READ.format(top=top))
    tools.run("yosys", ["-q", "copies.ys"], folder / "yosys.log")
    cells = (folder / "kept.txt").read_text().split()
    copies = {f"\\{cell.partition('/')[2]}".replace("\\$", "$", 1) for cell in cells}
    pairs = _MERGED.findall((folder / "merged.txt").read_text())
    assert pairs
    return len(copies), [pair for pair in pairs if copies.intersection(pair)]


def test_no_copy_is_merged(tmp_path: Path):
    copies, pairs = merged(verilog(CORE), "celosia", tmp_path)
    assert copies > 100 and not pairs


def test_a_register_without_the_attribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    registers = control.Signal

    def one_plain(*arguments, name=None, **options):
        if name == "stop":
            options.pop("attrs")
        return registers(*arguments, name=name, **options)

    vars(one_plain).update(like=registers.like)
    monkeypatch.setattr(control, "Signal", one_plain)
    _, pairs = merged(block_verilog(CORE, "vector"), "celosia_vector", tmp_path)
    assert len(pairs) == 1
