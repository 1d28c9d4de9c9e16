"""Checks of the reader of ``.tflite`` files: what it reads of a graph, and what it refuses."""

from typing import Any

import networks as w
import numpy as np
import pytest

from celosia.sw.frontend.tflite import ModelError, load


def contents(data: Any, dtype: type = np.int32) -> dict[str, Any]:
    """Return the changes that give a tensor other contents."""
    array = np.asarray(data, dtype)
    return {"data": array, "shape": array.shape, "dtype": array.dtype}


def assert_read(written: w.Graph, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    """Check what is read of a graph of one operator: some of its attributes, and all tensors."""
    read = load(w.serialize(written))
    (operation,) = read.operations
    assert operation.kind == written.operations[0].kind
    assert operation.attributes.items() >= attributes.items()
    assert read.tensors[operation.outputs[0]].shape == shape
    for one, other in zip(read.tensors, written.tensors, strict=True):
        assert (one.name, one.shape, one.dtype) == (other.name, other.shape, other.dtype)
        assert (one.data is None) == (other.data is None)
        assert one.data is None or one.data.tobytes() == np.asarray(other.data).tobytes()
        assert (one.quantization is None) == (other.quantization is None)
        assert one.quantization is None or one.quantization.equals(other.quantization)


def assert_refused(graph: w.Graph, message: str) -> None:
    """Check that a graph is refused for its first operator, in one line that has the message."""
    with pytest.raises(ModelError) as caught:
        load(w.serialize(graph))
    kind = graph.operations[0].kind
    assert str(caught.value).startswith(f"model: operator 0 {kind} ('output_0'): ")
    assert message in str(caught.value) and "\n" not in str(caught.value)
