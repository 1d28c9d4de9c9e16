"""Multiplications of operators that the host runs, and their share of a model."""

import math
from typing import NamedTuple

import numpy as np

from celosia.sw.ir.parts import HostOperator, Operand, moved_bytes
from celosia.sw.ir.program import Program

#: Convolutions, whose weights have the output channels first, or last.
_CONVOLUTIONS = ("CONV_2D", "Conv", "ConvInteger", "QLinearConv")
_TRANSPOSED = ("ConvTranspose", "QLinearConvTranspose", "TRANSPOSE_CONV")
#: Operators that multiply a vector for each step by matrices.
_RECURRENT = (
    *("BIDIRECTIONAL_SEQUENCE_RNN", "RNN", "SVDF"),
    *("UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"),
)
_MATRICES = ("MatMulInteger", "QLinearBatchMatMul", "QLinearMatMul")


def _elements(operand: Operand) -> int:
    return math.prod(operand.shape)


def macs(operator: HostOperator) -> int:
    """Return the multiplications of one invocation by weights, or of two matrices; 0 of others."""
    if len(operator.sources) < 2:
        return 0
    (first, second), result, kind = operator.sources[:2], operator.results[0], operator.kind
    if kind in _CONVOLUTIONS:
        return _elements(result) * _elements(second) // second.shape[0]
    if kind == "DEPTHWISE_CONV_2D":
        return _elements(result) * _elements(second) // second.shape[-1]
    if kind in _TRANSPOSED:
        return _elements(first) * _elements(second) // first.shape[-1]
    if kind == "FULLY_CONNECTED":
        return _elements(result) * second.shape[-1]
    if kind in _RECURRENT:
        weights = (source for source in operator.sources if source.data and len(source.shape) == 2)
        return _elements(first) // first.shape[-1] * sum(map(_elements, weights))
    if kind in _MATRICES:
        return _elements(result) * first.shape[-1]
    if kind == "BATCH_MATMUL":
        depth = -2 if operator.attributes.get("adj_x") else -1
        return _elements(result) * first.shape[depth]
    return 0


class HostWork(NamedTuple):
    """Work of a program's operators on the host, for one input, and its share of all work."""

    operators: int
    macs: int
    macs_share: float
    bytes: int  #: Read and written, constants included; the core's are those on its bus.
    bytes_share: float


def host_work(program: Program) -> HostWork:
    """Return the work of the operators that the host runs."""
    if not program.host:
        return HostWork(0, 0, 0.0, 0, 0.0)
    on_host = sum(map(macs, program.host))
    operands = (o for step in program.host for o in (*step.sources, *step.results))
    moved = sum(_elements(o) * np.dtype(o.dtype).itemsize for o in operands)
    config, sections = program.config, program.per_batch
    on_bus = sum(moved_bytes(i, config) for section in sections for i in section.instructions)
    shares = (
        part / (part + core) if part else 0.0
        for part, core in ((on_host, program.macs), (moved, on_bus / program.batch))
    )
    return HostWork(len(program.host), on_host, next(shares), moved, next(shares))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def host_share(program: Program) -> str:
    """Return how much of a model the host runs, as text; empty if the core runs all of it."""
    if not program.host:
        return ""
    count = len(program.host)
    if not program.layers:
        return f"all {count} operators on the host" if count > 1 else "its operator on the host"
    text = f"{_counted(count, 'operator')} on the host, "
    text += f"{_counted(len(program.layers), 'layer')} on the core"
    work = host_work(program)
    text += f" with {1 - work.bytes_share:.1%} of the bytes"
    multiplies = work.macs + program.macs
    return f"{text} and {1 - work.macs_share:.1%} of the multiplications" if multiplies else text
