"""NumPy's account of ONNX Runtime's kernels against ONNX Runtime."""

import numpy as np
import pytest
from onnx_graphs import Net, reference

from celosia.sw.ir.graph import Quantization
from celosia.sw.layers import onnxruntime as kernels

TYPES = (np.uint8, np.int8)
SINGLE = np.float32


class Ends:
    """Random scales and zero points of two inputs and a result, in both types."""

    def __init__(self, dtype, rng) -> None:
        self.dtype = np.dtype(dtype)
        self.unsigned = dtype == np.uint8
        limits = np.iinfo(dtype)
        self.low, self.high = limits.min, limits.max + 1
        first, second = rng.uniform(0.005, 0.1, 2)
        self.scales = [SINGLE(x) for x in (first, second, (first + second) * rng.uniform(0.4, 1))]
        self.points = [int(n) for n in rng.integers(self.low, self.high, 3)]

    def constants(self, number: int) -> list[np.ndarray]:
        """Return a scale and a zero point, as inputs of a node."""
        return [np.array(self.scales[number]), np.array(self.points[number], self.dtype)]

    def meaning(self, number: int) -> Quantization:
        point = self.points[number] - (128 if self.unsigned else 0)
        return Quantization(np.array([self.scales[number]]), np.array([point]))

    def shifted(self, array: np.ndarray) -> np.ndarray:
        """Return the int8 that stand for elements."""
        return (array.astype(int) - (128 if self.unsigned else 0)).astype(np.int8)


def run(kind, inputs, dtype, domain="com.microsoft", **options):
    """Return the result of one node: inputs that are tuples are computed, others constants."""
    feeds = {f"x{n}": array[0] for n, array in enumerate(inputs) if isinstance(array, tuple)}
    shapes = {name: x.shape for name, x in feeds.items()}
    net = Net(dtype=next(iter(feeds.values())).dtype, **shapes)
    names = [f"x{n}" if isinstance(a, tuple) else net.constant(a) for n, a in enumerate(inputs)]
    content = net.content(net.add(kind, *names, domain=domain, **options), dtype=dtype)
    return np.asarray(reference(content).run(None, feeds)[0])


def pairs(ends):
    x = np.arange(ends.low, ends.high)
    return [array.ravel().astype(ends.dtype) for array in np.meshgrid(x, x)]


