"""Graphs of training steps: gradients against finite differences, integers against a reference."""

from typing import Any

import numpy as np
import prerequisites
import pytest
import step_reference as reference
from float_networks import NETWORKS, network
from step_inputs import contents, labels_of, shift_of

from celosia.sw.ir.graph import Graph
from celosia.sw.operators.host import host_operator
from celosia.sw.operators.registry import OPERATORS
from celosia.sw.training.graph import StepGraph, step_graph

BATCH = 3


def without_noise(step: StepGraph, seed: int) -> dict[int, np.ndarray]:
    values, tensors = contents(step, np.random.default_rng(seed)), step.graph.tensors
    return {n: v * (tensors[n].name not in step.noises) for n, v in values.items()}


def gradients(step: StepGraph, made: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Return the real gradient of each matrix of weights, by the tensor of its high bytes."""
    tensors = step.graph.tensors
    successors = {tensors[s.tensor].name: (s.tensor, s.successor) for s in step.graph.states}
    result = {}
    for high, exponent in step.gradients.items():
        low = successors[tensors[high].name.replace("/high", "/low")][0]
        new = made[successors[tensors[high].name][1]]
        result[high] = (64 * (new - made[high]) - made[low]) * 2.0**exponent
    return result


#: 1 / count has seven bits.
TOLERANCES = dict.fromkeys(NETWORKS, 1e-4) | {"average": 0.01, "mean": 0.01}


@pytest.mark.parametrize(("name", "dropout"), [*((n, False) for n in NETWORKS), ("dense", True)])
def test_gradients_are_finite_differences(name: str, dropout: bool, seed: int) -> None:
    fields = {"loss": "squares", "width": 3, "dropout": dropout}
    step = step_graph(network(name, seed), BATCH, shift_of, **fields)
    assert bool(step.dropouts) == dropout
    graph, exponents = step.graph, step.exponents
    values, rng = without_noise(step, seed), np.random.default_rng(seed)
    (logits,), labels = graph.outputs, labels_of(graph)

    def loss(changed: dict[int, np.ndarray]) -> float:
        made = reference.evaluate(graph, values | changed, real=True)
        error = (made[labels] - made[logits]) * 2.0 ** exponents[logits]
        return float(np.square(error).sum() / 2)

    every = gradients(step, reference.evaluate(graph, values, real=True))
    assert len(every) == len(graph.states) // 2
    for weights, gradient in every.items():
        for _ in range(4):
            way = rng.normal(size=gradient.shape) * 1e-5
            more, less = (loss({weights: values[weights] + sign * way}) for sign in (1, -1))
            expected = (less - more) / 2 / 2.0 ** exponents[weights]
            np.testing.assert_allclose((gradient * way).sum(), expected, TOLERANCES[name], 1e-12)


@pytest.mark.parametrize("name", ["average", "branches"])
def test_sums_of_errors_keep_their_mean(name: str, seed: int) -> None:
    """Errors of the other sign have results of the other sign: halves do not all go up."""
    step = step_graph(network(name, seed), BATCH, lambda *_: 1, width=3)
    graph, rng = step.graph, np.random.default_rng(seed)
    sums = [o for o in graph.operations if o.kind == "ShiftedSum" and o.attributes["low"] == -127]
    assert sums
    for operation in sums:
        operator = host_operator(graph.tensors, operation)
        shapes = [graph.tensors[number].shape for number in operation.inputs]
        errors = [rng.integers(-9, 10, (1, *shape), np.int8) for shape in shapes]
        kernel = OPERATORS[operation.kind].kernel
        assert kernel
        (one,), (other,) = (kernel(operator, [sign * e for e in errors]) for sign in (1, -1))
        np.testing.assert_array_equal(one, -other)


def in_tensorflow(tf: Any, graph: Graph, x: Any, weights: list[Any]) -> Any:
    """Return the output of a float network; ``weights``: those of its layers, in order."""
    values, matrices = {graph.inputs[0]: x}, iter(weights)
    activations = {"RELU": tf.nn.relu, "RELU6": tf.nn.relu6, "NONE": lambda y: y}
    for operation in graph.operations:
        fields = operation.attributes
        arrays = [values[n] for n in operation.inputs if n in values]
        if "before" in fields:
            margins = np.array([*zip(fields["before"], fields["after"], strict=True)])
            margins = margins if len(margins) == 4 else np.pad(margins, 1)[:, 1:3]
            arrays[0] = tf.pad(arrays[0], margins)
        shape = graph.tensors[operation.inputs[-1]].shape
        windows = {"padding": fields.get("padding"), "strides": fields.get("stride")}
        match operation.kind:
            case "FULLY_CONNECTED":
                y = tf.reshape(arrays[0], (BATCH, -1)) @ next(matrices)
            case "CONV_2D" | "DEPTHWISE_CONV_2D":
                taps, inputs = next(matrices), arrays[0].shape[3]
                kernel = graph.tensors[operation.inputs[1]].shape[1:3]
                if operation.kind == "CONV_2D":
                    y = tf.nn.conv2d(arrays[0], tf.reshape(taps, (*kernel, inputs, -1)), **windows)
                else:
                    y = depthwise_in_tensorflow(tf, arrays[0], taps, kernel, windows)
            case "MAX_POOL_2D" | "AVERAGE_POOL_2D":
                pool = tf.nn.max_pool2d if "MAX" in operation.kind else tf.nn.avg_pool2d
                y = pool(arrays[0], fields["window"], **windows)
            case "MEAN":
                y = tf.reduce_mean(arrays[0], (1, 2))
            case "PAD":
                y = arrays[0]
            case "ADD":
                y = arrays[0] + arrays[1]
            case "CONCATENATION":
                y = tf.concat(arrays, fields["axis"])
            case "RESHAPE":
                y = tf.reshape(arrays[0], (BATCH, -1))
            case _:
                y = activations[operation.kind](arrays[0])
        if len(operation.inputs) == 3 and len(shape) == 1:
            y = y + tf.reshape(next(matrices), (-1,))
        values[operation.outputs[0]] = activations[fields.get("activation", "NONE")](y)
    return values[graph.outputs[0]]


def depthwise_in_tensorflow(tf: Any, x: Any, taps: Any, kernel: Any, windows: Any) -> Any:
    """Return a depthwise convolution; its strides may differ, as TensorFlow's may not."""
    wide, inputs = tf.reshape(taps, (*kernel, taps.shape[-1])), x.shape[3]
    each = taps.shape[-1] // inputs
    parts = [
        tf.nn.conv2d(x[..., n // each : n // each + 1], wide[..., n, None][:, :, None], **windows)
        for n in range(taps.shape[-1])
    ]
    return tf.concat(parts, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_tensorflow(name: str, seed: int) -> None:
    tf = prerequisites.package("tensorflow")
    model = network(name, seed)
    step = step_graph(model, BATCH, shift_of, loss="squares", width=3)
    graph, exponents, values = step.graph, step.exponents, without_noise(step, seed)
    real = {n: v * 2.0 ** exponents[n] for n, v in values.items() if n in exponents}
    names = {graph.tensors[n].name: n for n in values}
    highs = [n for name, n in names.items() if name.endswith("/high")]
    variables = [tf.Variable(real[n][0]) for n in highs]
    (logits,) = graph.outputs
    targets = values[names["labels"]][0] * 2.0 ** exponents[logits]
    with tf.GradientTape() as tape:
        y = in_tensorflow(tf, model, tf.constant(real[names["images"]]), variables)
        loss = tf.reduce_sum(tf.square(targets - y)) / 2
    every = gradients(step, reference.evaluate(graph, values, real=True))
    for number, gradient in zip(highs, tape.gradient(loss, variables), strict=True):
        greatest = np.abs(every[number]).max()
        limits = TOLERANCES[name], TOLERANCES[name] * greatest
        np.testing.assert_allclose(every[number][0], -gradient.numpy(), *limits)


@pytest.mark.parametrize("loss", ["softmax", "squares"])
@pytest.mark.parametrize("name", NETWORKS)
def test_host_kernels_are_exact(name: str, loss: str, seed: int) -> None:
    step = step_graph(network(name, seed), BATCH, shift_of, loss=loss, width=3)
    values = contents(step, np.random.default_rng(seed))
    expected = reference.evaluate(step.graph, values)
    changed = 0
    for operation in step.graph.operations:
        record = OPERATORS[operation.kind]
        operator = host_operator(step.graph.tensors, operation)
        record.check(operator)
        arrays = [
            np.frombuffer(x.data, x.dtype).reshape(x.shape)
            if x.data is not None
            else expected[x.tensor].astype(np.int8)[None]
            for x in operator.sources
        ]
        (made,) = record.compute(operator, arrays)
        wanted = expected[operation.outputs[0]]
        np.testing.assert_array_equal(made[0], wanted, err_msg=operation.kind)
        changed += bool(wanted.any())
    assert changed > len(step.graph.operations) // 2
