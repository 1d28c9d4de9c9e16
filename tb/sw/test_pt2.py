"""Programs of PyTorch: what their archives may hold, and networks in training mode."""

import io
import json
import pickle
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from celosia.sw.quantize import pt2
from celosia.sw.quantize.model import QuantizeError
from celosia.sw.quantize.torch import open_model, trains


class Runs:
    """An object whose pickle calls a function when it is loaded."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return self.function, self.arguments


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def saved(pickled: bytes, **more: bytes) -> bytes:
    """Return what ``torch.save`` writes of a pickle."""
    return zipped({"archive/data.pkl": pickled, "archive/version": b"3", **more})


#: A pickle of a tensor of PyTorch: ``_rebuild_tensor_v2`` of a storage.
TENSOR = (
    b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x10tQK\x00(K\x10tq\x00(K\x01t\x89ccollections\n"
    b"OrderedDict\n)RtR."
)
SPEC = {"type": "builtins.tuple", "context": "null", "children_spec": []}


def graph(**changes: object) -> dict[str, Any]:
    """Return a graph of one function as PyTorch writes it, some of its texts changed."""
    text = {
        "name": "relu",
        "target": "torch.ops.aten.relu.default",
        "expr_str": "Mul(Integer(2), Symbol('s77', positive=True, integer=True))",
        "guards_code": ["L['x'].size()[0] >= 2"],
        "in_spec": json.dumps([1, SPEC]),
    } | changes
    node = {
        "target": text["target"],
        "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}],
        "outputs": [{"as_tensor": {"name": text["name"]}}, {"as_string": "bij,bkj->bik"}],
        "metadata": {"stack_trace": 'File "net.py", line 7, in forward\n    x = f(x)'},
    }
    sizes = [{"as_expr": {"expr_str": text["expr_str"], "hint": {"as_int": 2}}}]
    return {
        "graph_module": {"graph": {"nodes": [node], "tensor_values": {"x": {"sizes": sizes}}}},
        "signature": {"in_spec": text["in_spec"]},
        "guards_code": text["guards_code"],
        "torch_version": "2.13.0+cpu",
    }


def program(**members: object) -> dict[str, bytes]:
    """Return the members of an archive of ``torch.export``, some of them replaced."""
    weights = {"config": {"w": {"path_name": "weight_0", "use_pickle": False}}}
    contents: dict[str, object] = {
        "models/model.json": graph(),
        "data/weights/weight_0": bytes(range(64)),
        "data/weights/model_weights_config.json": weights,
        "data/constants/model_constants_config.json": {"config": {}},
        "data/sample_inputs/model.pt": saved(TENSOR),
        "archive_format": b"pt2",
    } | members
    return {
        f"net/{name}": each if isinstance(each, bytes) else json.dumps(each).encode()
        for name, each in contents.items()
    }


def test_the_archive_that_is_loaded_has_the_same_members(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(zipped(program(**{"extra/notes.json": b"mine"})))
    with zipfile.ZipFile(io.BytesIO(pt2.checked(path))) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    wanted = program()
    inner = "net/data/sample_inputs/model.pt"
    with zipfile.ZipFile(io.BytesIO(found.pop(inner))) as archive:
        assert archive.read("archive/data.pkl") == TENSOR
    del wanted[inner]
    assert found == wanted


def _config(name: str) -> dict[str, object]:
    return {f"data/{name}s/model_{name}s_config.json": {"config": {"w": {"use_pickle": True}}}}


SYSTEM = pickle.dumps(Runs(__import__, "os"), protocol=2)
MODEL = "models/model.json"
OTHER = SPEC | {"context": '[{"__module__": 1}]'}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"data/sample_inputs/model.pt": saved(SYSTEM)}, "Python objects (__builtin__ __import__)"),
        ({"data/sample_inputs/model.pt": saved(pickle.dumps(Runs(eval, "1")))}, "(STACK_GLOBAL)"),
        ({"data/sample_inputs/model.pt": SYSTEM}, "none or damaged"),
        ({"data/weights/model.pt": saved(b"(iposix\nsystem\n.")}, "Python objects (posix system)"),
        ({"data/constants/model.pt": saved(b"\x80\x02\x82\x01.")}, "Python objects (1)"),
        ({"data/sample_inputs/model.pt": saved(TENSOR, **{"archive/code/a.py": b""})}, "TorchScr"),
        ({"serialized_state_dict.json": SYSTEM}, "compiled code or objects"),
        (_config("weight"), "Python objects"),
        (_config("constant"), "Python objects"),
        ({"data/aotinductor/model/x.so": b"\x7fELF"}, "compiled code or objects"),
        ({"models/model.jsox": graph(target="torch.os.system")}, "target 'torch.os.system'"),
        ({MODEL: graph(target="torch.ops.load_library")}, "target 'torch.ops.load_library'"),
        ({MODEL: graph(target="torch.ops.aten.__class__.x")}, "target"),
        ({MODEL: graph(target="torch.ops.aten.relu.__globals__")}, "target"),
        ({MODEL: graph(target="#inductor")}, "target"),
        ({MODEL: graph(name="x=print(1)")}, "name 'x=print(1)'"),
        ({MODEL: graph(expr_str="__import__('os').getpid()")}, "expr_str"),
        ({MODEL: graph(expr_str="S(\"eval('1')\")")}, "expr_str"),
        ({MODEL: graph(expr_str="eval('a')")}, "expr_str"),
        ({MODEL: graph(expr_str="(lambda: 1)()")}, "expr_str"),
        ({MODEL: graph(guards_code=["L.__class__"])}, "guards_code"),
        ({MODEL: graph(guards_code=["True); print(1"])}, "guards_code"),
        ({MODEL: graph(in_spec=json.dumps([1, SPEC | {"type": "os.x"}]))}, "in_spec"),
        ({MODEL: graph(in_spec=json.dumps([1, OTHER]))}, "in_s"),
        ({MODEL: graph(in_spec="[1]")}, "wanted a graph, it is damaged"),
        ({MODEL: b"{"}, "wanted a graph, it is damaged"),
    ],
)
def test_an_archive_that_could_run_code_is_refused(members, message, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(zipped(program(**members)))
    with pytest.raises(QuantizeError) as caught:
        pt2.checked(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["torch Size", "torch bool", "collections OrderedDict"])
@pytest.mark.parametrize("pattern", ["{}s", "{}.x", "my.{}", "{} x"])
def test_names_that_begin_or_end_like_those_of_tensors(name: str, pattern: str, tmp_path) -> None:
    path = tmp_path / "net.pt2"
    for text, is_refused in ((name, False), (pattern.format(name), True)):
        pickled = b"\x80\x02c" + text.replace(" ", "\n", 1).encode() + b"\n."
        path.write_bytes(zipped(program(**{"data/sample_inputs/model.pt": saved(pickled)})))
        if is_refused:
            with pytest.raises(QuantizeError, match="Python objects"):
                pt2.checked(path)
        else:
            pt2.checked(path)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"target": "torch.ops.aten.relu.default x"}, "target"),
        ({"target": "my_operator.add"}, "target"),
        ({"target": "mymath.floor"}, "target"),
        ({"target": "math.floor()"}, "target"),
        ({"name": "relu;"}, "name"),
        ({"expr_str": "Mul_(1)()"}, "expr_str"),
        ({"expr_str": "minimum(1, 2)"}, "expr_str"),
        ({"expr_str": "a.shapes"}, "expr_str"),
        ({"guards_code": ["L['x y'] == 1"]}, "guards_code"),
    ],
)
def test_texts_that_begin_or_end_like_those_of_a_graph(changes, key, tmp_path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(zipped(program(**{MODEL: graph(**changes)})))
    with pytest.raises(QuantizeError, match=f"got {key}"):
        pt2.checked(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped({"net/data.pkl": b"", "net/constants.pkl": b""}), "got TorchScript; torch.export."),
        (saved(TENSOR), "got weights; torch.export.save"),
        (b"\x80\x02}.", "wanted an archive of torch.export, it is none or damaged"),
    ],
)
def test_other_files_of_pytorch(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(content)
    with pytest.raises(QuantizeError) as caught:
        pt2.checked(path)
    assert message in str(caught.value)


def _node(target: str, *arguments: object) -> SimpleNamespace:
    return SimpleNamespace(target=target, args=arguments)


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        (_node("aten.batch_norm.default", "x", "w", "b", "mean", "var", True, 0.1, 1e-5), True),
        (_node("aten.batch_norm.default", "x", "w", "b", "mean", "var", False, 0.1, 1e-5), False),
        # Without running averages both modes take those of the batch.
        (_node("aten.batch_norm.default", "x", "w", "b", None, None, True, 0.1, 1e-5), False),
        (_node("aten._native_batch_norm_legit.no_stats", "x", "w", "b", True, 0.1, 1e-5), False),
        (_node("aten.dropout.default", "x", 0.5, True), True),
        (_node("aten.dropout.default", "x", 0.5, False), False),
        (_node("aten.relu.default", "x"), False),
        (_node("x"), False),
    ],
)
def test_a_network_in_training_mode_is_recognised(node: SimpleNamespace, wanted: bool) -> None:
    assert trains([_node("x"), node, _node("output", "x")]) is wanted
    assert not trains([])


def test_training_mode_after_a_normalisation_without_averages() -> None:
    free = _node("aten.batch_norm.default", "x", None, None, None, None, True, 0.1, 1e-5, True)
    dropout = _node("aten.dropout.default", "x", 0.5, True)
    assert trains([free, dropout]) and not trains([free])


def test_a_program_exported_in_training_mode_is_refused(tmp_path: Path, monkeypatch) -> None:
    """A stand-in for PyTorch is given the archive that was checked."""
    path = tmp_path / "sensor.pt2"
    path.write_bytes(zipped(program()))
    loaded: list[bytes] = []

    def load(file: io.BytesIO) -> SimpleNamespace:
        loaded.append(file.read())
        nodes = [_node("aten.dropout.default", "x", 0.5, True)]
        return SimpleNamespace(graph=SimpleNamespace(nodes=nodes))

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(export=SimpleNamespace(load=load)))
    monkeypatch.setitem(sys.modules, "litert_torch", SimpleNamespace())
    wanted = r"exported in training mode; call net.eval\(\) before torch.export"
    with pytest.raises(QuantizeError, match=wanted):
        open_model(path)
    assert loaded == [pt2.checked(path)]
    path.write_bytes(zipped(program(**{"data/sample_inputs/model.pt": saved(SYSTEM)})))
    with pytest.raises(QuantizeError, match="could run code"):
        open_model(path)
    assert len(loaded) == 1
