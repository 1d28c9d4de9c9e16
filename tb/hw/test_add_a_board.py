"""The page ``docs/how-to/add-a-board.md``: its board is checked and elaborated, not placed."""

import contextlib
import importlib.resources
import io
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import documents
import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.hw.boards import platform, table
from celosia.hw.boards.board import Board, Sdram

#: Instead of the core of the row: elaborates in seconds.
SMALL = preset("nano,unified_bytes=1024,weight_tiles=4")


@pytest.fixture
def found(root: Path) -> dict[str, str]:
    """The blocks of the page: pins, row, checks."""
    blocks = documents.blocks((root / "docs/how-to/add-a-board.md").read_text())
    pins, row, checks = [block.text for block in blocks if block.marker == "run by"]
    return {"pins": pins, "row": row, "checks": checks}


@pytest.fixture
def board(found, tmp_path, root, monkeypatch) -> Board:
    """The board of the page, in the table, with its pins where such files are looked for."""
    name = re.search(r'"celosia\.constraints:(\w+)"', found["row"])
    assert name and f"`{name[1]}.toml`" in (root / "docs/how-to/add-a-board.md").read_text()
    (tmp_path / f"{name[1]}.toml").write_text(found["pins"])
    monkeypatch.setattr(importlib.resources, "files", lambda package: tmp_path)
    made = eval(found["row"], {"Board": Board, "Sdram": Sdram, "preset": preset})
    monkeypatch.setitem(table.BOARDS, made.name, replace(made, config=SMALL))
    return made


def test_board(board: Board, found: dict[str, str]) -> None:
    prerequisites.package("amaranth_boards")
    board.check()
    assert min(board.margins) > 1 and board.fpga.family.name == "ECP5"
    names: dict[str, Any] = {}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(found["checks"], names)
    pins = dict(re.findall(r'LOCATE COMP "([^"]*)" SITE "([^"]*)";', names["made"].pins))
    used = tomllib.loads(found["pins"])["resources"]
    sites = re.findall(r"\b[A-Z]\d+\b", str(used))
    assert sorted(pins.values()) == sorted(sites) and len(set(sites)) == len(sites)
    assert pins["clk48_0__io"] == "G2" and pins["sdram_0__cs__io"] == "P20"
    assert 'FREQUENCY PORT "clk48_0__io" 48 MHZ;' in out.getvalue()
    assert "module celosia(" in names["made"].verilog


def test_members_reach_the_platform(board: Board) -> None:
    made = platform.platform_of(board)
    assert (made.device, made.package, made.speed) == ("LFE5U-25F", "BG381", "6")
