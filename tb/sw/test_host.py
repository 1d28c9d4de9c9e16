"""Operators of the host against LiteRT's reference kernels."""

from types import SimpleNamespace

import numpy as np
import prerequisites
import pytest
from networks import Softmax, write_sequential

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import HostOperator
from celosia.sw.operators import host
from celosia.sw.operators.host import OperandError
from celosia.sw.operators.softmax import softmax


def reference(values: np.ndarray, scale: float, beta: float, zero_point: int = 0) -> np.ndarray:
    """Return LiteRT's reference softmax."""
    layer = Softmax(beta=beta)
    about = {"input_scale": scale, "input_zero_point": zero_point}
    content = write_sequential([layer], input_shape=values.shape, **about)
    return prerequisites.litert_outputs(content, values)[0]


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Values over all of int8, or near to one another."""
    values = rng.integers(-128, 128, shape)
    return (values // int(rng.integers(1, 80)) if rng.random() < 0.5 else values).astype(np.int8)


@pytest.mark.parametrize("widest", [12, 500])
def test_random_rows(widest: int, rng: np.random.Generator) -> None:
    for _ in range(400):
        values = drawn(rng, (20, int(rng.integers(1, widest + 1))))
        scale = float(2.0 ** rng.uniform(-12, 4))
        beta = float(rng.choice([1, 0.5, rng.uniform(0.1, 3)]))
        want = reference(values, scale, beta, int(rng.integers(-128, 128)))
        np.testing.assert_array_equal(softmax(values, scale, beta), want, f"{scale} {beta}")


@pytest.mark.parametrize("scale", [1.01 * 2.0**-26, 2.0**-25, 1e-5, 0.003, 0.1, 1, 31.99, 32, 1e4])
def test_all_differences(scale: float) -> None:
    """Every difference to the greatest there can be, beside 0 to 40 values that equal that."""
    equal = np.full((41 * 256, 41), -128, np.int8)
    for count in range(41):
        rows = equal[count * 256 : (count + 1) * 256]
        rows[:, : count + 1] = 127
        rows[:, count] = np.arange(-128, 128)
    np.testing.assert_array_equal(softmax(equal, scale), reference(equal, scale, 1.0))


def test_more_dimensions(rng: np.random.Generator) -> None:
    values = drawn(rng, (2, 3, 4, 5))
    np.testing.assert_array_equal(softmax(values, 0.05), reference(values, 0.05, 1.0))


def test_rows_that_the_kernel_cannot_take() -> None:
    values = np.zeros((1, 511), np.int8)
    np.testing.assert_array_equal(softmax(values, 0.1), reference(values, 0.1, 1.0))
    for width in (512, 5000, 70000):
        assert (softmax(np.zeros((1, width), np.int8), 0.1) == -128).all()


def test_a_machine_without_enough_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(*_: object) -> None:
        raise MemoryError("Unable to allocate 1.00 GiB")

    content = write_sequential([Softmax(beta=1.0)], input_shape=(1, 4), input_scale=0.1)
    (step,) = compile_graph(load(content), preset("nano")).steps
    assert isinstance(step, HostOperator)
    monkeypatch.setattr(host, "OPERATORS", {step.kind: SimpleNamespace(compute=compute)})
    values = {step.sources[0].tensor: np.zeros((1, 4), np.int8)}
    message = r"^operator 0 SOFTMAX \(.*\): no memory for its results"
    with pytest.raises(OperandError, match=message):
        host.run(step, values)


def test_what_it_refuses() -> None:
    with pytest.raises(ValueError, match="^values: wanted int8, got int32$"):
        softmax(np.zeros((1, 3), np.int32), 0.1)
    with pytest.raises(ValueError, match=r"^scale .* got 1.49012e-08$"):
        softmax(np.zeros((1, 3), np.int8), 2.0**-26)
    with pytest.raises(ValueError, match=r"^scale \* beta: wanted more than 2\^-26, got 1e-09$"):
        softmax(np.zeros((1, 3), np.int8), 1e-9)