def require_equal(kind, ends, one, two):
    """Compare a sum or a product: operands that are tuples are computed, others constants."""
    inputs = [one, *ends.constants(0), two, *ends.constants(1), *ends.constants(2)]
    compute = kernels.added if kind == "Add" else kernels.multiplied
    meanings = ends.meaning(0), ends.meaning(1), ends.meaning(2)
    left, right = (ends.shifted(a[0] if isinstance(a, tuple) else a) for a in (one, two))
    result = compute(left, right, meanings, unsigned=ends.unsigned)
    np.testing.assert_array_equal(result, ends.shifted(run(f"QLinear{kind}", inputs, ends.dtype)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", ["Add", "Mul"])
def test_all_pairs(kind, dtype, rng):
    for _ in range(10):
        ends = Ends(dtype, rng)
        if kind == "Mul":
            ends.scales[2] = SINGLE(ends.scales[0] * ends.scales[1] * rng.uniform(30, 200))
        one, two = pairs(ends)
        require_equal(kind, ends, (one,), (two,))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("kind", ["Add", "Mul"])
def test_a_number_for_all(kind, first, dtype, rng):
    for _ in range(10):
        ends = Ends(dtype, rng)
        x = np.arange(ends.low, ends.high).astype(dtype)
        number = rng.integers(ends.low, ends.high, 1).astype(dtype)
        require_equal(kind, ends, *((number, (x,)) if first else ((x,), number)))


@pytest.mark.parametrize("dtype", TYPES)
def test_convolution_sums(dtype, rng):
    """Weights on the signed axis of the activations, a scale each, as QLinearConv multiplies."""
    ends = Ends(dtype, rng)
    x = rng.integers(ends.low, ends.high, (1, 40, 16, 16)).astype(dtype)
    weights = rng.integers(ends.low, ends.high, (8, 40, 1, 1)).astype(dtype)
    scales = rng.uniform(0.001, 0.01, 8).astype(SINGLE)
    bias = rng.integers(-5000, 5000, 8).astype(np.int32)
    zero = 128 if ends.unsigned else 0
    inputs = [(x,), *ends.constants(0), weights, scales, np.full(8, zero, dtype)]
    inputs += [*ends.constants(2), bias]
    wanted = ends.shifted(run("QLinearConv", inputs, dtype, domain=""))
    centred = x.astype(np.int64) - ends.points[0]
    sums = np.einsum("nchw,oc->nohw", centred, weights[:, :, 0, 0].astype(np.int64) - zero)
    factor = kernels.factors(ends.meaning(0), scales, ends.meaning(2))[:, None, None]
    sums = sums + bias[:, None, None]
    found = kernels.requantized(sums, factor, ends.meaning(2).zero_point)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", TYPES)
def test_pooling(dtype, rng):
    for _ in range(10):
        ends = Ends(dtype, rng)
        ends.scales[2] = SINGLE(ends.scales[0] * rng.uniform(0.5, 1))
        x = rng.integers(ends.low, ends.high, (2, 16, 9, 7)).astype(dtype)
        inputs = [(x,), *ends.constants(0), *ends.constants(2)]
        source, output = ends.meaning(0), ends.meaning(2)
        stored = ends.shifted(x)
        wanted = run("QLinearGlobalAveragePool", inputs, dtype, channels_last=0)
        sums = stored.sum((2, 3), keepdims=True, dtype=np.int64) - 63 * source.zero_point
        factor = ends.scales[0] / (ends.scales[2] * SINGLE(63))
        found = kernels.requantized(sums, factor, output.zero_point)
        np.testing.assert_array_equal(found, ends.shifted(wanted))
        wanted = run("QLinearAveragePool", inputs, dtype, kernel_shape=[2, 3], strides=[2, 2])
        taps = [stored[:, :, a : a + 7 : 2, b : b + 5 : 2] for a in (0, 1) for b in (0, 1, 2)]
        both = {"unsigned": ends.unsigned}
        found = kernels.averaged(np.stack(taps), np.array(6), source, output, **both)
        np.testing.assert_array_equal(found, ends.shifted(wanted))


@pytest.mark.parametrize("dtype", TYPES)
def test_functions_of_one_element(dtype, rng):
    for _ in range(10):
        ends = Ends(dtype, rng)
        x = np.arange(ends.low, ends.high).astype(dtype)
        inputs = [(x,), *ends.constants(0), *ends.constants(2)]
        wanted = run("QLinearLeakyRelu", inputs, dtype, alpha=0.1)
        meanings = ends.meaning(0), ends.meaning(2)
        leaky = kernels.table(lambda x: np.where(x >= 0, x, x * SINGLE(0.1)), *meanings)
        np.testing.assert_array_equal(leaky[ends.shifted(x).view(np.uint8)], ends.shifted(wanted))
        ends.scales[2] = SINGLE(1 / 256)
        wanted = run("QLinearSigmoid", [*inputs[:3], *ends.constants(2)], dtype)
        logistic = kernels.table(kernels.logistic, ends.meaning(0), ends.meaning(2))
        found = logistic[ends.shifted(x).view(np.uint8)]
        np.testing.assert_array_equal(found, ends.shifted(wanted))


def test_float_functions(rng):
    x = (rng.normal(size=50_000) * 4).astype(SINGLE)
    for kind, function in (("Sigmoid", kernels.logistic), ("Tanh", kernels.tanh)):
        np.testing.assert_array_equal(function(x), run(kind, [(x,)], SINGLE, domain=""))


@pytest.mark.parametrize("dtype", TYPES)
def test_softmax(dtype, rng):
    # Products of exponentials and 1 / scale: past float32 with 3 addends, near ties with 4 and 8.
    cases = ((1 / 256, 10), (1 / 255, 10), (0.0037, 10), (0.0005, 3), (1 / 256, 4), (1 / 256, 8))
    for scale, length in cases:
        ends = Ends(dtype, rng)
        ends.scales[2], ends.points[2] = SINGLE(scale), ends.low
        if length in (4, 8):
            ends.scales[0] = SINGLE(np.log(2) / 4)
        x = np.clip(rng.normal(0, 30, (2000, length)) + 128, 0, 255).astype(int)
        x[0] = 0
        x[0, 2] = 255
        x = (x + (0 if ends.unsigned else -128)).astype(dtype)
        inputs = [(x,), *ends.constants(0), *ends.constants(2)]
        wanted = ends.shifted(run("QLinearSoftmax", inputs, dtype, opset=13, axis=-1))
        found = kernels.softmax(ends.shifted(x), ends.meaning(0), ends.meaning(2))
        np.testing.assert_array_equal(found, wanted)


def test_quantize(rng):
    x = (rng.normal(size=20_000) * 3).astype(SINGLE)
    x[:4] = np.nan, np.inf, -np.inf, 2.5 * SINGLE(0.02)
    inputs = [(x,), np.array(SINGLE(0.02)), np.array(3, np.int8)]
    wanted = run("QuantizeLinear", inputs, np.int8, domain="")
    meaning = Quantization(np.array([0.02], SINGLE), np.array([3]))
    np.testing.assert_array_equal(kernels.quantized(x, meaning), wanted)
