"""Random recurrent layers and models with variables."""

from typing import Any

import numpy as np
from networks import Chain, serialize
from networks.chain import quantized

from celosia.sw.export.tflite import Graph

RNN = ("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN")


def shift_register(rng: np.random.Generator) -> bytes:
    """Return a model that joins its input with those of earlier invocations, held in a variable."""
    columns, rows = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    scale, zero = float(np.float32(rng.uniform(0.01, 0.1))), int(rng.integers(-20, 20))
    contents = rng.integers(-128, 128, (1, rows, columns)).astype(np.int8)
    chain = Chain((1, 1, columns), scale, zero)
    source = chain.number
    chain.operator("CALL_ONCE", inputs=(), shapes=(), initSubgraphIndex=1)
    chain.operator("VAR_HANDLE", (), inputs=(), dtype="resource", sharedName="kept")
    handle = chain.number
    shape = (1, rows, columns)
    chain.operator(
        "READ_VARIABLE", shape, inputs=(handle,), dtype="int8", scale=scale, zero_point=zero
    )
    longer = (1, rows + 1, columns)
    chain.operator(
        "CONCATENATION", longer, inputs=(chain.number, source), scale=scale, zero_point=zero, axis=1
    )
    joined = chain.number
    bounds = [np.array(each, np.int32) for each in ((0, 1, 0), (1, rows + 1, columns), (1, 1, 1))]
    chain.operator("STRIDED_SLICE", shape, bounds)
    chain.operator("ASSIGN_VARIABLE", inputs=(handle, chain.number), shapes=())
    first = Chain(None)
    first.operator("VAR_HANDLE", (), inputs=(), dtype="resource", sharedName="kept")
    kept = first.constant("contents", contents, scale, zero)
    first.operator("ASSIGN_VARIABLE", inputs=(first.number, kept), shapes=())
    initial = first.graph()
    return serialize(
        chain.graph(joined), Graph(initial.tensors, initial.operations, (), (), "initial")
    )


def lstm(rng: np.random.Generator) -> bytes:
    """Return a model of one layer: with or without peepholes, normalisation and so on."""
    batch, steps, width = (int(rng.integers(1, most + 1)) for most in (3, 4, 6))
    cells = int(rng.integers(1, 9))
    coupled, peephole, norm, project, major = rng.random(5) < 0.4
    outputs = int(rng.integers(1, cells + 1)) if project else cells

    def scale(low: float = 0.002, high: float = 0.03) -> float:
        return float(np.float32(rng.uniform(low, high)))

    shape = (steps, batch, width) if major else (batch, steps, width)
    chain = Chain(shape, scale(0.005, 0.05), int(rng.integers(-128, 128)))
    inputs: list = [-1] * 24
    inputs[0] = chain.number

    def constant(index: int, extents: tuple[int, ...], dtype: str, size: float) -> None:
        limit = {"int8": 127, "int16": 32767, "int32": 3000}[dtype]
        data = rng.integers(-limit, limit + 1, extents).astype(dtype)
        inputs[index] = chain.constant(f"operand{index}", data, size)

    for gate in range(4):
        if gate == 0 and coupled:
            continue
        constant(1 + gate, (cells, width), "int8", scale())
        constant(5 + gate, (cells, outputs), "int8", scale())
        constant(12 + gate, (cells,), "int32", 1e-5)
        if norm:
            constant(20 + gate, (cells,), "int16", scale(2e-5, 2e-4))
        if peephole and gate != 2:
            constant((9, 10, -1, 11)[gate], (cells,), "int16", scale(1e-5, 1e-4))
    if project:
        constant(16, (outputs, cells), "int8", scale())
        if rng.random() < 0.5:
            constant(17, (outputs,), "int32", 1e-5)
    meaning = (scale(0.004, 0.02), int(rng.integers(-30, 30)))
    state = quantized(*meaning)
    inputs[18] = chain.tensor_of("state", (batch, outputs), "int8", state, variable=True)
    cell = quantized(2.0 ** -int(rng.integers(9, 16)))
    inputs[19] = chain.tensor_of("cell", (batch, cells), "int16", cell, variable=True)
    within = [quantized(scale(2e-4, 2e-3)) if norm else None for _ in range(4)]
    hidden = quantized(scale(0.004, 0.02), int(rng.integers(-30, 30)) if project else meaning[1])
    if not project:
        hidden = state
    intermediates = tuple(
        chain.tensor_of(f"within{n}", (0,), "int16", each) for n, each in enumerate(within)
    ) + (chain.tensor_of("hidden", (0,), "int8", hidden),)
    chain.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        (*shape[:2], outputs),
        inputs=inputs,
        scale=meaning[0],
        zero_point=meaning[1],
        fusedActivationFunction="TANH",
        timeMajor=bool(major),
        cellClip=float(rng.choice([0.0, 0.5])),
        projClip=float(rng.choice([0.0, 0.4])),
        intermediates=intermediates,
    )
    return serialize(chain.graph())


