"""SOFTMAX on the core: every byte is that of LiteRT's reference kernel."""

import numpy as np
import pytest
from all_options import EDGE_WITH_ALL, NANO_WITH_ALL
from conformance import differences
from networks import Chain, Softmax
from random_networks.cases import Case

from celosia.hw.arch.config import SOFTMAX_ELEMENTS
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load

pytestmark = pytest.mark.usefixtures("litert")

SHAPES = [(1, 10), (1, 1, 1), (1, 5, 70, 9), (2, 3, 4), (1, 2, 3, SOFTMAX_ELEMENTS), (1, 130, 17)]
#: From one that makes all elements alike to one that makes all but the greatest zero.
SCALES = (1e-3, 0.05, 0.3, 4.0)
CORES = ("nano,softmax=true", EDGE_WITH_ALL)
SIMULATED = (pytest.param(CORES[0], marks=pytest.mark.slow), NANO_WITH_ALL, EDGE_WITH_ALL)


def check(chain: Chain, sizes: str, device: str, rng: np.random.Generator, runs: int = 4) -> None:
    """Compare some invocations with LiteRT; the core runs all of it."""
    graph, config = chain.graph(), preset(sizes)
    shape = graph.tensors[graph.inputs[0]].shape
    x = rng.integers(-128, 128, (runs, *shape)).astype(np.int8)
    x[0] = x[0, ..., :1]
    case = Case(0, "", graph, (x,), 2)
    program = compile_graph(load(case.content), config, 2)
    assert {layer.runs_on for layer in program.layers} == {"core"} and len(program.parts) == 1
    assert differences(case, config, device) == ""


@pytest.mark.parametrize("sizes", CORES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bytes(shape: tuple[int, ...], scale: float, sizes: str, rng) -> None:
    chain = Chain(shape, scale, int(rng.integers(-128, 128)))
    Softmax(beta=1.0 if scale == 0.05 else 0.7).add(chain)
    check(chain, sizes, "machine", rng)


@pytest.mark.parametrize("sizes", SIMULATED)
def test_different_exponentials_share_the_slot(sizes: str, rng, verilator: None) -> None:
    chain = Chain((1, 3, 4, 20), 0.1, 3)
    Softmax().add(chain)
    Softmax(beta=9.0).add(chain)
    Softmax().add(chain)
    check(chain, sizes, "machine", rng)
    check(chain, sizes, "rtl", rng)


@pytest.mark.parametrize("sizes", SIMULATED)
def test_rtl(sizes: str, rng, verilator: None) -> None:
    chain = Chain((1, 2, 70, 11), 0.1, -9)
    Softmax().add(chain)
    check(chain, sizes, "rtl", rng)


def test_rows_of_more_elements_and_other_cores_are_for_the_host(rng) -> None:
    for elements, sizes in ((SOFTMAX_ELEMENTS + 1, "nano,softmax=true"), (8, "nano")):
        chain = Chain((1, elements), 0.1, 0)
        Softmax().add(chain)
        graph = chain.graph()
        x = rng.integers(-128, 128, (2, 1, elements)).astype(np.int8)
        case = Case(0, "", graph, (x,), 1)
        program = compile_graph(load(case.content), preset(sizes), 1)
        assert not program.parts
        assert differences(case, preset(sizes), "machine") == ""
