"""Networks with operators that a table does: machine model, RTL and LiteRT's reference kernels."""

from dataclasses import replace
from typing import Any

import networks as w
import numpy as np
import pytest
from agreement import compare

from celosia.hw.arch.isa import Kind, Opcode
from celosia.sw.compiler.lower import lower
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import Section
from celosia.sw.ir.program import Program


def chain(*layers: w.Layer, shape: tuple[int, ...] = (1, 5, 7, 3)) -> w.Graph:
    return w.sequential(layers, input_shape=shape, input_scale=0.05, input_zero_point=-9)


def convolution(rng: np.random.Generator, channels: int, depth: int, **more: Any) -> w.Convolution:
    values: dict[str, Any] = {
        "weights": rng.integers(-60, 61, (channels, 3, 3, depth)).astype(np.int8),
        "weight_scale": rng.uniform(0.004, 0.012, channels),
        "bias": rng.integers(-999, 1000, channels).astype(np.int32),
        "output_scale": 0.06,
        "output_zero_point": 4,
    }
    return w.Convolution(**values | more)


def dense(rng: np.random.Generator, outputs: int, inputs: int) -> w.FullyConnected:
    return w.FullyConnected(
        weights=rng.integers(-60, 61, (outputs, inputs)).astype(np.int8),
        weight_scale=float(rng.uniform(0.004, 0.012)),
        output_scale=0.07,
        output_zero_point=-3,
    )


LOGISTIC = w.Function(kind="LOGISTIC", output_scale=1 / 256, output_zero_point=-128)
TANH = w.Function(kind="TANH", output_scale=1 / 128, output_zero_point=0)
SWISH = w.Function(kind="HARD_SWISH", output_scale=0.04, output_zero_point=-100)
LEAKY = w.Function(kind="LEAKY_RELU", alpha=0.1, output_scale=0.03, output_zero_point=-50)


ALONE = (
    LOGISTIC,
    TANH,
    SWISH,
    LEAKY,
    w.Prelu(alpha=-90, alpha_scale=0.01, output_scale=0.04),
    w.Function(kind="GELU", approximate=False, output_scale=0.04, output_zero_point=-100),
    w.Function(kind="NEG"),
    *(
        w.Function(kind=kind, output_scale=0.04, output_zero_point=-7)
        for kind in ("ABS", "EXP", "LOG", "RSQRT", "SQRT")
    ),
)


def tables_loaded(program: Program) -> tuple[int, int]:
    """Return how many tables the two sections load."""

    def loaded(section: Section) -> int:
        loads = [i for i in section.instructions if i.opcode is Opcode.LOAD_PARAMS]
        return sum(i.count for i in loads if i.kind == Kind.TABLES.value)

    return loaded(program.setup), loaded(program.main)


def check(
    graph: w.Graph, rng: np.random.Generator, sizes: str, batch: int = 1, device: str = "machine"
) -> Program:
    """Compare a program on a device with LiteRT, byte by byte."""
    shape = graph.tensors[graph.inputs[0]].shape
    # LiteRT takes no roots of what is below zero.
    least = -9 if graph.operations[0].kind in ("RSQRT", "SQRT") else -128
    inputs = rng.integers(least, 128, (2 * batch + 1, *shape)).astype(np.int8)
    return compare(w.serialize(graph), inputs, sizes=sizes, batch=batch, device=device)


@pytest.mark.parametrize("sizes", ["nano", "micro", "edge"])
@pytest.mark.parametrize("layer", ALONE)
def test_alone(layer: w.Layer, sizes: str, rng: np.random.Generator) -> None:
    program = check(chain(layer), rng, sizes, batch=2)
    assert tables_loaded(program) == (1, 0)


def test_clamp_to_one(rng: np.random.Generator) -> None:
    layer = w.Function(kind="RELU_0_TO_1", output_scale=0.02)
    check(chain(layer), rng, "micro")
    program = check(chain(dense(rng, 9, 105), replace(layer, output_scale=0.07)), rng, "edge")
    assert [x.kind for x in program.layers] == ["FULLY_CONNECTED+RELU_0_TO_1"]


@pytest.mark.parametrize("sizes", ["nano", "micro", "edge", "edge,unified_bytes=4096"])
def test_part_of_a_convolution(sizes: str, rng: np.random.Generator) -> None:
    graph = chain(
        *(convolution(rng, 20, 3, output_scale=0.3), SWISH, convolution(rng, 5, 20), w.Pool()),
        *(SWISH, w.Reshape(shape=(1, -1)), dense(rng, 11, 5 * 7 * 10), TANH),
        shape=(1, 14, 20, 3),
    )
    program = check(graph, rng, sizes)
    assert [x.kind for x in program.layers] == [
        "CONV_2D+HARD_SWISH",
        "CONV_2D+MAX_POOL_2D+HARD_SWISH",
        "FULLY_CONNECTED+TANH",
    ]


