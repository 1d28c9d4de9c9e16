"""Networks quantised by ONNX Runtime, against ONNX Runtime."""

import numpy as np
import prerequisites
import pytest
from onnx_graphs import reference
from whole_networks.onnx import NETWORKS, inputs, quantised

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.ir.program import Program
from celosia.sw.runtime.interpreter import open_session

COUNT, MANY = 200, 1_000


def differing(content: bytes, program: Program, *, signed: bool, count: int, seed: int):
    """Return the greatest difference of each value in steps of the result."""
    session = reference(content, signed=signed)
    (end,) = session.get_inputs()
    x = inputs(tuple(end.shape[1:]), count, seed)
    results = [session.run(None, {end.name: each[None]})[0] for each in x]
    wanted = np.concatenate([np.asarray(each) for each in results])
    with open_session(program) as session:
        (got,) = session.run([x])
    steps = np.rint((got - wanted) / np.float32(step(program)))
    assert ((steps == 0) == (got == wanted)).all()
    return steps


def step(program: Program) -> float:
    """Return the scale of what the program dequantises last."""
    last = program.host[-1]
    assert last.kind == "DEQUANTIZE"
    return last.sources[0].scale


@pytest.mark.parametrize("name", NETWORKS)
def test_equals_onnx_runtime(name, seed, record_property):
    content = quantised(name)
    program = compile_graph(load(content), preset("edge"), 8)
    steps = differing(content, program, signed=NETWORKS[name].signed, count=COUNT, seed=seed)
    record_property("figure", f"{name}: {int((steps != 0).sum())} of {steps.size} values differ")
    assert not steps.any()


def test_rtl():
    """Weights of nine bits in two parts, maxima, a matrix product: on the RTL of the least core."""
    prerequisites.verilator()
    program = compile_graph(load(quantised("cnn-qoperator")), preset("nano"))
    x = inputs(program.inputs[0].shape, 2, 1)
    results = []
    for device in ("machine", "rtl"):
        with open_session(program, device=device) as session:
            results.append(session.run([x])[0])
    np.testing.assert_array_equal(*results)


@pytest.mark.slow
def test_default_session(record_property):
    """The table of docs/reference/onnx.md: pairs of int8 that stay float in part."""
    count = total = 0
    for name, network in NETWORKS.items():
        if name.endswith("qdq") and network.signed:
            content = quantised(name, narrow=True)
            program = compile_graph(load(content), preset("edge"), 32)
            steps = differing(content, program, signed=False, count=300, seed=99)
            assert np.abs(steps).max() <= 1, name
            count += int((steps != 0).sum())
            total += steps.size
    record_property("figure", f"{count} of {total} values differ from a default session")
    assert 0 < count * 4_000 <= total


@pytest.mark.slow
def test_many_inputs(record_property):
    """The table of docs/reference/onnx.md."""
    count = total = 0
    for name, network in NETWORKS.items():
        content = quantised(name)
        program = compile_graph(load(content), preset("edge"), 32)
        steps = differing(content, program, signed=network.signed, count=MANY, seed=99)
        assert np.abs(steps).max() <= 1, name
        count += int((steps != 0).sum())
        total += steps.size
    record_property("figure", f"{count} of {total} values differ")
    assert count * 100_000 <= total
