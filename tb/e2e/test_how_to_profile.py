"""The page ``docs/how-to/profile.md``: all of its blocks run, in order, and do what it says."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
from PIL import Image

from celosia.sw.cli import main

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[list[str]]:
    """Return the arguments of each command of a console."""
    lines = block.replace("\\\n", " ").splitlines()
    assert all(line.startswith("$ celosia ") for line in lines)
    return [shlex.split(line)[2:] for line in lines]


def test_every_block_runs(root, tmp_path, monkeypatch, capsys, verilator) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((root / "docs/how-to/profile.md").read_text())
    assert {kind for kind, _ in blocks} == {"console", "python"} and len(blocks) > 6
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, "profile.md", "exec"), {})
            continue
        for arguments in commands(block):
            assert main(arguments) == 0
    figures = json.loads(Path("profile.json").read_text())
    lines = capsys.readouterr().out.splitlines()
    assert f"{figures['cycles']} {figures['bound']}" in lines
    assert {"run.fst", "run.gtkw", "run.sucl"} <= {path.name for path in tmp_path.iterdir()}
    assert 10_000 < Path("run.fst").stat().st_size < 10_000_000
    assert np.load("y.npy").shape == (1, 10)


def test_the_picture_is_small(root: Path) -> None:
    path = root / "docs/images/profile.png"
    assert path.stat().st_size <= 200_000
    with Image.open(path) as picture:
        assert picture.size[0] > 1000
