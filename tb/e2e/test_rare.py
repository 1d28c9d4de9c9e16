"""Rare files: scales of 0, zero points of weights, both flags of a resize, no axes, tiny scales."""

from typing import Any

import agreement
import networks as w
import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.runtime.opening import open_session

RNG = np.random.default_rng(47)


def _integers(*shape: int, dtype: Any = np.int8) -> np.ndarray:
    return RNG.integers(-100, 100, shape).astype(dtype)


def _layer(kind: Any, shape: tuple[int, ...], scales: Any, channels: int) -> w.Layer:
    return kind(
        weights=_integers(*shape),
        weight_scale=np.array(scales),
        bias=_integers(channels, dtype=np.int32) * 50,
        output_scale=0.1,
        output_zero_point=-5,
    )


def _sequence(*layers: w.Layer, shape: tuple[int, ...] = (1, 7, 8, 3)) -> bytes:
    return w.write_sequential(layers, input_shape=shape, input_scale=0.05, input_zero_point=3)


def _dense_with_zero_point(zero_point: int) -> bytes:
    chain = w.Chain((1, 9), 0.05, 3)
    weights = w.Constant(_integers(5, 9), 0.01, zero_point)
    bias = w.Constant(_integers(5, dtype=np.int32), 0.0005)
    chain.operator("FULLY_CONNECTED", (1, 5), [weights, bias], scale=0.1, zero_point=-5)
    return w.serialize(chain.graph())


def _nearest(source: int, result: int, **flags: Any) -> bytes:
    chain = w.Chain((1, source, 3, 2), 0.1)
    size = np.array([result, 4], np.int32)
    chain.operator("RESIZE_NEAREST_NEIGHBOR", (1, result, 4, 2), [size], **flags)
    return w.serialize(chain.graph())


def _without_axes(kind: str, *, keep: bool = False, scale: float = 0.07) -> bytes:
    chain = w.Chain((1, 4, 5, 6), 0.1, -3)
    ends: dict[str, Any] = {"scale": scale, "zero_point": 5 if scale != 0.1 else -3}
    chain.operator(kind, None, [np.zeros(0, np.int32)], **ends, keepDims=keep)
    return w.serialize(chain.graph())


def _quotients(scale: float) -> bytes:
    """Return DIV of every int8 by every other than 0, by factors of ``scale``."""
    chain = w.Chain((1, 256), 1.0)
    divisors = np.array([n for n in range(-128, 128) if n], np.int8)[:, None]
    chain.operator("DIV", (255, 256), [w.Constant(divisors, 1.0)], scale=1 / scale)
    return w.serialize(chain.graph())


def _long_rows() -> bytes:
    """Return a CONCATENATION whose rows no unified buffer of `edge` holds, and what follows."""
    chain = w.Chain((1, 7, 8, 3), 0.1)
    _layer(w.Convolution, (512, 1, 1, 3), 0.01, 512).add(chain)
    chain.operator("RESHAPE", (1, 256, 112), [np.array([1, -1, 112], np.int32)])
    chain.operator("CONCATENATION", (1, 1280, 112), inputs=[chain.number] * 5, axis=1)
    chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
    return w.serialize(chain.graph())


def _bilinear() -> bytes:
    chain = w.Chain((1, 5, 6, 4), 0.1)
    size = np.array([10, 11], np.int32)
    chain.operator("RESIZE_BILINEAR", (1, 10, 11, 4), [size], scale=0.2, zero_point=3)
    return w.serialize(chain.graph())


