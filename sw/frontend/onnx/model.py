"""Reads ``.onnx`` files into the compiler's graph."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np

from celosia.sw.frontend.onnx.builder import Builder
from celosia.sw.frontend.onnx.file.nodes import OnnxModel, fault_of, read
from celosia.sw.frontend.onnx.file.shapes import Shapes
from celosia.sw.frontend.onnx.kinds import stored_type
from celosia.sw.frontend.onnx.operand import Operand, Operands, Unit
from celosia.sw.frontend.onnx.readers.composites import FLOATS
from celosia.sw.frontend.onnx.readers.copies import COPIES
from celosia.sw.frontend.onnx.readers.dynamic import DYNAMIC
from celosia.sw.frontend.onnx.readers.elementwise import ELEMENTWISE, function, quantize_linear
from celosia.sw.frontend.onnx.readers.layers import LAYERS, bounded, max_pool
from celosia.sw.frontend.onnx.readers.moves import MOVES
from celosia.sw.frontend.onnx.readers.steps import clamped
from celosia.sw.frontend.onnx.readers.transposed import transposed
from celosia.sw.frontend.onnx.units import Units
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.names import with_names
from celosia.sw.layers.node import FloatModelError, ModelError
from celosia.sw.layers.record import ANY

#: Unit to its reader.
READERS = {
    **COPIES,
    **ELEMENTWISE,
    **LAYERS,
    **MOVES,
    "ConvTranspose": transposed,
    "GlobalMaxPool": max_pool,
    "MaxPool": max_pool,
}

#: Exceptions on files with invalid numbers.
_BROKEN = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)

#: Operators that identify a quantised model.
_QUANTISED = ("QuantizeLinear", "DequantizeLinear", "QLinear", "QGemm", *DYNAMIC)


def load(
    content: bytes, name: str = "model", shapes: Shapes | None = None, *, floats: bool = False
) -> Graph:
    """Return the graph of a model quantised to int8 or uint8.

    A first extent that is not fixed is 1.

    - ``content``: of an ``.onnx`` file.
    - ``name``: of the file, for messages.
    - ``shapes``: of inputs whose extents are free.
    - ``floats``: whether a model may compute in float alone, all of it on the host.

    Raises ModelError if it is damaged, not quantised, or uses something unsupported. One line that
    names the file and the operators.
    """
    try:
        return with_names(_graph(read(content, shapes), name, floats=floats))
    except ModelError as error:
        raise type(error)(f"{name}: {error}") from None
    except _BROKEN:
        raise ModelError(f"{name}: {fault_of(content)}") from None


def _graph(source: OnnxModel, name: str, *, floats: bool) -> Graph:
    quantised = any(node.kind.startswith(_QUANTISED) for node in source.nodes)
    if not (floats or quantised) and all(end.dtype.kind == "f" for end in source.inputs):
        raise FloatModelError("float model; `celosia quantize` makes it int8")
    units = Units(source)
    builder = Builder(name)
    for end in source.inputs:
        builder.input(end, units.integers.get(end.name))
    blockers = list(units.blockers)
    for unit in units.units:
        try:
            _build(builder, unit)
        except ModelError as error:
            blockers.append((unit.kind, f"{unit.node.label}: {error}"))
    if blockers:
        raise ModelError(_report(blockers))
    for node in source.nodes:
        try:
            node.require_read()
        except ModelError as error:
            raise ModelError(f"{node.label}: {error}") from None
    for end in source.outputs:
        operand = units.integers.get(end.name) or units.floats.get(end.name)
        if operand is None or operand.name not in builder.values:
            raise ModelError(f"output {end.name!r}: wanted a result of a quantised operator")
        if stored_type(end.dtype) != end.dtype:
            requirement = f"wanted {', '.join(ANY[1])}, got {end.dtype}"
            raise ModelError(f"output {end.name!r}: {requirement}")
        builder.output(end, operand)
    try:
        return builder.graph()
    except ValueError as error:
        raise ModelError(str(error)) from None


def _build(builder: Builder, unit: Unit) -> None:
    """Add a unit's operations; one whose inputs a blocker makes is left out."""
    for operand in tuple.__iter__(unit.inputs):
        if operand and operand.data is None and operand.name not in builder.values:
            return
    try:
        with builder.attempt():
            _read(builder, unit)
    except ModelError:
        if unit.kind not in FLOATS or unit.outputs[0].quantization is None:
            raise
        # What was read for other kernels does not count.
        unit.attributes.read.clear()
        unit.inputs.read.clear()
        try:
            with builder.attempt():
                _read_in_float(builder, unit)
            return
        except _BROKEN:
            pass
        raise


def _read(builder: Builder, unit: Unit) -> None:
    real = unit.outputs[0].quantization is None and unit.kind in FLOATS
    readers = FLOATS if real else READERS
    reader = function if unit.function else readers.get(unit.kind)
    if reader is None:
        raise ModelError("operator is not supported")
    reader(builder, unit)
    unit.require_read()
    if unit.function is None and (unit.low > -math.inf or unit.high < math.inf):
        bounded(builder, unit)


def _read_in_float(builder: Builder, unit: Unit) -> None:
    """Read a unit for which there are no integers: dequantised, computed, quantised."""
    (of,) = unit.outputs
    result = Operand(f"{of.name} (float)", np.dtype(np.float32))
    FLOATS[unit.kind](builder, replace(unit, outputs=(result,)))
    unit.require_read()
    clamped(builder, result, unit.low, unit.high)
    source = Operands((result,))
    quantize_linear(builder, Unit("QuantizeLinear", unit.node, source, (of,)))


def _report(blockers: list[tuple[str, str]]) -> str:
    """Return one line about all operators that cannot be read."""
    if len(blockers) == 1:
        return blockers[0][1]
    counts = Counter(kind for kind, _ in blockers)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return f"{len(blockers)} operators are not supported: {kinds}; the first: {blockers[0][1]}"