def test_tables_stay_where_there_are_places(rng: np.random.Generator) -> None:
    layers = (dense(rng, 30, 105), TANH, dense(rng, 30, 30), TANH, dense(rng, 30, 30), TANH)
    assert tables_loaded(check(chain(*layers), rng, "micro", batch=3)) == (1, 0)
    layers = (*layers, dense(rng, 30, 30), LEAKY, dense(rng, 30, 30), LOGISTIC)
    # The first takes another input, so its table is another one, too.
    assert tables_loaded(check(chain(*layers), rng, "edge", batch=3)) == (3, 0)


def test_tables_stream_through_the_last_places(rng: np.random.Generator) -> None:
    functions = (TANH, LEAKY, TANH, SWISH, LOGISTIC, w.Function(kind="EXP"), w.Function(kind="ABS"))
    layers = []
    for layer in functions:
        layers += [dense(rng, 30, 30), layer]
    graph = chain(dense(rng, 30, 105), *layers)
    assert tables_loaded(check(graph, rng, "micro", batch=3)) == (0, 7)
    assert tables_loaded(check(graph, rng, "edge", batch=3)) == (2, 4)


def test_streaming_table_is_fetched_once_for_all_tiles(rng: np.random.Generator) -> None:
    graph = chain(convolution(rng, 40, 3), TANH, convolution(rng, 40, 40), LEAKY)
    program = check(graph, rng, "micro")
    assert tables_loaded(program) == (0, 2)


def test_functions_in_a_row_are_one_table(rng: np.random.Generator) -> None:
    graph = chain(TANH, w.Function(kind="ABS"), LEAKY)
    program = check(graph, rng, "micro")
    assert [x.kind for x in program.layers] == ["TANH+ABS+LEAKY_RELU"]
    assert tables_loaded(program) == (1, 0)


def test_pooling_does_not_move_before_a_table(rng: np.random.Generator) -> None:
    graph = chain(convolution(rng, 6, 3), w.Function(kind="ABS", output_scale=0.05), w.Pool())
    program = check(graph, rng, "edge")
    assert [x.kind for x in program.layers] == ["CONV_2D+ABS", "MAX_POOL_2D"]


def test_what_others_read_is_not_fused(rng: np.random.Generator) -> None:
    graph = chain(convolution(rng, 6, 3), TANH)
    seen = replace(graph, outputs=(graph.operations[0].outputs[0], *graph.outputs))
    program = check(seen, rng, "edge")
    assert [x.kind for x in program.layers] == ["CONV_2D", "TANH"]


def test_part_of_a_sum(rng: np.random.Generator) -> None:
    graph = chain(convolution(rng, 3, 3), w.Quantize(output_scale=0.1), SWISH, LOGISTIC)
    first, second, *rest = graph.operations
    inputs = (first.outputs[0], 0)
    added = w.Operation("ADD", inputs, second.outputs)
    graph = replace(graph, operations=(first, added, *rest))
    for sizes in ("micro", "edge"):
        program = check(graph, rng, sizes, batch=2)
        assert [x.kind for x in program.layers] == ["CONV_2D", "ADD+HARD_SWISH+LOGISTIC"]


def test_padding_after_a_table_is_its_zero_point(rng: np.random.Generator) -> None:
    network = lower(load(w.serialize(chain(convolution(rng, 4, 3), SWISH, convolution(rng, 4, 4)))))
    assert network.values[network.layers[0].result].fill == SWISH.output_zero_point


def test_rtl_at_edge(rng: np.random.Generator, verilator: None) -> None:
    graph = chain(
        *(convolution(rng, 20, 3, output_scale=0.3), SWISH, convolution(rng, 18, 20), w.Pool()),
        *(LEAKY, w.Function(kind="ABS", output_scale=0.05)),
        *(w.Pool(kind="AVERAGE_POOL_2D", window=(3, 3), stride=(1, 1), padding="SAME"), TANH),
        *(w.Reshape(shape=(1, -1)), dense(rng, 33, 5 * 7 * 18)),
        *(w.Function(kind="EXP", output_scale=0.1), dense(rng, 40, 33), LOGISTIC),
        shape=(1, 10, 14, 3),
    )
    program = check(graph, rng, "edge", batch=2, device="rtl")
    assert tables_loaded(program) == (2, 3)
