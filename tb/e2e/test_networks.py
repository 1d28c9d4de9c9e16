"""The shipped networks: RTL, machine model and LiteRT's reference kernels."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.sim.timing.cycles import estimate
from celosia.sw import data
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.runtime.arrays import quantized
from celosia.sw.runtime.interpreter import open_session
from celosia.sw.runtime.session import Statistics


class Network(NamedTuple):
    """A shipped network: what it must reach, and the cycles it may take on a core by batch."""

    dataset: str
    accuracy: float
    cycles: dict[int, float]
    sizes: str = "edge"


#: Wider than high, and not by a power of two.
OBLONG = "micro,columns=12,lanes=4"
UNITS = ("sequencer", "load", "store", "matrix", "vector")
NETWORKS = {
    "mnist_mlp": Network("mnist", 0.975, {1: 1.15 * 6400, 64: 1.10 * 400}),
    "mnist_cnn_5x5": Network("mnist", 0.99, {1: 1.10 * 67_552, 16: 1.10 * 43_912}),
    "fashion_cnn": Network("fashion-mnist", 0.88, {1: 1.15 * 13_520}),
    "mnist_cnn_3x3": Network("mnist", 0.988, {1: 1.10 * 22_992}),
    "mnist_cnn_deep": Network("mnist", 0.99, {1: 1.10 * 46_680}),
}
CONVOLUTIONAL = tuple(NETWORKS)[1:]
TRANSFORMERS = {
    "mnist_vit": Network("mnist", 0.985, {1: 104_000}, "transformer"),
    "fashion_vit": Network("fashion-mnist", 0.87, {}, "transformer"),
}
ALL = NETWORKS | TRANSFORMERS


@pytest.fixture
def content(root: Path) -> Callable[[str], bytes]:
    return lambda name: (root / "sw" / "models" / f"{name}.tflite").read_bytes()


@cache
def images(dataset: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the test set; digits without labels where another cannot be had."""
    try:
        return data.load(dataset)
    except FileNotFoundError:
        return data.load("mnist")[0], None


def inputs(content: bytes, dataset: str, count: int) -> np.ndarray:
    (port,) = compile_graph(load(content), preset("edge")).inputs
    pictures = images(dataset)[0][:count, :, :, None] / np.float32(255)
    return quantized(pictures, port, flat=len(port.shape) == 1)


def _reference(job: tuple[bytes, np.ndarray]) -> np.ndarray:
    return prerequisites.litert_runs(*job)[0][:, 0]


def reference(root: Path, content: bytes, x: np.ndarray) -> np.ndarray:
    """Return what the reference kernels give; many images take minutes and are kept."""
    if len(x) < 100:
        return _reference((content, x))
    key = hashlib.sha256(content + x.tobytes()).hexdigest()[:24]
    kept = root / "build" / "reference" / f"{key}.npy"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(2) as pool:
            jobs = [(content, part) for part in np.array_split(x, 2)]
            partial = kept.with_suffix(".partial.npy")
            np.save(partial, np.concatenate(list(pool.map(_reference, jobs))))
            partial.rename(kept)
    return np.load(kept)


def ran(
    content: bytes, x: np.ndarray, device: str, sizes: str, batch: int
) -> tuple[np.ndarray, Statistics]:
    program = compile_graph(load(content), preset(sizes), batch)
    with open_session(program, device=device) as session:
        y, costs = session.run([x])[0], session.statistics
    assert costs.inputs == len(x)
    if device == "rtl" and not program.config.counts:
        assert costs.cycles and costs.counters is None and costs.setup_counters is None
    elif device == "rtl":
        assert_every_cycle_is_counted_once(costs.cycles, costs.counters)
        assert_every_cycle_is_counted_once(costs.setup_cycles, costs.setup_counters)
    return y, costs


