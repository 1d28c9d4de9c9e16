"""Networks trained by step graphs, as int8 ``.tflite`` files."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from celosia.sw.export import tflite
from celosia.sw.export.tflite import Quantization, Tensor, serialize
from celosia.sw.ir.graph import Graph, Operation
from celosia.sw.layers.weight_bytes import high_bytes
from celosia.sw.training.graph import STEPS, StepGraph, ending

#: Scale and zero point of probabilities, and of their logarithms, in LiteRT.
_PROBABILITIES = {
    **dict.fromkeys(("SOFTMAX", "LOGISTIC"), (1 / 256, -128)),
    "LOG_SOFTMAX": (16 / 256, 127),
}


def tflite_of(network: Graph, step: StepGraph, weights: Sequence[np.ndarray]) -> bytes:
    """Return the file of a network with the weights of a step.

    All scales are powers of two, so that the kernels of LiteRT divide sums by the same powers as
    the step does: its logits are those of the step, byte for byte. Those of the logits and of the
    last weights are such powers over the steps in which e^x grows by e, which softmax wants.

    - ``network``: what trains, with the softmax at its end if it has one.
    - ``step``, ``weights``: a step of it, and the weights of its matrices.
    """
    highs = {
        matrix.name: high_bytes(values)
        for matrix, values in zip(step.weights, weights, strict=True)
    }
    # Layers that do not train have constants.
    for tensor in step.graph.tensors:
        if tensor.data is not None and tensor.name.endswith("/high"):
            highs[tensor.name.removesuffix("/high")] = tensor.data[0]
    file = _File(step, highs)
    for operation in step.network.operations:
        _WRITERS[operation.kind](file, operation)
    if end := ending(network):
        ends, fields = _PROBABILITIES[end.kind], {"beta": 1.0} if end.kind == "SOFTMAX" else {}
        result = file.tensor("probabilities", file.shape(step.network.outputs[0]), *ends)
        file.add(end.kind, [file.numbers[step.network.outputs[0]]], result, **fields)
    return file.content(network.name)


class _File:
    """A file under construction.

    ``highs``: high bytes by name of the matrix; ``numbers``: tensors by those of the network.
    """

    def __init__(self, step: StepGraph, highs: Mapping[str, np.ndarray]) -> None:
        self.step, self.highs = step, highs
        self.tensors: list[Tensor] = []
        self.operations: list[tflite.Operation] = []
        self.numbers: dict[int, int] = {}
        last = step.network.operations[-1]
        #: Factor of the scale of the logits, if it can be that of the last weights, too.
        self.unit = 1.0
        if last.kind == "FULLY_CONNECTED" and step.loss == "softmax":
            exponent = step.exponents[step.values[last.outputs[0]]]
            self.unit = float(np.float32(1 / STEPS)) * 2.0**-exponent
        self.result(step.network.inputs[0])

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a tensor of the network."""
        return self.step.network.tensors[number].shape

    def scale(self, number: int) -> float:
        """Return the scale of a tensor of the network."""
        scale = 2.0 ** self.step.exponents[self.step.values[number]]
        return scale * self.unit if number == self.step.network.outputs[0] else scale

    def exponent(self, name: str) -> int:
        """Return the exponent of weights whose tensors in the step have a name."""
        tensors = enumerate(self.step.graph.tensors)
        return self.step.exponents[next(n for n, t in tensors if t.name.startswith(name))]

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        scale: float = 0.0,
        zero_point: int = 0,
        data: np.ndarray | None = None,
    ) -> int:
        """Add a tensor, int8 unless it has contents; return its number. ``scale``: 0 for none."""
        dtype = np.dtype(np.int8) if data is None else data.dtype
        quantization = Quantization(np.array([scale]), np.array([zero_point])) if scale else None
        self.tensors.append(Tensor(name, tuple(shape), dtype, quantization, data))
        return len(self.tensors) - 1

    def result(self, number: int) -> int:
        """Add a tensor of the network."""
        tensor = self.step.network.tensors[number]
        self.numbers[number] = self.tensor(tensor.name, tensor.shape, self.scale(number))
        return self.numbers[number]

    def add(self, kind: str, inputs: Sequence[int], output: int, **options: Any) -> None:
        """Add an operator."""
        self.operations.append(tflite.Operation(kind, tuple(inputs), (output,), options))

    def padded(self, source: int, attributes: Mapping[str, Any]) -> int:
        """Return a tensor of the network with the zeros around it that a convolution wants."""
        if "before" not in attributes:
            return self.numbers[source]
        margins = [(0, *attributes[name], 0) for name in ("before", "after")]
        extents = zip(*margins, self.shape(source), strict=True)
        name = f"{self.tensors[self.numbers[source]].name}/padded"
        result = self.tensor(name, [sum(numbers) for numbers in extents], self.scale(source))
        self.pad(source, result, margins)
        return result

    def pad(self, source: int, output: int, margins: Sequence[Sequence[int]]) -> None:
        """Add a PAD of a tensor of the network; ``margins``: zeros before and after."""
        pairs = np.array(margins, np.int32).T
        margin = self.tensor(f"{self.tensors[output].name}/margins", pairs.shape, data=pairs)
        self.add("PAD", [self.numbers[source], margin], output)

    def reshape(self, source: int, output: int) -> None:
        """Add a RESHAPE of some tensor of the file to another."""
        shape = np.array([-1, *self.tensors[output].shape[1:]], np.int32)
        target = self.tensor(f"{self.tensors[output].name}/shape", shape.shape, data=shape)
        self.add("RESHAPE", [source, target], output)

    def content(self, name: str) -> bytes:
        """Return the file."""
        ends = (0,), (self.operations[-1].outputs[0],)
        return serialize(tflite.Graph(tuple(self.tensors), tuple(self.operations), *ends, name))


