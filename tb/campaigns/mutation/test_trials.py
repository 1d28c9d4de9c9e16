"""Campaigns against a tiny component: with complete tests, and with none."""

import json
import subprocess
import sys
from pathlib import Path

from mutation.sites import ROOT

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
