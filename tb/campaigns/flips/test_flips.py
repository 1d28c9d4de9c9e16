"""The campaign of flips, without a simulator."""

import argparse
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import main

from celosia.hw.arch import isa
from celosia.hw.arch.presets import preset
from celosia.sw.cli.messages import Failure
from celosia.sw.driver.core import Driver, RunResult
from flips import command as flips
from flips.command import Outcome, Plan
from flips.device import FlipDevice

UNIFIED = Outcome("unified", False, None, True, True, True)
FOUND = [
    UNIFIED,
    UNIFIED._replace(guard=True, reported="store", right=False),
    UNIFIED._replace(reported="matrix", right=False, bare=False),
    UNIFIED._replace(memory="weights", reported="matrix", right=False, bare=False, label=False),
]


def test_table_counts_each_flip_once() -> None:
    lines = [line.split() for line in flips.table(FOUND).splitlines()]
    assert lines[1:] == [
        ["unified", "3", "1", "1", "1", "0", "1", "0"],
        ["weights", "1", "0", "0", "1", "0", "1", "1"],
        ["all", "4", "1", "1", "2", "0", "2", "1"],
    ]


@pytest.mark.parametrize(("protection", "fails"), [("parity", True), ("none", False)])
def test_a_wrong_result_in_silence_fails_where_there_is_protection(
    protection: str, fails: bool, monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path
) -> None:
    config = preset(f"nano,protection={protection}")
    program = SimpleNamespace(name="net", to_bytes=bytes)
    plan = Plan(program, config, 1, 100, np.zeros((4, 1), np.int8))  # pyright: ignore[reportArgumentType]
    silent = UNIFIED._replace(right=False, bare=False)
    monkeypatch.setattr(flips, "_plan", lambda arguments: plan)
    monkeypatch.setattr(flips, "run_batch", lambda plan, numbers: [silent] * len(numbers))
    arguments = argparse.Namespace(
        flips=4, seed=1, workers=1, scheduler=None, resume=False, json=tmp_path / "flips.json"
    )
    if fails:
        with pytest.raises(Failure, match="4 of 4 flips: a wrong result, and no error"):
            flips.run(arguments)
    else:
        flips.run(arguments)
    assert "net on nano" in capsys.readouterr().out
    assert arguments.json.read_text().count('"reported": null') == 4


def test_another_error_is_none_of_the_flip(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that stops for another reason is not protected, it is broken."""
    array = SimpleNamespace(name="bank", memory=SimpleNamespace(name="UNIFIED"), words=4, bits=9)
    plan = Plan(None, preset("nano,protection=parity"), 1, 10, np.zeros((1, 1), np.int8))  # pyright: ignore[reportArgumentType]
    error = (isa.Error.RANGE, isa.Unit.LOAD, 0)
    monkeypatch.setattr(flips, "_play", lambda *arguments: (None, error))
    with pytest.raises(flips.DeviceError, match="flip 0: wanted no error or MEMORY, got RANGE"):
        flips._attempt(plan, ([array], [array]), 0, np.zeros(1, np.int8))


def test_device_remembers_the_error(monkeypatch) -> None:
    error = (isa.Error.MEMORY, isa.Unit.MATRIX, 3)
    results = iter([RunResult(5, {}, None), RunResult(6, {}, error), RunResult(5, {}, None)])
    monkeypatch.setattr(Driver, "run", lambda device, address, count: next(results))
    device = object.__new__(FlipDevice)
    assert device.run(0, 1).error is None and device.last_error is None
    assert device.run(0, 1).error == error and device.last_error == error
    assert device.run(0, 1).error is None and device.last_error is None


def test_command_refuses_what_makes_no_sense(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("--flips 0", "--preset nano,protection=hope", "no-such-file.tflite"):
        with pytest.raises(SystemExit) if wrong.startswith("--") else nullcontext():
            assert main(["flips", *wrong.split()]) == 2
    assert "no-such-file.tflite" in capsys.readouterr().err
