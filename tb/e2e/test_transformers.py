"""Normalisations, attention and transformer blocks: every byte is that of LiteRT's kernels."""

from collections import Counter
from dataclasses import replace

import pytest
from conformance import differences
from random_networks.cases import FAMILY, Case, case

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import HostOperator

pytestmark = pytest.mark.usefixtures("litert")

OPTIONS = ",activation_weights=true,softmax=true,elementwise_products=true"

#: First seed of random transformers.
FIRST = 10 * FAMILY


def everything(seed: int) -> Case:
    """Return a case whose outputs are the results of all operators."""
    found = case(seed)
    results = tuple(n for operation in found.graph.operations for n in operation.outputs)
    return replace(found, graph=replace(found.graph, outputs=results))


@pytest.mark.parametrize("sizes", ["nano", "micro", "edge", "edge,columns=8"])
def test_random_transformers(sizes: str) -> None:
    config = preset(sizes + OPTIONS)
    for seed in range(FIRST, FIRST + 12):
        assert differences(case(seed), config, "machine") == "", seed


def test_all_results_of_random_transformers() -> None:
    config = preset("edge" + OPTIONS)
    for seed in range(FIRST + 20, FIRST + 32):
        assert differences(everything(seed), config, "machine") == "", seed


def test_transformers_on_the_host() -> None:
    """Cores without the options leave products, SOFTMAX and normalisations to the host."""
    for seed in range(FIRST + 40, FIRST + 48):
        assert differences(case(seed), preset("micro"), "machine") == "", seed


def test_random_transformers_on_the_core() -> None:
    config, on_host = preset("edge" + OPTIONS), Counter[str]()
    for seed in range(FIRST, FIRST + 40):
        one = case(seed)
        steps = compile_graph(load(one.content), config, one.batch).steps
        on_host.update(step.kind for step in steps if isinstance(step, HostOperator))
    assert not on_host


def test_transformers_on_the_rtl(verilator: None) -> None:
    for seed in range(FIRST, FIRST + 4):
        assert differences(case(seed), preset("nano" + OPTIONS), "rtl") == "", seed
