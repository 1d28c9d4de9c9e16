from collections.abc import Callable

import numpy as np
import pytest
from networks import Graph, Operation, Quantization, Tensor, serialize


@pytest.fixture(scope="session")
def two_ended() -> Callable[..., bytes]:
    """Makes a model of two inputs and two outputs of a type: their sum, and RELU of the second."""

    def make(dtype: str = "int8") -> bytes:
        quantization = Quantization(np.array([0.5], np.float32), np.array([0]))
        names = ("left", "model/b;right", "sum", "model/a/Relu;model/b/top")
        tensors = tuple(
            Tensor(name, (1, 2, 3), np.dtype(dtype), None if dtype == "float32" else quantization)
            for name in names
        )
        operations = (Operation("ADD", (0, 1), (2,)), Operation("RELU", (1,), (3,)))
        return serialize(Graph(tensors, operations, (0, 1), (2, 3)))

    return make
