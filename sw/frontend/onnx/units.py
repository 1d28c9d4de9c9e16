"""Quantised operators of a model, in QDQ form or as QLinear operators.

A QDQ model has float operators between DequantizeLinear and QuantizeLinear, a model of quantised
operators has QLinearConv and others that name their scales. Both become units: the operator under
its float name, with integer operands that know their quantisation. Operators that only move
elements are units on any operands.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.constants import kernel_operands, quantised_weights, rescaled
from celosia.sw.frontend.onnx.file.nodes import LINEAR, OnnxAttributes, OnnxEnd, OnnxModel, OnnxNode
from celosia.sw.frontend.onnx.functions import BOUNDS, FUNCTIONS, bound, evaluate
from celosia.sw.frontend.onnx.kinds import (
    ENCLOSED,
    NUMBERS,
    VIEWS,
    moves,
    quantised_type,
    results,
    types,
)
from celosia.sw.frontend.onnx.operand import Operand, Operands, Unit
from celosia.sw.frontend.onnx.readers.composites import COMPARISONS, FLOATS, INTEGERS
from celosia.sw.frontend.onnx.readers.dynamic import COMPUTED, RESULTS
from celosia.sw.frontend.onnx.scales import as_read, constant, meaning
from celosia.sw.ir.graph import Quantization
from celosia.sw.layers.node import ModelError
from celosia.sw.layers.record import ANY

_INTEGERS = (np.dtype(np.int8), np.dtype(np.uint8))

#: Operators on the integers of a quantised tensor, without its scale.
_ON_INTEGERS = ("ArgMax", "ArgMin", "Cast", *COMPARISONS, *COMPUTED.values())


class _BlockedError(ModelError):
    """An operand that a blocker would make."""


class Units:
    """The units of a model, made node by node.

    - ``units``: in order.
    - ``blockers``: kind and message of each operator that cannot be read.
    - ``integers``: integer tensors by name; of the model's inputs, too.
    - ``readers``: number of readers of a tensor.
    """

    def __init__(self, source: OnnxModel) -> None:
        self.source = source
        self.readers = Counter(name for node in source.nodes for name in node.inputs)
        self.readers.update(end.name for end in source.outputs)
        self.units: list[Unit] = []
        self.blockers: list[tuple[str, str]] = []
        self.integers: dict[str, Operand] = {}
        #: Sources of tensors in float, by name: integers that were dequantised, or without scale.
        self.floats: dict[str, Operand] = {}
        #: Float operators whose result is not quantised yet, by its name.
        self.pending: dict[str, OnnxNode] = {}
        for end in source.inputs:
            if end.dtype in _INTEGERS:
                self.integers[end.name] = self._input(end)
            elif end.dtype.name in ANY[0]:
                self.floats[end.name] = Operand(end.name, end.dtype)
            else:
                got = f"wanted {', '.join(ANY[0])}, got {end.dtype}"
                self.blockers.append(("input", f"input {end.name!r}: {got}"))
        for node in source.nodes:
            self._attempt(node, self._take, node)
        for end in source.outputs:
            if end.name in self.pending:
                self._attempt(self.pending[end.name], self._real, end.name)

    def _attempt(self, node: OnnxNode, step: Callable[[Any], Any], argument: Any) -> None:
        """Carry out a step; record why it fails, unless a blocker is the cause."""
        try:
            step(argument)
        except _BlockedError:
            pass
        except ModelError as error:
            self.blockers.append((node.kind, f"{node.label}: {error}"))

    def _input(self, end: OnnxEnd) -> Operand:
        """Return an integer input, with the quantisation that its readers give."""
        plain = Quantization(np.ones(1, np.float32), np.zeros(1, int))
        return Operand(end.name, end.dtype, as_read(self.source, end.name) or plain)

    def _take(self, node: OnnxNode) -> None:
        """Take a node as a unit, as the end of a unit, or as part of a later one."""
        if node.kind in COMPUTED and self._in_steps(node):
            self.pending[node.outputs[0]] = replace(node, kind=COMPUTED[node.kind])
        elif node.kind == "QuantizeLinear":
            self._quantize(node)
        elif node.kind == "DequantizeLinear":
            self._dequantize(node)
        elif node.kind in LINEAR:
            self._linear(node)
        elif moves(node) or (node.kind == "Resize" and node.input(0) in self.integers):
            self._move(node)
        elif node.kind in FLOATS:
            self.pending.update(dict.fromkeys(filter(None, node.outputs), node))
        else:
            raise ModelError("operator is not supported")

    def _in_steps(self, node: OnnxNode) -> bool:
        """Return whether float operators compute a QuantizeLinear or DequantizeLinear.

        Its scale or zero point is computed, it has several scales, or other integers.
        """
        constants, names = self.source.constants, (node.input(1), node.input(2))
        if node.input(0) in constants:
            return False
        if any(name and name not in constants for name in names):
            return True
        several = constants[names[0]].size != 1
        if node.kind == "DequantizeLinear":
            return several or node.input(0) not in self.integers
        return several or self._quantised_type(node) not in _INTEGERS

    def _quantised_type(self, node: OnnxNode) -> np.dtype:
        """Return the type of the integers of a QuantizeLinear: that of its zero point."""
        name = node.input(2)
        if name in self.source.narrow:
            raise ModelError(f"wanted int8 or uint8, got a zero point {name!r} of less bits")
        operand = self.integers.get(name) or self.floats.get(name)
        constant = self.source.constants.get(name)
        known = operand if constant is None else constant
        return quantised_type(node, known.dtype if known is not None else None)

    def _quantize(self, node: OnnxNode) -> None:
        """Make the unit that ends in a QuantizeLinear."""
        name, dtype = node.input(0), self._quantised_type(node)
        # One scale has no axis and no blocks.
        node.attributes.read |= {"axis", "block_size"}
        output = Operand(node.outputs[0], dtype, meaning(self.source, node, 1))
        self.integers[output.name] = output
        if name in self.floats:
            source = self.floats[name]
            plain = source.quantization is None
            kind, function = ("QuantizeLinear", None) if plain else ("Identity", lambda x: x)
            self.units.append(Unit(kind, node, Operands((source,)), (output,), function=function))
        elif name in self.pending:
            self._close(node, name, output)

    def _close(self, node: OnnxNode, name: str, output: Operand) -> None:
        """Make the units of float operators up to a QuantizeLinear, on integers where that goes."""
        views, inner = [], name
        while inner in self.pending and self.pending[inner].kind in VIEWS:
            views.append(self.pending[inner])
            inner = views[-1].input(0)
        target = replace(output, name=f"{inner} (quantised)") if views else output
        unit = self._enclosed(inner, target) if inner in self.pending else None
        if unit is None:
            source = Operands((self._real(name),))
            self.units.append(Unit("QuantizeLinear", node, source, (output,)))
            return
        self.units.append(unit)
        for view in reversed(views):
            result = output if view.outputs[0] == name else replace(output, name=view.outputs[0])
            self.units.append(self._moved(view, target, (result,)))
            target = result

    def _enclosed(self, name: str, output: Operand) -> Unit | None:
        """Return the unit of operators that end in a QuantizeLinear; None if they stay in float."""
        node = self.pending[name]
        leaves = self._leaves(name)
        fused = all(operand in self.floats for operand in node.inputs if operand)
        if leaves is not None and len(leaves) == 1 and not (fused and node.kind in ENCLOSED):
            (leaf,) = leaves
            if self.floats[leaf].quantization is None:
                return None
            inputs = Operands((self.floats[leaf],))
            function = partial(evaluate, self.pending, self.source.constants, name, leaf)
            return Unit(node.kind, node, inputs, (output,), function=function)
        low, high = -np.inf, np.inf
        while node.kind in BOUNDS and node.input(0) in self.pending:
            least, greatest = bound(node, self.source.constants)
            # Operators after it bound both of its ends.
            low, high = (min(max(end, low), high) for end in (least, greatest))
            node = self.pending[node.input(0)]
        if node.kind not in ENCLOSED or (node.kind == "Softmax" and node.outputs[0] != name):
            return None
        names = [operand for operand in node.inputs if operand]
        operands = [self.floats.get(operand) for operand in names]
        unscaled = any(operand and operand.quantization is None for operand in operands)
        biased = node.kind == "Gemm" and any(operands[2:])
        biased = biased and node.attributes.get("beta", 1.0) != 1
        if unscaled or biased or any(operand in self.pending for operand in names):
            return None
        operands = [self._operand(operand) if operand else None for operand in node.inputs]
        if self.readers[name] == self.readers[node.outputs[0]] == 1:
            operands = quantised_weights(node.kind, operands)
        inputs = kernel_operands(node.kind, operands)
        if inputs is None:
            return None
        attributes, inputs = node.attributes, Operands(inputs)
        return Unit(node.kind, node, inputs, (output,), low, high, attributes=attributes)

    def _real(self, name: str) -> Operand:
        """Return an operand in float; the units of operators that lead to it are made."""
        names, stack = set(), [name]
        while stack:
            node = self.pending.get(stack[-1])
            inner = stack.pop()
            if node is not None and inner not in self.floats and inner not in names:
                names.add(inner)
                stack += node.inputs[:1] if moves(node) else filter(None, node.inputs)
        for inner in [result for result in self.pending if result in names]:
            if inner not in self.floats:
                self._make(self.pending[inner])
        return self._operand(name)

    def _make(self, node: OnnxNode) -> None:
        """Make the unit of an operator in float whose inputs are made."""
        if moves(node):
            source = self._real(node.input(0))
            outputs = results(node, source, self.source.opset)
            self.units.append(self._moved(node, source, outputs))
        else:
            ends = [self._read_by(node.kind, end) if end else None for end in node.inputs]
            quantises = node.kind == COMPUTED["QuantizeLinear"]
            kinds = [self._quantised_type(node)] if quantises else types(node, ends)
            outputs = tuple(map(Operand, node.outputs, kinds))
            inputs, attributes = Operands(ends), node.attributes
            self.units.append(Unit(node.kind, node, inputs, outputs, attributes=attributes))
        self.floats.update((operand.name, operand) for operand in outputs)

    def _read_by(self, kind: str, name: str) -> Operand:
        """Return an operand of an operator in float; that of integers without their scale."""
        source = self.integers.get(name) or self._real(name)
        taken = source.dtype != np.int16 or source.quantization is not None
        taken = taken or kind in (*_ON_INTEGERS, "Max", "Min")
        if kind in RESULTS or (name not in self.integers and taken):
            return source
        if kind not in _ON_INTEGERS:
            raise ModelError(f"wanted {', '.join(NUMBERS)}, got {source.dtype} {name!r}")
        of = Operand(f"{name} (integers)", np.dtype(np.int32))
        if of.name not in self.floats:
            node = OnnxNode(INTEGERS, 0, (name,), (of.name,), OnnxAttributes())
            self.units.append(Unit(INTEGERS, node, Operands((source,)), (of,)))
            self.floats[of.name] = of
        return of

    def _leaves(self, name: str) -> set[str] | None:
        """Return the computed inputs of functions that lead to a tensor; None if others do."""
        if name in self.source.constants:
            return set() if self.source.constants[name].size == 1 else None
        if name in self.floats:
            data = self.floats[name].data
            return {name} if data is None else None
        node = self.pending.get(name)
        if node is None or node.kind not in FUNCTIONS:
            return None
        union: set[str] = set()
        for operand in node.inputs:
            leaves = self._leaves(operand) if operand else set()
            if leaves is None:
                return None
            union |= leaves
        return union

    def _operand(self, name: str) -> Operand:
        """Return an operand of a float operator; raises _BlockedError if nothing makes it."""
        if name in self.floats:
            return self.floats[name]
        if (data := self.source.constants.get(name)) is not None:
            return Operand(name, data.dtype, data=data)
        raise _BlockedError(name)

    def _dequantize(self, node: OnnxNode) -> None:
        """Record the source of a float tensor."""
        name, axis = node.input(0), node.attributes.get("axis", 1)
        node.attributes.get("block_size")  # Constants of blocks are computed by now.
        if name in self.source.constants:
            data = self.source.constants[name]
            quantization = meaning(self.source, node, 1, axis, zeros=True)
            self.floats[node.outputs[0]] = Operand(name, data.dtype, quantization, data)
        elif name in self.integers:
            known = self.integers[name]
            if not meaning(self.source, node, 1).equals(known.quantization):
                raise ModelError(f"wanted the scale and zero point of {name!r}")
            self.floats[node.outputs[0]] = replace(known, dequantised=True)

    def _linear(self, node: OnnxNode) -> None:
        """Make a unit of an operator that names its scales."""
        kind, positions, bias, result = LINEAR[node.kind]
        if node.attributes.get("channels_last"):
            raise ModelError("channels_last is not supported")
        positions = positions or tuple(range(2, len(node.inputs), 3))
        axis = {"Conv": 0, "Gemm": 0 if node.attributes.get("transB") else 1}.get(kind, -1)
        inputs = [self._integer(node, index, axis if index else 0) for index in positions]
        if bias > 0:
            name = node.input(bias)
            data = constant(self.source, name, "bias") if name else None
            inputs.append(Operand(name, data.dtype, data=data) if data is not None else None)
        if not node.input(result):
            raise ModelError("a float result is not supported")
        if None in inputs[: len(positions)]:
            return
        attributes, alpha = node.attributes, node.attributes.get("alpha", 1.0)
        if kind == "Gemm" and alpha != 1:
            # A factor of the product and of the bias in its units.
            inputs[1], attributes = rescaled(inputs[1], alpha), attributes.extended(alpha=1.0)
        operands = kernel_operands(kind, inputs)
        assert operands
        dtype = inputs[0].dtype if inputs[0] else np.dtype(np.uint8)
        output = Operand(node.outputs[0], dtype, meaning(self.source, node, result))
        self.integers[output.name] = output
        unit = Unit(kind, node, Operands(operands), (output,), attributes=attributes)
        if kind in ("LeakyRelu", "Sigmoid"):
            unit = replace(unit, function=_function(kind, node))
        self.units.append(unit)

    def _integer(self, node: OnnxNode, index: int, axis: int) -> Operand | None:
        """Return an integer operand; None if the operator that makes it is a blocker."""
        name = node.input(index)
        data = self.source.constants.get(name)
        if data is not None:
            quantization = meaning(self.source, node, index + 1, axis, zeros=True)
            return Operand(name, data.dtype, quantization, data)
        known = self.integers.get(name)
        if known and not meaning(self.source, node, index + 1).equals(known.quantization):
            raise ModelError(f"wanted the scale and zero point of {name!r}")
        return known

    def _move(self, node: OnnxNode) -> None:
        """Make a unit of an operator that moves integers, or dequantised floats."""
        name = node.input(0)
        where = self.integers if name in self.integers else self.floats
        table = self.source.constants.get(name) if node.kind == "Gather" else None
        if name not in where and table is None:
            outputs = node.outputs if name in self.pending else ()
            self.pending.update(dict.fromkeys(filter(None, outputs), node))
            return
        source = where.get(name) or self._operand(name)
        if table is not None and table.dtype in _INTEGERS:
            # Integers that a reader gives a scale.
            if known := as_read(self.source, node.outputs[0]):
                source, where = replace(source, quantization=known), self.integers
        outputs = results(node, source, self.source.opset)
        where.update((output.name, output) for output in outputs)
        self.units.append(self._moved(node, source, outputs, integers=where is self.integers))

    def _moved(
        self, node: OnnxNode, source: Operand, outputs: tuple[Operand, ...], integers: bool = False
    ) -> Unit:
        """Return the unit of an operator that moves an operand."""
        parameters = []
        for parameter in node.inputs[1:]:
            known = self.floats.get(parameter)
            if node.kind == "Gather" and parameter not in self.source.constants:
                known = self._real(parameter)
            elif known is None or known.data is None:
                data = constant(self.source, parameter, "parameter") if parameter else None
                known = None if data is None else Operand(parameter, data.dtype, data=data)
            parameters.append(known)
        inputs, more = Operands((source, *parameters)), node.attributes.extended(integers=integers)
        return Unit(node.kind, node, inputs, outputs, attributes=more)


def _function(kind: str, node: OnnxNode) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: FUNCTIONS[kind]((x,), node.attributes)
