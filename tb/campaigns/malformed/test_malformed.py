"""Malformed files: short campaigns of each kind, past bugs, and detection of planted ones."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import networks as w
import numpy as np
import pytest
from command_line import main
from networks import Function, Quantization

from celosia.sw.cli import main as celosia
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program
from malformed import models, programs, seeds, trial
from malformed import verdict as verdicts
from malformed.campaign import KINDS, Plan, case_of, shrunk
from malformed.sandbox import Result, Sandbox

GIBIBYTE = 1 << 30


def campaign(options: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run the command in this process; return its code and its output."""
    capsys.readouterr()
    code = main(["malformed", *options.split()])
    said = capsys.readouterr()
    return code, said.out, said.err.splitlines()[-1] if said.err else ""


@pytest.mark.parametrize(("kind", "count"), [("models", 200), ("programs", 150)])
def test_no_file_does_harm(kind, count, tmp_path, capsys, figure) -> None:
    options = f"{kind} --files {count} --seed 8 --workers 1 --directory {tmp_path}"
    code, out, err = campaign(options, capsys)
    assert code == 0, err
    figure(f"malformed: {out.splitlines()[0]}")
    ends = {end: int(n) for n, end in re.findall(r"^ +(\d+) (.*)$", out, re.MULTILINE)}
    assert sum(ends.values()) == count
    # Some changes pass the reader, others do not.
    good, bad = (
        ("answer as LiteRT", "ModelError") if kind == "models" else ("answer", "ProgramError")
    )
    assert ends[good] > count / 20 and ends[bad] > count / 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_is_always_the_same_file(kind: str) -> None:
    first = [case_of(Plan(kind, 3), number) for number in range(20)]
    assert first == [case_of(Plan(kind, 3), number) for number in range(20)]
    assert len(set(first)) > 15


def test_seeds_have_all_operators() -> None:
    """Those of the core; tb/e2e/test_changed_operators.py changes the host's, seeds have some.

    Operators of ONNX, in mixed case, are in no ``.tflite`` file.
    """
    from celosia.sw.operators.registry import OPERATORS

    of_core = {kind for kind, record in OPERATORS.items() if record.lower and kind.isupper()}

    kinds = {o.kind for model in seeds.models() for o in load(model).operations}
    assert of_core - kinds <= {"RELU", "SQUEEZE"}
    steps = {o.kind for content in seeds.programs() for o in Program.from_bytes(content).host}
    assert len(steps) > 15


def test_places_are_what_the_reader_looks_at() -> None:
    content = seeds.models()[0]
    found = models.slots(content)
    scale = np.float32(0.2).tobytes()
    assert any(p.floating and content[p.start : p.start + p.width] == scale for p in found)
    assert {p.width for p in found} >= {1, 2, 4, 8}


# Past findings, each as small as the campaign made it.


def scaled(layers: list[Any], number: int, scale: float) -> bytes:
    """Return a model with another scale of one of its tensors, counted from the input."""
    graph = w.sequential(layers, input_shape=(1, 4, 4, 2), input_scale=0.2)
    tensors = list(graph.tensors)
    tensors[number] = replace(
        tensors[number],
        quantization=Quantization(np.array([scale], np.float32), np.zeros(1, np.int64)),
    )
    return w.serialize(replace(graph, tensors=tuple(tensors)))


MUL = w.Binary(kind="MUL", second="input", output_scale=0.2)
DENSE = w.FullyConnected(
    weights=np.ones((3, 32), np.int8), weight_scale=1.0, output_scale=1.0, activation="RELU6"
)
TRANSPOSED = w.TransposedConvolution(
    weights=np.ones((1, 1, 1, 2), np.int8),
    weight_scale=1.0,
    bias=np.zeros(1, np.int32),
    output_scale=1.0,
)


@pytest.mark.parametrize(
    ("layers", "number", "scale", "message"),
    [
        # Quotients past single precision, and a bound past 32 bits: they ended in warnings.
        ([MUL], 1, 1e-45, "MUL.*wanted factors below 2^30, got"),
        ([w.Activation(kind="RELU6")], 1, 1e-38, "RELU6.*wanted factors below 2^30, got"),
        ([DENSE], 2, 1e-40, "FULLY_CONNECTED.*"),
        ([w.Pool(activation="RELU6")], 0, 1e-40, "MAX_POOL_2D.*"),
        # Factors too large for the kernels gave other bytes.
        ([TRANSPOSED], 0, 1e18, "TRANSPOSE_CONV.*wanted factors below 2^30, got"),
        ([w.Mean()], 2, 1e-12, "MEAN.*wanted factors below 2^30, got"),
        ([w.Activation(kind="RELU_N1_TO_1")], 0, 1e11, "RELU_N1_TO_1.*wanted factors below 2^30"),
        # Tables of NaN.
        (
            [Function(kind="GELU", approximate=True)],
            0,
            3e38,
            "GELU.*quotients fit single precision",
        ),
        (
            [Function(kind="GELU", approximate=True)],
            1,
            1e-45,
            "GELU.*quotients fit single precision",
        ),
        ([Function(kind="RSQRT")], 1, 1e-45, "RSQRT.*"),
        ([Function(kind="HARD_SWISH")], 1, 1e-45, "HARD_SWISH.*wanted a result of more than"),
    ],
)
def test_scales_without_a_meaning(layers, number, scale, message) -> None:
    outcome = trial.attempt(scaled(layers, number, scale))
    assert outcome.end in ("ModelError", "CompileError", "UndefinedError"), outcome
    assert re.search(message.replace("^", r"\^"), outcome.text), outcome.text


