"""FULLY_CONNECTED of computed weights: its record, its layer, and parameters by channel."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dynamic_products import code, dynamic, lowered, on_host
from networks import Chain, Constant, Graph, retensored, serialize

from celosia.hw.arch.isa import Opcode, Rounding, Space
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.layout.pack import pack_parameters
from celosia.sw.compiler.layout.pitches import lay_out
from celosia.sw.compiler.layout.tile import copied_parameters, tile
from celosia.sw.frontend.tflite import load
from celosia.sw.layers.errors import CompileError, UndefinedError
from celosia.sw.layers.node import ModelError
from celosia.sw.layers.shapes import items_of

OPTION = ",activation_weights=true"
MICRO = preset(f"micro{OPTION}")


def rows(shape, channels, *, zeros=(0, 0), bias: Any = None, keeps=False, **printed: Any) -> Graph:
    """Return the graph of a FULLY_CONNECTED of two inputs."""
    chain = Chain(shape, 0.05, zeros[0])
    weights = chain.input("weights", (channels, shape[-1]), 0.03, zeros[1])
    read: list[Any] = [0, weights]
    if bias is not None:
        read.append(Constant(np.asarray(bias, np.int32), 0.0015))
    result = shape[:-1] if keeps else (int(np.prod(shape[:-1])),)
    printed = {"scale": 0.5, "zero_point": 0, "keepNumDims": keeps, **printed}
    chain.operator("FULLY_CONNECTED", (*result, channels), inputs=read, **printed)
    return chain.graph()


def test_record() -> None:
    graph = rows((2, 3, 7), 6, zeros=(3, -5), bias=range(6), fusedActivationFunction="RELU")
    read = load(serialize(graph))
    (operation,) = read.operations
    assert operation.attributes == {"activation": "RELU", "keep_num_dims": False}
    weights = read.tensors[operation.inputs[1]]
    assert weights.data is None and weights.quantization
    assert weights.quantization.zero_point == -5


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("weights", {"shape": (6, 7, 1)}, "wanted weights of 2 dimensions, got (6, 7, 1)"),
        ("weights", {"shape": (6, 4)}, "wanted 8 rows of 6"),
        ("weights", {"quantization": None}, "'weights': wanted one scale and zero point"),
        ("weights", {"dtype": np.dtype(np.float32)}, "wanted int8 weights, got computed float32"),
        ("input", {"dtype": np.dtype(np.int16)}, "wanted constant weights, got computed ones"),
        ("operand2_0", {"data": None}, "wanted a constant bias of 6 int32, got computed int32"),
    ],
)
def test_refused_by_the_reader(name: str, changes: dict[str, Any], message: str) -> None:
    graph = retensored(rows((5, 7), 6, bias=range(6)), name, **changes)
    bias = next(n for n, tensor in enumerate(graph.tensors) if tensor.name == "operand2_0")
    if graph.tensors[bias].data is None:
        graph = replace(graph, inputs=(*graph.inputs, bias))
    with pytest.raises(ModelError) as error:
        load(serialize(graph))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("shape", "keeps", "matrices", "rows_of_each"),
    [
        ((5, 7), False, ((0,), (0,)), 5),
        ((2, 3, 7), True, ((0,), (0,)), 6),
        # Rows of an image share the weights.
        ((1, 2, 3, 7), False, ((0, 1), (0, 0)), 3),
        ((1, 2, 3, 7), True, ((0, 1), (0, 0)), 3),
    ],
)
def test_rows_are_multiplied_by_columns(shape, keeps, matrices, rows_of_each) -> None:
    network = lowered(rows(shape, 6, keeps=keeps, bias=range(6)))
    layer = dynamic(network)
    assert (layer.rows, layer.taps, layer.channels) == (rows_of_each, 7, 6)
    assert layer.matrices == matrices and layer.turned == (False, True)
    assert network.values[layer.second].spread and network.items == 1


def test_rounding_is_single_and_zero_points_are_in_the_bias() -> None:
    layer = dynamic(lowered(rows((5, 7), 3, zeros=(3, -5), bias=[10, 0, -10])))
    assert layer.scaling.rounding is Rounding.SINGLE
    assert layer.scaling.bias.tolist() == [10 - 7 * 15, -7 * 15, -10 - 7 * 15]
    assert layer.by_channel
    about = {"fusedActivationFunction": "RELU6", "zero_point": -100}
    layer = dynamic(lowered(rows((5, 7), 3, zeros=(3, -5), bias=[0, 0, 0], **about)))
    assert not layer.by_channel and layer.scaling.bias.tolist() == [-7 * 15]
    assert (layer.scaling.low, layer.scaling.high) == (-100, -88)


def test_a_table_after_it_is_part_of_it() -> None:
    graph = rows((5, 7), 6)
    chain = Chain((5, 7), 0.05, 0)
    weights = chain.input("weights", (6, 7), 0.03)
    chain.operator("FULLY_CONNECTED", (5, 6), inputs=[0, weights], scale=0.5, zero_point=0)
    chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
    assert dynamic(lowered(graph)).table is None
    assert dynamic(lowered(chain.graph())).kind == "FULLY_CONNECTED+LOGISTIC"


def test_parameters_of_each_channel() -> None:
    bias = np.arange(19) * 100
    network = lowered(rows((5, 7), 19, bias=bias))
    layer = dynamic(network)
    number = network.layers.index(layer)
    tiled = tile(network, lay_out(network, {}, MICRO), {}, MICRO).layers[number]
    # Three tiles of eight channels, then the parameters of copied sums.
    assert copied_parameters(layer, tiled) == 3 * tiled.parameters
    raw = np.frombuffer(pack_parameters(layer, tiled), np.int32)
    packed = raw.reshape(4 * tiled.parameters, -1)
    tiles = packed[: 3 * tiled.parameters, 0].reshape(3, -1)[:, : tiled.channels]
    assert tiles.reshape(-1)[:19].tolist() == bias.tolist()
    vectors = code(rows((5, 7), 19, bias=bias), MICRO, Opcode.VECTOR)
    drains = [i for i in vectors if i.source == Space.ACCUMULATORS.value]
    assert [i.per_channel for i in drains] == [1, 1, 1]
    starts = [i.params - drains[0].params for i in drains]
    assert starts == [0, tiled.parameters, 2 * tiled.parameters]
    drains = code(rows((5, 7), 19), MICRO, Opcode.VECTOR)[-3:]
    assert {(i.per_channel, i.params) for i in drains} == {(0, drains[0].params)}


def test_computed_weights_belong_to_no_sample() -> None:
    graph = rows((6, 7), 6)
    assert items_of(load(serialize(graph))) == 1
    (step,) = on_host(graph, preset("micro"))
    note = "the core lacks the option `activation_weights`; preset `transformer` has it"
    assert step.note == note
    assert [operand.shape for operand in step.sources] == [(6, 7), (6, 7)]


def constant_rows() -> Graph:
    chain = Chain((6, 7), 0.03, 0)
    given = Constant(np.ones((5, 7), np.int8), 0.05)
    chain.operator("FULLY_CONNECTED", (5, 6), inputs=[given, 0], scale=0.5, zero_point=0)
    return chain.graph()


@pytest.mark.parametrize(
    ("graph", "kind", "reason"),
    [
        (constant_rows(), CompileError, "wanted a first input that is not constant"),
        (rows((1, 40000), 1), CompileError, "wanted sums of at most 33025 products, got 40000"),
        (
            rows((1, 1000), 1, scale=1e-5),
            UndefinedError,
            "channel 0: wanted results within 32 bits before the clamp",
        ),
    ],
)
def test_refusals(graph: Graph, kind: type[CompileError], reason: str) -> None:
    with pytest.raises(kind) as error:
        lowered(graph)
    assert error.value.reason.startswith(reason)
