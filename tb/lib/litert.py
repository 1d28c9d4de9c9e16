"""Kernels of LiteRT that are the reference of a model."""

from typing import Any

import numpy as np

__all__ = ["resolver"]

#: Operators that LiteRT has no reference kernel of.
_BUILT_IN = {"CEIL", "ELU", "ROUND"}


def resolver(graph: Any) -> Any:
    """Return the ``OpResolverType`` of the reference kernels, or of the built-in ones.

    ``graph`` is one of the frontend or of ``networks``. The built-in kernels are needed for
    operators whose reference kernel is missing, or takes int8 for uint8, as that of SUM does.
    """
    from ai_edge_litert.interpreter import OpResolverType

    kinds = {operation.kind for operation in graph.operations}
    sums = (o.inputs[0] for o in graph.operations if o.kind == "SUM")
    if kinds & _BUILT_IN or any(graph.tensors[n].dtype != np.uint8 for n in sums):
        return OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return OpResolverType.BUILTIN_REF
