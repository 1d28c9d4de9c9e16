"""Names of inputs and outputs: unique, printable, those of signatures, and accepted as offered."""

import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import networks as w
import numpy as np
import prerequisites
import pytest
from whole_networks.small import two_signatures

import celosia
from celosia.sw.cli import main
from celosia.sw.cli.inputs import npy
from celosia.sw.frontend.source import load
from celosia.sw.ir.program import Program, ProgramError

X = np.arange(-3, 3, dtype=np.int8).reshape(1, 6)


def named(inputs: list[str], outputs: list[str]) -> bytes:
    """Return a model of MINIMUM of all inputs, whose further outputs are RELU and RELU6 of it."""
    meaning = w.Quantization(np.array([0.5], np.float32), np.array([0]))
    tensors = [w.Tensor(name, (1, 6), np.dtype(np.int8), meaning) for name in (*inputs, *outputs)]
    first, last = len(inputs), range(len(inputs), len(tensors))
    kinds = zip(("RELU", "RELU6"), last[1:], strict=False)
    operations = [w.Operation("MINIMUM", (0, first - 1), (first,))]
    operations += [w.Operation(kind, (first,), (number,)) for kind, number in kinds]
    return w.serialize(w.Graph(tuple(tensors), tuple(operations), tuple(range(first)), tuple(last)))


NAMES = [
    (["x", "x"], ["y", "y", "y"], ["x", "x_2"], ["y", "y_2", "y_3"]),
    (["x"], ["y", "y_2", "y"], ["x"], ["y", "y_2", "y_3"]),
    (["", ""], ["", "a\nb"], ["input", "input_2"], ["output", "a_b"]),
    (["\u00e4 b"], ["x\x00y", "x\ty"], ["\u00e4 b"], ["x_y", "x_y_2"]),
]


@pytest.mark.parametrize(("inputs", "outputs", "ins", "outs"), NAMES)
def test_names_are_printable_and_unique(inputs, outputs, ins, outs, tmp_path: Path) -> None:
    content = named(inputs, outputs)
    (tmp_path / "net.tflite").write_bytes(content)
    celosia.compile(tmp_path / "net.tflite").save(tmp_path / "net.celosia")
    arrays = [X + np.int8(n) for n in range(len(ins))]
    wanted = [each[0] for each in prerequisites.litert_runs(content, *(a[None] for a in arrays))]
    with celosia.InferenceSession(tmp_path / "net.celosia") as session:
        assert [end.name for end in session.get_inputs()] == ins
        assert [end.name for end in session.get_outputs()] == outs
        for names in (None, outs, outs[::-1]):
            results = session.run(names, dict(zip(ins, arrays, strict=True)))
            order = wanted if names != outs[::-1] else wanted[::-1]
            assert all(map(np.array_equal, results, order))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for name, array in zip(ins, arrays, strict=True):
            archive.writestr(f"{name}.npy", npy(array))
    given = [f"--input={tmp_path / 'x.npz'}", f"--output={tmp_path / 'y.npz'}"]
    main(["run", str(tmp_path / "net.tflite"), "--device", "machine", *given])
    with np.load(tmp_path / "y.npz") as written:
        assert all(map(np.array_equal, (written[name] for name in outs), wanted))


def test_offered_names_are_accepted(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "net.tflite").write_bytes(named(["x"], ["a;out", "b;out", "c;last"]))
    np.save(tmp_path / "x.npy", X)
    given = ["run", str(tmp_path / "net.tflite"), "--device=machine", f"--input={tmp_path}/x.npy"]
    assert main([*given, f"--output={tmp_path}/y.npy"]) != 0
    offered = re.findall("'(.*?)'", capsys.readouterr().err)
    assert offered == ["a;out", "b;out", "last"]
    main([*given, *(f"--output={name}={tmp_path}/{n}.npy" for n, name in enumerate(offered))])
    assert len(list(tmp_path.glob("?.npy"))) == 4


