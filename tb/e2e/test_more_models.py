"""Models under ``$CELOSIA_MODELS``, made elsewhere: RTL, machine model and LiteRT agree."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.graph import Graph
from celosia.sw.runtime.interpreter import open_session
from celosia.sw.runtime.session import Statistics

#: Depthwise convolutions that spot keywords, and an image classifier with residual additions.
MODELS = ("kws_ref_model", "pretrainedResnet_quant")


@pytest.fixture
def content(more_models: Path) -> Callable[[str], bytes]:
    """Return a model's file."""

    def read(name: str) -> bytes:
        file = more_models / f"{name}.tflite"
        if not file.exists():
            pytest.skip(f"CELOSIA_MODELS has no {file.name}")
        return file.read_bytes()

    return read


def structured(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Return images that random ones never come to: flat ones, edges, ramps, single pixels."""
    height, width, channels = shape
    y, x, _ = np.indices(shape)
    ramp = np.linspace(-128, 127, height * width * channels).reshape(shape)
    single = [np.full(shape, -128), np.full(shape, 127), np.full(shape, -128)]
    for image, place in zip(single, [(0, 0), (height // 2, width // 2), (-1, -1)], strict=True):
        image[place] = ~image[place]
    images = [
        *(np.full(shape, value) for value in (-128, -1, 0, 1, 127)),
        *(np.where((y + x) % 2, 127, -128), np.where(y % 2, 127, -128), np.where(x % 4, -128, 127)),
        *(np.where(y < height // 2, 127, -128), np.where(x < width // 2, -128, 127)),
        *(ramp, ramp[::-1], np.linspace(127, -128, width)[:, None] + 0 * ramp),
        *single,
    ]
    return [image.astype(np.int8) for image in images]


def inputs(graph: Graph, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return images, int8 of shape ``(count, ...)``: structured and random ones."""
    shape = graph.tensors[graph.inputs[0]].shape[1:]
    patterns = structured(shape)
    chosen = np.linspace(0, len(patterns) - 1, min(len(patterns), count // 2))
    images = [patterns[int(number)] for number in chosen]
    while len(images) < count:
        middle, reach = rng.integers(-128, 128), rng.choice([4, 20, 60, 255])
        image = middle + rng.integers(-reach, reach + 1, shape)
        images.append(np.clip(image, -128, 127).astype(np.int8))
    return np.array(images)


def ran(
    graph: Graph, x: np.ndarray, device: str, sizes: str, batch: int
) -> tuple[list[np.ndarray], Statistics]:
    program = compile_graph(graph, preset(sizes), batch)
    with open_session(program, device=device) as session:
        return session.run([x]), session.statistics


def assert_same(
    content: bytes, x: np.ndarray, device: str, sizes: str, batch: int = 1
) -> Statistics:
    results, statistics = ran(load(content), x, device, sizes, batch)
    for result, known in zip(results, prerequisites.litert_runs(content, x), strict=True):
        np.testing.assert_array_equal(result, known[:, 0])
    return statistics


def test_inputs_are_diverse(rng: np.random.Generator) -> None:
    shape = (9, 8, 3)
    images = structured(shape)
    assert len({image.tobytes() for image in images}) == len(images) == 16
    assert {image.shape for image in images} == {shape}
    assert sum(np.ptp(image.astype(int)) == 255 for image in images) >= 10


@pytest.mark.parametrize("sizes", ["micro", "edge"])
@pytest.mark.parametrize("name", MODELS)
def test_machine_gives_the_bytes_of_the_reference(name, sizes, content, rng) -> None:
    model = content(name)
    assert_same(model, inputs(load(model), 6, rng), "machine", sizes, batch=2)


def with_outputs(content: bytes, outputs: tuple[int, ...]) -> bytes:
    """Return a model with other outputs."""
    schema: Any = prerequisites.package("ai_edge_litert.schema_py_generated")
    model = schema.ModelT.InitFromPackedBuf(content)
    model.subgraphs[0].outputs = np.array(outputs, np.int32)
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_tensor_on_the_machine_model(name, content, rng) -> None:
    """Every operator's result is an output, so that none becomes part of another's."""
    graph = load(content(name))
    results = tuple(operation.outputs[0] for operation in graph.operations)
    model = with_outputs(content(name), results)
    assert_same(model, inputs(graph, 24, rng), "machine", "edge")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_many_inputs_on_the_machine_model(name, content, rng, figure) -> None:
    model = content(name)
    x = inputs(load(model), 500, rng)
    costs = assert_same(model, x, "machine", "edge", batch=4)
    figure(f"machine, edge: {name}: {len(x)} inputs identical to LiteRT, {costs.seconds:.0f} s")