def svdf(
    rng: np.random.Generator, dtype: str = "int8", activation: str = "RELU", wrong_rank: int = 0
) -> bytes:
    """Return a model of one SVDF, with or without a bias."""
    batch, width, memory, rank, units = (int(rng.integers(1, most + 1)) for most in (3, 9, 9, 6, 4))
    filters, whole = rank * units, dtype == "int8"

    def constant(role: str, kind: str, extents: tuple[int, ...], most: int, scale: float) -> int:
        if not whole:
            return chain.constant(role, rng.normal(size=extents).astype(np.float32))
        data = rng.integers(-most, most + 1, extents).astype(kind)
        return chain.constant(role, data, scale)

    def scale(low: float, high: float) -> float:
        return float(np.float32(np.exp(rng.uniform(np.log(low), np.log(high)))))

    chain = Chain((batch, width), scale(0.005, 0.05), int(rng.integers(-128, 128)), dtype)
    kept = quantized(scale(1e-4, 1e-2))
    most = int(rng.choice([300, 32767]))
    chain.operator(
        "SVDF",
        (batch, units),
        inputs=(
            chain.number,
            constant("features", "int8", (filters, width), 127, scale(0.002, 0.03)),
            constant("times", "int16", (filters, memory), most, scale(1e-5, 1e-3)),
            constant("bias", "int32", (units,), 30000, 1e-6) if rng.random() < 0.6 else -1,
            chain.tensor_of(
                "state", (batch, memory * filters), "int16" if whole else dtype, kept, variable=True
            ),
        ),
        scale=scale(0.01, 3),
        zero_point=int(rng.integers(-128, 128)),
        rank=wrong_rank or rank,
        fusedActivationFunction=activation,
    )
    return serialize(chain.graph())


def rnn(rng: np.random.Generator, kind: str, activation: str = "TANH", **more: int) -> bytes:
    """Return a model of one recurrent layer without gates, of one or two directions."""
    batch, steps, width = (int(rng.integers(1, most + 1)) for most in (3, 4, 11))
    options: dict[str, Any] = {}
    shape: tuple[int, ...] = (batch, width)
    if kind != "RNN":
        options["timeMajor"] = bool(rng.random() < 0.5)
        shape = (steps, *shape) if options["timeMajor"] else (batch, steps, width)
    directions = 1
    if kind == "BIDIRECTIONAL_SEQUENCE_RNN":
        directions, options["mergeOutputs"] = 2, bool(rng.random() < 0.5)
    chain = Chain(shape, dtype="float32")
    inputs, widths = [chain.number], list[int]()

    def constant(role: str, *extents: int) -> int:
        return chain.constant(role, rng.normal(size=extents).astype(np.float32))

    for way in range(directions):
        units = int(rng.integers(1, 11))
        state = chain.tensor_of(f"state{way}", (batch, units), "float32", variable=True)
        weights = constant(f"weights{way}", units, width), constant(f"again{way}", units, units)
        inputs += [*weights, constant(f"bias{way}", units), state]
        widths.append(units)
    widths = [sum(widths)] if options.get("mergeOutputs") else widths
    inputs += [-1] * (3 if directions == 2 else 0)
    for key, number in more.items():
        inputs[int(key[1:])] = number
    shapes = [(*shape[:-1], each) for each in widths]
    chain.operator(
        kind, inputs=inputs, shapes=shapes, fusedActivationFunction=activation, **options
    )
    return serialize(chain.graph())
