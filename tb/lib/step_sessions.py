"""Steps of training on a device, against the reference in NumPy."""

import numpy as np
import step_reference as reference
from float_networks import Layers
from step_inputs import contents, shift_of

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.program import Program
from celosia.sw.runtime.opening import open_session
from celosia.sw.training.graph import StepGraph, step_graph
from celosia.sw.training.origin import with_random_weights

#: Cores that take a step in different blocks of work.
CORES = (
    "edge",
    "edge,accumulator_depth=32",
    "nano,rows=16,columns=16,weight_tiles=128,unified_bytes=65536",
)


def lenet(batch: int) -> StepGraph:
    """Return a step of LeNet-5."""
    layers = Layers((28, 28, 1), 0)
    layers.conv(6, (5, 5))
    layers.pool("MAX_POOL_2D", 2, 2)
    layers.conv(16, (5, 5), padding="VALID")
    layers.pool("MAX_POOL_2D", 2, 2)
    for outputs in (120, 84):
        layers.dense(outputs, "RELU")
    layers.dense(10)
    return step_graph(with_random_weights(layers.graph(), 0), batch, shift_of)


#: Kernel, padding, channels of convolutions, and hidden values, of networks of MNIST's images.
CNNS = {
    "mnist_cnn_5x5": (5, "SAME", (32, 64), (128,)),
    "mnist_cnn_3x3": (3, "VALID", (32, 64), (128,)),
    "fashion_cnn": (3, "VALID", (64,), ()),
}


def cnn(name: str, batch: int) -> StepGraph:
    """Return a step of a network with large matrices of weights."""
    kernel, padding, channels, hidden = CNNS[name]
    layers = Layers((28, 28, 1), 0)
    for count in channels:
        layers.conv(count, (kernel, kernel), padding=padding, bias=False)
        layers.pool("MAX_POOL_2D", 2, 2)
    for count in hidden:
        layers.dense(count, "RELU", bias=False)
    layers.dense(10, bias=False)
    graph = with_random_weights(layers.graph(), 0)
    return step_graph(graph, batch, shift_of, most=1 << 14)


def state_of(graph: Graph, name: str) -> int:
    return next(s.tensor for s in graph.states if graph.tensors[s.tensor].name == name)


def images_of(program: Program, graph: Graph, values: dict[int, np.ndarray]) -> list[np.ndarray]:
    """Return the inputs of one step as a session takes them."""
    ports = zip(graph.inputs, program.inputs, strict=True)
    return [values[n].astype(np.int8).reshape(1, *port.shape) for n, port in ports]


def require_equal(
    step: StepGraph,
    name: str,
    seed: int,
    device: str = "machine",
    parts: Graph | None = None,
    steps: int = 3,
) -> Program:
    """Compare some steps with the reference; return their program.

    ``parts``: graph of the same step in groups of images, which is compiled instead.
    """
    graph, rng = step.graph, np.random.default_rng(seed)
    program = compile_steps(parts or graph, preset(f"{name},activation_weights=true")).program
    values = contents(step, rng)
    with open_session(program, device=device) as session:
        for _ in range(steps):
            values |= {n: v for n, v in contents(step, rng).items() if n in graph.inputs}
            expected = reference.evaluate(graph, values)
            (logits,) = session.run(images_of(program, graph, values))
            np.testing.assert_array_equal(
                logits.reshape(-1), expected[graph.outputs[0]].reshape(-1)
            )
            values |= {s.tensor: expected[s.successor] for s in graph.states}
            for name, array in session.variables().items():
                number = state_of(graph, name)
                np.testing.assert_array_equal(array.reshape(-1), values[number].reshape(-1))
    return program
