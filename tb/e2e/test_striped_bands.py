"""Depthwise layers in bands whose values pass through external memory in row stripes.

The bytes are those of LiteRT's reference kernels, the cycles those of the RTL.
"""

from typing import Any

import networks as w
import numpy as np
import pytest
from agreement import compare, compare_cycles
from networks import Layer

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program

pytestmark = pytest.mark.usefixtures("litert")

#: Depth of the input, and the layers: kernel, stride, channels; the kernel 0 stands for 1 × 1.
PLANS = {
    "stride 1": (3, [(0, 1, 16), (3, 1, 16), (0, 1, 8)]),
    "stride 2": (3, [(0, 1, 64), (3, 2, 64), (0, 1, 8)]),
    "kernel 5": (3, [(0, 1, 12), (5, 1, 12), (0, 1, 8)]),
    "8 channels": (4, [(0, 1, 8), (3, 1, 8), (3, 2, 8), (0, 1, 16)]),
    "one after another": (5, [(0, 1, 20), (3, 1, 20), (5, 2, 20), (3, 1, 20)]),
    "valid": (3, [(0, 1, 16), (-3, 1, 16), (-5, 2, 16), (0, 1, 8)]),
    "expansion": (8, [(0, 1, 48), (3, 1, 48), (0, 1, 8)]),
}


#: Rows and columns of the input, and bytes of the unified buffer.
MAPS = ((19, 22, 12288), (28, 28, 10240), (28, 28, 6144))
WIDE = ((56, 30, 98304),)


def network(
    rng: np.random.Generator, name: str, rows: int, columns: int, dtype: str = "int8"
) -> bytes:
    """Return the file of a plan; a share of uint8 weights needs nine bits."""
    depth, plan = PLANS[name]
    before, layers = depth, list[Layer]()
    offset = 128 * (dtype == "uint8")
    for kernel, stride, channels in plan:
        size = abs(kernel) or 1
        shape = (1, size, size, channels) if kernel else (channels, 1, 1, before)
        weights = rng.integers(-127, 128, shape).astype(np.int8)
        scale: float | np.ndarray = rng.uniform(0.002, 0.01, channels)
        if offset:
            weights = np.clip(rng.normal(140, 40, shape), 0, 255).astype(np.uint8)
            scale = 0.005
        options: dict[str, Any] = {
            "weights": weights,
            "bias": rng.integers(-500, 500, channels).astype(np.int32),
            "weight_scale": scale,
            "weight_zero_point": 110 if offset else 0,
            "output_scale": 0.4,
            "output_zero_point": int(rng.integers(-20, 20)) + offset,
            "padding": "VALID" if kernel < 0 else "SAME",
            "stride": (stride, stride),
        }
        layers.append(w.Depthwise(**options) if kernel else w.Convolution(**options))
        before = channels
    return w.write_sequential(
        layers,
        input_shape=(1, rows, columns, depth),
        input_scale=0.3,
        input_zero_point=5 + offset,
        input_type=dtype,
    )


def is_striped_band(program: Program) -> bool:
    """Return whether a layer has bands and row stripes."""
    return any(
        "in bands" in layer.note and "rows of results" in layer.note for layer in program.layers
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", PLANS)
def test_bytes(name, dtype, rng) -> None:
    striped = 0
    for rows, columns, size in WIDE if name == "stride 2" else MAPS:
        content = network(rng, name, rows, columns, dtype)
        x = rng.integers(-128, 128, (2, 1, rows, columns, PLANS[name][0])).astype(np.int8)
        x = x.view(dtype)
        program = compare(content, x, sizes=f"edge,unified_bytes={size}", batch=2)
        striped += is_striped_band(program)
    assert striped


def test_cycles(rng, verilator) -> None:
    name = "stride 1"
    sizes, shape = "nano", (64, 64, PLANS[name][0])
    x = rng.integers(-128, 128, (1, 1, *shape)).astype(np.int8)
    content = network(rng, name, *shape[:2])
    assert is_striped_band(compile_graph(load(content), preset(sizes)))
    # Moves of single pixels compete with drains at the unified buffer: counted by shares.
    compare_cycles(content, x, sizes=sizes, tolerance=0.04)