def _weighted(file: _File, operation: Operation) -> None:
    """Add an operator with weights and, perhaps, a bias."""
    network, kind = file.step.network, operation.kind
    name = f"{kind.lower()}_{operation.place}"
    (source, first, *_), (output,) = operation.inputs, operation.outputs
    shape, matrix = network.tensors[first].shape, file.highs[name]
    if kind == "FULLY_CONNECTED":
        filters = matrix.T
    elif kind == "CONV_2D":
        filters = matrix.reshape(*shape[1:], shape[0]).transpose(3, 0, 1, 2)
    else:
        filters = matrix.reshape(shape)
    exponent = file.exponent(f"{name}/high")
    scale = 2.0**exponent * (file.unit if output == network.outputs[0] else 1.0)
    filters = np.ascontiguousarray(filters.astype(np.int8))
    padded = file.padded(source, operation.attributes)
    inputs = [padded, file.tensor(f"{name}/weights", shape, scale, data=filters)]
    bias = file.highs.get(f"{name}/bias")
    if bias is not None or kind != "FULLY_CONNECTED":
        # The kernels of LiteRT want a bias.
        sums = np.zeros(matrix.shape[-1], np.int32)
        if bias is not None:
            unit = exponent + file.step.exponents[file.step.values[source]]
            sums += bias.astype(np.int32).reshape(-1) << file.exponent(f"{name}/bias/high") - unit
        inputs.append(
            file.tensor(f"{name}/bias", sums.shape, file.scale(source) * scale, data=sums)
        )
    fields = operation.attributes
    options = {"fusedActivationFunction": fields["activation"]}
    if kind != "FULLY_CONNECTED":
        options |= {"padding": fields["padding"]} | _steps(fields["stride"])
    if kind == "DEPTHWISE_CONV_2D":
        options["depthMultiplier"] = fields["depth_multiplier"]
    file.add(kind, [*inputs, *[-1] * (len(inputs) < 3)], file.result(output), **options)


def _steps(stride: Sequence[int]) -> dict[str, int]:
    return {"strideH": stride[0], "strideW": stride[1]}


def _pooling(file: _File, operation: Operation) -> None:
    fields, window = operation.attributes, operation.attributes["window"]
    options = {"filterHeight": window[0], "filterWidth": window[1]} | _steps(fields["stride"])
    inputs = [file.numbers[operation.inputs[0]]]
    result = file.result(operation.outputs[0])
    file.add(operation.kind, inputs, result, padding=fields["padding"], **options)


def _mean(file: _File, operation: Operation) -> None:
    """Add the mean of all pixels: an average of one window, as in the step."""
    (output,) = operation.outputs
    batch, *window, channels = file.shape(operation.inputs[0])
    scale, name = file.scale(output), f"{file.step.network.tensors[output].name}/pooled"
    pooled = file.tensor(name, (batch, 1, 1, channels), scale)
    options = {"filterHeight": window[0], "filterWidth": window[1]} | _steps(window)
    inputs = [file.numbers[operation.inputs[0]]]
    file.add("AVERAGE_POOL_2D", inputs, pooled, padding="VALID", **options)
    file.reshape(pooled, file.result(output))


def _reshape(file: _File, operation: Operation) -> None:
    file.reshape(file.numbers[operation.inputs[0]], file.result(operation.outputs[0]))


def _activation(file: _File, operation: Operation) -> None:
    inputs = [file.numbers[operation.inputs[0]]]
    file.add(operation.kind, inputs, file.result(operation.outputs[0]))


def _pad(file: _File, operation: Operation) -> None:
    margins = [operation.attributes[name] for name in ("before", "after")]
    file.pad(operation.inputs[0], file.result(operation.outputs[0]), margins)


def _addition(file: _File, operation: Operation) -> None:
    inputs = [file.numbers[number] for number in operation.inputs]
    options = {"fusedActivationFunction": operation.attributes["activation"]}
    file.add("ADD", inputs, file.result(operation.outputs[0]), **options)


def _concatenation(file: _File, operation: Operation) -> None:
    """Add a CONCATENATION; inputs of another scale than the result are brought to it."""
    (output,), inputs = operation.outputs, []
    for place, number in enumerate(operation.inputs):
        inputs.append(file.numbers[number])
        if file.scale(number) != file.scale(output):
            name = f"{file.step.network.tensors[output].name}/{place}"
            inputs[-1] = file.tensor(name, file.shape(number), file.scale(output))
            file.add("QUANTIZE", [file.numbers[number]], inputs[-1])
    result = file.result(output)
    file.add("CONCATENATION", inputs, result, axis=operation.attributes["axis"])


_WRITERS: dict[str, Callable[[_File, Operation], None]] = {
    **dict.fromkeys(("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D"), _weighted),
    **dict.fromkeys(("MAX_POOL_2D", "AVERAGE_POOL_2D"), _pooling),
    **dict.fromkeys(("RESHAPE", "EXPAND_DIMS", "SQUEEZE"), _reshape),
    **dict.fromkeys(("RELU", "RELU6"), _activation),
    "MEAN": _mean,
    "ADD": _addition,
    "CONCATENATION": _concatenation,
    "PAD": _pad,
}
