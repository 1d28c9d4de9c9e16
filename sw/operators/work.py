"""Multiplications of operators that the host runs, and their share of a model."""

import math

from celosia.sw.ir.parts import HostOperator, Operand
from celosia.sw.ir.program import Program

#: Convolutions, whose weights have the output channels first, or last.
_CONVOLUTIONS = ("CONV_2D", "Conv", "ConvInteger", "QLinearConv")
_TRANSPOSED = ("QLinearConvTranspose", "TRANSPOSE_CONV")
#: Operators that multiply a vector for each step by matrices.
_RECURRENT = (
    *("BIDIRECTIONAL_SEQUENCE_RNN", "RNN", "SVDF"),
    *("UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"),
)
_MATRICES = ("MatMulInteger", "QLinearMatMul")


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
    on_host = sum(map(macs, program.host))
    total = on_host + program.macs
    return f"{text} with {program.macs / total:.1%} of the multiplications" if total else text
