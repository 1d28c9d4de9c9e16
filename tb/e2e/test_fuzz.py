"""Random programs on the RTL, a short campaign; a bug is found, made small and replayed."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from clusters import Cluster

from celosia.sim.model.machine import Machine
from celosia.sw.cli import main
from celosia.sw.fuzz.case import Bus, CaseFault, load
from celosia.sw.fuzz.device import FuzzDevice, Outcome
from celosia.sw.fuzz.programs.configurations import CONFIGURATIONS
from celosia.sw.fuzz.programs.legal import legal
from celosia.sw.fuzz.trial import attempt

pytestmark = pytest.mark.usefixtures("verilator")

CORES = "least,odd"


def fuzz(options: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run the command in this process; return its code and what it prints."""
    capsys.readouterr()
    code = main(["fuzz", *options.split()])
    printed = capsys.readouterr()
    return code, printed.out, printed.err.splitlines()[-1] if printed.err else ""


BOUNDS = "--faults --kind bounds"


@pytest.mark.parametrize(
    ("faults", "programs"),
    [("", 60), ("--faults", 80), (BOUNDS, 60), pytest.param(BOUNDS, 2000, marks=pytest.mark.slow)],
)
def test_core_and_machine_model_agree(faults, programs, seed, tmp_path, capsys, figure) -> None:
    options = f"--configurations {CORES} --workers 1 --directory {tmp_path}"
    code, out, err = fuzz(
        f"--programs {programs} --seed {seed} {faults} {options} --coverage {tmp_path}/c.json",
        capsys,
    )
    assert code == 0, err
    figure(f"fuzz: {out.splitlines()[0]}")
    counts = json.loads((tmp_path / "c.json").read_text())
    if faults == BOUNDS:
        ends = {end.removeprefix("bounds ") for end in counts["ends"]}
        assert {"BUS of LOAD", "BUS of STORE", "RANGE of STORE"} <= ends
        assert ends <= {"BUS of LOAD", "BUS of STORE", "RANGE of LOAD", "RANGE of STORE"}
        return
    met, most = counts["bins"]["overlaps"]
    assert met > most // 2
    if faults:
        errors = {end.split()[1] for end in counts["ends"] if " of " in end}
        assert {"OPCODE", "FIELD", "RANGE", "BUS", "WATCHDOG"} <= errors


def test_a_sequential_requantizer_makes_no_difference(seed, tmp_path, capsys, figure) -> None:
    options = f"--configurations small --requantizer sequential --workers 1 --directory {tmp_path}"
    code, out, err = fuzz(f"--programs 60 --seed {seed} {options}", capsys)
    assert code == 0, err
    figure(f"fuzz, sequential: {out.splitlines()[0]}")


def test_a_doorbell_at_the_end_makes_a_program_run_again() -> None:
    """The place at which it comes is one of a few cycles before the end."""
    case = legal(CONFIGURATIONS["least"], random.Random(4), 8)
    once = attempt(case).outcome
    assert once.runs == 1
    runs = set()
    for early in range(8):
        trial = attempt(replace(case, fault=CaseFault("doorbell", once.cycles - early)))
        assert not trial.problems
        assert trial.outcome.cycles == trial.outcome.runs * once.cycles
        runs.add(trial.outcome.runs)
    assert 2 in runs


def test_a_reset_loses_no_cycle_of_a_counter() -> None:
    case = legal(CONFIGURATIONS["least"], random.Random(5), 8)
    for place in range(570, 600):
        assert not attempt(replace(case, fault=CaseFault("reset", place))).problems


def found(out: str, err: str) -> Path:
    """Return the file that the command names."""
    assert "differences" in out
    (path,) = re.findall(r"celosia fuzz --replay (\S+)\)$", err)
    return Path(path)


def test_a_wrong_result_is_found_and_made_small(tmp_path, capsys, monkeypatch) -> None:
    """A machine model that fills with another value than the core."""
    action = Machine._action

    def wrong(self, i):
        if i.opcode.name == "FILL" and i.value > 5 and i.channels > 2:
            i = type(i)(i.opcode, **(i.fields | {"value": i.value - 1}))
        return action(self, i)

    options = f"--configurations least --workers 1 --programs 40 --directory {tmp_path}"
    monkeypatch.setattr(Machine, "_action", wrong)
    code, out, err = fuzz(options, capsys)
    assert code == 1 and err.startswith("celosia: ") and "memory: " in err
    path = found(out, err)
    case = load(path.read_text())
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    # What fills, what shows it, and the end.
    assert [line.split()[0] for line in lines] == ["FILL", "STORE", "HALT"]
    assert "channels=3" in lines[0] and "value=6" in lines[0]
    assert case.bus.stalls == ("none",)
    assert fuzz(f"--replay {path}", capsys)[0] == 1
    assert main(["assemble", str(path), "-o", str(tmp_path / "words")]) == 0
    monkeypatch.undo()
    assert fuzz(f"--replay {path}", capsys)[0] == 0


