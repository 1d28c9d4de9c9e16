import struct
from pathlib import Path
from typing import Any

import networks as w
import numpy as np
import prerequisites
import pytest
import tflite

from celosia.sw.frontend.tflite import ModelError, load
from celosia.sw.quantize.hybrid import pack


@pytest.fixture
def model(rng: np.random.Generator) -> bytes:
    layers = [
        w.FullyConnected(
            weights=rng.integers(-127, 128, (5, 7)).astype(np.int8),
            weight_scale=rng.uniform(0.01, 0.02, 5),
            bias=rng.integers(-9, 9, 5).astype(np.int32),
            output_scale=0.5,
            output_zero_point=-3,
            activation="RELU6",
        ),
        w.FullyConnected(
            weights=rng.integers(-127, 128, (3, 5)).astype(np.int8),
            weight_scale=0.02,
            output_scale=0.25,
        ),
    ]
    return w.write_fully_connected(layers, input_scale=0.1, input_zero_point=4)


def root(model: bytes) -> Any:
    return tflite.Model.GetRootAs(model, 0)


def tensor_of(model: bytes, name: str) -> Any:
    subgraph = root(model).Subgraphs(0)
    tensors = [subgraph.Tensors(n) for n in range(subgraph.TensorsLength())]
    return next(tensor for tensor in tensors if tensor.Name() == name.encode())


def with_field(model: bytes, table, number: int, kind: str, value: int) -> bytes:
    """Return the model with a scalar field of a table, stored in the file, changed."""
    offset = table._tab.Offset(4 + 2 * number)
    assert offset, "the field has its default, so it has no place in the file"
    changed = bytearray(model)
    struct.pack_into(kind, changed, table._tab.Pos + offset, value)
    return bytes(changed)


def with_element(model: bytes, table, number: int, kind: str, index: int, value: int) -> bytes:
    """Return the model with an element of a vector of scalars changed; −1 is its length."""
    start = table._tab.Vector(table._tab.Offset(4 + 2 * number))
    size = 4 if index < 0 else struct.calcsize(kind)
    changed = bytearray(model)
    struct.pack_into(kind, changed, start + index * size, value)
    return bytes(changed)


def test_graph_of_a_model(model: bytes) -> None:
    graph = load(model)
    assert [operation.kind for operation in graph.operations] == ["FULLY_CONNECTED"] * 2
    assert graph.operations[0].attributes == {"activation": "RELU6", "keep_num_dims": False}
    assert graph.operations[1].attributes["activation"] == "NONE"
    source, weights = (graph.tensors[n] for n in graph.operations[0].inputs[:2])
    assert source.shape == (1, 7) and source.data is None
    assert source.quantization is not None and source.quantization.zero_point == 4
    assert weights.data is not None and weights.data.shape == (5, 7)
    assert weights.quantization is not None and len(weights.quantization.scales) == 5
    assert len(graph.inputs) == len(graph.outputs) == 1


