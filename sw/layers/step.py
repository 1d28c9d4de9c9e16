"""Graph of a training step under construction: forward pass, errors, gradients, update.

The record of an operator adds its forward pass, and returns the function that adds its backward
pass (``gradient``). All tensors are int8. The real value of an integer is the integer times two to
the power of its tensor's exponent.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from celosia.hw.arch.config import PARAMETER_BYTES
from celosia.sw.ir.graph import Graph, Operation, Quantization, State, Tensor
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.sums import Sums, Weights, has_bias
from celosia.sw.layers.weight_bytes import (
    LOW_BITS,
    MOST,
    MOST_WEIGHT,
    bias_exponent,
    high_bytes,
    weight_exponent,
)

#: Bits of a byte of noise at most.
NOISE_BITS = 8
#: Exponent of images of 0 to MOST.
IMAGE_EXPONENT = -7

_PLAIN = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))

#: Adds the errors of an operator's inputs and the steps of its weights, given the tensor of the
#: errors of its result.
Backward = Callable[[int], None]
#: Returns the shift of a role from its results by shift, and the exponent of its sums.
Choose = Callable[[str, Callable[[int], np.ndarray], int], int]


class Step:
    """Graph of a training step under construction.

    - ``network``: the graph to train; its tensors have other numbers.
    - ``batch``: images of a step. ``width``: columns of noise, which repeat.
    - ``most``: elements of a matrix of weights, at most, that is not divided into blocks.
    - ``choose``: returns shifts.
    - ``compute``: returns the result of an operation of tensors with contents, or None.
    """

    def __init__(
        self,
        network: Graph,
        batch: int,
        width: int,
        most: int,
        choose: Choose,
        compute: Callable[[Sequence[Tensor], Operation], np.ndarray | None] | None = None,
    ) -> None:
        self.network, self.batch, self.width, self.most = network, batch, width, most
        self.choose, self.compute = choose, compute
        self.tensors: list[Tensor] = []
        self.operations: list[Operation] = []
        self.inputs: dict[str, int] = {}
        self.states: list[State] = []
        self.exponents: dict[int, int] = {}
        self.shifts: dict[str, int] = {}
        #: Exponents of the steps of weights, by the tensor of their high bytes.
        self.gradients: dict[int, int] = {}
        #: Role of the shift by the name of an input of parameters.
        self.records: dict[str, str] = {}
        #: Bits of the noise by the name of its input.
        self.noises: dict[str, int] = {}
        #: Tensors of the step, by tensor of the network: values, and errors of each reader.
        self.values: dict[int, int] = {}
        self.errors: dict[int, list[int]] = {}
        #: Tensors of the network that depend on weights.
        self.learning: set[int] = set()
        #: Matrices of weights that train.
        self.trained: list[Weights] = []
        #: Whether weights added are constants; whether half of hidden dense results are left out.
        self.is_fixed = self.has_dropout = False
        #: Names of the inputs that choose these results, by tensor.
        self.dropouts: dict[int, str] = {}
        #: Returns the first weights of an operation, by the sums that its inputs make.
        self.balance: Callable[[Operation, np.ndarray, Sums], np.ndarray] = lambda _, first, __: (
            first
        )
        #: Contents of tensors of the network that are not its own.
        self.contents_of: dict[int, np.ndarray] = {}

    # Tensors.

    def tensor(self, name: str, shape: Sequence[int], data: np.ndarray | None = None) -> int:
        """Add a tensor; ``data``: contents, of a constant or to calibrate with."""
        self.tensors.append(Tensor(name, tuple(shape), np.dtype(np.int8), _PLAIN, data))
        return len(self.tensors) - 1

    def input(self, name: str, shape: Sequence[int], data: np.ndarray | None = None) -> int:
        """Add an input."""
        if self.compute and data is None:
            data = np.zeros(shape, np.int8)
        self.inputs[name] = self.tensor(name, shape, data if self.compute else None)
        return self.inputs[name]

    def constant(self, name: str, data: np.ndarray) -> int:
        """Add a constant."""
        number = self.tensor(name, data.shape, data)
        self.exponents[number] = 0
        return number

    def operate(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        name: str,
        /,
        **attributes: Any,
    ) -> int:
        """Add an operation of one result; its exponent is that of the first input."""
        number = self.tensor(name, shape)
        operation = Operation(kind, len(self.operations), tuple(inputs), (number,), attributes)
        self.operations.append(operation)
        if self.compute:
            result = self.tensors[number]
            contents = self.compute(self.tensors, operation)
            self.tensors[number] = Tensor(result.name, result.shape, result.dtype, _PLAIN, contents)
        self.exponents[number] = self.exponents.get(inputs[0], 0)
        return number

    def part(self, number: int, begin: Sequence[int], count: Sequence[int], name: str) -> int:
        """Return a part of a tensor: so many elements of each dimension, from the first ones."""
        fields: dict[str, Any] = {"begin": tuple(begin), "count": tuple(count)}
        fields |= {"stride": (1,) * len(fields["count"]), "dropped": (), "added": ()}
        return self.operate("SLICE", (number,), count, name, **fields)

    def name(self, operation: Operation) -> str:
        """Return the name of an operation of the network in the step."""
        return f"{operation.kind.lower()}_{operation.place}"

    # Values of the network.

    def value(self, operation: Operation, position: int = 0) -> int:
        """Return the tensor of an input of an operation of the network."""
        return self.values[operation.inputs[position]]

    def result(self, operation: Operation, number: int) -> None:
        """Record the tensor of the result of an operation of the network."""
        self.values[operation.outputs[0]] = number

    def extents(self, number: int) -> tuple[int, ...]:
        """Return the shape in the step of a tensor of the network.

        Images are ``(batch, rows, columns, channels)``, all others matrices ``(1, batch, values)``.
        """
        shape = self.network.tensors[number].shape
        if len(shape) == 4:
            return (self.batch, *shape[1:])
        return (1, self.batch, math.prod(shape[1:]))

    def reshaped(self, number: int, shape: Sequence[int]) -> int:
        """Return a tensor in another shape."""
        if self.shape(number) == tuple(shape):
            return number
        name = self.tensors[number].name
        return self.operate("RESHAPE", (number,), shape, f"{name}/reshaped")

    def matrix(self, number: int) -> int:
        """Return a tensor as a matrix, one row for each image."""
        shape = self.shape(number)
        values = math.prod(shape) // self.batch
        return self.reshaped(number, (1, self.batch, values))

    def pixels(self, number: int) -> int:
        """Return a tensor as a matrix, one row for each pixel."""
        *counts, channels = self.shape(number)
        return self.reshaped(number, (1, math.prod(counts), channels))

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.tensors[number].shape

    def needs(self, operation: Operation, position: int = 0) -> bool:
        """Return whether errors of an input are needed: it depends on weights."""
        return operation.inputs[position] in self.learning

    def add_error(self, operation: Operation, errors: int, position: int = 0) -> None:
        """Record the errors of an input of an operation."""
        if self.needs(operation, position):
            self.errors.setdefault(operation.inputs[position], []).append(errors)

    def error(self, number: int) -> int:
        """Return the errors of a tensor of the network: the sum of those of its readers."""
        parts = self.errors[number]
        if len(parts) == 1:
            return parts[0]
        # Without noise: halves away from zero keep the mean.
        sums = self.aligned(f"error_{number}", parts)
        return self.shifted(sums, low=-MOST, rounding="AWAY")

    # Operations with shifts.

    def shifted(
        self,
        sums: Sums,
        *,
        low: int = -128,
        high: int = 127,
        top: float | None = None,
        rounding: str = "UP",
        kept_bits: int = 0,
        shift: int | None = None,
    ) -> int:
        """Add sums, shifted; the shift of their role unless given; ``top``: greatest real value."""
        attributes = {"low": low, "high": high, "rounding": rounding, "kept_bits": kept_bits}
        attributes |= {"stepped": sums.records is not None} | sums.attributes
        inputs = [*sums.operands, *(number for number, _ in sums.addends)]
        factors, bias = tuple(factor for _, factor in sums.addends), 0
        if shift is None:
            fields = {"low": low, "high": high, "rounding": rounding}
            shift = self.shift_of(sums, top, **fields) - sums.halved
        if top is not None:
            attributes["high"] = _steps(top, sums.exponent + shift)
        if sums.noise:
            noise, factor = self.noise(f"{sums.role}/noise", sums.noise, shift)
            inputs.append(noise)
            factors, bias = (*factors, factor), factor >> 1
        if sums.records is not None:
            inputs.append(sums.records)
        attributes |= {"shift": shift, "bias": bias, "factors": factors}
        number = self.operate(sums.kind, inputs, sums.shape, sums.role, **attributes)
        self.exponents[number] = sums.exponent + shift
        return number

    def shift_of(self, sums: Sums, top: float | None = None, **fields: Any) -> int:
        """Return the shift of the role of sums, which is chosen by their results."""
        ends = {"low": -128, "high": 127, "rounding": "UP", "kept_bits": 0, "bias": 0}
        inputs = [*sums.operands, *(number for number, _ in sums.addends)]
        every = ends | fields | {"stepped": False} | sums.attributes
        every["factors"] = tuple(factor for _, factor in sums.addends)

        def results(shift: int) -> np.ndarray:
            tensors = [*self.tensors, Tensor("", sums.shape, np.dtype(np.int8), _PLAIN)]
            attributes = every | {"shift": shift}
            if top is not None:
                attributes["high"] = _steps(top, sums.exponent + shift)
            trial = Operation(sums.kind, 0, tuple(inputs), (len(self.tensors),), attributes)
            assert self.compute
            contents = self.compute(tensors, trial)
            assert contents is not None
            return contents

        self.shifts[sums.role] = self.choose(sums.role, results, sums.exponent)
        return self.shifts[sums.role]

    def noise(self, name: str, shape: Sequence[int], shift: int) -> tuple[int, int]:
        """Add an input of noise as wide as a shift, and return its factor, too.

        The noise is as coarse as its factor: half of that, as a bias, makes its mean right.
        """
        self.noises[name] = max(0, min(shift, NOISE_BITS))
        return self.input(name, shape), 1 << max(shift - NOISE_BITS, 0)

    def aligned(self, role: str, numbers: Sequence[int]) -> Sums:
        """Return the sums of tensors, brought to one exponent."""
        least = min(exponents := [self.exponents[number] for number in numbers])
        addends = tuple((n, 1 << (e - least)) for n, e in zip(numbers, exponents, strict=True))
        return self.sum_of(role, addends, least)

    def sum_of(self, role: str, addends: tuple[tuple[int, int], ...], exponent: int = 0) -> Sums:
        """Return the sums of tensors times factors, of the shape of the first."""
        shape = self.shape(addends[0][0])
        return Sums(role, "ShiftedSum", (), shape, exponent, {}, addends)

    def product(
        self,
        role: str,
        first: int,
        second: int | tuple[int, ...],
        turned: tuple[bool, bool] = (False, False),
        **fields: Any,
    ) -> Sums:
        """Return the sums of a product of two matrices, which may be transposed."""
        blocks = (second,) if isinstance(second, int) else second
        rows, total = self.shape(first)[1 + turned[0]], sum(self.shape(n)[2] for n in blocks)
        shape = 1, rows, self.shape(blocks[0])[1] if turned[1] else total
        exponent = self.exponents[first] + self.exponents[blocks[0]]
        attributes = {"adj_x": turned[0], "adj_y": turned[1], "column": 0, "columns": total}
        operands = (first, *blocks)
        return Sums(role, "ShiftedProduct", operands, shape, exponent, attributes, **fields)

    # Weights.

    def first_weights(
        self, operation: Operation, matrix: np.ndarray, source: int, *, divided: bool = False
    ) -> Weights:
        """Add the weights of an operation: see ``weights``; ``source``: exponent of its input."""
        bias = self.contents(operation, 2) if has_bias(operation) else None
        exponent = weight_exponent(matrix, bias, source, is_fixed=self.is_fixed)
        return self.weights(self.name(operation), matrix, exponent, divided=divided)

    def weights(
        self, name: str, first: np.ndarray, exponent: int, *, divided: bool = False
    ) -> Weights:
        """Add a matrix of weights that train.

        ``first``: int8, or real numbers, whose high bytes have the exponent; ``divided``: whether a
        large one has several blocks of columns.
        """
        steps = first if first.dtype == np.int8 else first.astype(np.float64) * 2.0**-exponent
        limit = MOST_WEIGHT - 1
        wide = np.clip(np.rint(steps * float(1 << LOW_BITS)), -limit, limit).astype(np.int64)
        highs = high_bytes(wide)
        if self.is_fixed:
            number = self.constant(f"{name}/high", highs[None].astype(np.int8))
            self.exponents[number] = exponent
            return Weights(name, (number,), (), (1, *first.shape))
        lows = wide - (highs << LOW_BITS)
        count = first.shape[1]
        width = self.width if divided and first.size > self.most else count
        parts: dict[str, list[int]] = {"high": [], "low": []}
        for start in range(0, count, width):
            for kind, contents in (("high", highs), ("low", lows)):
                data = contents[None, :, start : start + width].astype(np.int8)
                label = f"{name}/{kind}_{start}" if count > width else f"{name}/{kind}"
                parts[kind].append(self.tensor(label, data.shape, data if self.compute else None))
                self.states.append(State(parts[kind][-1], parts[kind][-1], data))
                self.exponents[parts[kind][-1]] = exponent
        high, low = map(tuple, parts.values())
        self.trained.append(Weights(name, high, low, (1, *first.shape)))
        return self.trained[-1]

    def update(self, weights: Weights, sums: Sums) -> None:
        """Add the update of weights by sums of gradients, which are as large as the weights."""
        shift, start, several = self.shift_of(sums), 0, len(weights.highs) > 1
        for high, low in zip(weights.highs, weights.lows, strict=True):
            shape, fields = self.shape(high), dict(sums.attributes)
            if several:
                fields |= {"column": start, "columns": shape[2]}
            name = f"{sums.role}/noise_{start}" if several else f"{sums.role}/noise"
            records = self.input(name, (1, shape[2], PARAMETER_BYTES))
            self.records[name] = sums.role
            addends = ((high, 1 << LOW_BITS), (low, 1))
            both = replace(sums, shape=shape, attributes=fields, addends=addends, records=records)
            new_high = self.shifted(both, shift=LOW_BITS, low=-MOST, high=MOST)
            new_low = self.shifted(both, shift=0, kept_bits=LOW_BITS)
            self.gradients[high] = sums.exponent + shift
            successors = {high: new_high, low: new_low}
            self.states = [
                replace(state, successor=successors.get(state.tensor, state.successor))
                for state in self.states
            ]
            start += shape[2]

    def bias(self, operation: Operation, exponent: int) -> Weights | None:
        """Add the bias of an operation, its third input, if any; ``exponent``: of all sums."""
        if not has_bias(operation):
            return None
        first = self.contents(operation, 2).reshape(1, -1)
        real = first * (2.0**exponent if first.dtype == np.int32 else 1)
        exponent = bias_exponent(real, exponent, is_fixed=self.is_fixed)
        return self.weights(f"{self.name(operation)}/bias", real, exponent)

    def with_bias(self, sums: Sums, bias: Weights | None) -> Sums:
        """Return sums with a bias, if there is one."""
        if bias is None:
            return sums
        factor = 1 << (self.exponents[bias.high] - sums.exponent)
        return replace(sums, addends=((bias.high, factor),))

    def contents(self, operation: Operation, position: int) -> np.ndarray:
        """Return the contents of a constant input of an operation of the network.

        Raises CompileError if it is computed.
        """
        number = operation.inputs[position]
        data = self.contents_of.get(number, self.network.tensors[number].data)
        if data is None:
            raise CompileError("wanted constant weights")
        if not np.isfinite(data).all():
            raise CompileError("wanted finite weights, got infinity or NaN")
        return data

    def graph(self, outputs: Sequence[int]) -> Graph:
        """Return the graph."""
        return Graph(
            name=f"step of {self.network.name}",
            tensors=tuple(self.tensors),
            operations=tuple(self.operations),
            inputs=tuple(self.inputs.values()),
            outputs=tuple(outputs),
            states=tuple(self.states),
        )


def _steps(top: float, exponent: int) -> int:
    """Return a greatest real value in steps of a result."""
    return min(MOST, round(top * 2.0**-exponent))
