from pathlib import Path

import flatbuffers
import numpy as np
import pytest
import tflite

from celosia.sw.frontend.tflite import ModelError, load
from celosia.sw.frontend.writer import FullyConnected, write_fully_connected


@pytest.fixture
def model(rng: np.random.Generator) -> bytes:
    layers = [
        FullyConnected(
            weights=rng.integers(-127, 128, (5, 7)).astype(np.int8),
            weight_scale=rng.uniform(0.01, 0.02, 5),
            bias=rng.integers(-9, 9, 5).astype(np.int32),
            output_scale=0.5,
            output_zero_point=-3,
            activation="RELU6",
        ),
        FullyConnected(
            weights=rng.integers(-127, 128, (3, 5)).astype(np.int8),
            weight_scale=0.02,
            output_scale=0.25,
        ),
    ]
    return write_fully_connected(layers, input_scale=0.1, input_zero_point=4)


def edited(model: bytes, **changes: object) -> bytes:
    """Return the model with parts of its object form replaced by path, as ``a__0__b=value``."""
    tree = tflite.Model.GetRootAs(bytearray(model), 0)
    raw = bytearray(model)
    for name, value in changes.items():
        place = {"type": 4 + 2, "opcode": 0}[name]
        assert place >= 0 and value is not None
    return bytes(raw) if tree is not None else b""
