"""The estimate of cycles against the RTL's own counts, layer by layer."""

from typing import Any

import numpy as np
import pytest
from networks import Convolution, FullyConnected, Pool, Reshape, Softmax, write_sequential

from celosia.hw.arch.presets import preset
from celosia.sim.timing.cycles import estimate
from celosia.sw.compiler.compile import compile_graph, compile_steps
from celosia.sw.compiler.compiled import Compiled
from celosia.sw.compiler.report import Alone
from celosia.sw.frontend.tflite import load
from celosia.sw.measure import measure
from celosia.sw.runtime.interpreter import open_session

SCALES: dict[str, Any] = {"weight_scale": 0.01, "output_scale": 0.5}
#: Layers below take so little that a few cycles count.
LEAST = 1000


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-127, 128, shape).astype(np.int8)


def worst(compiled: Compiled, latency: int, bandwidth: float = 1.0) -> float:
    """Check the estimates of a program and of its layers; return the greatest difference."""
    found = measure(compiled, latency=latency, bandwidth=bandwidth)
    layers: list[Alone] = [*found.layers, found.whole, found.setup]
    assert any(alone.counted >= LEAST for alone in found.layers)
    differences = [abs(a.estimated / a.counted - 1) for a in layers if a.counted >= LEAST]
    assert max(differences) <= 0.01, found
    return max(differences)


@pytest.mark.parametrize(
    ("sizes", "batch", "latency", "bandwidth"),
    [
        ("micro", 1, 32, 1.0),
        ("micro", 3, 100, 1.0),
        ("micro", 2, 32, 0.5),
        ("nano", 2, 60, 1.0),
        ("pico,elementwise_products=true", 1, 32, 1.0),
    ],
)
def test_small_network(sizes, batch, latency, bandwidth, rng, verilator) -> None:
    layers = [
        Convolution(weights=weights(rng, 20, 3, 3, 1), padding="SAME", **SCALES),
        Convolution(weights=weights(rng, 12, 3, 3, 20), padding="VALID", stride=(2, 2), **SCALES),
        Pool(kind="AVERAGE_POOL_2D", padding="SAME"),
        Reshape(shape=(1, 588)),
        FullyConnected(weights=weights(rng, 30, 588), **SCALES),
    ]
    graph = load(write_sequential(layers, input_shape=(1, 30, 30, 1), input_scale=0.5))
    worst(compile_steps(graph, preset(sizes), batch), latency, bandwidth)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize(("width", "together"), [(10, True), (130, False)])
def test_program_in_parts(width, together, parts, rng, verilator) -> None:
    """A batch takes what is estimated, with what each part loads again."""
    layers: list[Any] = [
        Convolution(weights=weights(rng, 16, 3, 3, 1), padding="SAME", **SCALES),
        Pool(),
        Pool(),
        Reshape(shape=(1, 576)),
        FullyConnected(weights=weights(rng, width, 576), **SCALES),
    ]
    for taps in (width, 10)[: parts - 1]:
        layers += [Softmax(), FullyConnected(weights=weights(rng, 10, taps), **SCALES)]
    graph = load(write_sequential(layers, input_shape=(1, 24, 24, 1), input_scale=0.5))
    program = compile_steps(graph, preset("micro"), 4).program
    assert len(program.parts) == parts and bool(program.constants) == together
    x = rng.integers(-128, 128, (4, 24, 24, 1)).astype(np.int8)
    with open_session(program, device="rtl") as session:
        costs = session.statistics
        session.run([x])
        first = costs.cycles
        session.run([x])
        assert first is not None and costs.cycles is not None and costs.setup_cycles is not None
        counted = {"once": costs.setup_cycles, "per_batch": costs.cycles - first}
    for name, count in counted.items():
        found = (estimate(s.code, program.config).total for s in getattr(program, name))
        assert sum(found) == pytest.approx(count, rel=0.001), name


@pytest.mark.parametrize("name", ["torch_transformer", "yolo"])
def test_parts_that_run_several_times_and_tables(name, root, verilator) -> None:
    """A matrix product of each position; tables that each layer loads again."""
    program = compile_graph(load(root / "tb/e2e/fixtures" / f"{name}.tflite"), preset("edge"))
    x = [np.zeros((1, *port.shape), port.dtype) for port in program.inputs]
    with open_session(program, device="rtl") as session:
        session.run(x)
        first = session.statistics.cycles
        session.run(x)
        counted = session.statistics.cycles
    assert first is not None and counted is not None
    found = sum(estimate(section.code, program.config).total for section in program.per_batch)
    assert found == pytest.approx(counted - first, rel=0.001)


@pytest.mark.slow
@pytest.mark.parametrize("latency", [32, 100])
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(
    ("sizes", "pattern"),
    [
        # All but the transformers, most of whose operators are the host's.
        *((sizes, "*_[!tv]*") for sizes in ("nano", "micro", "edge", "edge,weight_rows=4")),
        # In row stripes.
        ("micro,unified_bytes=8192", "mnist_cnn_deep"),
    ],
)
def test_shipped_models(sizes, pattern, batch, latency, root, verilator, figure) -> None:
    models = sorted((root / "sw" / "models").glob(f"{pattern}.tflite"))
    assert models
    found = {}
    for model in models:
        found[model.stem] = worst(compile_steps(load(model), preset(sizes), batch), latency)
    text = ", ".join(f"{name} {difference:.2%}" for name, difference in found.items())
    figure(f"estimate, {sizes}, batch {batch}, latency {latency}: worst layer of {text}")
