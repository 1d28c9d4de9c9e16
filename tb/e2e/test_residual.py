"""Depthwise convolutions and residual additions: LiteRT, machine model and RTL agree."""

from collections.abc import Callable

import numpy as np
import pytest
from residual import draw

from celosia.hw.arch.config import Config, preset
from celosia.sim.simulators import SimulatorNotFound, find_verilator
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.compiler.spec import CompileError
from celosia.sw.frontend.serialize import serialize
from celosia.sw.frontend.tflite import load
from celosia.sw.runtime.interpreter import open_session

SIZES = (
    *("nano", "micro", "edge", "edge,weight_rows=4", "micro,columns=12,lanes=4"),
    *("micro,unified_bytes=16384", "edge,accumulator_depth=64,weight_tiles=12"),
)


def differences(
    seed: int, config: Config, device: str, litert: Callable[[bytes, np.ndarray], np.ndarray]
) -> int:
    """Return how many bytes of a drawn graph's output differ from the reference kernels."""
    content = serialize(draw(seed))
    graph = load(content)
    rng = np.random.default_rng(seed)
    batch = int(rng.integers(1, 4))
    shape = graph.tensors[graph.inputs[0]].shape[1:]
    x = rng.integers(-128, 128, (batch + 1, *shape)).astype(np.int8)
    with open_session(compile_graph(graph, config, batch), device=device) as session:
        (y,) = session.run([x])
    wanted = np.concatenate([litert(content, image[None]) for image in x])
    return int((y != wanted.reshape(y.shape)).sum())


@pytest.mark.parametrize("seed", range(18))
def test_some_graphs(seed: int, litert) -> None:
    sizes = SIZES[1 + seed % (len(SIZES) - 1)]
    assert differences(seed, preset(sizes), "machine", litert) == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SIZES)), ids=SIZES)
def test_many_graphs_on_the_machine_model(number: int, litert, figure) -> None:
    config = preset(SIZES[number])
    seeds = range(100 + number, 1000, len(SIZES))
    wrong, refused = [], []
    for seed in seeds:
        try:
            if differences(seed, config, "machine", litert):
                wrong.append(seed)
        except CompileError as reason:
            refused.append(f"{seed}: {reason}")
    figure(
        f"residual graphs: machine, {SIZES[number]}: {len(seeds)} graphs, wrong: {wrong}, "
        f"refused: {refused}"
    )
    assert wrong == [] and len(refused) * 20 <= len(seeds)


@pytest.mark.slow
def test_many_graphs_on_the_rtl(litert, figure) -> None:
    try:
        find_verilator()
    except SimulatorNotFound as missing:
        pytest.skip(str(missing))
    wrong = [seed for seed in range(60) if differences(seed, preset("edge"), "rtl", litert)]
    figure(f"residual graphs: rtl, edge: 60 graphs, wrong: {wrong}")
    assert wrong == []
