"""UNIDIRECTIONAL_SEQUENCE_LSTM in the integer arithmetic of LiteRT's reference kernel.

Activations and weights are int8, the cell state is int16.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Tensor
from celosia.sw.ir.parts import HostOperator, Operand
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.node import ModelError, Node, described
from celosia.sw.layers.record import Attributes, Operator, Shape, require
from celosia.sw.operators.fixed_point import halved, times
from celosia.sw.operators.gates import accumulated, normalised, sigmoid, squashed, word

#: Gates in the order of the inputs, and the inputs that they share.
_GATES = ("input", "forget", "cell", "output")
_X, _H, _C = 0, 18, 19
_WEIGHTS, _RECURRENT, _BIAS = 1, 5, 12
_PEEPHOLES = {"input": 9, "forget": 10, "output": 11}
_PROJECTION, _PROJECTION_BIAS, _NORMS = 16, 17, 20
_INPUTS = 24

#: Scale of the gates' sums without layer normalisation: three integer bits.
_PLAIN = 2.0**-12

#: Integer bits that hyperbolic tangents may have.
_BITS = 6


def _read(node: Node) -> dict[str, Any]:
    options = node.require_options(tflite.UnidirectionalSequenceLSTMOptions)
    if options.FusedActivationFunction() != tflite.ActivationFunctionType.TANH:
        raise ModelError("wanted the activation TANH")
    node.require_inputs(1, _INPUTS, results=None)
    present = tuple(n for n, tensor in enumerate(node.inputs) if tensor is not None)
    for number in present:
        tensor = node.tensor(number)
        if number not in (_X, _H, _C):
            if tensor.data is None:
                raise ModelError(f"wanted constants, got {described(tensor)}")
            scales = tensor.quantization
            plain = scales is not None and len(scales.scales) == 1 and not scales.zero_point
            if tensor.dtype != np.int32 and not plain:
                raise ModelError(f"wanted one scale, zero point 0, got {described(tensor)}")
    if len(node.intermediates) != 5:
        raise ModelError(f"wanted 5 intermediate tensors, got {len(node.intermediates)}")
    return {
        "given": present,
        "time_major": bool(options.TimeMajor()),
        "cell_clip": float(options.CellClip()),
        "projection_clip": float(options.ProjClip()),
        "scales": tuple(_scale(tensor)[0] for tensor in node.intermediates),
        "hidden_zero_point": _scale(node.intermediates[4])[1],
    }


def _scale(tensor: Tensor) -> tuple[float, int]:
    """Return scale and zero point of an intermediate tensor; 1 and 0 of one that has none."""
    quantization = tensor.quantization
    return (quantization.scale, quantization.zero_point) if quantization else (1.0, 0)


def _operands(operator: HostOperator, attributes: Attributes) -> dict[int, Operand]:
    """Return operands by their positions in the model."""
    present = attributes.integers("given", len(operator.sources), 0, _INPUTS - 1)
    require(sorted(set(present)) == present, "positions in order", present)
    return dict(zip(present, operator.sources, strict=True))


def _check_constants(constants: dict[int, Operand], width: int, cells: int, outputs: int) -> None:
    """Refuse constants of other types and shapes, or not of all gates."""
    gates = [name for name in _GATES if name != "input" or _WEIGHTS in constants]
    sizes: dict[int, tuple[str, Shape]] = {_PROJECTION: ("int8", (outputs, cells))}
    sizes[_PROJECTION_BIAS] = ("int32", (outputs,))
    for gate in gates:
        index = _GATES.index(gate)
        sizes[_WEIGHTS + index] = ("int8", (cells, width))
        sizes[_RECURRENT + index] = ("int8", (cells, outputs))
        sizes[_BIAS + index] = ("int32", (cells,))
        sizes[_NORMS + index] = ("int16", (cells,))
        if gate in _PEEPHOLES:
            sizes[_PEEPHOLES[gate]] = ("int16", (cells,))
    for index, operand in constants.items():
        if index not in (_X, _H, _C):
            require(index in sizes, "no constants of an input gate left out")
            got = (operand.dtype, operand.shape)
            require(got == sizes[index] and operand.data is not None, f"{sizes[index]}", got)
    if "input" in gates:
        require({_RECURRENT, _BIAS} <= constants.keys(), "all constants of the input gate")
    for family in (_PEEPHOLES.values(), range(_NORMS, _INPUTS)):
        operands = {index for index in family if index in sizes}
        require(
            not operands & constants.keys() or operands <= constants.keys(),
            "such constants of all gates",
        )


def _shapes(operator: HostOperator, attributes: Attributes) -> Sequence[Shape]:
    operands = _operands(operator, attributes)
    for name in ("cell_clip", "projection_clip"):
        attributes.real(name)
    attributes.integer("hidden_zero_point", -128, 127)
    scales = operator.attributes.get("scales")
    good = isinstance(scales, list | tuple) and len(scales) == 5
    require(good, "five scales")
    assert scales is not None
    for scale in scales:
        require(type(scale) is float and 1e-30 < scale < 1e30, "scales above 0", scale)
    required = {_X, _H, _C, *range(2, 5), *range(6, 9), *range(13, 16)}
    require(
        required <= operands.keys(),
        "all weights and biases, but for those of an input gate left out",
    )
    state, cell, source = operands[_H], operands[_C], operands[_X]
    require(len(source.shape) == 3, "an input of three dimensions", source.shape)
    require(len(cell.shape) == len(state.shape) == 2, "states of two dimensions")
    require(cell.dtype == "int16" and state.dtype == "int8", "states of int16 and int8")
    outputs, cells = state.shape[1], cell.shape[1]
    batch = source.shape[1 if attributes.flag("time_major") else 0]
    require(state.shape[0] == cell.shape[0] == batch, f"states of batch {batch}")
    require(math.frexp(cell.scale)[0] == 0.5, "a power of two as scale of cells", cell.scale)
    bits = 15 + math.frexp(cell.scale)[1] - 1
    require(0 <= bits <= _BITS, f"cells of 0 to {_BITS} integer bits", bits)
    for index in (_X, _H, _C):
        require(operands[index].data is None, "computed input and states")
    require(_PROJECTION in operands or outputs == cells, "a projection")
    _check_constants(operands, source.shape[2], cells, outputs)
    return [(*source.shape[:2], outputs), state.shape, cell.shape]


class _Layer:
    """Constants of a layer, and its arithmetic for one step of time."""

    def __init__(self, operator: HostOperator, arrays: Sequence[np.ndarray]) -> None:
        attributes = operator.attributes
        self.operands = dict(zip(attributes["given"], operator.sources, strict=True))
        self.arrays = {
            index: array.astype(np.int64)
            for index, array in zip(attributes["given"], arrays, strict=True)
            if self.operands[index].data is not None
        }
        self.scales = [np.float32(scale) for scale in attributes["scales"]]
        self.hidden_zero = attributes["hidden_zero_point"]
        self.cell_exponent = math.frexp(self.operands[_C].scale)[1] - 1
        self.clips = (
            self._clip(attributes["cell_clip"], _C, 32767),
            self._clip(attributes["projection_clip"], _H, 127),
        )

    def _clip(self, limit: float, index: int, saturated: int) -> int:
        if limit <= 0:
            return 0
        ratio = np.float32(limit) / np.float32(self.operands[index].scale)
        return int(min(max(ratio, np.float32(-saturated - 1)), np.float32(saturated)))

    def scale(self, index: int) -> np.float32:
        return np.float32(self.operands[index].scale)

    def gate(self, name: str, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Return a gate for one step: int64, shape ``(batch, cells)``."""
        index = _GATES.index(name)
        norm = self.arrays.get(_NORMS + index)
        divisor = np.float32(_PLAIN) if norm is None else self.scales[index]
        total = np.zeros(c.shape, np.int64)
        for first, source, values in ((_WEIGHTS, _X, x), (_RECURRENT, _H, h)):
            sums = (values - self.operands[source].zero_point) @ self.arrays[first + index].T
            if first == _WEIGHTS and norm is None:
                sums = sums + self.arrays[_BIAS + index]
            factor = self.scale(first + index) * self.scale(source) / divisor
            total = accumulated(total, sums, quantize_multiplier(float(factor)))
        peephole = self.arrays.get(_PEEPHOLES.get(name, -1))
        if peephole is not None:
            factor = self.scale(_C) * self.scale(_PEEPHOLES[name]) / divisor
            products = _peeped(c, peephole, h.shape[1])
            total = accumulated(total, products, quantize_multiplier(float(factor)))
        if norm is not None:
            scale = self.scale(_NORMS + index)
            # Past 32 bits, infinity too, it is the greatest, as factors are.
            least = max(1, int(min(np.float32(10000) * scale, np.float32(2**31 - 1))))
            factors = quantize_multiplier(float(scale))
            total = normalised(total, norm, self.arrays[_BIAS + index], factors, least)
        return squashed(total, 3) if name == "cell" else sigmoid(total)

    def step(self, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return output and cell states after one step of time."""
        forget, fresh = self.gate("forget", x, h, c), self.gate("cell", x, h, c)
        chosen = self.gate("input", x, h, c) if _WEIGHTS in self.arrays else 32767 - forget
        c = word(halved(forget * c, 15) + halved(chosen * fresh, 30 + self.cell_exponent))
        if self.clips[0]:
            c = np.clip(c, -self.clips[0], self.clips[0])
        gate = self.gate("output", x, h, c) * squashed(c, 15 + self.cell_exponent)
        hidden = np.float32(2.0**-30) / self.scales[4]
        scaled = times(gate, *quantize_multiplier(float(hidden)))
        value = np.clip(scaled + self.hidden_zero, -128, 127)
        if _PROJECTION not in self.arrays:
            return value, c
        # Before a projection the kernel subtracts the zero point and adds it again after the clamp.
        value = np.clip(scaled - self.hidden_zero, -128, 127) + self.hidden_zero
        sums = value @ self.arrays[_PROJECTION].T + self.arrays.get(_PROJECTION_BIAS, 0)
        factor = self.scale(_PROJECTION) * self.scales[4] / self.scale(_H)
        result = times(sums, *quantize_multiplier(float(factor))) + self.operands[_H].zero_point
        result = np.clip(result, -128, 127)
        if self.clips[1]:
            result = np.clip(result, -self.clips[1], self.clips[1])
        return result, c


def _peeped(cells: np.ndarray, weights: np.ndarray, reach: int) -> np.ndarray:
    """Return products of cells and weights; the kernel takes rows to be as long as the result."""
    products = np.zeros(cells.size, np.int64)
    flat = cells.reshape(-1)[: len(cells) * reach]
    products[: flat.size] = (flat.reshape(-1, reach) * weights[:reach]).reshape(-1)
    return products.reshape(cells.shape)


def _sequence(layer: _Layer, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
    """Return outputs of all steps of time, the first dimension of ``x``, and the last states."""
    outputs = []
    for step in x:
        h, c = layer.step(step, h, c)
        outputs.append(h)
    return [np.stack(outputs), h, c]


def _run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute samples one after the other; all but the first three operands are constant."""
    layer = _Layer(operator, arrays)
    operands = dict(zip(operator.attributes["given"], arrays, strict=True))
    results = []
    for sample in zip(operands[_X], operands[_H], operands[_C], strict=True):
        x, h, c = (array.astype(np.int64) for array in sample)
        if operator.attributes["time_major"]:
            y, h, c = _sequence(layer, x, h, c)
        else:
            rows = [_sequence(layer, x[n, :, None], h[n, None], c[n, None]) for n in range(len(x))]
            y, h, c = (np.stack(parts) for parts in zip(*rows, strict=True))
        shapes = [operand.shape for operand in operator.results]
        results.append([array.reshape(s) for array, s in zip((y, h, c), shapes, strict=True)])
    types = [operand.dtype for operand in operator.results]
    outputs = zip(*results, strict=True)
    return [np.stack(part).astype(dtype) for part, dtype in zip(outputs, types, strict=True)]


OPERATORS = (
    Operator(
        kind="UNIDIRECTIONAL_SEQUENCE_LSTM",
        shapes=_shapes,
        read=_read,
        types=(("int8",), ("int8", "int16")),
        weighted=True,
        takes_batch=True,
        states=(_H, _C),
        kernel=_run,
        host="int8, weights constant and int8, cell state int16; its states are kept",
    ),
)
