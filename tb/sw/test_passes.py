"""Each rewriting: what becomes of its chain, what keeps it away, and the same bytes as before."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networks as w
import numpy as np
import pytest

from celosia.hw.arch.presets import preset
from celosia.sw.compiler import compile as compiler
from celosia.sw.compiler.passes import simplified
from celosia.sw.frontend.tflite import load
from celosia.sw.runtime.interpreter import open_session

NANO = preset("nano")
RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return RNG.integers(-99, 100, shape).astype(np.int8)


def blocked(chain: w.Chain, blocks, margins, crops, layer) -> None:
    """Add a dilated convolution as converters spell it; of rows alone through images of one row."""
    batch, *extents, channels = chain.last.shape
    pairs = list(zip(extents, margins, blocks, strict=True))
    counts = [(extent + sum(margin)) // block for extent, margin, block in pairs]
    many = batch * int(np.prod(blocks))
    numbers = np.array(blocks, np.int32)
    shape = (many, *counts, channels)
    chain.operator("SPACE_TO_BATCH_ND", shape, [numbers, np.array(margins, np.int32)])
    if len(blocks) == 1:
        chain.operator("EXPAND_DIMS", (many, 1, *shape[1:]), [w.Constant([1])])
    layer.add(chain)
    many, *made, channels = chain.last.shape
    if len(blocks) == 1:
        made = made[1:]
        shape = (many, *made, channels)
        chain.operator("RESHAPE", shape, [w.Constant(shape)])
    whole = [n * b - sum(c) for n, b, c in zip(made, blocks, crops, strict=True)]
    result = (batch, *whole, channels)
    chain.operator("BATCH_TO_SPACE_ND", result, [numbers, np.array(crops, np.int32)])


def convolution(height: int, width: int, channels: int, **more) -> w.Convolution:
    kernel = weights(5, height, width, channels)
    given = {"padding": "VALID", "bias": np.arange(5, dtype=np.int32) * 50} | more
    return w.Convolution(weights=kernel, weight_scale=0.01, output_scale=0.2, **given)


def depthwise(channels: int) -> w.Depthwise:
    kernel = weights(1, 3, 3, channels)
    return w.Depthwise(weights=kernel, weight_scale=0.01, output_scale=0.2, padding="VALID")


def image(*shape: int) -> w.Chain:
    return w.Chain(shape or (1, 9, 9, 4), 0.1, 5)


def rows() -> w.Chain:
    return w.Chain((1, 20, 4), 0.1, 5)


def dilated(blocks, margins, crops, layer, start: Callable[[], w.Chain] = image) -> w.Graph:
    chain = start()
    blocked(chain, blocks, margins, crops, layer)
    return chain.graph()


def flattened(order: tuple[int, ...]) -> w.Graph:
    chain = image(1, 3, 4, 5)
    w.Transpose(permutation=order).add(chain)
    chain.operator("RESHAPE", (1, 60), [w.Constant([1, 60])])
    w.FullyConnected(weights=weights(7, 60), weight_scale=0.01, output_scale=0.3).add(chain)
    return chain.graph()


def repeated(axis: int, times: int, extent: int = 3) -> w.Graph:
    chain = image(1, extent, extent, 4)
    wide = [1, extent, extent, 4]
    wide.insert(axis, 1)
    chain.operator("RESHAPE", wide, [np.array(wide, np.int32)])
    counts = [times if n == axis else 1 for n in range(5)]
    tiled = [a * b for a, b in zip(wide, counts, strict=True)]
    chain.operator("TILE", tiled, [np.array(counts, np.int32)])
    result = [e * times if n == axis - 1 else e for n, e in enumerate((1, extent, extent, 4))]
    chain.operator("RESHAPE", result, [np.array(result, np.int32)])
    return chain.graph()


def chained(*steps: tuple[str, tuple[int, ...]]) -> w.Graph:
    """Return reshapes and transposes of an image, one after the other, and a sum with itself."""
    chain = image(1, 3, 1, 4)
    for kind, given in steps:
        shape = given if kind == "RESHAPE" else [chain.last.shape[n] for n in given]
        chain.operator(kind, shape, [np.array(given, np.int32)])
    chain.operator("ADD", constants=[chain.number])
    return chain.graph()


def multiplied(first: tuple[int, ...], second: tuple[int, ...], flags=(False, False)) -> w.Graph:
    """Return the graph of an image times itself, transposed by these orders of dimensions."""
    chain, read = image(1, 2, 4, 4), []
    for order in (first, second):
        chain.back_to(0)
        if order:
            w.Transpose(permutation=order).add(chain)
        read.append(chain.number)
    printed = {"scale": 9.0, "zero_point": 0, "adjX": flags[0], "adjY": flags[1]}
    shape = chain.tensor(read[0]).shape
    chain.operator("BATCH_MATMUL", (*shape[:2], 4, 4), inputs=read, **printed)
    return chain.graph()


def floats(*kinds: str, first: str = "int8") -> w.Graph:
    """Return functions of float32 between DEQUANTIZE and QUANTIZE; ``first``: input type."""
    chain = w.Chain((1, 9, 9, 4), 0.02, 5, first)
    chain.operator("DEQUANTIZE", dtype="float32")
    for kind in kinds:
        printed: dict[str, Any] = {"beta": 1.0} if kind == "SOFTMAX" else {}
        chain.operator(kind, **printed)
    chain.operator("QUANTIZE", dtype="int8", scale=0.03, zero_point=-9)
    return chain.graph()


def scaled(*shape: int) -> w.Graph:
    """Return the logistic of an image times a constant of a shape."""
    chain = image()
    chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
    numbers = w.Constant(weights(*shape), 0.01, 3)
    chain.operator("MUL", inputs=[chain.number, numbers], scale=0.01, zero_point=1)
    return chain.graph()


def gated(*kinds: str, other: bool = False) -> w.Graph:
    """Return an image times functions of it, or times those of another one."""
    chain = image()
    second = chain.input("second", chain.last.shape, 0.1, 5) if other else 0
    chain.back_to(0)
    for kind in kinds:
        scale = {"scale": 1 / 256, "zero_point": -128} if kind == "LOGISTIC" else {}
        chain.operator(kind, **scale or {"scale": 1 / 128, "zero_point": 0})
    chain.operator("MUL", inputs=[second, chain.number], scale=0.1, zero_point=-9)
    return chain.graph()


def packed(*, scales: bool = False, more: str = "", slices: int = 3) -> w.Graph:
    """Return query, key and value of PyTorch's attention: one layer, cut by a slice of each.

    ``scales``: one for each channel; ``more``: another reader of the layer.
    """
    chain = w.Chain((1, 10, 16), 0.1, 5)
    scale = RNG.uniform(0.005, 0.02, 48) if scales else 0.01
    numbers = np.asarray(scale * 0.1, np.float32)
    matrix = w.Constant(weights(48, 16), scale)
    layer = matrix, w.Constant(np.arange(48) * 9, numbers, dtype="int32")
    chain.operator("FULLY_CONNECTED", (1, 10, 48), layer, scale=0.5, zero_point=3, keepNumDims=True)
    dense = chain.number
    if more:
        chain.operator(more, scale=1 / 128, zero_point=0)
    chain.back_to(dense)
    chain.operator("RESHAPE", (10, 1, 3, 16), [w.Constant([10, 1, 3, 16])])
    w.Transpose(permutation=(2, 0, 1, 3)).add(chain)
    split = chain.number
    for number in range(slices):
        chain.back_to(split)
        shape = (1, 10, 1, 16)
        sizes = [np.array(each, np.int32) for each in ((number, 0, 0, 0), shape)]
        chain.operator("SLICE", shape, sizes)
        chain.operator("ABS", scale=0.4, zero_point=-100)
    return chain.graph()


def batchless(*, constant: bool = False) -> w.Graph:
    """Return a product of matrices of three dimensions, made by a transpose of rows.

    ``constant``: the second one is.
    """
    chain = w.Chain((1, 6, 8), 0.1, 5)
    chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
    chain.operator("RESHAPE", (6, 2, 4), [w.Constant([6, 2, 4])])
    w.Transpose(permutation=(1, 0, 2)).add(chain)
    heads = chain.number
    printed = {"scale": 0.03, "zero_point": -100, "adjX": False, "adjY": True}
    other = w.Constant(weights(2, 6, 4), 0.01) if constant else heads
    chain.operator("BATCH_MATMUL", (2, 6, 6), inputs=[heads, other], **printed)
    return chain.graph()


def reshaped_pair() -> w.Graph:
    """Return the product of a value of another shape and an input."""
    chain = image(1, 6, 1, 4)
    chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
    chain.operator("RESHAPE", (6, 4), [w.Constant([6, 4])])
    one = chain.number
    second = chain.input("second", (6, 4), 0.1, 5)
    chain.operator("MUL", (6, 4), inputs=[one, second], scale=0.05, zero_point=3)
    return chain.graph()


def moved_batch() -> w.Graph:
    """Return a transpose that moves a batch of 1 between others."""
    chain = image(1, 2, 6, 4)
    w.Transpose(permutation=(2, 0, 1, 3)).add(chain)
    return chain.graph()


def reduced(axes: tuple[int, ...]) -> w.Graph:
    chain = w.Chain((1, 12, 16), 0.1, 5)
    chain.operator("MEAN", (12,), [np.array(axes, np.int32)], scale=0.03, keepDims=False)
    chain.operator("EXPAND_DIMS", (1, 12), [np.array(0, np.int32)])
    return chain.graph()


def cut(end: tuple[int, ...], stride: tuple[int, ...]) -> w.StridedSlice:
    return w.StridedSlice(begin=(0,) * len(end), end=end, stride=stride, plain=set(stride) == {1})


def part_of_channels(shape: tuple[int, ...], part: w.StridedSlice) -> w.Graph:
    """Return a part of reshaped channels of a layer."""
    chain = w.Chain((1, 10, 16), 0.1, 5)
    numbers = w.Constant(weights(48, 16), 0.01), w.Constant(weights(48), 0.001, dtype="int32")
    chain.operator("FULLY_CONNECTED", (1, 10, 48), numbers, scale=0.5, keepNumDims=True)
    chain.operator("RESHAPE", shape, [w.Constant(shape)])
    part.add(chain)
    return chain.graph()


def reshaped_twice_read() -> w.Graph:
    """Return two functions of one reshape."""
    chain = image(1, 3, 4, 5)
    chain.operator("RESHAPE", (1, 60), [w.Constant([1, 60])])
    shaped, results = chain.number, []
    for kind in ("TANH", "ABS"):
        chain.back_to(shaped)
        chain.operator(kind, scale=1 / 128, zero_point=0)
        results.append(chain.number)
    return chain.graph(*results)


TWO = [[2, 3], [2, 3]]
THREE_LAYERS = " ".join(3 * ["FULLY_CONNECTED ABS RESHAPE"])
BACK = [[0, 0], [0, 0]]

#: Graphs, and the operators that are left.
GRAPHS: dict[str, tuple[w.Graph, str]] = {
    "dilated": (dilated((2, 2), TWO, BACK, convolution(3, 3, 4)), "PAD CONV_2D"),
    "cropped": (
        dilated((3, 2), [[3, 3], [2, 3]], [[1, 1], [0, 1]], convolution(3, 3, 4)),
        "PAD CONV_2D",
    ),
    "depthwise": (dilated((2, 2), TWO, BACK, depthwise(4)), "PAD DEPTHWISE_CONV_2D"),
    "without margins": (dilated((3, 3), BACK, BACK, convolution(2, 2, 4)), "CONV_2D"),
    "rows": (
        dilated((2,), [[4, 0]], [[0, 0]], convolution(1, 3, 4), rows),
        "RESHAPE PAD CONV_2D RESHAPE",
    ),
    "rows without margins": (
        dilated((4,), [[0, 0]], [[0, 0]], convolution(1, 2, 4), rows),
        "RESHAPE CONV_2D RESHAPE",
    ),
    "more cropped than padded": (
        dilated((2, 2), [[0, 1], [2, 3]], [[1, 0], [0, 0]], convolution(2, 2, 4)),
        "SPACE_TO_BATCH_ND CONV_2D BATCH_TO_SPACE_ND",
    ),
    "a stride": (
        dilated((2, 2), TWO, BACK, convolution(1, 1, 4, stride=(2, 2))),
        "SPACE_TO_BATCH_ND CONV_2D BATCH_TO_SPACE_ND",
    ),
    "channels first": (flattened((0, 3, 1, 2)), "RESHAPE FULLY_CONNECTED"),
    "another order": (flattened((0, 2, 3, 1)), "RESHAPE FULLY_CONNECTED"),
    "rows repeated": (repeated(2, 2), "RESIZE_NEAREST_NEIGHBOR"),
    "columns repeated": (repeated(3, 7), "RESIZE_NEAREST_NEIGHBOR"),
    "channels repeated": (repeated(4, 2), "RESHAPE TILE RESHAPE"),
    "two reshapes": (chained(("RESHAPE", (1, 12)), ("RESHAPE", (1, 4, 3))), "LookupTable RESHAPE"),
    "there and back": (chained(("RESHAPE", (1, 12)), ("RESHAPE", (1, 3, 1, 4))), "LookupTable"),
    "two transposes": (
        chained(("TRANSPOSE", (0, 3, 2, 1)), ("TRANSPOSE", (0, 2, 1, 3))),
        "TRANSPOSE LookupTable",
    ),
    "transposed there and back": (
        chained(("TRANSPOSE", (0, 3, 1, 2)), ("TRANSPOSE", (0, 2, 3, 1))),
        "LookupTable",
    ),
    "rows of a matrix": (multiplied((), (0, 1, 3, 2)), "BATCH_MATMUL"),
    "columns of both": (multiplied((0, 1, 3, 2), (0, 1, 3, 2), (True, False)), "BATCH_MATMUL"),
    "both transposed before": (multiplied((), (0, 1, 3, 2), (True, True)), "BATCH_MATMUL"),
    "a function of float32": (floats("NEG"), "LookupTable"),
    "three functions": (floats("NEG", "EXP", "TANH"), "LookupTable"),
    "another scale through float32": (floats(), "LookupTable"),
    "itself times its logistic": (gated("LOGISTIC"), "LookupTable"),
    "parts of a layer": (packed(), THREE_LAYERS),
    "parts with scales": (packed(scales=True), THREE_LAYERS),
    "parts of a result that others read": (
        packed(more="TANH", slices=1),
        "FULLY_CONNECTED TANH SLICE ABS RESHAPE",
    ),
    "matrices without a batch": (batchless(), "LOGISTIC RESHAPE TRANSPOSE BATCH_MATMUL RESHAPE"),
    "constant matrices without a batch": (
        batchless(constant=True),
        "LOGISTIC RESHAPE TRANSPOSE BATCH_MATMUL RESHAPE",
    ),
    "two values, one of another shape": (reshaped_pair(), "LOGISTIC RESHAPE MUL"),
    "a batch that is moved": (moved_batch(), "TRANSPOSE RESHAPE"),
    "the batch reduced, too": (reduced((0, 2)), "MEAN RESHAPE"),
    "times a number": (scaled(1, 1, 1, 1), "LookupTable"),
    "times a number for each channel": (scaled(4), "LOGISTIC MUL"),
    "a square": (gated(), "LookupTable"),
    "gated by itself twice": (gated("TANH", "ABS"), "LookupTable"),
    "gated by another value": (gated("LOGISTIC", other=True), "LOGISTIC MUL"),
    "of each row": (floats("NEG", "SOFTMAX"), "DEQUANTIZE NEG SOFTMAX QUANTIZE"),
    "some parts of channels": (
        part_of_channels((1, 10, 3, 16), cut((1, 10, 3, 16), (1, 1, 2, 1))),
        "FULLY_CONNECTED RESHAPE STRIDED_SLICE",
    ),
    "part of half the channels": (
        part_of_channels((1, 20, 24), cut((1, 20, 12), (1, 1, 1))),
        "FULLY_CONNECTED RESHAPE SLICE",
    ),
    "two functions of a reshape": (reshaped_twice_read(), "RESHAPE TANH ABS"),
    "only ones are moved": (chained(("TRANSPOSE", (0, 2, 1, 3))), "LookupTable RESHAPE"),
}


def outputs(graph: w.Graph, monkeypatch: pytest.MonkeyPatch, *, plain: bool) -> list[np.ndarray]:
    with monkeypatch.context() as patch:
        if plain:
            patch.setattr(compiler, "simplified", lambda graph: graph)
        program = compiler.compile_graph(load(w.serialize(graph)), NANO)
    rng = np.random.default_rng(1)
    with open_session(program, device="machine") as session:
        shapes = [(5, *port.shape) for port in program.inputs]
        return session.run([rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes])


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_left(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, wanted = GRAPHS[name]
    result = simplified(load(w.serialize(graph)))
    assert " ".join(operation.kind for operation in result.operations) == wanted
    places = [operation.place for operation in result.operations]
    assert len(set(places)) == len(places)
    before, after = (outputs(graph, monkeypatch, plain=plain) for plain in (True, False))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
        assert len(np.unique(other)) > 9


def test_a_result_that_others_read_stays() -> None:
    """The image before a transpose is an output, and that after it is read twice."""
    chain = image(1, 3, 4, 5)
    w.Transpose(permutation=(0, 3, 1, 2)).add(chain)
    transposed = chain.number
    chain.operator("RESHAPE", (1, 60), [w.Constant([1, 60])])
    w.FullyConnected(weights=weights(7, 60), weight_scale=0.01, output_scale=0.3).add(chain)
    result = simplified(load(w.serialize(chain.graph(transposed, chain.number))))
    kinds = [operation.kind for operation in result.operations]
    assert kinds == ["TRANSPOSE", "RESHAPE", "FULLY_CONNECTED"]


def test_functions_of_int16_stay() -> None:
    """A table has 256 entries."""
    graph = load(w.serialize(floats("NEG", first="int16")))
    assert simplified(graph) is graph


def test_a_float_that_others_read_stays() -> None:
    graph = floats("NEG")
    negated = graph.operations[1].outputs
    result = simplified(load(w.serialize(replace(graph, outputs=(*graph.outputs, *negated)))))
    kinds = [operation.kind for operation in result.operations]
    assert kinds == ["DEQUANTIZE", "NEG", "LookupTable"]


def test_a_graph_without_chains_is_the_same() -> None:
    chain = image()
    convolution(3, 3, 4).add(chain)
    graph = load(w.serialize(chain.graph()))
    assert simplified(graph) is graph
