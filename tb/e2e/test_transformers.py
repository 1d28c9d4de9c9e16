"""Normalisations, attention and transformer blocks: every byte is that of LiteRT's kernels."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from all_options import NANO_WITH_ALL, OPTIONS
from conformance import differences
from litert import interpreter, invoked
from random_networks.cases import FAMILY, Case, case

from celosia.hw.arch.presets import preset
from celosia.sim.timing.cycles import estimate
from celosia.sw import data
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.parts import HostOperator, Part
from celosia.sw.runtime.arrays import quantized
from celosia.sw.runtime.opening import open_session
from celosia.sw.shipped import model_path

pytestmark = pytest.mark.usefixtures("litert")

FIXTURES = Path(__file__).parent / "fixtures"

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


def check(content: bytes, given: np.ndarray, sizes: str, *, device: str, batch: int) -> None:
    """Compare invocations with LiteRT, cycles of the RTL with the estimate; no host operators."""
    graph = load(content)
    program = compile_graph(graph, preset(sizes), batch)
    assert all(isinstance(step, Part) for step in program.steps)
    (wanted,) = invoked(interpreter(content, graph), given)
    with open_session(program, device=device) as session:
        (found,) = session.run([given.reshape(len(given), *program.inputs[0].shape)])
        counted = session.statistics.cycles
    if counted is not None:
        each = sum(estimate(section.code, program.config).total for section in program.per_batch)
        assert counted == pytest.approx(each * -(-len(given) // batch), rel=0.001)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def input_shape(content: bytes) -> tuple[int, ...]:
    graph = load(content)
    (number,) = graph.inputs
    return graph.tensors[number].shape


@pytest.mark.parametrize("name", ["vit", "torch_transformer"])
def test_converted_transformers(name: str, rng: np.random.Generator) -> None:
    """Models of Keras and of PyTorch, as their converters write them, run on the core alone."""
    content = (FIXTURES / f"{name}.tflite").read_bytes()
    given = rng.integers(-128, 128, (7, *input_shape(content))).astype(np.int8)
    check(content, given, "edge" + OPTIONS, device="machine", batch=3)


def characters(count: int) -> tuple[bytes, np.ndarray]:
    """Return the language model, and random characters as it takes them."""
    content = model_path("kjv_text").read_bytes()
    shape = input_shape(content)
    given = np.full((count, *shape), -128, np.int8)
    numbers = np.random.default_rng(1).integers(0, shape[-1], count)
    given.reshape(count, -1)[np.arange(count), numbers] = 127
    return content, given


@pytest.mark.parametrize("device", ["machine", "rtl"])
def test_language_model(device: str, verilator: None) -> None:
    """Each character depends on those before it, which the core keeps as keys and values."""
    # The cache is full after 64.
    content, given = characters(80 if device == "machine" else 6)
    check(content, given, "transformer", device=device, batch=1)


def test_transformers_on_the_rtl(verilator: None) -> None:
    for seed in range(FIRST, FIRST + 4):
        assert differences(case(seed), preset(NANO_WITH_ALL), "rtl") == "", seed


#: Shipped transformers, and the data sets of their pictures.
SHIPPED = {"mnist_vit": "mnist", "fashion_vit": "fashion-mnist", "kjv_text": None}


def shipped(name: str, count: int) -> tuple[bytes, np.ndarray]:
    """Return a shipped network, and inputs: the first test images, or random characters."""
    dataset = SHIPPED[name]
    if dataset is None:
        return characters(count)
    if not data.folder_of(dataset):
        dataset = "mnist"
    content = model_path(name).read_bytes()
    (port,) = compile_graph(load(content), preset("transformer")).inputs
    pictures = data.load(dataset)[0][:count, :, :, None] / np.float32(255)
    return content, quantized(pictures, port)


def int8_results(graph: Graph) -> list[int]:
    """Return the numbers of all int8 results, which the functions of tables do not have."""
    results = [number for operation in graph.operations for number in operation.outputs]
    return [number for number in results if graph.tensors[number].dtype == np.int8]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_all_tensors_of_shipped_transformers(name: str, figure: Callable[[str], None]) -> None:
    """The logits, and all results of int8 in a program of which they are the outputs."""
    count = 500
    content, given = shipped(name, count)
    graph = load(content)
    numbers = int8_results(graph)
    kernels = interpreter(content, graph, experimental_preserve_all_tensors=True)
    wanted = dict(zip(numbers, invoked(kernels, given, tensors=numbers), strict=True))
    for outputs in (graph.outputs, tuple(numbers)):
        program = compile_graph(replace(graph, outputs=outputs), preset("transformer"), 1)
        with open_session(program, device="machine") as session:
            found = session.run([given.reshape(count, *program.inputs[0].shape)])
        for number, values in zip(outputs, found, strict=True):
            expected = wanted[number].reshape(values.shape)
            np.testing.assert_array_equal(values, expected, graph.tensors[number].name)
    figure(f"machine, transformer: {name}: {count} inputs, {len(numbers)} tensors identical")


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_transformers_on_the_rtl(name: str, verilator: None) -> None:
    check(*shipped(name, 10), "transformer", device="rtl", batch=1)
