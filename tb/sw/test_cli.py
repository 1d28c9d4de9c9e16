import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from networks import FullyConnected, write_fully_connected

from celosia.hw.arch import commands, isa
from celosia.hw.arch.presets import preset
from celosia.sim.rtl import converted
from celosia.sw import measure
from celosia.sw.cli import main
from celosia.sw.compiler.compiled import Compiled
from celosia.sw.compiler.report import Alone, Measured
from celosia.sw.driver.core import RunResult
from celosia.sw.frontend.source import load
from celosia.sw.ir.program import Program
from celosia.sw.runtime.machine import MachineDevice


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a model, a program and inputs."""
    rng = np.random.default_rng(3)
    weights = rng.integers(-127, 128, (4, 9)).astype(np.int8)
    layer = FullyConnected(weights=weights, weight_scale=0.01, output_scale=0.2)
    monkeypatch.chdir(tmp_path)
    Path("m.tflite").write_bytes(write_fully_connected([layer], input_scale=0.1))
    np.save("x.npy", rng.integers(-128, 128, (7, 9)).astype(np.int8))
    np.save("real.npy", rng.normal(size=(7, 9)))
    assert main("compile m.tflite -o m.prog --preset nano --batch 3".split()) == 0
    return tmp_path


def test_compile(folder: Path) -> None:
    program = Program.load("m.prog")
    assert program.config.name == "nano" and program.batch == 3
    assert main("compile m.tflite -o again.prog --preset nano --batch 3".split()) == 0
    assert Path("again.prog").read_bytes() == Path("m.prog").read_bytes()


def test_run_of_model_and_program_agree(folder: Path) -> None:
    for name in ("m.tflite --preset nano", "m.tflite --batch 2", "m.prog"):
        command = f"run {name} --input x.npy --output y.npy --device machine --stats s.json"
        assert main(command.split()) == 0
        y = np.load("y.npy")
        assert y.dtype == np.int8 and y.shape == (7, 4)
        stats = json.loads(Path("s.json").read_text())
        assert stats["inputs"] == 7 and stats["macs"] == 7 * 36 and stats["cycles"] is None
        assert stats["array"] is None
        Path(f"y {name[:8]}.npy").write_bytes(Path("y.npy").read_bytes())
    assert len({path.read_bytes() for path in folder.glob("y *.npy")}) == 1


@pytest.mark.parametrize("array", ["cells", "twin"])
def test_run_reports_what_was_simulated_as_the_array(folder, monkeypatch, capsys, array) -> None:
    def on_machine(device: MachineDevice, *program: int) -> RunResult:
        return replace(run(device, *program), array=array)

    run = MachineDevice.run
    monkeypatch.setattr(MachineDevice, "run", on_machine)
    command = "run m.prog --input x.npy --output y.npy --device machine --stats s.json"
    assert main(command.split()) == 0
    assert json.loads(Path("s.json").read_text())["array"] == array
    assert ("with a twin of the array" in capsys.readouterr().out) == (array == "twin")


def test_run_quantises_real_inputs(folder: Path) -> None:
    x = np.rint(np.load("real.npy").astype(np.float32) / np.float32(0.1))
    np.save("whole.npy", np.clip(x, -128, 127).astype(np.int8))
    for name in ("real", "whole"):
        command = f"run m.prog --input {name}.npy --output {name}_y.npy --device machine"
        assert main(command.split()) == 0
    assert np.array_equal(np.load("real_y.npy"), np.load("whole_y.npy"))


def test_report_for_model_explorer(folder: Path) -> None:
    assert main("report m.tflite --json r.json --model-explorer nodes".split()) == 0
    graph = load(Path("m.tflite"))
    names = [graph.tensors[operation.outputs[0]].name for operation in graph.operations]
    layers = json.loads(Path("r.json").read_text())["layers"]
    fields = {"cycles": "cycles", "utilisation": "utilisation", "device": "runs_on"}
    for file, field in fields.items():
        results = json.loads(Path(f"nodes/{file}.json").read_text())["results"]
        assert results == {names[row["place"]]: {"value": row[field]} for row in layers}


def test_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("report m.tflite --batch 4 --csv r.csv --json r.json".split()) == 0
    assert "FULLY_CONNECTED" in capsys.readouterr().out
    head, row, total = Path("r.csv").read_text().splitlines()
    assert head.startswith("layer,operator,runs_on,macs,cycles")
    assert row.startswith("output_0,FULLY_CONNECTED,core,36,") and total.startswith("total,,,36,")
    content = json.loads(Path("r.json").read_text())
    assert content["batch"] == 4 and len(content["layers"]) == 1
    assert content["total"]["cycles"] == content["layers"][0]["cycles"] > 0
    assert content["total"]["bound"] == 16 and content["total"]["counted_alone"] is None
    slow = "report m.tflite --batch 4 --latency 500 --bandwidth 0.1 --json s.json"
    assert main(slow.split()) == 0
    cycles = json.loads(Path("s.json").read_text())["total"]["cycles"]
    assert cycles > content["total"]["cycles"] + 1000


def test_report_of_what_is_measured(folder, capsys, monkeypatch) -> None:
    requested = {}

    def fake(compiled: Compiled, **memory: float | bool) -> Measured:
        requested.update(memory, batch=compiled.program.batch)
        return Measured((Alone(210, 200),), whole=Alone(303, 300), setup=Alone(50, 50))

    monkeypatch.setattr(measure, "measure", fake)
    command = "report m.tflite --measure --batch 2 --latency 9 --bandwidth 0.5 --json r.json"
    assert main(command.split()) == 0
    assert requested == {"latency": 9, "bandwidth": 0.5, "batch": 2, "progress": True}
    printed = capsys.readouterr().out
    assert "+5.0%" in printed
    assert "whole program: estimated 303, measured 300 cycles (+1.0%)" in printed
    content = json.loads(Path("r.json").read_text())
    assert content["layers"][0]["counted_alone"] == 200
    assert content["whole"] == {"estimated": 303, "counted": 300}


@pytest.mark.usefixtures("folder", "verilator")
def test_report_of_several_models(capsys: pytest.CaptureFixture[str]) -> None:
    command = "report m.tflite mnist_mlp --measure --preset nano --json"
    assert main(f"{command} one.json".split()) == 0
    alone = capsys.readouterr().out
    assert main(f"{command} two.json --workers 2".split()) == 0
    assert capsys.readouterr().out == alone
    names = [line.split()[0] for line in alone.splitlines() if " on nano, " in line]
    assert names == ["m.tflite", "mnist_mlp.tflite"]
    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()
    assert main("report mnist_mlp --measure --preset nano --json last.json".split()) == 0
    assert json.loads(Path("one.json").read_text())[1] == json.loads(Path("last.json").read_text())


def test_assemble_and_disassemble(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "LOAD external=64 length=5 post=1  # first\n\nHALT\n"
    Path("a.s").write_text(text)
    assert main("assemble a.s -o a.bin".split()) == 0
    assert Path("a.bin").read_bytes() == commands.encode(isa.assemble(text))
    assert main("disassemble a.bin".split()) == 0
    assert capsys.readouterr().out == "LOAD external=64 length=5 post=1\nHALT\n"
    assert main("disassemble m.prog -o p.s".split()) == 0
    assert main("assemble p.s -o p.bin".split()) == 0
    program = Program.load("m.prog")
    assert Path("p.bin").read_bytes() == program.setup.code + program.main.code


@pytest.mark.usefixtures("folder")
def test_assemble_checks_for_a_core(refused: Callable[[str], str]) -> None:
    Path("race.s").write_text("LOAD length=4\nSTORE length=4 external=64\nHALT\n")
    Path("good.s").write_text("LOAD length=4 post=0\nSTORE length=4 external=64 wait=0\nHALT\n")
    Path("far.s").write_text("LOAD length=4 unified=40000\nHALT\n")
    for command in ("race.s -o p", "good.s -o p --check nano", "far.s -o p --check nano"):
        assert main(f"assemble {command}".split()) == 0
        Path("p").unlink()
    raced = refused("assemble race.s -o p --check nano")
    assert "race.s: RACE: instruction 0 (LOAD length=4) and instruction 1 (STORE " in raced
    assert "far.s: FIELD in " in refused("assemble far.s -o p --check micro")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("frobnicate", ", serve, got 'frobnicate'"),
        ("compile m.tflite", "required: -o/--output"),
        ("compile gone.tflite -o p", "gone.tflite: no such file"),
        ("compile x.npy -o p", "x.npy: not a .tflite file"),
        ("compile cut.tflite -o p", "cut.tflite: truncated or damaged .tflite file"),
        ("compile m.tflite -o p --preset tiny", "wanted one of pico, nano, micro, edge, tpu_v1"),
        ("compile m.tflite -o p --preset edge,rows=5", "rows: wanted a power of two"),
        ("compile m.tflite -o p --batch 0", "--batch: wanted a whole number of at least 1"),
        (f"fuzz --seed {'9' * 5000}", f"--seed: wanted at most 18 digits, got '{'9' * 18}...'"),
        (
            "compile m.tflite -o p --batch 2000000",
            "--batch: wanted 1 to 4096 inputs of one run, got 2000000",
        ),
        ("compile m.tflite -o gone/p", "no such directory as gone"),
        ("compile m.tflite -o .", "wanted a file, got a directory"),
        ("compile m.tflite -o m.tflite", "named twice, or an input"),
        ("report gone.tflite", "gone.tflite: no such file"),
        ("report m.tflite --csv gone/r.csv", "no such directory as gone"),
        ("report m.tflite m.tflite --csv r.csv", "--csv: wanted one MODEL for it, got 2"),
        ("report m.tflite --workers 2", "--workers, --scheduler, --resume: wanted --measure"),
        ("report m.tflite --latency 0", "--latency: wanted a whole number of at least 1"),
        ("report m.tflite --bandwidth 3", "bandwidth: wanted 1/1024 to 2 beats per cycle, got 3.0"),
        ("report m.tflite --measure --bandwidth nan", "bandwidth: wanted 1/1024 to 2 beats"),
        ("report m.tflite --model-explorer bad.s/f", "f: wanted a directory to write into (Not a"),
        ("compile m.tflite -o -", "-: wanted the name of a file"),
        ("run m.prog --input x.npy --output y.npy --stats -", "-: wanted the name of a file"),
        ("assemble none.s -o p", "none.s: wanted an instruction, got none"),
        ("assemble . -o p", "celosia: .: cannot be read (Is a directory)"),
        ("assemble bad.s -o p", "bad.s: line 2: LOAD length: wanted a whole number, got 'x'"),
        ("assemble m.prog -o p", "m.prog: not a text file"),
        ("disassemble bad.s", "wanted a multiple of 4 bytes"),
        ("disassemble zeros.bin", "instruction 0: code: wanted an opcode or a register, got 0"),
        ("disassemble cut.prog", "cut.prog: damaged or truncated program file"),
        ("verilog", "required: -o/--output"),
        ("verilog --preset nano -o gone/v", "no such directory as gone"),
        ("verilog --preset nano -o .", "wanted a file, got a directory"),
        ("verilog --preset nano,lanes=3 -o v", "lanes: wanted"),
        ("verilog --preset giant -o v", "wanted one of pico, nano, micro, edge, tpu_v1"),
        ("synth --seeds some", "--seeds: wanted a whole number of at least 0"),
        ("verilog --preset nano --block= -o v", "block: wanted one of unified_buffer, "),
        ("synth --part chip --directory d", "part: wanted one of LFE5U-85F, "),
        ("synth --preset giant", "wanted one of pico, nano, micro, edge, tpu_v1"),
        ("synth --directory bad.s", "bad.s: wanted a directory, got a file"),
        ("build toaster", "board: wanted one of colorlight-i5, "),
        ("build ulx3s-12f -o bad.s", "bad.s: wanted a directory, got a file"),
        ("build ulx3s-12f --clock nan", "clock: wanted 1 to 1000 MHz, got 'nan'"),
        ("flash toaster", "board: wanted one of colorlight-i5, "),
        ("demo -o gone/d.png", "no such directory as gone"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_bad_input(refused: Callable[[str], str], command: str, says: str) -> None:
    Path("cut.tflite").write_bytes(Path("m.tflite").read_bytes()[:-30])
    Path("cut.prog").write_bytes(Path("m.prog").read_bytes()[:-30])
    Path("bad.s").write_text("HALT\nLOAD length=x\n")
    Path("zeros.bin").write_bytes(bytes(64))
    Path("none.s").write_text("# nothing\n")
    names = sorted(Path().rglob("*"))
    assert says in refused(command)
    assert sorted(Path().rglob("*")) == names


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("m.prog --input gone.npy", "gone.npy: no such file"),
        ("m.prog --input m.prog", "m.prog: not an .npy file"),
        ("m.prog --input cut.npy", "cut.npy: truncated or damaged .npy file"),
        ("m.prog --input objects.npy", "objects.npy: Python objects"),
        ("m.prog --input x.npy --preset micro", "m.prog: program was compiled for nano"),
        ("m.prog --input x.npy --batch 5", "program was compiled for batch 3, got --batch 5"),
        ("m.prog --input x.npy --device x", "wanted one of machine, rtl, litex:SYSTEM, got 'x'"),
        ("m.prog --input x.npy --stats gone/s", "no such directory as gone"),
        ("m.prog --input x.npy --stats y.npy", "named twice"),
        ("m.prog --input x.npy --latency -1", "--latency: wanted a whole number"),
        ("m.prog --input x.npy --bandwidth fast", "--bandwidth: wanted a number, got 'fast'"),
        ("x.npy --input x.npy", "x.npy: not a .tflite file"),
        (
            "gone --input x.npy",
            "gone: no such file, and no model of the package (fashion_cnn, fashion_vit, ",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_bad_input_of_run(refused: Callable[[str], str], options: str, says: str) -> None:
    Path("cut.npy").write_bytes(Path("x.npy").read_bytes()[:-3])
    np.save("objects.npy", np.array([{}], object), allow_pickle=True)
    device = "" if "--device" in options else " --device machine"
    assert says in refused(f"run {options} --output y.npy{device}")


def test_missing_simulator(folder, capsys, monkeypatch) -> None:
    from celosia.sim.rtl import core as rtl
    from celosia.sim.rtl.simulators import SimulatorNotFound

    def missing(*_: object, **__: object) -> None:
        raise SimulatorNotFound("Verilator 5.000 or newer wanted, none found")

    monkeypatch.setattr(rtl, "model", missing)
    capsys.readouterr()
    for command in (
        "run m.prog --input x.npy --output y.npy --device rtl",
        "report m.tflite --measure --csv y.npy",
    ):
        assert main(command.split()) == 1
        printed = capsys.readouterr()
        assert printed.err == "celosia: rtl: Verilator 5.000 or newer wanted, none found\n"
        assert printed.out == "" and not Path("y.npy").exists()


def test_verilog(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converted, "core_verilog", lambda config, **_: f"module {config.name};\n")
    for name in ("nano", "edge,weight_rows=4"):
        assert main(["verilog", "--preset", name, "-o", "core.v"]) == 0
        *header, last = Path("core.v").read_text().splitlines()
        config = preset(name)
        assert last == f"module {config.name};" and all(line.startswith("//") for line in header)
        assert f"// Fingerprint of its programs: {config.fingerprint:#010x}" in header
        assert f"// weight_rows = {config.weight_rows}" in header
    assert main("verilog -o core.v".split()) == 0
    assert Path("core.v").read_text().endswith("module edge;\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0 and capsys.readouterr().out.startswith("celosia ")
