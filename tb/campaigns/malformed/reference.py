"""LiteRT's kernels, the reference for a model's outputs."""

from collections.abc import Sequence

import litert
import numpy as np

from celosia.sw.frontend.tflite import load


def outputs(request: tuple[bytes, Sequence[np.ndarray]]) -> list[np.ndarray] | str:
    """Return the outputs of a model for inputs, or why LiteRT refuses it.

    A damaged model may make it read or write any address: it needs a separate process.
    ``request`` (tuple of bytes and sequence of numpy.ndarray): A model file, and its inputs in any
    shape.
    """
    content, inputs = request
    try:
        interpreter = litert.interpreter(content, load(content))
        arrays = (array.reshape(1, -1) for array in inputs)
        return [found[0] for found in litert.invoked(interpreter, *arrays)]
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
