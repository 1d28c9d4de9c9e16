"""Subgraphs of ``.tflite`` files, before their operators are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from celosia.sw.frontend.tables import File
from celosia.sw.frontend.unsigned import signed
from celosia.sw.ir.graph import Tensor
from celosia.sw.operators.registry import OPERATORS


@dataclass(frozen=True, eq=False)
class Subgraph:
    """Tensors and operators of a subgraph."""

    tensors: tuple[Tensor, ...]  #: Quantised ones of uint8 as int8.
    operators: tuple[Any, ...]  #: Tables in the file.
    #: Numbers of tensors.
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    #: Tensors with an extent that is dynamic, that keep their contents, and that are uint8 in the
    #: file.
    dynamic: frozenset[int]
    variables: frozenset[int]
    unsigned: frozenset[int]


def read_subgraph(file: File, number: int) -> Subgraph:
    """Return a subgraph by its number; raises IndexError if there is none."""
    if not 0 <= number < file.count(file.model.SubgraphsLength(), 4):
        raise IndexError
    table = file.model.Subgraphs(number)
    tensors = list(file.elements(table.TensorsLength(), table.Tensors, file.tensor))
    tables = [table.Tensors(n) for n in range(len(tensors))]
    operators = tuple(table.Operators(n) for n in range(file.count(table.OperatorsLength(), 4)))
    unsigned = _unsigned(file, operators, tensors)
    for index in unsigned:
        tensors[index] = signed(tensors[index])
    return Subgraph(
        tensors=tuple(tensors),
        operators=operators,
        inputs=file.numbers(table.InputsLength(), table.Inputs),
        outputs=file.numbers(table.OutputsLength(), table.Outputs),
        dynamic=frozenset(
            number
            for number, tensor in enumerate(tables)
            if -1 in map(tensor.ShapeSignature, range(tensor.ShapeSignatureLength()))
        ),
        variables=frozenset(n for n, tensor in enumerate(tables) if tensor.IsVariable()),
        unsigned=unsigned,
    )


def _unsigned(file: File, operators: Sequence[Any], tensors: Sequence[Tensor]) -> frozenset[int]:
    """Return the quantised tensors of uint8, but for those that are numbers without scale."""
    plain: set[int] = set()
    for operator in operators:
        kind = file.kind(operator.OpcodeIndex())
        if kind in OPERATORS and OPERATORS[kind].plain:
            plain.update(file.numbers(operator.InputsLength(), operator.Inputs))
            plain.update(file.numbers(operator.OutputsLength(), operator.Outputs))
    unsigned = (n for n, t in enumerate(tensors) if t.dtype == np.uint8 and t.quantization)
    return frozenset(unsigned) - plain