def test_path_and_contents_give_the_same(model: bytes, tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(model)
    assert load(path).name == "small.tflite"
    assert [t.shape for t in load(path).tensors] == [t.shape for t in load(model).tensors]


def test_missing_file() -> None:
    with pytest.raises(ModelError, match="^nowhere.tflite: no such file$"):
        load("nowhere.tflite")


@pytest.mark.parametrize("content", [b"", b"TFL3", b"{}" * 100, b"\0" * 64])
def test_other_files(content: bytes) -> None:
    with pytest.raises(ModelError, match="^model: not a .tflite file$"):
        load(content)


def test_every_truncation_is_refused(model: bytes) -> None:
    for length in range(len(model)):
        with pytest.raises(ModelError):
            load(model[:length])


def refusing(kinds: list[str], name: str) -> bytes:
    """Return a model of operators that the reader does not know, results named ``name``."""
    scale = w.Quantization(np.array([0.5], np.float32), np.array([0]))
    tensors = [w.Tensor(name, (1, 4), np.dtype(np.int8), scale) for _ in range(len(kinds) + 1)]
    operations = [w.Operation(kind, (n,), (n + 1,)) for n, kind in enumerate(kinds)]
    return w.serialize(w.Graph(tuple(tensors), tuple(operations), (0,), (len(kinds),)))


def test_all_refused_operators_are_named_in_short() -> None:
    kinds = ["UNIQUE", "HASHTABLE", *["UNIQUE"] * 90, *["Mine"] * 8]
    with pytest.raises(ModelError) as caught:
        load(refusing(kinds, f"{'long/' * 100};a/b/Relu;"))
    assert str(caught.value) == (
        "model: operator 0 UNIQUE ('a/b/Relu'): operator is not supported, model refused (refused "
        "too: 1 HASHTABLE, 2 UNIQUE, 3 UNIQUE, 4 UNIQUE, 5 UNIQUE, 8 more CUSTOM 'Mine', "
        "86 more UNIQUE)"
    )
    with pytest.raises(ModelError, match=r"model refused \(refused too: 1 HASHTABLE\)$"):
        load(refusing(kinds[:2], "x"))


@pytest.mark.parametrize("name", ["input", "output_0", "output_1"])
def test_float_tensor_is_named(model: bytes, name: str) -> None:
    changed = with_field(model, tensor_of(model, name), 1, "b", tflite.TensorType.FLOAT32)
    where = "model: operator . FULLY_CONNECTED .*"
    wanted = f"{where}: wanted int8( or int16)?, got float32 '{name}'"
    with pytest.raises(ModelError, match=wanted):
        load(changed)


def test_unknown_operator_is_named_with_its_place(model: bytes) -> None:
    code = root(model).OperatorCodes(0)
    changed = with_field(model, code, 3, "<i", tflite.BuiltinOperator.HASHTABLE_LOOKUP)
    wanted = r"operator 0 HASHTABLE_LOOKUP \('output_0'\): operator is not supported"
    with pytest.raises(ModelError, match=wanted):
        load(changed)


def test_the_first_of_several_subgraphs_is_the_model() -> None:
    main, other = w.Chain((1, 4), 0.5), w.Chain((1, 6), 0.5)
    main.operator("RELU")
    other.operator("TANH", scale=1 / 128)
    graph = load(w.serialize(main.graph(), other.graph()))
    assert [operation.kind for operation in graph.operations] == ["RELU"]


@pytest.mark.parametrize("number", [0, 2])
def test_variables_of_another_subgraph(number: int) -> None:
    chain = w.Chain((1, 4), 0.5)
    chain.operator("CALL_ONCE", inputs=(), shapes=(), initSubgraphIndex=number)
    chain.operator("RELU")
    other = w.Chain((1, 6), 0.5)
    other.operator("RELU")
    wanted = f"operator 0 CALL_ONCE: wanted a subgraph after the main one, got {number}"
    with pytest.raises(ModelError, match=wanted):
        load(w.serialize(chain.graph(), other.graph()))


def test_tensors_without_elements() -> None:
    """They stand for inputs left out."""
    chain = w.Chain((1, 4), 0.5)
    empty = chain.tensor_of("empty", (0,), "int8")
    chain.operator("RELU", inputs=[chain.number, empty])
    assert load(w.serialize(chain.graph())).operations[0].inputs == (chain.number - 2, -1)


def test_recorded_shape_without_elements() -> None:
    """A shape that the operator does not make."""
    chain = w.Chain((1, 4), 0.5)
    chain.operator("RELU", (1, 0))
    with pytest.raises(ModelError, match=r"wanted a result of shape \(1, 4\), got \(1, 0\)"):
        load(w.serialize(chain.graph()))


def test_weights_with_a_zero_point(model: bytes) -> None:
    changed = with_element(model, tensor_of(model, "weights_0").Quantization(), 3, "<q", 0, 2)
    wanted = r"operator 0 FULLY_CONNECTED \('output_0'\): wanted weights with zero point 0, got 2"
    with pytest.raises(ModelError, match=wanted):
        load(changed)


@pytest.mark.parametrize("name", ["input", "output_0"])
def test_int8_beside_uint8(model: bytes, name: str) -> None:
    """Kernels that do not look at both types take the bytes of one for those of the other."""
    changed = with_field(model, tensor_of(model, name), 1, "<b", tflite.TensorType.UINT8)
    with pytest.raises(ModelError, match=r"operator 0 .* wanted int8 or uint8 .*, got both"):
        load(changed)


def test_scale_of_zero(model: bytes) -> None:
    changed = with_element(model, tensor_of(model, "output_0").Quantization(), 2, "<f", 0, 0)
    with pytest.raises(ModelError, match="'output_0': wanted scales greater than 0"):
        load(changed)


def test_unknown_activation(model: bytes) -> None:
    raw = root(model).Subgraphs(0).Operators(0).BuiltinOptions()
    options = tflite.FullyConnectedOptions()
    options.Init(raw.Bytes, raw.Pos)
    changed = with_field(model, options, 0, "b", tflite.ActivationFunctionType.TANH)
    with pytest.raises(ModelError, match="fused activation TANH is not supported"):
        load(changed)


def test_options_left_out(model: bytes) -> None:
    operator = root(model).Subgraphs(0).Operators(0)
    changed = with_field(model, operator, 3, "B", tflite.BuiltinOptions.NONE)
    assert load(changed).operations[0].attributes == {"activation": "NONE", "keep_num_dims": False}
    model = w.write_sequential([w.Pool()], input_shape=(1, 4, 4, 1), input_scale=1.0)
    operator = root(model).Subgraphs(0).Operators(0)
    changed = with_field(model, operator, 3, "B", tflite.BuiltinOptions.NONE)
    message = "operator 0 MAX_POOL_2D .* wanted Pool2DOptions, got none"
    with pytest.raises(ModelError, match=message):
        load(changed)


@pytest.mark.parametrize("number", [2, 77])
def test_unknown_padding(number: int) -> None:
    model = w.write_sequential([w.Pool(padding="VALID")], input_shape=(1, 4, 4, 1), input_scale=1.0)
    raw = root(model).Subgraphs(0).Operators(0).BuiltinOptions()
    options = tflite.Pool2DOptions()
    options.Init(raw.Bytes, raw.Pos)
    with pytest.raises(ModelError, match=f"padding number {number} is unknown"):
        load(with_field(model, options, 0, "b", number))


def test_shapes_that_do_not_fit(model: bytes) -> None:
    changed = with_element(model, tensor_of(model, "input"), 0, "<i", 1, 8)
    with pytest.raises(ModelError, match="wanted 1 rows of 5"):
        load(changed)


def test_public_models_are_read(more_models: Path) -> None:
    for name, kind in (("kws_ref_model", "DEPTHWISE_CONV_2D"), ("pretrainedResnet_quant", "ADD")):
        graph = load(more_models / f"{name}.tflite")
        assert sum(operation.kind == kind for operation in graph.operations) in (3, 4)


def outside(model: bytes, gap: int = 0, short: int = 0) -> bytes:
    """Return a model whose constants lie after its tables, as in files of more than 2 GiB.

    ``gap``: bytes before each constant, and after the last; ``short``: that the last one lacks.
    """
    schema: Any = prerequisites.package("ai_edge_litert.schema_py_generated")
    made = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model, 0))
    constants = [each for each in made.buffers if each.data is not None and len(each.data)]
    contents = [bytes(each.data) for each in constants]
    tables = bytes(1 << 20)
    for _ in range(2):
        start = len(tables)
        for each, content in zip(constants, contents, strict=True):
            each.data, each.offset, each.size = None, start + gap, len(content)
            start += gap + len(content)
        tables = pack(made)
    whole = tables + b"".join(bytes(gap) + content for content in contents) + bytes(gap)
    return whole[: len(whole) - short]


@pytest.mark.parametrize("gap", [0, 16])
def test_constants_outside_the_tables(model: bytes, gap: int) -> None:
    """The last one may end with the file."""
    graphs = load(model), load(outside(model, gap))
    for one, other in zip(*(graph.tensors for graph in graphs), strict=True):
        assert (one.data is None) == (other.data is None)
        assert one.data is None or one.data.tobytes() == other.data.tobytes()
    with pytest.raises(ModelError, match="truncated or damaged"):
        load(outside(model, short=1))
