"""Parts of rows of pixels, and rows made of parts: the bytes of LiteRT's reference kernels."""

import networks as w
import numpy as np
import pytest
from conformance import differences
from networks import Chain, Graph
from random_networks.cases import Case
from test_products import on_core

from celosia.hw.arch.presets import preset

pytestmark = pytest.mark.usefixtures("litert")

Shape = tuple[int, ...]
ROW = (1, 12, 9)


def started(*, dense: bool = False) -> Chain:
    """Return a row of pixels that a layer makes; ``dense``: of a single pixel."""
    chain = Chain((1, 1, 9) if dense else ROW, 0.05, 3)
    if dense:
        weights = np.random.default_rng(1).integers(-127, 128, (9, 9)).astype(np.int8)
        options = {"keepNumDims": True, "scale": 0.05, "zero_point": -7}
        chain.operator("FULLY_CONNECTED", (1, 1, 9), [w.Constant(weights, 0.01)], **options)
    else:
        chain.operator("TANH", scale=0.05, zero_point=-7)
    return chain


def sliced(begin: Shape, count: Shape) -> Graph:
    chain = started()
    given = [np.array(each, np.int32) for each in (begin, count)]
    chain.operator("SLICE", count, given)
    return chain.graph()


def shifted(pixels: int) -> Graph:
    """Return a cache: the row of an input without its first pixel, and one that a layer makes."""
    chain = started(dense=True)
    new = chain.number
    old = chain.input("cache", (1, pixels, 9), 0.05, -7)
    chain.operator("CONCATENATION", (1, pixels + 1, 9), inputs=[old, new], axis=1)
    whole = chain.number
    given = [np.array(each, np.int32) for each in ((0, 1, 0), (1, pixels, 9))]
    chain.operator("SLICE", (1, pixels, 9), given)
    cache = chain.number
    chain.back_to(whole)
    chain.operator("RESHAPE", (1, pixels + 1, 3, 3), [np.array((1, pixels + 1, 3, 3), np.int32)])
    w.Transpose(permutation=(0, 2, 1, 3)).add(chain)
    return chain.graph(cache, chain.number)


def joined(*, twice: bool = False) -> Graph:
    """Return a row after another one; ``twice``: after itself."""
    chain = started()
    first = chain.number
    other = first if twice else chain.input("second", (1, 5, 9), 0.05, -7)
    pixels = 24 if twice else 17
    chain.operator("CONCATENATION", (1, pixels, 9), inputs=[first, other], axis=1)
    return chain.graph()


GRAPHS = {
    "the first pixels": sliced((0, 0, 0), (1, 4, 9)),
    "the last pixels": sliced((0, 1, 0), (1, 11, 9)),
    "one pixel": sliced((0, 7, 0), (1, 1, 9)),
    "channels": sliced((0, 0, 2), (1, 12, 5)),
    "pixels and channels": sliced((0, 3, 4), (1, 6, 5)),
    "a cache of 1": shifted(1),
    "a cache of 31": shifted(31),
    "two rows": joined(),
    "a row twice": joined(twice=True),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("sizes", ["nano", "micro", "edge"])
def test_rows_on_the_core(name: str, sizes: str, rng: np.random.Generator) -> None:
    graph = GRAPHS[name]
    shapes = [graph.tensors[number].shape for number in graph.inputs]
    inputs = tuple(rng.integers(-128, 128, (4, *shape)).astype(np.int8) for shape in shapes)
    for batch in (1, 3):
        case = Case(0, name, graph, inputs, batch)
        assert on_core(case, sizes)
        assert differences(case, preset(sizes), "machine") == ""


def test_a_cache_on_the_rtl(rng: np.random.Generator, verilator: None) -> None:
    inputs = tuple(
        rng.integers(-128, 128, (3, *shape)).astype(np.int8) for shape in ((1, 1, 9), (1, 31, 9))
    )
    case = Case(0, "cache", GRAPHS["a cache of 31"], inputs, 1)
    assert differences(case, preset("nano"), "rtl") == ""
