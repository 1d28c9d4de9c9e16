"""BATCH_MATMUL: every byte is that of LiteRT's reference kernel."""

import numpy as np
import pytest
from conformance import assert_equal, differences
from networks import Chain, Constant
from random_networks.cases import Case
from turns import in_turn

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load

pytestmark = pytest.mark.usefixtures("litert")


@pytest.mark.parametrize("constant", [True, False])
def test_scales_are_divided_in_double_precision(constant: bool) -> None:
    """255 · 181 + 120 · 1 times the factor is just above a half; in float32, just below."""
    chain = Chain((1, 1, 2), 0.05, -128)
    matrix = np.array([[[53], [-127]]], np.int8)
    x, scale = np.array([[[[127, -8]]]], np.int8), 0.03
    inputs = (x,) if constant else (x, matrix[None])
    second = [Constant(matrix, scale, -128)] if constant else [0]
    if not constant:
        second = [0, chain.input("second", (1, 2, 1), scale, -128)]
    read = {"constants": second} if constant else {"inputs": second}
    printed = {"scale": np.float32(1.0283482), "zero_point": -128, "adjX": False, "adjY": False}
    chain.operator("BATCH_MATMUL", (1, 1, 1), **read, **printed)
    assert_equal(chain.graph(), *inputs, sizes="micro")


def product(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], zeros: tuple[int, int], turned: bool
) -> Chain:
    """Return the graph of a product of two inputs."""
    first, second = shapes
    depth, columns = first[-1], second[-2] if turned else second[-1]
    chain = Chain(first, 0.05, zeros[0])
    other = chain.input("second", second, 0.03, zeros[1])
    # Half of the results leave int8 if both zero points are at an end.
    printed = {"scale": 0.05 * 0.03 * 150 * np.sqrt(depth), "zero_point": -7, "adjX": False}
    chain.operator(
        "BATCH_MATMUL", (*first[:-1], columns), inputs=[0, other], adjY=turned, **printed
    )
    return chain


def check(chain: Chain, sizes: str, device: str, rng: np.random.Generator) -> None:
    """Compare three invocations with LiteRT; the core runs all of it."""
    graph, config = chain.graph(), preset(f"{sizes},activation_weights=true")
    shapes = [graph.tensors[number].shape for number in graph.inputs]
    inputs = tuple(rng.integers(-128, 128, (3, *shape)).astype(np.int8) for shape in shapes)
    for values in inputs:
        # An invocation of the largest sums.
        values[2] = rng.choice(np.array([-128, 127], np.int8), (1, *[1] * (values.ndim - 2)))
    case = Case(0, "", graph, inputs, 2)
    program = compile_graph(load(case.content), config, 2)
    assert {layer.runs_on for layer in program.layers} == {"core"} and len(program.parts) == 1
    assert differences(case, config, device) == ""


ZEROS = [(0, 0), (-128, 0), (0, -128), (-128, -128), (127, -128), (127, 127), (-1, 1)]
#: Heads as rows of an image, samples of matrices, and one row of several matrices.
SHAPES = [
    (1, 3, 9, 21, 19),
    (2, 2, 7, 8, 5),
    (2, 13, 17, 30),
    (1, 1, 40, 16, 16),
    (1, 2, 2, 3, 4, 5),
]


@pytest.mark.parametrize(
    ("sizes", "zeros", "turned"),
    in_turn(["nano", "micro", "edge", "edge,columns=8,weight_tiles=12"], 2 * ZEROS, [False, True]),
)
def test_products_of_two_inputs(
    sizes: str, zeros: tuple[int, int], turned: bool, rng: np.random.Generator
) -> None:
    for *batch, rows, depth, columns in SHAPES:
        second = (columns, depth) if turned else (depth, columns)
        shapes = (*batch, rows, depth), (*batch, *second)
        check(product(shapes, zeros, turned), sizes, "machine", rng)


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True])
def test_products_on_the_rtl(turned: bool, rng: np.random.Generator, verilator: None) -> None:
    for zeros in ZEROS:
        for *batch, rows, depth, columns in SHAPES:
            second = (columns, depth) if turned else (depth, columns)
            shapes = (*batch, rows, depth), (*batch, *second)
            check(product(shapes, zeros, turned), "micro", "rtl", rng)
