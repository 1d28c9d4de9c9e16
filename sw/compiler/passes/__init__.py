"""Rewritings of a graph that save work and change no byte of its results.

Converters write some operators as chains of others. Each rule finds one such chain by its last
operator, and returns its replacement; operations without readers are then left out.
"""

from collections.abc import Iterator

from celosia.sw.compiler.passes.functions import function
from celosia.sw.compiler.passes.layers import by_channels, dilated, nearest, parted, transposed_rows
from celosia.sw.compiler.passes.moves import (
    nothing,
    reshape_later,
    slice_first,
    transpose_of_ones,
    turned_matrices,
    two_reshapes,
    two_transposes,
    with_batch,
    without_ones,
)
from celosia.sw.compiler.passes.rewriting import Rewriting, Rule
from celosia.sw.ir.graph import Graph
from celosia.sw.layers.shapes import RESHAPES
from celosia.sw.operators.registry import OPERATORS

#: Operators that a table of 256 entries computes.
_TABLES = tuple(kind for kind, record in OPERATORS.items() if record.table)

#: Rules by the kind of the last operator of their chains.
_RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(RESHAPES, (nothing, two_reshapes, nearest)),
    "TRANSPOSE": (nothing, two_transposes, transpose_of_ones, with_batch),
    "BATCH_MATMUL": (turned_matrices, with_batch),
    "MEAN": (without_ones,),
    "SLICE": (slice_first, parted),
    **dict.fromkeys(_TABLES, (reshape_later,)),
    **dict.fromkeys(("ADD", "MUL", "SUB"), (function, reshape_later)),
    "QUANTIZE": (function,),
    "FULLY_CONNECTED": (transposed_rows,),
    "BATCH_TO_SPACE_ND": (dilated,),
}


def simplified(graph: Graph) -> Graph:
    """Return a graph of fewer operators, with the same outputs."""
    state = Rewriting(graph)
    while any(_apply(state)):
        pass
    for operation in list(state.operations):
        new = by_channels(state, operation)
        if new is not None:
            state.put(operation, new)
    return (
        state.finished()
        if len(state.tensors) > len(graph.tensors) or (state.operations != list(graph.operations))
        else graph
    )


def _apply(state: Rewriting) -> Iterator[bool]:
    """Try each rule on each operation; yield True after the first one that finds its chain."""
    for operation in state.operations:
        for rule in _RULES.get(operation.kind, ()):
            new = rule(state, operation)
            if new is not None:
                state.put(operation, new)
                yield True
                return
