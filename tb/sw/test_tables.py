"""Operators that a table does: their tables, and what the front end reports about them."""

import math
from dataclasses import dataclass, replace
from typing import Any

import litert
import networks as w
import numpy as np
import prerequisites
import pytest

from celosia.sw.frontend.tflite import ModelError, load
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.tables import table
from celosia.sw.operators.registry import OPERATORS

TABLES = {kind: r.table for kind, r in OPERATORS.items() if r.table and kind.isupper()}
#: Functions without attributes.
PLAIN = "ABS ELU EXP HARD_SWISH LOG NEG RELU_0_TO_1 RSQRT SQRT TANH".split()

BYTES = np.arange(256, dtype=np.uint8).view(np.int8)

#: Kernels that take nothing below zero.
ROOTS = ("RSQRT", "SQRT")

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "GELU": {"approximate": False},
    "LEAKY_RELU": {"alpha": 0.25},
    "PRELU": {"alpha": -7, "alpha_scale": 0.125},
}


def quantization(scale: float, zero_point: int) -> w.Quantization:
    return w.Quantization(np.array([scale], np.float32), np.array([zero_point], np.int64))


def made(kind: str, scale: float, zero_point: int, out: float, out_zero_point: int, **more: Any):
    attributes = ATTRIBUTES.get(kind, {}) | more
    ends = quantization(scale, zero_point), quantization(out, out_zero_point)
    return table(TABLES[kind], *ends, attributes)


@dataclass(frozen=True)
class Extreme:
    """MAXIMUM or MINIMUM of int8 and one number of the same meaning."""

    kind: str
    number: int

    def add(self, chain: w.Chain) -> None:
        constant = np.full((1, 1), self.number, np.int8)
        inputs = [w.Constant(constant, chain.scale, chain.zero_point)]
        chain.operator(self.kind, (1, 256), inputs)


def drawn(kind: str, rng: np.random.Generator) -> tuple[w.Quantization, w.Layer | Extreme]:
    """Return a random input and operator; some scales are nothing that anybody would use."""

    def scale(low: float, high: float) -> float:
        return float(np.float32(np.exp(rng.uniform(np.log(low), np.log(high)))))

    wide = rng.random() < 0.2
    source = scale(1e-4, 1e3) if wide else scale(5e-3, 0.5)
    zero_point = -128 if kind in ROOTS else int(rng.integers(-128, 128))
    ends = {
        "output_scale": scale(1e-4, 1e3) if wide else scale(1e-3, 0.3),
        "output_zero_point": int(rng.integers(-128, 128)),
    }
    if kind == "LOGISTIC":
        ends["output_scale"] = 1 / 256
    if kind == "HARD_SWISH":
        ends["output_scale"] = max(ends["output_scale"], source / 127)
    if kind == "NEG":
        ends = {}
    if kind in ("MAXIMUM", "MINIMUM"):
        return quantization(source, zero_point), Extreme(kind, int(rng.integers(-128, 128)))
    if kind in w.Binary.KINDS:
        constant, center = (int(n) for n in rng.integers(-128, 128, 2))
        other = scale(1e-3, 1)
        if kind != "MUL":
            # The reference kernel aborts from 2^-19 of the greater scale on.
            ends["output_scale"] = max(ends["output_scale"], max(source, other) * 2.0**-18)
        layer: w.Layer = w.Binary(
            kind=kind,
            second=np.full((1, 1), constant, np.int8),
            second_scale=other,
            second_zero_point=center,
            activation=str(rng.choice(["NONE", "RELU", "RELU6"])),
            output_scale=ends["output_scale"],
            output_zero_point=int(ends["output_zero_point"]),
        )
    elif kind == "PRELU":
        alpha, center = (int(n) for n in rng.integers(-128, 128, 2))
        layer = w.Prelu(alpha=alpha, alpha_scale=scale(1e-3, 1), alpha_zero_point=center, **ends)
    else:
        layer = w.Function(
            kind=kind,
            alpha=float(rng.uniform(-1, 2)) if kind == "LEAKY_RELU" else None,
            approximate=bool(rng.integers(2)) if kind == "GELU" else None,
            **ends,
        )
    return quantization(source, zero_point), layer


