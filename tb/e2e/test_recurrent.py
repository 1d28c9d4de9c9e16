"""Models that keep states: bytes of many invocations in a row, and the ways to begin anew."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import prerequisites
import pytest
from agreement import compare
from networks import Chain, serialize
from random_networks.recurrent import RNN, lstm, rnn, shift_register, svdf

from celosia.hw.arch.presets import preset
from celosia.sw.cli import main
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.export.tflite import Graph
from celosia.sw.frontend.tflite import ModelError, load
from celosia.sw.operators.vectors import ACTIVATIONS
from celosia.sw.runtime.interpreter import InferenceSession, Interpreter

MAKERS = {
    "lstm": lstm,
    "shift register": shift_register,
    "svdf": svdf,
    **{f"svdf {name}": partial(svdf, dtype="float32", activation=name) for name in ACTIVATIONS},
    **{kind: partial(rnn, kind=kind) for kind in RNN},
    **{f"RNN {name}": partial(rnn, kind=RNN[1], activation=name) for name in ACTIVATIONS},
}
#: Models of a maker in the ordinary tests; 8 of others.
SEEDS = {"lstm": 12, "svdf": 24, **dict.fromkeys(RNN, 20)}
INVOCATIONS = 20


def stimuli(content: bytes, rng: np.random.Generator) -> np.ndarray:
    """Return inputs of several invocations, shape ``(N, *port.shape)``."""
    (port,) = compile_graph(load(content), preset("edge")).inputs
    if port.dtype == "float32":
        return rng.normal(size=(INVOCATIONS, *port.shape)).astype(np.float32)
    return rng.integers(-128, 128, (INVOCATIONS, *port.shape)).astype(np.int8)


def check(maker: Callable[[np.random.Generator], bytes], seed: int) -> None:
    rng = np.random.default_rng(seed)
    content = maker(rng)
    compare(content, stimuli(content, rng), sizes="edge", batch=8)


@pytest.mark.parametrize("maker", MAKERS)
def test_some_models(maker: str) -> None:
    for seed in range(SEEDS.get(maker, 8)):
        check(MAKERS[maker], seed)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("seed", [1068, 1069])
def test_sums_that_overflow(name: str, seed: int) -> None:
    """Clamps take no numbers for the lower bound."""
    check(MAKERS[f"RNN {name}"], seed)


@pytest.mark.parametrize("seed", [1053, 1085, 1422])
def test_projections_clamp_hidden_values(seed: int) -> None:
    """Hidden values past int8, of a zero point that is not 0."""
    check(lstm, seed)


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS)
def test_many_models(maker: str) -> None:
    for seed in range(1000, 1500):
        check(MAKERS[maker], seed)


@pytest.mark.parametrize("maker", MAKERS)
def test_states_begin_anew(maker: str) -> None:
    rng = np.random.default_rng(3)
    content = MAKERS[maker](rng)
    inputs = stimuli(content, rng)[:4]
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    shape = interpreter.get_input_details()[0]["shape"]

    def outputs() -> np.ndarray:
        found = []
        for contents in inputs:
            interpreter.set_tensor(0, contents.reshape(shape))
            interpreter.invoke()
            found.append(interpreter.get_tensor(1))
        return np.concatenate(found)

    first = outputs()
    assert not np.array_equal(outputs(), first)
    # As in LiteRT, which gives variables their initial contents with the memory.
    for anew in (interpreter.reset_all_variables, interpreter.allocate_tensors):
        anew()
        np.testing.assert_array_equal(outputs(), first)
    with InferenceSession(content, batch=4) as session:
        feed = {session.get_inputs()[0].name: inputs}
        together = session.run(None, feed)[0]
        np.testing.assert_array_equal(together, first)
        assert not np.array_equal(session.run(None, feed)[0], first)
        session.reset()
        np.testing.assert_array_equal(session.run(None, feed)[0], first)


def test_samples_on_the_command_line_are_invocations_in_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    content = shift_register(rng)
    inputs = stimuli(content, rng)
    model, given, made = (tmp_path / name for name in ("net.tflite", "x.npy", "y.npy"))
    model.write_bytes(content)
    np.save(given, inputs)
    main(["run", str(model), "--input", str(given), "--output", str(made)])
    (wanted,) = prerequisites.litert_runs(content, inputs)
    np.testing.assert_array_equal(np.load(made).reshape(wanted.shape), wanted)


def test_variables_without_contents_are_refused() -> None:
    chain = Chain((1, 3), 0.1)
    source = chain.number
    chain.operator("VAR_HANDLE", (), inputs=(), dtype="resource", sharedName="kept")
    chain.operator("READ_VARIABLE", (1, 3), inputs=(chain.number,), dtype="int8", scale=0.1)
    chain.operator(
        "CONCATENATION", (1, 6), inputs=(source, chain.number), dtype="int8", scale=0.1, axis=1
    )
    with pytest.raises(
        ModelError, match="operator 1 READ_VARIABLE: wanted a variable with initial"
    ):
        load(serialize(chain.graph()))


@pytest.mark.parametrize(
    ("scale", "zero_point", "shape", "message"),
    [
        (0.1, 3, (1, 3), ""),
        (0.2, 3, (1, 3), "wanted one scale and zero point"),
        (0.1, 4, (1, 3), "wanted one scale and zero point"),
        (0.1, 3, (3, 1), r"wanted computed int8 \(1, 3\) assigned, got int8 \(3, 1\)"),
    ],
)
def test_a_variable_is_assigned_what_it_holds(
    scale: float, zero_point: int, shape: tuple[int, int], message: str
) -> None:
    chain, ends = Chain((1, 3), 0.1, 3), {"scale": scale, "zero_point": zero_point}
    chain.operator("CALL_ONCE", inputs=(), shapes=(), initSubgraphIndex=1)
    chain.operator("VAR_HANDLE", (), inputs=(), dtype="resource", sharedName="kept")
    handle, held = chain.number, {"dtype": "int8", "scale": 0.1, "zero_point": 3}
    chain.operator("READ_VARIABLE", (1, 3), inputs=(handle,), **held)
    chain.operator("ADD", (1, 3), inputs=(0, chain.number), dtype="int8", **ends)
    if shape != (1, 3):
        chain.operator("RESHAPE", shape, [np.array(shape, np.int32)])
    last = chain.number
    chain.operator("ASSIGN_VARIABLE", inputs=(handle, last), shapes=())
    first = Chain(None)
    first.operator("VAR_HANDLE", (), inputs=(), dtype="resource", sharedName="kept")
    contents = first.constant("contents", np.zeros((1, 3), np.int8), 0.1, 3)
    first.operator("ASSIGN_VARIABLE", inputs=(first.number, contents), shapes=())
    initial = first.graph()
    content = serialize(
        chain.graph(last), Graph(initial.tensors, initial.operations, (), (), "initial")
    )
    if not message:
        assert len(load(content).states) == 1
        return
    with pytest.raises(ModelError, match=f"^model: variable '.*': {message}"):
        load(content)


@pytest.mark.parametrize(
    ("maker", "more", "message"),
    [
        (svdf, {"activation": "NONE"}, "wanted activation to be one of RELU, got NONE"),
        (svdf, {"wrong_rank": 5}, "wanted .* filters to be a multiple of the rank, got 5"),
        (rnn, {"kind": RNN[2], "i9": 0}, "wanted no auxiliary input"),
        (rnn, {"kind": RNN[0], "i2": 0}, "wanted constant weights and bias"),
    ],
)
def test_refused(maker: Callable[..., bytes], more: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"operator 0 [A-Z_]+ .'output_0'.: {message}"):
        load(maker(np.random.default_rng(11), **more))
