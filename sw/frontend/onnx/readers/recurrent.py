"""Readers of GRU, LSTM and RNN in float: step after step, on the host."""

from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.builder import Builder, Value
from celosia.sw.frontend.onnx.constants import real_array
from celosia.sw.frontend.onnx.operand import Operand, Unit
from celosia.sw.frontend.onnx.readers.moves import cut, joined
from celosia.sw.frontend.onnx.readers.steps import Steps, value_of
from celosia.sw.layers.node import ModelError

#: Gates by operator, and activations of one direction.
_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
_ACTIVATIONS = {
    "GRU": ["Sigmoid", "Tanh"],
    "LSTM": ["Sigmoid", "Tanh", "Tanh"],
    "RNN": ["Tanh"],
}

#: A computed value, or a constant.
_Number = Value | np.ndarray

_ONE = np.ones((1, 1), np.float32)


class _Layer(Steps):
    """One direction of a recurrent layer: gates of a step from its input and the state.

    - ``weights``, ``recurrent``: of all gates, cells along the first axis.
    - ``biases``: of the input, and of the state.
    """

    def __init__(self, builder: Builder, unit: Unit, number: int) -> None:
        name = f"{unit.outputs[0].name} (step)"
        super().__init__(builder, Operand(name, np.dtype(np.float32)))
        self.kind, count = unit.kind, _GATES[unit.kind]
        self.weights, self.recurrent = (real_array(operand)[number] for operand in unit.inputs[1:3])
        self.cells = self.recurrent.shape[-1]
        rows = count * self.cells
        bias = unit.inputs[3] if len(unit.inputs) > 3 else None
        zeros = np.zeros(2 * rows, np.float32)
        self.biases = np.split(real_array(bias)[number] if bias else zeros, 2)
        if self.weights.shape[0] != rows or self.recurrent.shape[0] != rows:
            raise ModelError(f"wanted weights of {rows} rows, got {self.weights.shape}")
        self.before = bool(unit.attributes.get("linear_before_reset"))

    def product(self, value: _Number, weights: np.ndarray, bias: np.ndarray) -> _Number:
        """Return the product with weights, and a bias."""
        if isinstance(value, np.ndarray):
            return value @ weights.T + bias
        shape = (*value.shape[:-1], len(weights))
        ends = [value.number, self.builder.constant("matrix", weights.T)]
        number = self.builder.operate(
            "BATCH_MATMUL", ends, shape, self.of, adj_x=False, adj_y=False
        )
        return self.two("ADD", self.builder.define(self.of, number, shape), bias[None])

    def gate(self, value: _Number, number: int) -> _Number:
        """Return the cells of one gate."""
        if isinstance(value, np.ndarray):
            return value[:, number * self.cells : (number + 1) * self.cells]
        ways = [(0, value.shape[0], 1), (number * self.cells, self.cells, 1)]
        return cut(self.builder, value, ways, self.of)

    def step(self, x: Value, state: list[_Number]) -> list[Value]:
        """Return the next state: the result, and the cells of an LSTM."""
        return {"GRU": self._gru, "LSTM": self._lstm, "RNN": self._rnn}[self.kind](x, state)

    def _sums(self, x: Value, h: _Number) -> Value:
        return self.two("ADD", x, self.product(h, self.recurrent, self.biases[1]))

    def _rnn(self, x: Value, state: list[_Number]) -> list[Value]:
        return [self.one("TANH", self._sums(x, state[0]))]

    def _gru(self, x: Value, state: list[_Number]) -> list[Value]:
        (h,), first = state, 2 * self.cells
        own = self.product(h, self.recurrent[:first], self.biases[1][:first])
        update, reset = (
            self.one("LOGISTIC", self.two("ADD", self.gate(x, n), self.gate(own, n)))
            for n in (0, 1)
        )
        last_gate = self.recurrent[first:], self.biases[1][first:]
        if self.before:
            hidden = self.two("MUL", reset, self.product(h, *last_gate))
        else:
            hidden = self.product(self.two("MUL", reset, h), *last_gate)
        hidden = self.one("TANH", self.two("ADD", self.gate(x, 2), hidden))
        fresh = self.two("MUL", self.two("SUB", _ONE, update), hidden)
        return [self.two("ADD", fresh, self.two("MUL", update, h))]

    def _lstm(self, x: Value, state: list[_Number]) -> list[Value]:
        h, cells = state
        sums = self._sums(x, h)
        gates: list[Any] = [self.gate(sums, n) for n in range(4)]
        enter, leave, forget = (self.one("LOGISTIC", gate) for gate in gates[:3])
        fresh = self.two("MUL", enter, self.one("TANH", gates[3]))
        cells = self.two("ADD", self.two("MUL", forget, cells), fresh)
        return [self.two("MUL", leave, self.one("TANH", cells)), cells]


def _start(builder: Builder, unit: Unit, position: int, number: int, shape: Any) -> _Number:
    """Return an initial state: zeros, a constant, or part of a computed tensor."""
    operand = unit.inputs[position] if len(unit.inputs) > position else None
    of = Operand(f"{unit.outputs[0].name} (state)", np.dtype(np.float32))
    if operand is not None and operand.data is None:
        value = builder.plain(value_of(builder, operand))
        ways = [(number, 1, 1), *((0, extent, 1) for extent in shape)]
        return builder.reshaped(cut(builder, value, ways, of), shape)
    return np.zeros(shape, np.float32) if operand is None else real_array(operand)[number]


def _joined(builder: Builder, of: Operand, values: list[Value], axis: int) -> Value:
    if len(values) == 1:
        return builder.define(of, values[0].number, values[0].shape)
    return joined(builder, of, values, axis)


def recurrent(builder: Builder, unit: Unit) -> None:
    """Read GRU, LSTM and RNN: all steps, their last state, and the cells of an LSTM."""
    attributes, x = unit.attributes, builder.plain(value_of(builder, unit.inputs[0]))
    ways = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}
    direction = ways[attributes.get("direction", "forward")]
    activations = attributes.get("activations", _ACTIVATIONS[unit.kind] * len(direction))
    if [*activations] != _ACTIVATIONS[unit.kind] * len(direction) or attributes.get("layout"):
        raise ModelError(f"wanted layout 0 and activations {_ACTIVATIONS[unit.kind]}")
    steps, batch, depth = x.shape
    results: list[list[Value]] = []
    ends: list[list[Value]] = []
    for number, way in enumerate(direction):
        layer = _Layer(builder, unit, number)
        attributes.get("hidden_size")
        shape = (batch, layer.cells)
        state: list[Any] = [_start(builder, unit, 5, number, shape)]
        if unit.kind == "LSTM":
            state.append(_start(builder, unit, 6, number, shape))
        rows: Any = layer.product(
            builder.reshaped(x, (steps * batch, depth)), layer.weights, layer.biases[0]
        )
        outputs = []
        for step in range(steps)[::way]:
            part = [(step * batch, batch, 1), (0, rows.shape[1], 1)]
            state = layer.step(cut(builder, rows, part, layer.of), state)
            outputs.append(builder.reshaped(state[0], (1, 1, *shape)))
        results.append(outputs[::way])
        ends.append([builder.reshaped(tensor, (1, *shape)) for tensor in state])
    all_steps, *last = unit.outputs
    real = Operand(f"{all_steps.name} (direction)", np.dtype(np.float32))
    directions = [_joined(builder, real, steps_of_way, 0) for steps_of_way in results]
    if all_steps.name:
        _joined(builder, all_steps, directions, 1)
    for of, *values in zip(last, *ends, strict=False):
        if of.name:
            _joined(builder, of, values, 0)