def beside(cases: list[tuple[w.Quantization, w.Layer | Extreme]]) -> w.Graph:
    """Return one graph of operators side by side, each with another input."""
    tensors: list[w.Tensor] = []
    operations: list[w.Operation] = []
    for source, layer in cases:
        chain = w.Chain((1, 256), source.scale, source.zero_point)
        layer.add(chain)
        part = chain.graph()
        (operation,), first = part.operations, len(tensors)
        tensors += part.tensors
        inputs = tuple(first + n for n in operation.inputs)
        outputs = tuple(first + n for n in operation.outputs)
        operations.append(replace(operation, inputs=inputs, outputs=outputs))
    inputs = tuple(operation.inputs[0] for operation in operations)
    outputs = tuple(operation.outputs[0] for operation in operations)
    return w.Graph(tuple(tensors), tuple(operations), inputs, outputs)


@pytest.mark.parametrize("kind", TABLES)
def test_tables_are_those_of_litert(kind: str, rng: np.random.Generator) -> None:
    cases = [drawn(kind, rng) for _ in range(200)]
    graph = beside(cases)
    interpreter = prerequisites.litert(w.serialize(graph), graph)
    wanted = litert.invoked(interpreter, *[BYTES[None, None]] * len(graph.inputs))
    compared = 0
    for operation, row in zip(load(w.serialize(graph)).operations, wanted, strict=True):
        source = graph.tensors[operation.inputs[0]].quantization
        output = graph.tensors[operation.outputs[0]].quantization
        assert source and output
        try:
            found = table(TABLES[kind], source, output, operation.attributes)
        except CompileError:
            continue
        np.testing.assert_array_equal(found, row[0, 0])
        compared += 1
    assert compared > 150


@pytest.mark.parametrize(
    ("kind", "out", "message"),
    [
        ("LEAKY_RELU", 1e-9, "wanted factors below 2^30, got"),
        ("RSQRT", 1e5, "wanted factors from 2^-12 to 2^30, got"),
        ("HARD_SWISH", 1e-3, "wanted an output scale above 1/128 of the input's, got"),
    ],
)
def test_scales_that_kernels_cannot_do(kind: str, out: float, message: str) -> None:
    with pytest.raises(CompileError, match="^wanted") as caught:
        made(kind, 3.0, 0, out, 0)
    assert message in str(caught.value)


def chain(*layers: w.Layer, shape: tuple[int, ...] = (1, 5, 7, 3), scale: float = 0.05) -> w.Graph:
    return w.sequential(layers, input_shape=shape, input_scale=scale, input_zero_point=-9)


FUNCTIONS = [
    *((w.Function(kind=kind), {}) for kind in PLAIN),
    (w.Function(kind="GELU", approximate=True), {"approximate": True}),
    (w.Function(kind="LEAKY_RELU", alpha=0.25), {"alpha": 0.25}),
    (w.Function(kind="LOGISTIC", output_scale=1 / 256, output_zero_point=-128), {}),
    (w.Prelu(alpha=-100, alpha_scale=0.5, alpha_zero_point=7), {"alpha": -107, "alpha_scale": 0.5}),
]


@pytest.mark.parametrize(("layer", "attributes"), FUNCTIONS)
def test_attributes(layer: w.Layer, attributes: dict[str, Any]) -> None:
    written = chain(layer)
    (operation,) = load(w.serialize(written)).operations
    assert operation.kind == written.operations[0].kind
    assert operation.attributes == attributes


SLOPES = w.Prelu(alpha=1, alpha_scale=1.0)
PAIR = {"shape": (2,), "data": np.array([1, 2], np.int8)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (chain(w.Function(kind="LOGISTIC")), "wanted a result of scale 1/256, got 0.05"),
        (
            chain(w.Function(kind="HARD_SWISH", output_scale=1e-4)),
            "wanted a result of more than 1/128 of the input's scale, got 0.05 and 0.0001",
        ),
        (chain(w.Function(kind="NEG", output_scale=1.0)), "wanted the same scale and zero point"),
        (chain(w.Function(kind="LEAKY_RELU", alpha=math.inf)), "wanted a finite alpha, got inf"),
        (w.retensored(chain(SLOPES), "alpha_0", **PAIR), "wanted alpha to broadcast, got (2,) on"),
        (
            w.retensored(chain(w.Function(kind="TANH")), "output_0", shape=(1, 105)),
            "wanted a result of shape (1, 5, 7, 3), got (1, 105)",
        ),
    ],
)
def test_refusals(given: w.Graph, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load(w.serialize(given))
    assert message in str(caught.value)