def test_two_arrays_of_one_input(tmp_path: Path, refused: Callable[[str], str]) -> None:
    """An input has several names, but one of the arrays would be lost."""
    (tmp_path / "net.tflite").write_bytes(named(["a;x", "b;y"], ["z"]))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for name in ("a;x", "x", "y"):
            archive.writestr(f"{name}.npy", npy(X))
    text = "wanted arrays 'x', 'y', got 'a;x', 'x', 'y'"
    assert text in refused("run net.tflite --device=machine --input=x.npz --output=y.npz")


def test_file_names_that_are_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "n\udcffet.tflite"
    path.write_bytes(named(["x"], ["y"]))
    program = celosia.compile(path)
    assert Program.from_bytes(program.to_bytes()).name == program.name == "n_et.tflite"


def test_writer_refuses_what_the_reader_refuses() -> None:
    program = celosia.compile(named(["x"], ["y"]))
    port = replace(program.outputs[0], name="a\nb")
    with pytest.raises(ProgramError, match=r"^program outputs name: wanted a text, got 'a\\nb'$"):
        replace(program, outputs=(port,)).to_bytes()


def litert(content: bytes):
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(model_content=content)


@pytest.mark.parametrize("key", ["encode", "decode"])
@pytest.mark.parametrize("samples", [1, 3])
def test_signatures_as_in_litert(key: str, samples: int) -> None:
    content = two_signatures()
    ours, known = celosia.Interpreter(model_content=content), litert(content)
    assert ours.get_signature_list() == known.get_signature_list()
    runner, wanted = ours.get_signature_runner(key), known.get_signature_runner(key)
    x = np.arange(6 * samples, dtype=np.int8).reshape(samples, 6) - np.int8(7)
    (one, other) = ("x", "y") if key == "encode" else ("y", "z")
    # The recorded shape of RESHAPE is for one sample.
    many = [wanted(**{one: row[None]})[other] for row in x]
    for _ in range(2):
        results = runner(**{one: x})
        assert list(results) == [other] and np.array_equal(results[other], np.concatenate(many))
    for found, known in (
        (runner.get_input_details(), wanted.get_input_details()),
        (runner.get_output_details(), wanted.get_output_details()),
    ):
        assert {k: d["name"] for k, d in found.items()} == {k: d["name"] for k, d in known.items()}
    ours.close()


def test_signature_is_chosen() -> None:
    content = two_signatures()
    for key, shape, names in (
        (None, (6,), ["x", "y"]),
        ("encode", (6,), ["x", "y"]),
        ("decode", (2, 3), ["y", "z"]),
        ("c", (6,), ["input", "output_0"]),
    ):
        program = celosia.compile(content, signature=key)
        assert program.outputs[0].shape == shape
        assert [program.inputs[0].name, program.outputs[0].name] == names
    # The tensor's name is good, too.
    with celosia.InferenceSession(content) as session:
        (y,) = session.run(["output_0"], {"input": X})
    assert np.array_equal(y, np.maximum(X, 0))
    graph = load(content)
    assert (graph.signature, graph.choices) == ("encode", ("decode", "c"))


@pytest.mark.parametrize(
    ("keys", "wanted", "taken"),
    [
        (("a", "serving_default"), None, "serving_default"),
        (("serving_default", "a"), None, "serving_default"),
        (("b", "a"), None, "b"),
        (("a", "serving_default"), "a", "a"),
        (("serving_default", "a"), "a", "a"),
        ((), None, ""),
    ],
)
def test_signature_of_several_of_one_subgraph(keys, wanted, taken) -> None:
    """The usual one, or else the first, gives names where none is chosen."""
    chain = w.Chain((1, 6), 0.5)
    chain.operator("RELU")
    graph = chain.graph()
    (source,), (result,) = graph.inputs, graph.outputs
    signatures = [w.Signature(k, 0, ((f"{k}_in", source),), ((f"{k}_out", result),)) for k in keys]
    content = w.serialize(graph, signatures=signatures)
    found = load(content, signature=wanted)
    assert found.signature == taken
    assert found.choices == tuple(key for key in keys if key != taken)
    program = celosia.compile(content, signature=wanted)
    names = [program.inputs[0].name, program.outputs[0].name]
    assert names == ([f"{taken}_in", f"{taken}_out"] if taken else ["input", "output_0"])


