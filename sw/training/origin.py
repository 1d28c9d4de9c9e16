"""Networks to train, from model files of any kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from celosia.sw.frontend.source import load
from celosia.sw.ir.graph import Graph, Tensor
from celosia.sw.ir.parts import Port
from celosia.sw.layers.node import FloatModelError
from celosia.sw.operators.registry import OPERATORS
from celosia.sw.quantize.process import Converter
from celosia.sw.quantize.sources import require_tools, source_of
from celosia.sw.runtime.arrays import InputError
from celosia.sw.training.batches import WEIGHTS, generator
from celosia.sw.training.real import channels_last, real_network

#: Returns samples of a network as a port takes them.
Reader = Callable[[Port], list[np.ndarray]]
#: Samples that a float file is quantised with.
_CALIBRATION = 100
#: Greatest pixel over the scale of images: MOST, and what rounds to it.
_MOST_STEPS = 128.5


@dataclass(frozen=True)
class Origin:
    """Network to train, in real numbers, and its samples in them."""

    network: Graph
    samples: list[np.ndarray]


def opened(path: Path, shapes: Mapping[str, tuple[int, ...]], read: Reader) -> Origin:
    """Return the network of a model file and its samples.

    - ``shapes``: of the inputs of an ``.onnx`` file whose extents are free.
    - ``read``: returns the samples, each array of them as the port takes it.

    Raises ModelError or QuantizeError if the file cannot be used, ModuleNotFoundError naming the
    packages that a float model wants.
    """
    try:
        graph = load(path, shapes)
    except FloatModelError:
        return _in_float(path, shapes, read)
    return _quantized(graph, read(_port(graph)))


def _in_float(path: Path, shapes: Mapping[str, tuple[int, ...]], read: Reader) -> Origin:
    """Return the network of a float file: its int8 weights are near enough to begin with."""
    require_tools(path, source_of(path))
    with Converter(path, shapes) as converter:
        samples = read(_one(converter.ports))
        content = converter.quantized([samples[0][:_CALIBRATION]])
    return Origin(*channels_last(real_network(load(content)), samples))


def _quantized(graph: Graph, samples: Sequence[np.ndarray]) -> Origin:
    port = _port(graph)
    real = [
        (array.astype(np.float32) - port.zero_point) * np.float32(port.scale) for array in samples
    ]
    return Origin(*channels_last(real_network(graph), real if port.scale else list(samples)))


def _one(ports: Sequence[Port]) -> Port:
    if len(ports) != 1:
        raise InputError(f"train: wanted a network of one input, got {len(ports)}")
    return ports[0]


def _port(graph: Graph) -> Port:
    """Return the input of a graph."""
    ports = []
    for number in graph.inputs:
        tensor = graph.tensors[number]
        scale, zero = 0.0, 0
        if tensor.quantization:
            scale, zero = tensor.quantization.scale, tensor.quantization.zero_point
        port = Port(tensor.name, tensor.shape[1:], 1, scale, zero, -1, dtype=tensor.dtype.name)
        if number in graph.unsigned:
            port = replace(port, dtype="uint8", zero_point=zero + 128)
        ports.append(port)
    return _one(ports)


def exponent_of(samples: np.ndarray) -> int:
    """Return the exponent of images that hold samples: the least at which hardly any saturate."""
    greatest = float(np.abs(samples).max(initial=0.0))
    if not np.isfinite(greatest) or greatest == 0:
        raise InputError("train: wanted finite numbers in the samples, and not all of them 0")
    return int(np.ceil(np.log2(greatest / _MOST_STEPS)))


def integers(samples: np.ndarray, exponent: int) -> np.ndarray:
    """Return samples as a step takes them: int8 in steps of ``2^exponent``."""
    steps = np.rint(samples * np.float32(2.0**-exponent))
    return np.clip(steps, -128, 127).astype(np.int8)


def without_biases(network: Graph) -> Graph:
    """Return a network whose layers with weights have no biases."""
    operations = []
    for operation in network.operations:
        if OPERATORS[operation.kind].weighted:
            operation = replace(operation, inputs=operation.inputs[:2])
        operations.append(operation)
    return replace(network, operations=tuple(operations))


def with_random_weights(network: Graph, seed: int) -> Graph:
    """Return a network with random first weights, and biases of 0.

    Their standard deviation is that of He: the root of two over the inputs of a sum.
    """
    source, tensors = generator(seed, WEIGHTS), list(network.tensors)
    for operation in network.operations:
        record = OPERATORS.get(operation.kind)
        if not record or not record.weighted:
            continue
        for position, number in enumerate(operation.inputs[1:]):
            tensor = tensors[number]
            if number == -1 or tensor.data is None:
                continue
            data = np.zeros(tensor.shape, np.float32)
            if position == 0:
                outputs = tensor.shape[-1 if operation.kind == "DEPTHWISE_CONV_2D" else 0]
                deviation = (2 * outputs / tensor.elements) ** 0.5
                data = source.normal(0, deviation, tensor.shape).astype(np.float32)
            tensors[number] = Tensor(tensor.name, tensor.shape, data.dtype, None, data)
    return replace(network, tensors=tuple(tensors))
