"""BATCH_MATMUL: every byte is that of LiteRT's reference kernel."""

import numpy as np
import pytest
from conformance import differences
from networks import Chain, Constant
from random_networks.cases import Case

from celosia.hw.arch.config import preset

pytestmark = pytest.mark.usefixtures("litert")


@pytest.mark.parametrize("constant", [True, False])
def test_scales_are_divided_in_double_precision(constant: bool) -> None:
    """255 · 181 + 120 · 1 times the factor is just above a half; in single precision, just below."""
    chain = Chain((1, 1, 2), 0.05, -128)
    matrix = np.array([[[53], [-127]]], np.int8)
    x, scale = np.array([[[[127, -8]]]], np.int8), 0.03
    inputs = (x,) if constant else (x, matrix[None])
    second = [Constant(matrix, scale, -128)] if constant else [0]
    if not constant:
        second = [0, chain.input("second", (1, 2, 1), scale, -128)]
    read = {"constants": second} if constant else {"inputs": second}
    said = {"scale": np.float32(1.0283482), "zero_point": -128, "adjX": False, "adjY": False}
    chain.operator("BATCH_MATMUL", (1, 1, 1), **read, **said)
    assert differences(Case(0, "", chain.graph(), inputs, 1), preset("micro"), "machine") == ""
