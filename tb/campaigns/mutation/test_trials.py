"""Campaigns against a tiny component: with complete tests, and with none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.hdl import Module

from celosia.hw.matrix.unit import MatrixUnit
from mutation.campaign import Score
from mutation.sites import ROOT
from mutation.trials import modules_of

CAMPAIGN = """
import json, sys
sys.path[:0] = {path!r}
from mutation import campaign
from pathlib import Path
from mutation.blocks import Block

campaign.FOLDER = Path({folder!r})
campaign.stages_of = lambda block: [campaign.Stage("unit", block.unit)]
block = Block("tiny", ("tb/campaigns/mutation/tiny.py",), ("tb/campaigns/mutation/{tests}",))
reported = []
score = campaign.check(
    block, number={number}, seed=1, workers=2, reasons={{}},
    report=lambda stage, site, result: reported.append((site.name, *result)),
)
print(json.dumps((score.before, score.changes, score.same, reported)))
"""


def campaign(tests: str, folder: Path, number: int = 1000) -> tuple[float, int, int, list]:
    """Run a campaign in a separate process, as a user does."""
    code = CAMPAIGN.format(path=sys.path, folder=str(folder), tests=tests, number=number)
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return tuple(json.loads(result.stdout))


def test_a_complete_test_sees_every_change_and_none_sees_nothing(tmp_path):
    score, changes, same, reported = campaign("tiny_complete.py", tmp_path / "a")
    survivors = [line for line in reported if line[1] not in ("killed", "same", "invalid")]
    assert not survivors and score == 1 and changes > 40
    # total[:5] for total[:4] is one.
    assert same >= 1
    nothing = campaign("tiny_empty.py", tmp_path / "b", 6)
    assert (nothing[0], nothing[1]) == (0, 6)


def test_failures_without_a_line_count(tmp_path):
    reported = campaign("tiny_nowhere.py", tmp_path, 6)[3]
    assert "killed" in {line[1] for line in reported}


def test_what_is_known_is_not_checked_again(tmp_path):
    first = campaign("tiny_complete.py", tmp_path, 10)
    (known,) = tmp_path.glob("tiny-*.json")
    entries = json.loads(known.read_text())
    for entry in entries.values():
        entry[3] = 77.0
    known.write_text(json.dumps(entries))
    again = campaign("tiny_complete.py", tmp_path, 10)
    assert again[:3] == first[:3]
    assert {line[3] for line in again[3]} == {77.0}


def test_command_line_refuses_in_one_line():
    for wrong in (["nothing"], ["--number", "0"], ["--workers", "x"]):
        command = [sys.executable, "tb/campaigns", "mutation", *wrong]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert result.returncode == 2 and result.stderr.count("\n") == 1, result.stderr


def test_a_component_is_also_of_the_modules_of_its_ports():
    """A change of a method that it inherits is tried on its tests."""
    modules = modules_of(object.__new__(MatrixUnit))
    assert {MatrixUnit.__module__, "celosia.hw.streams"} <= set(modules)
    assert not any(name in ("builtins", "abc") for name in modules_of(Module()))
    assert not modules_of(object())


@pytest.mark.parametrize(
    ("changes", "killed", "explained", "good"),
    [(6, 6, 0, True), (6, 5, 1, True), (6, 4, 2, False), (6, 5, 0, False), (40, 36, 4, True)]
    + [(40, 35, 5, False), (40, 38, 0, True), (40, 37, 0, False)],
)
def test_shares_of_a_block(changes, killed, explained, good):
    left = (None,) * (changes - killed - explained)
    assert Score("block", changes, {"unit": killed}, explained, 0, left, frozenset()).good == good
