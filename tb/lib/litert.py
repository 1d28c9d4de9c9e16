"""Kernels of LiteRT that are the reference of a model."""

from collections.abc import Sequence
from typing import Any

import numpy as np

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


def interpreter(content: bytes, graph: Any = None, **options: Any) -> Any:
    """Return LiteRT's interpreter of a model; see ``resolver`` for its kernels."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = resolver(graph) if graph else OpResolverType.BUILTIN_REF
    options = {"experimental_op_resolver_type": kernels, **options}
    return Interpreter(model_content=content, **options)


def invoked(
    interpreter: Any, *inputs: np.ndarray, tensors: Sequence[int] | None = None
) -> list[np.ndarray]:
    """Return the outputs of some invocations, or ``tensors``, in arrays of shape (N, ...).

    ``inputs`` are of shape (N, ...) too; those of another size than the model's resize it.
    """
    for end, array in zip(interpreter.get_input_details(), inputs, strict=True):
        if array[0].size != np.prod(end["shape"]):
            interpreter.resize_tensor_input(end["index"], array.shape[1:])
    interpreter.allocate_tensors()
    ends, results = interpreter.get_input_details(), []
    numbers = tensors or [end["index"] for end in interpreter.get_output_details()]
    for arrays in zip(*inputs, strict=True):
        for end, array in zip(ends, arrays, strict=True):
            interpreter.set_tensor(end["index"], array.reshape(end["shape"]))
        interpreter.invoke()
        results.append([interpreter.get_tensor(number) for number in numbers])
    return [np.stack(found) for found in zip(*results, strict=True)]
