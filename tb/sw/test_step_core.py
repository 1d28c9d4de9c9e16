"""Steps of training on the core: programs that the compiler makes, against a reference in NumPy."""

import numpy as np
import pytest
import step_reference as reference
from float_networks import Layers
from step_inputs import contents, shift_of

from celosia.hw.arch.presets import preset
from celosia.sim.timing.cycles import estimate
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.runtime.opening import open_session
from celosia.sw.training.graph import StepGraph, step_graph

#: Images of a step of ``test_gradients``.
BATCH = 3

#: Cycles of a step of MLP 784-128-10 by the program of sw/training/step, on the RTL.
MLP_CYCLES = 62_822


def step(sizes: tuple[int, ...], seed: int, most: int, batch: int = BATCH) -> StepGraph:
    layers = Layers(sizes[:1], seed)
    for outputs in sizes[1:-1]:
        layers.dense(outputs, "RELU", bias=False)
    layers.dense(sizes[-1], bias=False)
    return step_graph(layers.graph(), batch, shift_of, most=most)


@pytest.mark.parametrize(
    ("name", "sizes", "most"),
    [
        ("edge", (45, 21, 18, 4), 1 << 14),
        ("edge,unified_bytes=32768", (200, 48, 4), 1 << 12),  # Three blocks of columns.
        ("edge,accumulator_depth=64", (150, 32, 4), 1 << 10),  # Sums of three jobs.
        # Slow drains: no job of another layer comes between two of a pair.
        (
            "micro,rows=16,columns=16,lanes=2,bus_bytes=4,unified_bytes=16384,weight_tiles=256,"
            "accumulator_depth=64,parameter_channels=64",
            (116, 52, 4),
            1 << 12,
        ),
        ("nano,rows=16,columns=16,weight_tiles=128,unified_bytes=16384", (30, 17, 4), 1 << 14),
    ],
)
def test_steps_equal_the_reference(name: str, sizes: tuple[int, ...], most: int, seed: int) -> None:
    found = step(sizes, seed, most)
    graph, rng = found.graph, np.random.default_rng(seed)
    program = compile_steps(graph, preset(f"{name},activation_weights=true")).program
    assert not program.host
    values = contents(found, rng)
    with open_session(program, device="machine") as session:
        for _ in range(3):
            values |= {n: v for n, v in contents(found, rng).items() if n in graph.inputs}
            expected = reference.evaluate(graph, values)
            inputs = [
                values[n].astype(np.int8).reshape(1, *p.shape)
                for n, p in zip(graph.inputs, program.inputs, strict=True)
            ]
            (logits,) = session.run(inputs)
            np.testing.assert_array_equal(
                logits.reshape(-1), expected[graph.outputs[0]].reshape(-1)
            )
            values |= {s.tensor: expected[s.successor] for s in graph.states}
            for state in graph.states:
                made = session._variables[state.tensor]
                np.testing.assert_array_equal(made.reshape(-1), values[state.tensor].reshape(-1))


def test_a_step_takes_no_more_cycles_than_the_program_for_one_network() -> None:
    config = preset("edge,activation_weights=true")
    program = compile_steps(step((784, 128, 10), 0, 1 << 14, 32).graph, config).program
    (part,) = program.parts
    assert not program.host
    (section,) = part.mains
    assert estimate(section.instructions, config).total < MLP_CYCLES
