"""Graph of a training step under construction: forward pass, errors, gradients, update.

The record of an operator adds its forward pass, and returns the function that adds its backward
pass (``gradient``). All tensors are int8. The real value of an integer is the integer times two to
the power of its tensor's exponent.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Quantization, State, Tensor
from celosia.sw.layers.errors import CompileError

#: Bits of the low byte of a weight: a weight is ``high · 2^LOW_BITS + low``.
LOW_BITS = 6
#: High bytes and errors are -MOST to MOST.
MOST = 127
#: Bits of a byte of noise at most.
NOISE_BITS = 8
#: Exponents of the high bytes of int8 weights, and of images of 0 to MOST.
WEIGHT_EXPONENT, IMAGE_EXPONENT = -8, -7
#: Root of the mean square of the high bytes of first weights, about.
_SPREAD = 24
#: Greatest power of two by which a bias is multiplied.
_BIAS_SHIFT = 6

_PLAIN = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))

#: Adds the errors of an operator's inputs and the steps of its weights, given the tensor of the
#: errors of its result.
Backward = Callable[[int], None]
#: Returns the shift of a role from its results by shift.
Choose = Callable[[str, Callable[[int], np.ndarray]], int]


@dataclass(frozen=True)
class Weights:
    """Matrix of weights that train: tensors of its high and low bytes."""

    name: str
    high: int
    low: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Sums:
    """Sums of an operation, before shift and clamp.

    ``role``: name of the shift; ``exponent``: of the sums; ``addends``: tensors and factors;
    ``noise``: shape of noise as wide as the shift, which is added, or none.
    """

    role: str
    kind: str
    operands: tuple[int, ...]
    shape: tuple[int, ...]
    exponent: int
    attributes: dict[str, Any] = field(default_factory=dict)
    addends: tuple[tuple[int, int], ...] = ()
    noise: tuple[int, ...] | None = None


class Step:
    """Graph of a training step under construction.

    - ``network``: the graph to train; its tensors have other numbers.
    - ``batch``: images of a step. ``width``: columns of noise, which repeat.
    - ``choose``: returns shifts.
    - ``compute``: returns the result of an operation of tensors with contents, or None.
    """

    def __init__(
        self,
        network: Graph,
        batch: int,
        width: int,
        choose: Choose,
        compute: Callable[[Sequence[Tensor], Operation], np.ndarray | None] | None = None,
    ) -> None:
        self.network, self.batch, self.width = network, batch, width
        self.choose, self.compute = choose, compute
        self.tensors: list[Tensor] = []
        self.operations: list[Operation] = []
        self.inputs: dict[str, int] = {}
        self.states: list[State] = []
        self.exponents: dict[int, int] = {}
        self.shifts: dict[str, int] = {}
        #: Bits of the noise by the name of its input.
        self.noises: dict[str, int] = {}
        #: Tensors of the step, by tensor of the network: values, and errors of each reader.
        self.values: dict[int, int] = {}
        self.errors: dict[int, list[int]] = {}
        #: Tensors of the network that depend on weights.
        self.learning: set[int] = set()

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

    def name(self, operation: Operation) -> str:
        """Return the name of an operation of the network in names of the step."""
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
        return self.shifted(self.aligned(f"error_{number}", parts), low=-MOST)

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
        attributes |= sums.attributes
        inputs = [*sums.operands, *(number for number, _ in sums.addends)]
        factors = tuple(factor for _, factor in sums.addends)

        def results(shift: int) -> np.ndarray:
            tensors = [*self.tensors, Tensor("", sums.shape, np.dtype(np.int8), _PLAIN)]
            every = attributes | {"shift": shift, "bias": 0, "factors": factors}
            trial = Operation(sums.kind, 0, tuple(inputs), (len(self.tensors),), every)
            assert self.compute
            contents = self.compute(tensors, trial)
            assert contents is not None
            return contents

        if shift is None:
            shift = self.shifts[sums.role] = self.choose(sums.role, results)
        if top is not None:
            attributes["high"] = min(MOST, round(top * 2.0 ** -(sums.exponent + shift)))
        bias = 0
        if sums.noise:
            name = f"{sums.role}/noise"
            self.noises[name] = max(0, min(shift, NOISE_BITS))
            factor = 1 << max(shift - NOISE_BITS, 0)
            # The noise is as coarse as its factor: half of that makes its mean right.
            inputs.append(self.input(name, sums.noise))
            factors, bias = (*factors, factor), factor >> 1
        number = self.operate(
            sums.kind,
            inputs,
            sums.shape,
            sums.role,
            **attributes,
            shift=shift,
            bias=bias,
            factors=factors,
        )
        self.exponents[number] = sums.exponent + shift
        return number

    def aligned(self, role: str, numbers: Sequence[int]) -> Sums:
        """Return the sums of tensors, brought to one exponent."""
        exponents = [self.exponents[number] for number in numbers]
        least = min(exponents)
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
        second: int,
        turned: tuple[bool, bool] = (False, False),
        **fields: Any,
    ) -> Sums:
        """Return the sums of a product of two matrices, which may be transposed."""
        rows = self.shape(first)[1 + turned[0]]
        columns = self.shape(second)[2 - turned[1]]
        exponent = self.exponents[first] + self.exponents[second]
        attributes = {"adj_x": turned[0], "adj_y": turned[1]}
        operands = (first, second)
        return Sums(
            role, "ShiftedProduct", operands, (1, rows, columns), exponent, attributes, **fields
        )

    # Weights.

    def weights(self, name: str, first: np.ndarray, exponent: int | None = None) -> Weights:
        """Add a matrix of weights that train.

        ``first``: int8, or real numbers in steps of 2^exponent, one that suits them unless given.
        """
        if exponent is None:
            mean = float(np.sqrt(np.mean(np.square(first, dtype=np.float64))))
            fits = round(math.log2(mean / _SPREAD)) if mean else WEIGHT_EXPONENT
            exponent = WEIGHT_EXPONENT if first.dtype == np.int8 else fits
        steps = first if first.dtype == np.int8 else first * 2.0**-exponent
        limit = (MOST << LOW_BITS) + (1 << (LOW_BITS - 1)) - 1
        wide = np.clip(np.rint(steps * float(1 << LOW_BITS)), -limit, limit).astype(np.int64)
        highs = (wide + (1 << (LOW_BITS - 1))) >> LOW_BITS
        shape, parts = (1, *first.shape), []
        for kind, contents in (("high", highs), ("low", wide - (highs << LOW_BITS))):
            data = contents.astype(np.int8).reshape(shape)
            parts.append(self.tensor(f"{name}/{kind}", shape, data if self.compute else None))
            self.states.append(State(parts[-1], parts[-1], data))
            self.exponents[parts[-1]] = exponent
        return Weights(name, parts[0], parts[1], shape)

    def update(self, weights: Weights, sums: Sums) -> None:
        """Add the update of weights by sums of gradients, which are as large as the weights."""
        columns = min(self.width, weights.shape[2])
        steps = self.shifted(replace(sums, noise=(1, 1, columns)))
        addends = ((weights.high, 1 << LOW_BITS), (weights.low, 1), (steps, 1))
        both = self.sum_of(f"{weights.name}/new", addends)
        high = self.shifted(both, shift=LOW_BITS, low=-MOST, high=MOST)
        low = self.shifted(both, shift=0, kept_bits=LOW_BITS)
        successors = {weights.high: high, weights.low: low}
        self.states = [
            replace(state, successor=successors.get(state.tensor, state.successor))
            for state in self.states
        ]

    def bias(self, operation: Operation, exponent: int) -> Weights | None:
        """Add the bias of an operation, its third input, if it has one; ``exponent``: of sums."""
        if len(operation.inputs) < 3 or operation.inputs[2] == -1:
            return None
        first = self.contents(operation, 2).reshape(1, -1)
        real = first * (2.0**exponent if first.dtype == np.int32 else 1)
        return self.weights(f"{self.name(operation)}/bias", real, exponent + _BIAS_SHIFT)

    def with_bias(self, sums: Sums, bias: Weights | None) -> Sums:
        """Return sums with a bias, if there is one."""
        return replace(sums, addends=((bias.high, 1 << _BIAS_SHIFT),)) if bias else sums

    def contents(self, operation: Operation, position: int) -> np.ndarray:
        """Return the contents of a constant input of an operation of the network.

        Raises CompileError if it is computed.
        """
        data = self.network.tensors[operation.inputs[position]].data
        if data is None:
            raise CompileError("wanted constant weights")
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
