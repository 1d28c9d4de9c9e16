"""QUANTIZE and DEQUANTIZE with a scale a channel: bytes of LiteRT's reference kernels."""

from typing import Any

import numpy as np
import prerequisites
import pytest
from conformance import differences
from networks import Chain, Constant, serialize
from random_networks.cases import Case

from celosia.hw.arch.presets import preset
from celosia.sw.export.tflite import Graph
from celosia.sw.frontend.tflite import ModelError, load


def drawn(rng: np.random.Generator) -> tuple[Graph, np.ndarray]:
    """Return a model that quantises and dequantises, or adds constants of channels; its inputs."""
    shape = tuple(rng.integers(1, 5, int(rng.integers(1, 5))).tolist())
    axis, dtype = int(rng.integers(len(shape))), str(rng.choice(["int8", "uint8"]))
    limits, count = np.iinfo(dtype), shape[axis]
    scales = np.exp(rng.uniform(-6, 2, count)).astype(np.float32)
    zeros = rng.integers(limits.min, limits.max + 1, count)
    chain = Chain(shape, dtype="float32")
    source = chain.number
    if rng.random() < 0.5:
        data = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
        constant = Constant(data, scales, zeros, axis)
        chain.operator("DEQUANTIZE", shape, inputs=[constant], dtype="float32")
        chain.operator("ADD", shape, inputs=[source, chain.number], dtype="float32")
    else:
        meaning: dict[str, Any] = {"scale": scales, "scale_axis": axis, "zero_point": zeros}
        chain.operator("QUANTIZE", shape, dtype=dtype, **meaning)
        chain.operator("DEQUANTIZE", shape, dtype="float32")
    inputs = (rng.normal(size=(3, *shape)) * np.exp(rng.uniform(-3, 6))).astype(np.float32)
    return chain.graph(), inputs


def check(seed: int) -> None:
    graph, inputs = drawn(np.random.default_rng(seed))
    case = Case(seed, "channels", graph, (inputs,), 1 + seed % 3)
    assert not differences(case, preset("nano"), "machine"), f"seed {seed}"


@pytest.mark.parametrize(
    "seeds", [range(120), pytest.param(range(1000, 3000), marks=pytest.mark.slow)]
)
def test_models(seeds: range) -> None:
    prerequisites.package("ai_edge_litert.interpreter")
    for seed in seeds:
        check(seed)


def test_results_of_int16(rng: np.random.Generator) -> None:
    """LiteRT quantises to them, but does not dequantise them."""
    scales = np.array([0.1, 0.2, 0.4], np.float32)
    chain = Chain((2, 3), dtype="float32")
    chain.operator("QUANTIZE", (2, 3), dtype="int16", scale=scales, scale_axis=1, zero_point=0)
    chain.operator("DEQUANTIZE", (2, 3), dtype="float32")
    message = "operator 1 DEQUANTIZE .*: wanted int8 where there are several scales, got .* int16"
    with pytest.raises(ModelError, match=message):
        load(serialize(chain.graph()))


@pytest.mark.parametrize("first", [True, False])
def test_between_integers_they_are_refused(first: bool) -> None:
    """LiteRT computes with a scale of 0."""
    scales = np.array([0.1, 0.2, 0.4], np.float32)
    chain = Chain((2, 3), dtype="float32")
    for number, scale in enumerate([scales, 0.1] if first else [0.1, scales]):
        chain.operator(
            "QUANTIZE", (2, 3), dtype="int8", scale=scale, scale_axis=1, zero_point=number
        )
    message = "operator 1 QUANTIZE .*: int8 tensor .*: wanted one scale and zero point"
    with pytest.raises(ModelError, match=message):
        load(serialize(chain.graph()))


def test_as_many_scales_as_channels() -> None:
    chain = Chain((2, 3), dtype="float32")
    scales = np.array([0.1, 0.2], np.float32)
    chain.operator("QUANTIZE", (2, 3), dtype="int8", scale=scales, scale_axis=1, zero_point=0)
    chain.operator("DEQUANTIZE", (2, 3), dtype="float32")
    with pytest.raises(ModelError, match="operator 0 QUANTIZE .*: wanted 3 numbers as"):
        load(serialize(chain.graph()))