def assert_every_cycle_is_counted_once(cycles: int | None, counters: Any) -> None:
    found = {unit: sum(classes.values()) for unit, classes in counters.items()}
    assert found == dict.fromkeys(UNITS, cycles)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *((name, sizes) for name in NETWORKS for sizes in ("micro", "edge")),
        ("mnist_cnn_3x3", "nano"),
        *(("mnist_mlp", sizes) for sizes in ("pico", "nano")),
        ("mnist_cnn_3x3", "edge,weight_rows=4"),
        ("mnist_cnn_5x5", OBLONG),
        ("mnist_mlp", OBLONG),
        ("mnist_cnn_deep", "micro,unified_bytes=8192"),
        *((name, sizes) for name in TRANSFORMERS for sizes in ("micro", "transformer")),
    ],
)
def test_machine_gives_the_bytes_of_the_reference(name, sizes, root, content) -> None:
    model = content(name)
    x = inputs(model, ALL[name].dataset, 4)
    y, _ = ran(model, x, "machine", sizes, 3)
    np.testing.assert_array_equal(y, reference(root, model, x))


@pytest.mark.parametrize(
    ("name", "batch"), [(name, batch) for name in ALL for batch in ALL[name].cycles]
)
def test_cycles_on_the_rtl(name, batch, root, content, verilator) -> None:
    model = content(name)
    network = ALL[name]
    x = inputs(model, network.dataset, batch)
    y, costs = ran(model, x, "rtl", network.sizes, batch)
    np.testing.assert_array_equal(y, reference(root, model, x))
    assert costs.cycles_per_input is not None
    assert costs.cycles_per_input <= network.cycles[batch]
    program = compile_graph(load(model), preset(network.sizes), batch)
    expected = [estimate(part.code, program.config).total for part in (program.setup, program.main)]
    assert [costs.setup_cycles, costs.cycles] == pytest.approx(expected, rel=0.001)


@pytest.mark.parametrize(
    ("sizes", "count", "batch"),
    # The first is one that other tests build, too.
    [("pico,elementwise_products=true", 2, 1), ("nano", 4, 2), ("micro", 16, 5), ("edge", 64, 16)],
)
def test_the_same_bytes_on_the_rtl(sizes, count, batch, root, content, verilator) -> None:
    model = content("mnist_mlp")
    x = inputs(model, "mnist", count)
    y, _ = ran(model, x, "rtl", sizes, batch)
    np.testing.assert_array_equal(y, reference(root, model, x))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_all_images_on_the_machine_model(name, root, content, figure) -> None:
    model, network = content(name), ALL[name]
    pictures, labels = images(network.dataset)
    if labels is None:
        pytest.skip(f"{network.dataset} is not there")
    x = inputs(model, network.dataset, len(pictures))
    y, costs = ran(model, x, "machine", network.sizes, 16)
    np.testing.assert_array_equal(y, reference(root, model, x))
    accuracy = float(np.mean(y.argmax(axis=1) == labels))
    figure(
        f"machine, {network.sizes}: {name}: {len(x):,} images identical to LiteRT, accuracy {accuracy:.2%}, "
        f"{costs.seconds:.0f} s"
    )
    assert accuracy >= network.accuracy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "count", "batch"),
    [
        *((name, "edge", 208, 16) for name in CONVOLUTIONAL),
        *((name, "edge,weight_rows=4", 8, 1) for name in CONVOLUTIONAL),
        *((name, "micro", 8, 2) for name in CONVOLUTIONAL),
        ("mnist_mlp", "edge", 1000, 64),
        *(("mnist_mlp", sizes, 100, 64) for sizes in ("nano", "micro", OBLONG)),
    ],
)
def test_many_images_on_the_rtl(name, sizes, count, batch, root, content, verilator, figure):
    model = content(name)
    x = inputs(model, NETWORKS[name].dataset, count)
    y, costs = ran(model, x, "rtl", sizes, batch)
    np.testing.assert_array_equal(y, reference(root, model, x))
    assert costs.cycles_per_input and costs.utilisation and costs.cycles
    figure(
        f"rtl, {sizes}, batch {batch}: {name}: {count} images identical to LiteRT, "
        f"{costs.cycles_per_input:,.1f} cycles per image, {costs.utilisation:.1%} of the "
        f"multipliers in use, {costs.cycles / costs.seconds:,.0f} cycles/s"
    )