BOTH = {"alignCorners": True, "halfPixelCenters": True}
CASES = {
    "a channel of scale 0": _sequence(
        _layer(w.Convolution, (5, 3, 3, 3), [0.002, 0.004, 0, 0.01, 0.02], 5)
    ),
    "a depthwise channel of scale 0": _sequence(
        _layer(w.Depthwise, (1, 3, 3, 3), [0.01, 0, 0.02], 3)
    ),
    "a neuron of scale 0": _sequence(
        _layer(w.FullyConnected, (3, 6), [0.01, 0, 0.02], 3), shape=(1, 6)
    ),
    "weights with zero point 5": _dense_with_zero_point(5),
    "weights with zero point -128": _dense_with_zero_point(-128),
    "nearest with both flags, up": _nearest(5, 13, **BOTH),
    "nearest with both flags, down": _nearest(13, 5, **BOTH),
    # Halves are not rounded in single precision.
    "nearest from 2 to 83 rows": _nearest(2, 83, alignCorners=True),
    "bilinear of two scales": _bilinear(),
    "rows past the unified buffer": _long_rows(),
    "mean without axes": _without_axes("MEAN"),
    "mean without axes, kept": _without_axes("MEAN", keep=True),
    "maximum without axes": _without_axes("REDUCE_MAX", scale=0.1),
    "minimum without axes": _without_axes("REDUCE_MIN", scale=0.1),
    # Shifts of 32 bits and more occur.
    "quotients of 0.2": _quotients(0.2),
    "quotients of 0.01": _quotients(0.01),
}


@pytest.mark.parametrize("name", CASES)
def test_as_litert(name: str) -> None:
    content = CASES[name]
    shape = load(content).tensors[0].shape
    x = RNG.integers(-128, 128, (3, *shape)).astype(np.int8)
    if shape == (1, 256):
        x = np.arange(-128, 128).astype(np.int8).reshape(1, 1, 256)
    agreement.compare(content, x, sizes="edge")


def test_zero_scales_run_on_the_core() -> None:
    for name in list(CASES)[:5]:
        program = compile_graph(load(CASES[name]), preset("edge"))
        assert [layer.runs_on for layer in program.layers] == ["core"] and not program.host, name


def test_softmax_of_a_tiny_scale_leaves_the_model_on_the_core() -> None:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    chain = w.Chain((1, 20), 0.05, 3)
    _layer(w.FullyConnected, (10, 20), 0.01, 10).add(chain)
    chain.operator("QUANTIZE", scale=7.8e-9, zero_point=0)
    chain.operator("SOFTMAX", scale=1 / 256, zero_point=-128, beta=1.0)
    content = w.serialize(chain.graph())
    program = compile_graph(load(content), preset("edge"))
    assert [step.kind for step in program.host] == ["SOFTMAX"] and program.macs == 200
    x = _integers(4, 20)
    # The reference kernel ends the process.
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    known = Interpreter(model_content=content, experimental_op_resolver_type=kernels)
    known.allocate_tensors()
    with open_session(program) as session:
        (results,) = session.run([x])
    for row, result in zip(x, results, strict=True):
        known.set_tensor(known.get_input_details()[0]["index"], row[None])
        known.invoke()
        wanted = known.get_tensor(known.get_output_details()[0]["index"])
        np.testing.assert_array_equal(result, wanted[0])


def test_computed_shape_of_a_transposed_convolution() -> None:
    chain = w.Chain((4,), dtype="int32")
    image = chain.input("image", (1, 3, 5, 4), 0.05)
    weights = w.Constant(_integers(6, 3, 3, 4), 0.01)
    inputs = [0, weights, image, w.Constant(_integers(6, dtype=np.int32), 0.0005)]
    options = {"padding": "SAME", "strideH": 2, "strideW": 2}
    chain.operator("TRANSPOSE_CONV", (1, 6, 10, 6), inputs=inputs, scale=0.2, **options)
    content, x = w.serialize(chain.graph()), _integers(2, 1, 3, 5, 4)
    shape = np.array([[1, 6, 10, 6]] * 2, np.int32)
    program = compile_graph(load(content), preset("edge"))
    with open_session(program) as session:
        (results,) = session.run([shape, x[:, 0]])
    (wanted,) = prerequisites.litert_runs(content, shape, x)
    np.testing.assert_array_equal(results, wanted[:, 0])