@pytest.mark.parametrize("names", [["x", "input"], [], ["y"], ["input", "y"]])
def test_each_input_is_given_once(names: list[str]) -> None:
    """Under its name, or that of its tensor; not under both."""
    with celosia.InferenceSession(two_signatures()) as session:
        with pytest.raises(ValueError, match=r"^inputs: wanted \['x'\], got \["):
            session.run(None, dict.fromkeys(names, X))


def test_signature_refusals() -> None:
    content = two_signatures()
    interpreter = celosia.Interpreter(model_content=content)
    program = celosia.compile(content).to_bytes()
    runner = interpreter.get_signature_runner("encode")
    refusals = [
        (lambda: load(content, signature="z"), "model: signature: wanted one of 'encode', 'decode', 'c', got 'z'"),
        (lambda: interpreter.get_signature_runner(), "signature_key: wanted one of 'encode', 'decode', got None"),
        (lambda: interpreter.get_signature_runner("z"), "signature_key: wanted one of 'encode', 'decode', got 'z'"),
        (lambda: celosia.Interpreter(model_content=program).get_signature_runner(), "signature_key: wanted a model with signatures, got None"),
        (lambda: runner(z=X), "inputs: wanted ['x'], got ['z']"),
        (lambda: celosia.InferenceSession(program, signature="encode"), "program: wanted no signature for a program, which was compiled from one, got 'encode'"),
        (lambda: load(b"\x08", signature="encode"), "model: signatures are for .tflite files, got 'encode'"),
    ]  # fmt: skip
    for call, text in refusals:
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value) == text
    assert celosia.Interpreter(model_content=program).get_signature_list() == {}


def test_commands_take_a_signature(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    model = str(tmp_path / "net.tflite")
    Path(model).write_bytes(two_signatures())
    np.save(tmp_path / "x.npy", X)
    main(["compile", model, "-o", str(tmp_path / "p.celosia")])
    note = "celosia: note: net.tflite: signature 'encode' is taken; --signature takes another: "
    assert capsys.readouterr().err == note + "'decode', 'c'\n"
    main(["compile", model, "--signature=decode", "-o", str(tmp_path / "p.celosia")])
    assert Program.load(tmp_path / "p.celosia").outputs[0].shape == (2, 3)
    ends = [f"--input=y={tmp_path}/x.npy", f"--output=z={tmp_path}/y.npy", "--device=machine"]
    # The program keeps the names of its signature.
    for source in ([model, "--signature=decode"], [str(tmp_path / "p.celosia")]):
        main(["run", *source, *ends])
        assert np.load(tmp_path / "y.npy").shape == (1, 2, 3)
        (tmp_path / "y.npy").unlink()
    main(["report", model, "--signature=c", f"--json={tmp_path}/r.json"])
    layers = json.loads((tmp_path / "r.json").read_text())["layers"]
    assert [row["operator"] for row in layers] == ["RELU_N1_TO_1"]
    main(["profile", model, "--signature=c", f"--json={tmp_path}/p.json"])
    assert json.loads((tmp_path / "p.json").read_text())["layers"][0]["operator"] == "RELU_N1_TO_1"
    np.save(tmp_path / "labels.npy", np.zeros(len(X), np.int64))
    labelled = [f"--data=x={tmp_path}/x.npy", f"--labels={tmp_path}/labels.npy"]
    assert main(["eval", model, "--signature=encode", *labelled]) == 0
    assert main(["eval", model, "--signature=decode", *labelled]) == 2
    assert "with NAME of 'y'" in capsys.readouterr().err
