"""Kinds of ``.tflite`` files that messages name, and operators that only follow refused ones."""

from pathlib import Path

import agreement
import networks as w
import numpy as np
import pytest

from celosia.sw.frontend.source import load
from celosia.sw.layers.node import ModelError


def _custom(*kinds: str) -> bytes:
    """Return a chain of operators, each of one input."""
    chain = w.Chain((1, 4), 0.5)
    for kind in kinds:
        chain.operator(kind)
    return w.serialize(chain.graph())


COMPILED = [
    ("ethos-u", "Ethos-U"),
    ("edgetpu-custom-op", "Edge TPU"),
    ("NeutronGraph", "eIQ Neutron"),
    ("XC_conv2d_v2", "xcore"),
]


@pytest.mark.parametrize(("kind", "target"), COMPILED)
def test_files_of_other_compilers(kind: str, target: str) -> None:
    text = f"compiled for {target}; take the file from before its compiler"
    with pytest.raises(ModelError) as error:
        load(_custom(kind))
    assert str(error.value) == f"model: operator 0 CUSTOM {kind!r} ('output_0'): {text}"


def _follower() -> bytes:
    """Return a model whose RESHAPE reads its shape from an operator that is not supported."""
    chain = w.Chain((1, 4), 0.5)
    image = chain.number
    chain.operator("Mine", (2,), dtype="int32")
    chain.operator("RESHAPE", (2, 2), inputs=[image, chain.number], dtype="int8", scale=0.5)
    chain.operator("RELU")
    return w.serialize(chain.graph())


MORE = " (refused too: 2 CUSTOM 'Mine')"
FOLLOWING = [(_follower(), ""), (_custom("Mine", "RELU", "Mine"), MORE)]


@pytest.mark.parametrize(("content", "more"), FOLLOWING)
def test_operators_that_only_follow_are_not_counted(content: bytes, more: str) -> None:
    with pytest.raises(ModelError) as error:
        load(content)
    first = "model: operator 0 CUSTOM 'Mine' ('output_0'): operator is not supported, model refused"
    assert str(error.value) == first + more


def _float(weights: np.ndarray) -> bytes:
    chain = w.Chain((1, 4), dtype="float32")
    scale = 0.5 if weights.dtype == np.int8 else 0
    constant = w.Constant(weights, scale)
    if weights.dtype == np.float16:
        image = chain.number
        chain.operator("DEQUANTIZE", weights.shape, inputs=[constant], dtype="float32")
        chain.operator("FULLY_CONNECTED", (1, 3), inputs=[image, chain.number])
    else:
        chain.operator("FULLY_CONNECTED", (1, 3), [constant])
    return w.serialize(chain.graph())


def test_constant_float16_is_folded() -> None:
    chain = w.Chain((1, 4), 0.5)
    chain.operator("DEQUANTIZE", dtype="float32", scale=0)
    image, halves = chain.number, np.array([[0.1, -2, 65504, 6e-8]], np.float16)
    chain.operator("DEQUANTIZE", inputs=[w.Constant(halves)], dtype="float32")
    chain.operator("MUL", inputs=[image, chain.number])
    content, x = w.serialize(chain.graph()), np.array([[[1, 2, -3, 127]]], np.int8)
    program = agreement.compare(content, x, sizes="edge")
    assert sorted(step.kind for step in program.host) == ["DEQUANTIZE", "MUL"]


FLOATS = [
    (np.float32, "float model"),
    (np.float16, "float model with float16 weights"),
    (np.int8, "dynamic-range model, integer weights but float arithmetic"),
]


@pytest.mark.parametrize(("dtype", "kind"), FLOATS)
def test_kinds_of_float_models(dtype: type, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(_float(np.ones((3, 4), dtype)))
    with pytest.raises(ModelError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {kind}; quantise it: celosia quantize {path} ")
