"""LiteRT's kernels, the reference for a model's outputs."""

from collections.abc import Sequence

import numpy as np
from litert import resolver

from celosia.sw.frontend.tflite import load

__all__ = ["differs", "outputs"]


def outputs(request: tuple[bytes, Sequence[np.ndarray]]) -> list[np.ndarray] | str:
    """Return the outputs of a model for inputs, or why LiteRT refuses it.

    A damaged model may make it read or write any address: it needs a separate process.
    ``request`` (tuple of bytes and sequence of numpy.ndarray): A model file, and its inputs in any
    shape.
    """
    from ai_edge_litert.interpreter import Interpreter

    content, inputs = request
    try:
        interpreter = Interpreter(
            model_content=content, experimental_op_resolver_type=resolver(load(content))
        )
        interpreter.allocate_tensors()
        for details, array in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(details["index"], array.reshape(details["shape"]))
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
    except (RuntimeError, ValueError) as error:
        return str(error)


def differs(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    """Return which output is other than wanted and how much, bit for bit; empty if none is."""
    for number, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        if mine.dtype != theirs.dtype or mine.size != theirs.size:
            return f"output {number}: wanted {theirs.size} of {theirs.dtype}"
        pair = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (mine, theirs)]
        wrong = np.flatnonzero(pair[0] != pair[1]) // mine.itemsize
        if wrong.size:
            index = int(wrong[0])
            values = f"wanted {theirs.reshape(-1)[index]}, got {mine.reshape(-1)[index]}"
            return f"output {number}: {wrong.size} of {mine.size} differ, at {index} {values}"
    return ""
