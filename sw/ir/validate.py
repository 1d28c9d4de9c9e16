"""Checks of a program before it runs: addresses in memory, and a maker for each tensor read."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from celosia.hw.arch.config import ADDRESS_BITS, PROGRAM_BYTES
from celosia.hw.arch.isa import external_span
from celosia.hw.arch.registers import MOST_INSTRUCTIONS
from celosia.sw.ir.parts import (
    MOST_BATCH,
    MOST_ELEMENTS,
    HostOperator,
    Operand,
    Part,
    Port,
    Section,
)

if TYPE_CHECKING:
    from celosia.sw.ir.program import Program

#: Numbers of a tensor, at most.
_ELEMENTS = 1 << 31

_TYPES = ("int8", "uint8", "int16", "float32", "int32", "int64", "bool")

#: Scales are single precision.
_SCALES = (2.0**-149, (2 - 2.0**-23) * 2.0**127)

#: Type and elements of a tensor in one invocation, by number.
_Values = dict[int, tuple[str, int]]


def _require(holds: bool, where: str, requirement: str, got: object) -> None:
    if not holds:
        raise ValueError(f"{where}: wanted {requirement}, got {got}")


def validate(program: "Program") -> None:
    """Refuse a program with addresses outside its memory, or tensors read that no step makes.

    Raises ValueError if a check fails; the message names the entry.
    """
    memory = program.memory_bytes
    _require(1 <= program.batch <= MOST_BATCH, "batch", f"1 to {MOST_BATCH}", program.batch)
    _require(1 <= memory <= 1 << ADDRESS_BITS, "memory_bytes", f"1 to {1 << ADDRESS_BITS}", memory)
    for segment in program.segments:
        _require_address(segment.name, segment.address, len(segment.data), memory)
    variables = [variable.port for variable in program.variables]
    for port in (*program.inputs, *variables):
        _require_tensor(port)
    for port in program.outputs:
        _require_tensor(port, 0)
        _require(port.items >= 1, port.name, "at least one item", port.items)
    _require(bool(program.inputs and program.outputs), "program", "inputs and outputs", "none")
    for name, section in program.sections:
        _require_section(name, section, program)
    for part in program.parts:
        _require_part(part, program)
    _require_apart(program)
    _require_flow(program)


def _require_address(where: str, address: int, count: int, memory: int) -> None:
    requirement = f"{count} bytes within {memory} of external memory"
    _require(0 <= address <= memory - count, where, requirement, f"address {address}")


def _require_tensor(tensor: Port | Operand, least: int = 1) -> None:
    """Refuse shapes, of extents from ``least`` on, types and numbers that no tensor can have."""
    where, shape = tensor.name, tensor.shape
    elements = 1
    for extent in shape:
        _require(extent >= least, where, f"extents of at least {least}", shape)
        elements *= extent
        _require(elements <= _ELEMENTS, where, f"at most {_ELEMENTS} elements", shape)
    _require(tensor.dtype in _TYPES, where, f"one of {', '.join(_TYPES)}", repr(tensor.dtype[:20]))
    # Channels of constant weights may have a scale of 0.
    fixed = isinstance(tensor, Operand) and tensor.data is not None
    smallest = 0 if fixed else _SCALES[0]
    _require(smallest <= tensor.scale <= _SCALES[1], where, "a scale above 0", tensor.scale)
    integer = tensor.dtype in ("int8", "uint8")
    limits = np.iinfo(tensor.dtype if integer else "int32")
    low, high = int(limits.min), int(limits.max)
    good = low <= tensor.zero_point <= high
    _require(good, where, f"a zero point from {low} to {high}", tensor.zero_point)


def _require_part(part: Part, program: "Program") -> None:
    _require(bool(part.inputs and part.outputs), "part", "inputs and outputs", "none")
    for port in (*part.inputs, *part.outputs):
        _require_tensor(port)
        _require(port.dtype == "int8", port.name, "int8 in the core", port.dtype)
        _require_address(
            port.name, port.address, program.batch * port.bytes_per_item, program.memory_bytes
        )


def _require_section(name: str, section: Section, program: "Program") -> None:
    limit, count = MOST_INSTRUCTIONS, section.count
    _require(1 <= count <= limit, name, f"1 to {limit} instructions", count)
    aligned = section.address % PROGRAM_BYTES == 0
    _require(aligned, name, f"a multiple of {PROGRAM_BYTES} as address", section.address)
    _require_address(name, section.address, section.end - section.address, program.memory_bytes)
    for number in set(section.layers):
        good = -1 <= number < len(program.layers)
        _require(good, name, f"layers below {len(program.layers)}", number)
    for number, instruction in enumerate(section.instructions):
        span = external_span(instruction, program.config)
        if span is not None and span[1] > program.memory_bytes:
            where = f"{name}: instruction {number}: {instruction.opcode.name}"
            requirement = f"bytes below {program.memory_bytes:#x} of external memory"
            _require(False, where, requirement, f"{span[0]:#x} to {span[1] - 1:#x}")


class _Range(NamedTuple):
    """Bytes of external memory, from ``address`` to ``end`` (exclusive)."""

    address: int
    end: int
    name: str


def _require_apart(program: "Program") -> None:
    """Refuse constants and instructions that overlap, and inputs and outputs that overlap them.

    An input and an output of a part may share their bytes if one is a view of the other.
    """
    fixed = [_range(one.name, one.address, len(one.data)) for one in program.segments]
    for name, section in program.sections:
        fixed.append(_Range(section.address, section.end, name))
    fixed = _disjoint(fixed, views=False)
    starts = [one.address for one in fixed]
    for part in program.parts:
        ports = [
            _range(port.name, port.address, program.batch * port.bytes_per_item)
            for port in (*part.inputs, *part.outputs)
        ]
        for port in _disjoint(ports, views=True):
            after = bisect_right(starts, port.address)
            for other in fixed[max(0, after - 1) : after + 1]:
                _require(not _overlap(port, other), port.name, *_apart(port, other))


def _range(name: str, address: int, count: int) -> _Range:
    return _Range(address, address + count, name)


def _overlap(one: _Range, other: _Range) -> bool:
    return one.address < other.end and other.address < one.end


def _apart(one: _Range, other: _Range) -> tuple[str, str]:
    """Return the wanted relation of two ranges that overlap, and the first byte of both."""
    place = max(one.address, other.address)
    return f"bytes of external memory apart from {other.name}", f"both at {place:#x}"


def _disjoint(ranges: Sequence[_Range], *, views: bool) -> list[_Range]:
    """Return ranges by address, refused if they overlap; ``views`` of one address may."""
    ordered = sorted(one for one in ranges if one.end > one.address)
    last: _Range | None = None
    for one in ordered:
        if last is not None and _overlap(last, one) and not (views and one.address == last.address):
            _require(False, one.name, *_apart(one, last))
        if last is None or one.end > last.end:
            last = one
    return ordered


def _require_flow(program: "Program") -> None:
    """Refuse a step that reads a tensor not made before it, or of another type or size."""
    values: _Values = {}
    inside = program.shifted
    inputs, outputs = (
        [replace(port, dtype="int8") if port.tensor in inside else port for port in ports]
        for ports in (program.inputs, program.outputs)
    )
    for port in (*inputs, *(variable.port for variable in program.variables)):
        _make(values, port, port.elements)
    for step in program.steps:
        if isinstance(step, Part):
            _require(step.items >= 1, "part", "at least one item", step.items)
            for port in step.inputs:
                _read(values, port, step.items * port.elements)
            for port in step.outputs:
                _make(values, port, step.items * port.elements)
        else:
            _require_operator(step)
            for operand in step.sources:
                if operand.data is None:
                    _read(values, operand, _elements(operand.shape))
            for operand in step.results:
                _make(values, operand, _elements(operand.shape))
    for port in outputs:
        _read(values, port, port.elements)
    for variable in program.variables:
        port, got = variable.port, len(variable.data)
        _require(got == port.bytes_per_item, port.name, f"{port.bytes_per_item} bytes", got)
        _read(values, replace(port, tensor=variable.successor), port.elements)


def _require_operator(operator: HostOperator) -> None:
    """Refuse host operands that are no tensors, or too large."""
    for operand in (*operator.sources, *operator.results):
        _require_tensor(operand, 0)
        elements = _elements(operand.shape)
        _require(
            elements <= MOST_ELEMENTS, operand.name, f"at most {MOST_ELEMENTS} elements", elements
        )
        for scale in operand.scales:
            _require(0 <= scale <= _SCALES[1], operand.name, "scales of at least 0", scale)
        if operand.data is not None:
            size = elements * np.dtype(operand.dtype).itemsize
            got = len(operand.data)
            _require(got == size, operand.name, f"{size} bytes", got)


def _elements(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _make(values: _Values, tensor: Port | Operand, elements: int) -> None:
    fresh = tensor.tensor not in values
    _require(fresh, tensor.name, "a tensor made once", f"tensor {tensor.tensor} again")
    _require(elements <= _ELEMENTS, tensor.name, f"at most {_ELEMENTS} elements", elements)
    values[tensor.tensor] = (tensor.dtype, elements)


def _read(values: _Values, tensor: Port | Operand, elements: int) -> None:
    known = values.get(tensor.tensor)
    got = f"tensor {tensor.tensor} of nobody" if known is None else f"{known[1]} of {known[0]}"
    _require(known == (tensor.dtype, elements), tensor.name, f"{elements} of {tensor.dtype}", got)
