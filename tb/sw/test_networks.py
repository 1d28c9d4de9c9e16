"""``celosia networks``: bytes, cycles and reasons of the files of a folder."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import documents
import numpy as np
import prerequisites
import pytest

from celosia.hw.litex.boards import BOARDS
from celosia.sw.cli import main
from celosia.sw.networks import page, vela
from celosia.sw.networks.comparison import of_board
from celosia.sw.networks.table import Network, files_of
from celosia.sw.runtime.session import Session

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with two networks and a file that is none, below the current folder."""
    prerequisites.package("ai_edge_litert.interpreter")
    monkeypatch.chdir(tmp_path)
    files = tmp_path / "nets"
    files.mkdir()
    for name in ("mnist_mlp", "fashion_cnn"):
        shutil.copy(ROOT / "sw" / "models" / f"{name}.tflite", files)
    (files / "Text.tflite").write_bytes(b"no network")
    return files


def figures(options: str, code: int = 0) -> dict[str, Any]:
    assert main(f"networks nets --preset micro -o n.json {options}".split()) == code
    return json.loads(Path("n.json").read_text())


def test_bytes_and_cycles(folder: Path) -> None:
    found = figures("--board ulx3s-85f --inputs 3")
    rows = {row["file"]: row for row in found["networks"]}
    assert [*rows] == ["fashion_cnn.tflite", "mnist_mlp.tflite", "Text.tflite"]
    assert [row["state"] for row in rows.values()] == ["equal", "equal", "refused"]
    assert rows["Text.tflite"]["reason"] == "not a .tflite file"
    for name in ("fashion_cnn", "mnist_mlp"):
        row = rows[f"{name}.tflite"]
        assert (row["bytes_compared"], row["bytes_different"], row["reason"]) == (30, 0, "")
        machines = ("--preset micro", "--board ulx3s-85f")
        for cycles, machine in zip(row["cycles"], machines, strict=True):
            assert main(f"report {name} --json r.json {machine}".split()) == 0
            report = json.loads(Path("r.json").read_text())
            assert (cycles, row["macs"]) == (report["cycles"], report["macs"])
    text = (ROOT / "docs" / "reference" / "json.md").read_text()
    parts = (found, found["settings"][0], found["networks"][0])
    assert not {field for part in parts for field in part if f"`{field}`" not in text}


def test_a_wrong_byte_fails(folder, monkeypatch, capsys) -> None:
    run = Session.run

    def flipped(self: Session, *arguments: Any, **options: Any) -> list[np.ndarray]:
        results = run(self, *arguments, **options)
        if self.program.macs == 101_632:
            results[0] = results[0] ^ np.int8(1)
        return results

    monkeypatch.setattr(Session, "run", flipped)
    found = figures("--inputs 1", code=1)
    assert [row["state"] for row in found["networks"]] == ["equal", "different", "refused"]
    line = "celosia: networks: output bytes differ from LiteRT: mnist_mlp.tflite\n"
    assert capsys.readouterr().err.endswith(line)


def test_a_file_that_litert_does_not_run_has_cycles(folder, monkeypatch) -> None:
    def refuse(content: bytes, arrays: Any) -> Any:
        raise RuntimeError("no kernel. See elsewhere")

    monkeypatch.setattr("celosia.sw.networks.table.reference", refuse)
    row = figures("--inputs 1")["networks"][0]
    assert (row["state"], row["reason"], row["bytes_compared"]) == ("not compared", "no kernel", 0)
    assert row["cycles"][0] > 0


def test_a_page_keeps_its_other_text(folder: Path) -> None:
    Path("n.md").write_text("# Title\n\n<!-- begin -->\nold\n<!-- end -->\n\nafter\n")
    for _ in range(2):
        assert main("networks nets/mnist_mlp.tflite --preset micro -o n.md".split()) == 0
    text = Path("n.md").read_text()
    assert text.startswith("# Title\n\n<!-- begin -->\n\nFiles: 1; 1 equal.")
    assert text.endswith("|\n\n<!-- end -->\n\nafter\n") and "old" not in text
    assert text.count("`mnist_mlp.tflite`") == 1


def test_names_of_shipped_models() -> None:
    (path,) = files_of([Path("mnist_mlp")])
    assert path.name == "mnist_mlp.tflite" and path.is_file()


def test_cells_of_the_page() -> None:
    setting = of_board(replace(BOARDS["ulx3s-85f"], clock_hz=60_000_000, bus_clock_hz=0))
    networks = [
        Network(
            file="a", operators=3, macs=2000, compared=9, different=2, cycles=(6000,), vela=9000
        ),
        Network(file="b", failure="no | kernel", cycles=(1000,), vela=4000),
        Network(file="c", refusal="float weights", vela=5),
        Network(file="d", host_macs=1, cycles=(10,), vela=90),
    ]
    text = page.as_markdown(networks, [setting], inputs=1, seed=0)
    assert "| `a` | 3 | – | 2,000 | 2 of 9 differ | 0.1 | 9,000 |" in text
    assert "| `b` | 0 | – | 0 | not compared | 0.0167 | 4,000 |" in text
    assert "| `b` | no \\| kernel |" in text and "| `c` | float weights |" in text
    # The geometric mean of 1.5 and 4.
    flat = text.replace("\n", " ")
    assert "are 2.45 times" in flat and "The least: 1.50" in flat


def test_vela(folder, monkeypatch, tmp_path) -> None:
    """The file of figures that Vela writes is read; a file that Vela refuses has none."""
    program = tmp_path / "bin" / "vela"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ "$(basename $1)" = Text.tflite ] && exit 1\n'
        'printf "network,cycles_npu,cycles_total\\nx,1234.0,9\\n" > "$5/x_summary_y.csv"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert vela.cycles_of(folder / "mnist_mlp.tflite") == 1234
    assert vela.cycles_of(folder / "Text.tflite") is None


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("none", "none: wanted a .tflite file, a folder with some, or a shipped model"),
        ("page.txt", "page.txt: wanted a .tflite file, a folder with some, or a shipped model"),
        (".", ".: wanted a .tflite file, a folder with some, or a shipped model"),
        ("nets -o n.txt", "wanted a file that ends in .md or .json, got n.txt"),
        ("nets --vela", "--vela: wanted the program vela on PATH (pip install ethos-u-vela)"),
        ("nets --board vcu128", "board: wanted one of colorlight-i5"),
    ],
)
def test_refused(options: str, wanted: str, folder, monkeypatch, refused: Callable) -> None:
    monkeypatch.setenv("PATH", str(folder))
    Path("page.txt").write_text("no network")
    assert wanted in refused(f"networks {options}")


def test_blocks_of_the_page(folder, monkeypatch) -> None:
    """The commands of the page; its table is of other files."""
    text = (ROOT / "docs" / "reference" / "networks.md").read_text()
    folder.rename("FOLDER")
    (block,) = documents.blocks(text)
    for command, _ in documents.shell_commands(block.text):
        assert main(command.split()[1:]) == 0, command
    assert Path("page.md").stat().st_size > 500 and Path("figures.json").stat().st_size > 500