def test_a_constant_is_an_output_as_it_stands() -> None:
    graph = w.sequential([w.Mean()], input_shape=(1, 4, 4, 2), input_scale=0.2)
    (axes,) = [n for n, tensor in enumerate(graph.tensors) if tensor.data is not None]
    content = w.serialize(replace(graph, outputs=(*graph.outputs, axes)))
    outcome = trial.attempt(content)
    assert outcome.end == "answer" and len(outcome.outputs) == 2, outcome.text


def test_a_long_message_is_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = w.sequential([w.Mean()], input_shape=(1, 4, 4, 2), input_scale=0.2)
    name = "\x1b[31m" + "long" * 9000
    tensors = (replace(graph.tensors[0], name=name, dtype=np.dtype(np.int64)), *graph.tensors[1:])
    path = tmp_path / "long.tflite"
    path.write_bytes(w.serialize(replace(graph, tensors=tensors)))
    code = celosia(["compile", str(path), "-o", str(tmp_path / "out")])
    err = capsys.readouterr().err
    assert code == 2 and err.count("\n") == 1 and len(err) < 600 and "\x1b" not in err


# The fuzzer itself.


@pytest.mark.parametrize(
    ("function", "argument", "end"),
    [
        ("math:factorial", 5, Result("done", 120)),
        ("time:sleep", 60, Result("hang")),
        ("os:_exit", 3, Result("died", 3)),
        ("builtins:bytearray", 2 * GIBIBYTE, Result("died", 1)),
    ],
)
def test_sandboxes_hold(function: str, argument: int, end: Result) -> None:
    sandbox = Sandbox(function, seconds=5 if end.end != "hang" else 0.2, memory_bytes=GIBIBYTE)
    try:
        assert sandbox(argument) == end
        # It is there again.
        assert sandbox(argument) == end
    finally:
        sandbox.close()


def planted(kind: str) -> Callable[[str], Callable[[Any], Result]]:
    """Return sandboxes with an error for every model that compiles."""

    def sandbox(function: str) -> Callable[[Any], Result]:
        def call(argument: Any) -> Result:
            if function == "reference:outputs":
                return Result("done", [np.zeros(1, np.int8)])
            outcome = trial.attempt(argument)
            if outcome.end != "answer" or kind == "bytes":
                return Result("done", outcome)
            match kind:
                case "hang":
                    return Result("hang")
                case "crash":
                    return Result("died", -11)
                case "memory":
                    outcome = outcome._replace(peak=3 * GIBIBYTE)
                case _:
                    outcome = outcome._replace(end=kind, text="so it is")
            return Result("done", outcome)

        return call

    return sandbox


@pytest.mark.parametrize(
    "kind", ["traceback", "message", "damage", "ProgramError", "hang", "crash", "memory", "bytes"]
)
def test_what_is_wrong_is_found(kind, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(verdicts, "_sandbox", planted(kind))
    monkeypatch.setattr("malformed.campaign._BUDGET", 20)
    options = f"models --files 12 --seed 1 --workers 1 --directory {tmp_path}"
    code, out, err = campaign(options, capsys)
    assert code == 1 and "wrong" in out and f"{kind}: " in err
    (path,) = re.findall(r"python tb/campaigns malformed --replay (\S+)\)$", err)
    assert Path(path).name.endswith(f"-{kind}.tflite")
    assert campaign(f"--replay {path}", capsys)[0] == 1
    monkeypatch.undo()
    code, out, _ = campaign(f"--replay {path}", capsys)
    assert code == 0 and "answer" in out


def test_a_program_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many changed constants only the one is left that matters, with a right checksum."""
    origin = seeds.programs()[0]
    rng = random.Random(1)
    changed = bytearray(origin[:-4])
    for index in [len(changed) - 9, *rng.sample(range(len(changed) - 200, len(changed)), 12)]:
        changed[index] ^= 1
    culprit = changed[len(changed) - 9]

    def verdict(content: bytes) -> verdicts.Verdict:
        bad = content[-13] == culprit
        return verdicts.Verdict("", verdicts.Problem("bytes", "") if bad else None)

    monkeypatch.setattr("malformed.campaign.verdict", verdict)
    small = shrunk(programs.summed(bytes(changed)), "bytes")
    assert sum(a != b for a, b in zip(small[:-4], origin[:-4], strict=True)) == 1
    assert small == programs.summed(small[:-4])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--replay none.tflite", "none.tflite: no such file"),
        ("--files 0", "argument --files: wanted a whole number of at least 1, got '0'"),
        ("--directory {file}", "{file}: wanted a directory, got a file"),
    ],
)
def test_bad_arguments(options, message, tmp_path, capsys) -> None:
    file = tmp_path / "file"
    file.touch()
    try:
        code, _, err = campaign(options.format(file=file), capsys)
    except SystemExit as stop:
        code, err = stop.code, capsys.readouterr().err
    assert code == 2 and err.startswith("malformed: ") and message.format(file=file) in err