def broken(kind: str, outcome: Outcome, device: FuzzDevice) -> Outcome:
    """Return what a core with a bug would show."""
    match kind:
        case "damage":
            device.content[5] ^= 1
        case "counters":
            assert outcome.counters is not None
            outcome.counters["load"]["busy"] = outcome.cycles + 1
        case "classes" if not outcome.error and outcome.counters is not None:
            outcome.counters["sequencer"] = {"drain": outcome.cycles}
        case "error" if outcome.error:
            code, unit, index = outcome.error
            outcome = outcome._replace(error=(code, unit, index + 1))
        case "hang" if outcome.error:
            outcome = outcome._replace(runs=0)
        case "reset":
            outcome = outcome._replace(idle=False)
        case "quiet":
            outcome = outcome._replace(quiet=False)
        case "axi":
            outcome = outcome._replace(broken=8)
    return outcome


@pytest.mark.parametrize(
    "kind", ["damage", "counters", "classes", "error", "hang", "reset", "quiet", "axi"]
)
def test_a_wrong_core_is_found(kind, tmp_path, capsys, monkeypatch) -> None:
    play = FuzzDevice.play
    monkeypatch.setattr("celosia.sw.fuzz.shrink._BUDGET", 5)
    monkeypatch.setattr(
        FuzzDevice, "play", lambda self, *a, **b: broken(kind, play(self, *a, **b), self)
    )
    options = f"--faults --configurations least --workers 1 --programs 12 --directory {tmp_path}"
    code, out, err = fuzz(options, capsys)
    assert code == 1
    assert any(path.name.endswith(f"-{kind}.s") for path in tmp_path.iterdir())
    assert fuzz(f"--replay {found(out, err)}", capsys)[0] == 1


def test_pauses_keep_the_result_and_take_time() -> None:
    case = replace(legal(CONFIGURATIONS["least"], random.Random(1)), bus=Bus())
    cycles = [attempt(case).outcome.cycles]
    for channel in range(5):
        pauses = tuple(0.8 * (n == channel) for n in range(5))
        trial = attempt(replace(case, bus=Bus(pauses)))
        assert not trial.problems
        cycles.append(trial.outcome.cycles)
    assert min(cycles[1:3]) > cycles[0] and max(cycles[3:]) > cycles[0]
    # A store that waits lets others go first, which may save them a cycle.
    assert min(cycles[3:]) > 0.99 * cycles[0]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Coverage of one process."""
    return covered(tmp_path_factory.mktemp("alone"), "--workers", "1")


def covered(folder: Path, *options: str) -> str:
    """Return the counts of a campaign in a new process."""
    command = [sys.executable, "-m", "celosia.sw", "fuzz", "--configurations", "least"]
    command += ["--programs", "30", "--coverage", str(folder / "counts.json"), *options]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "counts.json").read_text()


def test_several_processes_report_the_same(tmp_path: Path, alone: str) -> None:
    """Two workers on this machine, and this process alone."""
    assert covered(tmp_path, "--workers", "2") == alone


def test_a_cluster_reports_the_same(tmp_path: Path, alone: str, cluster: Cluster) -> None:
    assert covered(tmp_path, "--scheduler", cluster.address) == alone


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--programs 0", "--programs: wanted a whole number of at least 1, got '0'"),
        ("--configurations huge", "configurations: wanted some of least, "),
        ("--draw 2 --configurations odd", "wanted --draw or --configurations, got both"),
        ("--replay none.s", "none.s: "),
        ("--replay bad.s", "bad.s: line 1: opcode: wanted HALT, got"),
        ("--coverage no/c.json", "no/c.json: no such directory as no"),
        ("--directory bad.s", "bad.s: wanted a directory, got a file"),
        ("--scheduler nowhere", "scheduler: wanted tcp://HOST:PORT, got 'nowhere'"),
    ],
)
def test_bad_arguments(refused: Callable[[str], str], options: str, says: str) -> None:
    Path("bad.s").write_text("HOLT\n")
    assert says in refused(f"fuzz {options}")


def test_a_kind_of_fault_is_one_that_there_is(capsys) -> None:
    code, _, err = fuzz("--programs 1 --faults --kind weather", capsys)
    assert code == 2 and "--kind: wanted --faults and one of opcode, field" in err
