"""Chains of layers whose rows pass from one to the next inside the unified buffer.

Random networks of expansions, depthwise layers, projections and ADDs on buffers too small for their
maps. The bytes are those of LiteRT's reference kernels, the cycles those of the RTL.
"""

from typing import Any

import networks as w
import numpy as np
import pytest
from agreement import compare, compare_cycles

from celosia.sw.ir.program import Program

pytestmark = pytest.mark.usefixtures("litert")

#: Multiplications of a network, at most: what the machine model does in a second or so.
MOST_WORK = 6_000_000
#: Parts of a network that a chain may have, with their weights.
PARTS = {"block": 5, "separable": 3, "pointwise": 1, "pool": 1, "table": 1}
#: Networks whose chains end with an ADD, with a pooling, and others.
SEEDS = {"sum": (28, 31), "pooling": (6, 45), "others": (0, 3)}
SIZES = ("edge", "edge", "edge,lanes=16", "edge,columns=8", "micro")


class Blocks:
    """Layers of a random network, and the extents of the last result."""

    def __init__(self, rng: np.random.Generator, rows: int, columns: int, channels: int) -> None:
        self.rng = rng
        self.shape = [rows, columns, channels]
        self.layers: list[w.Layer] = []
        self.work = 0

    @property
    def name(self) -> str:
        """Name of the last result, which a layer made."""
        return f"output_{len(self.layers) - 1}"

    def kernel(self, shape: tuple[int, ...], taps: int, strides: tuple[int, int]) -> dict[str, Any]:
        """Return the options of a convolution."""
        rng, channels = self.rng, self.shape[2]
        relu = rng.random() < 0.5
        return {
            "weights": rng.integers(-127, 128, shape).astype(np.int8),
            "bias": rng.integers(-900, 900, channels).astype(np.int32),
            "weight_scale": rng.uniform(0.5, 1.5, channels) * 0.02 / np.sqrt(taps),
            "output_scale": 0.05,
            "output_zero_point": -128 if relu else int(rng.integers(-30, 30)),
            "activation": "RELU" if relu else "NONE",
            "padding": "VALID" if rng.random() < 0.2 and min(self.shape[:2]) > 12 else "SAME",
            "stride": strides,
        }

    def shrink(self, size: int, options: dict[str, Any]) -> None:
        """Set rows and columns of the result of a window, and count its multiplications."""
        lost = size - 1 if options["padding"] == "VALID" else 0
        for axis, stride in enumerate(options["stride"]):
            self.shape[axis] = -(-(self.shape[axis] - lost) // stride)
        self.work += int(np.prod(self.shape[:2])) * options["weights"].size

    def pointwise(self, channels: int | None = None, size: int = 1, stride: int = 1) -> None:
        """Append a convolution."""
        before, steps = self.shape[2], (stride, stride)
        self.shape[2] = channels or int(self.rng.integers(3, 41))
        shape = (self.shape[2], size, size, before)
        options = self.kernel(shape, size * size * before, steps)
        self.shrink(size, options)
        self.layers.append(w.Convolution(**options))

    def depthwise(self) -> None:
        """Append a depthwise layer."""
        size = int(self.rng.choice([3, 3, 3, 5]))
        down, right = self.rng.choice([[1, 1], [1, 1], [2, 2], [2, 1], [3, 3]])
        options = self.kernel((1, size, size, self.shape[2]), size * size, (int(down), int(right)))
        self.shrink(size, options)
        self.layers.append(w.Depthwise(**options))

    def block(self) -> None:
        """Append an expansion, a depthwise layer, a projection, and an ADD if shapes allow it."""
        before, name = [*self.shape], self.name
        self.pointwise(int(before[2] * self.rng.integers(2, 7)))
        self.depthwise()
        self.pointwise(before[2] if self.rng.random() < 0.7 else None)
        if self.shape == before:
            self.layers.append(w.Add(second=name, output_scale=0.07, output_zero_point=3))

    def residual(self) -> None:
        """Append a 1 × 1 convolution, an ADD of what it reads, and a 3 × 3 convolution."""
        name = self.name
        self.pointwise(self.shape[2])
        self.layers.append(w.Add(second=name, output_scale=0.07, output_zero_point=3))
        self.pointwise(self.shape[2], 3)

    def separable(self) -> None:
        """Append a depthwise layer and a 1 × 1 convolution."""
        self.depthwise()
        self.pointwise()

    def pool(self) -> None:
        """Append a maximum over windows."""
        kind = str(self.rng.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"]))
        self.layers.append(w.Pool(kind=kind))
        self.shape[:2] = [extent // 2 for extent in self.shape[:2]]

    def table(self) -> None:
        """Append a function of each element."""
        self.layers.append(
            w.Function(kind="LOGISTIC", output_scale=1 / 256, output_zero_point=-128)
        )


def network(seed: int) -> tuple[bytes, np.ndarray, str]:
    """Return a random network, inputs, and the core for it."""
    rng = np.random.default_rng(seed)
    while True:
        rows, columns = (int(n) for n in rng.integers(40, 225 if rng.random() < 0.4 else 80, 2))
        depth = int(rng.choice([1, 3, 4, 8, 16]))
        stack = Blocks(rng, rows, columns, depth)
        largest = rows * columns * depth
        stack.pointwise(int(rng.choice([4, 8, 12, 16])), 3, int(rng.choice([1, 2])))
        for _ in range(int(rng.integers(1, 5))):
            parts = list(PARTS)
            chances = np.array([*PARTS.values()]) / sum(PARTS.values())
            getattr(stack, str(rng.choice(parts, p=chances)))()
            largest = max(largest, int(np.prod(stack.shape)))
            if min(stack.shape[:2]) < 12:
                break
        if stack.work <= MOST_WORK and min(stack.shape) > 0:
            break
    content = w.write_sequential(
        stack.layers, input_shape=(1, rows, columns, depth), input_scale=0.03, input_zero_point=5
    )
    share = rng.uniform(0.1, 0.6)
    unified = max(4096, int(largest * share)) // 1024 * 1024
    x = rng.integers(-128, 128, (2, 1, rows, columns, depth)).astype(np.int8)
    return content, x, f"{rng.choice(SIZES)},unified_bytes={unified}"


def is_chain(program: Program) -> bool:
    """Return whether rows pass from one layer to the next."""
    return any("from the layer before, " in layer.note for layer in program.layers)


@pytest.mark.parametrize("name", SEEDS)
def test_bytes(name) -> None:
    programs = []
    for seed in SEEDS[name]:
        content, x, sizes = network(seed)
        programs.append(compare(content, x, sizes=sizes, batch=1 + seed % 2))
    assert any(map(is_chain, programs))


@pytest.mark.parametrize(
    ("rows", "columns", "channels", "unified"), [(64, 50, 12, 16), (80, 60, 8, 24)]
)
def test_sum_inside_a_chain(rows, columns, channels, unified) -> None:
    stack = Blocks(np.random.default_rng(0), rows, columns, 3)
    stack.pointwise(channels, 3)
    stack.residual()
    stack.residual()
    content = w.write_sequential(
        stack.layers, input_shape=(1, rows, columns, 3), input_scale=0.03, input_zero_point=5
    )
    x = stack.rng.integers(-128, 128, (1, 1, rows, columns, 3)).astype(np.int8)
    program = compare(content, x, sizes=f"micro,unified_bytes={unified * 1024}")
    assert is_chain(program)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 50))
def test_many(first) -> None:
    for seed in range(first, first + 50):
        content, x, sizes = network(seed)
        compare(content, x, sizes=sizes, batch=1 + seed % 2)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 100, 10))
def test_cycles(first, verilator) -> None:
    for seed in range(first, first + 10):
        content, x, sizes = network(seed)
        # Few sizes of the buffer: each one is a model of the RTL, which takes a minute to build.
        core, unified = sizes.split("unified_bytes=")
        rounded = 1 << (int(unified) - 1).bit_length()
        # 94 of 100 are within 0.5 %: docs/design/performance.md.
        compare_cycles(content, x[:1], sizes=f"{core}unified_bytes={rounded}", tolerance=0.012)
