"""Networks with random weights, quantised by ONNX Runtime, and ONNX Runtime as their reference."""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx_graphs
import prerequisites
from onnx_graphs import onnx

quantization = prerequisites.package("onnxruntime.quantization")

_QDQ, _QOPERATOR = quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator
_S8, _U8 = quantization.QuantType.QInt8, quantization.QuantType.QUInt8

#: Samples that the quantiser sees.
_SAMPLES = 16


class Net(onnx_graphs.Net):
    """A float model under construction; each method adds an operator and returns its result."""

    def __init__(self, shape: tuple[int, ...], *, opset: int, batch: str | int = 1) -> None:
        super().__init__(opset, x=(batch, *shape))
        self._random = np.random.RandomState(22)

    def numbers(self, *shape: int, taps: int | None = None) -> str:
        """Add random weights that keep the spread of numbers."""
        scale = np.sqrt(1.5 / (taps or np.prod(shape[1:])))
        return self.constant((self._random.normal(size=shape) * scale).astype(np.float32))

    def conv(self, x: str, inputs: int, outputs: int, size: int = 3, **options: Any) -> str:
        """Add a convolution; the default padding keeps the extents."""
        weights = self.numbers(outputs, inputs // options.get("group", 1), size, size)
        bias = self.constant((self._random.normal(size=outputs) * 0.2).astype(np.float32))
        options = {"pads": [size // 2] * 4, **options} if "auto_pad" not in options else options
        return self.add("Conv", x, weights, bias, **options)

    def gemm(self, x: str, inputs: int, outputs: int) -> str:
        """Add a matrix multiplication as PyTorch exports it."""
        bias = self.constant((self._random.normal(size=outputs) * 0.2).astype(np.float32))
        return self.add("Gemm", x, self.numbers(outputs, inputs), bias, transB=1)

    def relu(self, x: str) -> str:
        return self.add("Relu", x)

    def model(self, *results: str) -> Any:
        """Return the model, checked."""
        model = onnx.shape_inference.infer_shapes(self.proto(*results, ir_version=8))
        onnx.checker.check_model(model)
        return model


def _cnn(opset: int) -> Any:
    net = Net((1, 14, 14), opset=opset)
    x = net.relu(net.conv("x", 1, 8, 5))
    x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.relu(net.conv(x, 8, 12, strides=[2, 2]))
    return net.model(net.gemm(net.add("Flatten", x), 12 * 16, 10))


def _resnet(opset: int) -> Any:
    net = Net((3, 12, 12), opset=opset)
    x = net.relu(net.conv("x", 3, 16))
    y = net.relu(net.conv(x, 16, 24, strides=[2, 2]))
    y = net.conv(y, 24, 24)
    x = net.relu(net.add("Add", net.conv(x, 16, 24, 1, strides=[2, 2]), y))
    y = net.conv(net.relu(net.conv(x, 24, 24)), 24, 24)
    x = net.relu(net.add("Add", x, y))
    return net.model(net.gemm(net.add("Flatten", net.add("GlobalAveragePool", x)), 24, 10))


def _depthwise(opset: int) -> Any:
    net = Net((3, 16, 16), opset=opset)
    bounds = net.constant(np.float32(0)), net.constant(np.float32(6))
    x = net.add("Clip", net.conv("x", 3, 16, auto_pad="SAME_UPPER", strides=[2, 2]), *bounds)
    for stride in (1, 2):
        x = net.conv(x, 16, 16, group=16, strides=[stride, stride])
        x = net.conv(net.add("Clip", x, *bounds), 16, 16, 1)
    x = net.conv(x, 16, 32, group=16)
    x = net.conv(x, 32, 16, group=4)
    x = net.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return net.model(net.gemm(net.add("Flatten", x), 64, 6))


def _mlp(opset: int) -> Any:
    net = Net((1, 8, 8), opset=opset)
    x = net.relu(net.gemm(net.add("Flatten", "x"), 64, 48))
    x = net.add("MatMul", x, net.numbers(48, 32, taps=48))
    x = net.relu(net.add("Add", x, net.constant(np.linspace(-1, 1, 32, dtype=np.float32))))
    x = net.add("Softmax", net.gemm(x, 32, 10), axis=-1)
    return net.model(x)


def _concat(opset: int) -> Any:
    net = Net((3, 10, 10), opset=opset)
    x = net.relu(net.conv("x", 3, 8))
    y = net.relu(net.conv(x, 8, 8, 1))
    z = net.relu(net.conv(x, 8, 12, 3))
    w = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    x = net.relu(net.conv(net.add("Concat", y, z, w, axis=1), 28, 16))
    return net.model(net.gemm(net.add("Flatten", net.add("GlobalAveragePool", x)), 16, 7))


def _resize(opset: int) -> Any:
    net = Net((3, 16, 16), opset=opset)
    skip = net.relu(net.conv("x", 3, 8))
    x = net.relu(net.conv(skip, 8, 12, strides=[2, 2]))
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    x = net.add("Resize", x, "", scales, mode="nearest")
    x = net.relu(net.conv(net.add("Concat", x, skip, axis=1), 20, 8))
    return net.model(net.conv(x, 8, 4, 1))


def _dynamic(opset: int) -> Any:
    """A first axis without extent, Flatten as PyTorch exports it, SiLU and squeeze-and-excite."""
    net = Net((3, 12, 12), opset=opset, batch="N")
    x = net.conv("x", 3, 8, strides=[2, 2])
    x = net.add("Mul", x, net.add("Sigmoid", x))
    gate = net.add("GlobalAveragePool", x)
    gate = net.add("Sigmoid", net.conv(net.relu(net.conv(gate, 8, 4, 1)), 4, 8, 1))
    x = net.add("LeakyRelu", net.conv(net.add("Mul", x, gate), 8, 8), alpha=0.1)
    extents = net.add("Shape", x)
    first = net.add("Gather", extents, net.constant(np.array(0)))
    first = net.add("Unsqueeze", first, net.constant(np.array([0])))
    shape = net.add("Concat", first, net.constant(np.array([-1])), axis=0)
    return net.model(net.gemm(net.add("Reshape", x, shape), 8 * 36, 5))


class Network(NamedTuple):
    """A network and the way it is quantised."""

    make: Callable[[int], Any]
    opset: int
    form: Any
    activations: Any
    weights: Any
    per_channel: bool = False

    @property
    def signed(self) -> bool:
        return self.activations == _S8


NETWORKS = {
    "cnn-qdq": Network(_cnn, 13, _QDQ, _S8, _S8, True),
    "cnn-qdq-u8s8": Network(_cnn, 15, _QDQ, _U8, _S8),
    "cnn-qoperator": Network(_cnn, 13, _QOPERATOR, _U8, _U8),
    "resnet-qdq": Network(_resnet, 21, _QDQ, _S8, _S8, True),
    "resnet-qoperator": Network(_resnet, 17, _QOPERATOR, _S8, _S8),
    "depthwise-qdq": Network(_depthwise, 17, _QDQ, _U8, _U8),
    "depthwise-qoperator": Network(_depthwise, 17, _QOPERATOR, _U8, _S8, True),
    "mlp-qdq": Network(_mlp, 18, _QDQ, _S8, _S8),
    "mlp-qoperator": Network(_mlp, 14, _QOPERATOR, _U8, _S8, True),
    "concat-qdq": Network(_concat, 16, _QDQ, _U8, _S8, True),
    "concat-qoperator": Network(_concat, 17, _QOPERATOR, _S8, _S8, True),
    "resize-qdq": Network(_resize, 19, _QDQ, _S8, _S8, True),
    "resize-qoperator": Network(_resize, 18, _QOPERATOR, _U8, _U8),
    "dynamic-qdq": Network(_dynamic, 20, _QDQ, _S8, _S8, True),
    "dynamic-qoperator": Network(_dynamic, 17, _QOPERATOR, _U8, _S8),
}


class _Calibration(quantization.CalibrationDataReader):
    def __init__(self, shape: tuple[int, ...]) -> None:
        random = np.random.RandomState(23)
        samples = random.normal(size=(_SAMPLES, 1, *shape)).astype(np.float32)
        self._samples: Iterator[dict[str, np.ndarray]] = iter([{"x": x} for x in samples])

    def get_next(self) -> dict[str, np.ndarray] | None:  # pyright: ignore
        return next(self._samples, None)


@cache
def quantised(name: str, *, narrow: bool = False) -> bytes:
    """Return a network as ONNX Runtime's quantiser makes it.

    Weights of int8 have 7 bits on activations of uint8, or with ``narrow``: the kernels of
    processors without VNNI saturate sums of 16 bits.
    """
    network = NETWORKS[name]
    model = network.make(network.opset)
    extents = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    logging.disable(logging.WARNING)
    try:
        with tempfile.TemporaryDirectory() as folder:
            source, target = (os.path.join(folder, end) for end in ("f.onnx", "q.onnx"))
            onnx.save(model, source)
            quantization.quantize_static(
                source,
                target,
                _Calibration(tuple(extents)),
                quant_format=network.form,
                activation_type=network.activations,
                weight_type=network.weights,
                per_channel=network.per_channel,
                reduce_range=narrow or (network.activations == _U8 and network.weights == _S8),
            )
            return Path(target).read_bytes()
    finally:
        logging.disable(logging.NOTSET)


def inputs(shape: tuple[int, ...], count: int, seed: int) -> np.ndarray:
    """Return samples like those of the calibration, some of them far outside."""
    random = np.random.default_rng(seed)
    spread = random.choice([0.5, 1, 1, 2], size=(count, *[1] * len(shape)))
    return (random.normal(size=(count, *shape)) * spread).astype(np.float32)
