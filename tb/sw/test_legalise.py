"""Operators of the core and of the host."""

from dataclasses import replace

import networks as w
import numpy as np
import pytest

from celosia.hw.arch.presets import preset
from celosia.sw.compiler import compile as compiler
from celosia.sw.compiler import report
from celosia.sw.compiler.compile import compile_graph, compile_steps
from celosia.sw.compiler.compiled import bounds
from celosia.sw.compiler.legalise import Plan, legalise
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.parts import HostOperator
from celosia.sw.ir.program import Program
from celosia.sw.layers.errors import CompileError
from celosia.sw.runtime import session
from celosia.sw.runtime.interpreter import InferenceSession, Interpreter, open_session


def convolution(outputs: int, inputs: int) -> w.Convolution:
    rng = np.random.default_rng(outputs)
    weights = rng.integers(-50, 51, (outputs, 3, 3, inputs)).astype(np.int8)
    bias = np.zeros(outputs, np.int32)
    return w.Convolution(weights=weights, weight_scale=0.01, bias=bias, output_scale=0.5)


def dense(outputs: int, inputs: int) -> w.FullyConnected:
    rng = np.random.default_rng(outputs)
    weights = rng.integers(-50, 51, (outputs, inputs)).astype(np.int8)
    return w.FullyConnected(weights=weights, weight_scale=0.01, output_scale=0.5)


def graph(*layers: w.Layer, shape: tuple[int, ...] = (1, 6, 8, 3), kind: str = "int8") -> Graph:
    content = w.write_sequential(layers, input_shape=shape, input_scale=0.5, input_type=kind)
    return load(content)


#: A number for each element of an image.
MANY = (np.arange(576) % 100).astype(np.int8).reshape(3, 6, 8, 4)

BILINEAR = w.Resize(kind="RESIZE_BILINEAR", size=(12, 16))


def slice_of(begin, end, stride) -> w.StridedSlice:
    return w.StridedSlice(begin=begin, end=end, stride=stride)


def plan_of(whole: Graph, config: str = "transformer") -> Plan:
    """Return the plan of a graph for a core, one with all options unless given."""
    return legalise(whole, preset(config))


def on_nano(whole: Graph) -> Plan:
    """Return the plan of a graph for a core without options."""
    return plan_of(whole, "nano")


def steps(plan: Plan) -> list[str]:
    """Return the layers of each part, and the operators of the host."""
    return [
        step.kind
        if isinstance(step, HostOperator)
        else " ".join(x.kind for x in step[1].network.layers)
        for step in plan.steps
    ]


def test_all_on_the_core_is_one_part() -> None:
    whole = graph(convolution(4, 3), w.Pool())
    plan = plan_of(whole)
    assert steps(plan) == ["CONV_2D+MAX_POOL_2D"]
    assert isinstance(plan.steps[0], tuple) and plan.steps[0][0] is whole


def test_host_in_the_middle_cuts_the_model_in_two() -> None:
    plan = on_nano(graph(convolution(4, 3), BILINEAR, convolution(2, 4), w.Softmax()))
    assert steps(plan) == ["CONV_2D", "RESIZE_BILINEAR", "CONV_2D", "SOFTMAX"]


def test_what_need_not_wait_for_the_host_does_not_make_a_part() -> None:
    """Two branches, each with an operator of the host, still make two parts."""
    plan = on_nano(
        graph(
            *(convolution(4, 3), w.Softmax(), convolution(4, 4)),
            *(w.Back(to="output_0"), convolution(4, 4), BILINEAR, convolution(4, 4)),
        )
    )
    first = "CONV_2D CONV_2D"
    assert steps(plan) == [first, "SOFTMAX", "RESIZE_BILINEAR", "CONV_2D CONV_2D"]


def test_reshape_between_operators_of_the_host_makes_no_part() -> None:
    plan = on_nano(graph(BILINEAR, w.Reshape(shape=(1, 12, 48)), w.Softmax()))
    assert steps(plan) == ["RESIZE_BILINEAR", "RESHAPE", "SOFTMAX"]
    notes = [step.note for step in plan.steps if isinstance(step, HostOperator)]
    lacks = "the core lacks the option `softmax`; preset `transformer` has it"
    assert notes == ["", "moves no bytes", lacks]


def test_what_the_core_cannot_do_the_host_does_and_reports_why() -> None:
    plan = plan_of(graph(convolution(4, 3), w.Reshape(shape=(1, 8, 6, 4)), convolution(2, 4)))
    assert steps(plan) == ["CONV_2D", "RESHAPE", "CONV_2D"]
    (host,) = (step for step in plan.steps if isinstance(step, HostOperator))
    assert host.note == "wanted one shape of images, got (6, 8, 4) and (8, 6, 4)"


def test_an_image_of_one_row_is_read_in_its_own_shape() -> None:
    """Of several rows by the host, of one row by a copy."""
    one_row = w.Reshape(shape=(1, 1, 48, 3))
    assert steps(plan_of(graph(one_row, convolution(4, 3)))) == ["RESHAPE", "CONV_2D"]
    plan = plan_of(graph(one_row, convolution(4, 3), shape=(1, 1, 24, 6)))
    assert steps(plan) == ["RESHAPE CONV_2D"]


def test_differences_and_products_are_for_the_core() -> None:
    numbers = MANY[0, 0, 0]
    plan = plan_of(
        graph(
            convolution(4, 3),
            w.Binary(kind="SUB", second="output_0", swapped=True, output_scale=1.0),
            w.Binary(kind="MUL", second=numbers, output_scale=1.0),
            w.Binary(kind="ADD", second=numbers[:1], output_scale=1.0),
        )
    )
    assert steps(plan) == ["CONV_2D COMPLEMENT SUB MUL+ADD"]


@pytest.mark.parametrize(
    ("axis", "layers"),
    [
        (1, "CONV_2D COPY COPY CONCATENATION"),
        (2, "CONV_2D COPY COPY CONCATENATION"),
        (3, "CONV_2D CONCATENATION CONCATENATION"),
    ],
)
def test_concatenations_of_images_are_for_the_core(axis: int, layers: str) -> None:
    plan = plan_of(graph(convolution(4, 3), w.Concatenate(others=["output_0"], axis=axis)))
    assert steps(plan) == [layers]
    joined = w.Concatenate(others=["output_1"], axis=1)
    flat = graph(convolution(4, 3), w.Reshape(shape=(1, 8, 24)), joined)
    assert steps(plan_of(flat))[-1] == "CONCATENATION"


@pytest.mark.parametrize(
    ("layer", "layers"),
    [
        (w.Split(axis=1, parts=2), "CONV_2D SPLIT SPLIT"),
        (w.Split(axis=3, parts=2), "CONV_2D SPLIT SPLIT"),
        (slice_of((0, 1, 0, 0), (1, 6, 8, 4), (1, 2, 3, 1)), "CONV_2D STRIDED_SLICE"),
        (slice_of((0, 0, 0, 1), (1, 6, 8, 4), (1, 1, 1, 2)), "CONV_2D STRIDED_SLICE"),
        (slice_of((0, 1, 0, 1), (1, 6, 8, 4), (1, 2, 3, 1)), "CONV_2D STRIDED_SLICE STRIDED_SLICE"),
    ],
)
def test_parts_of_images_are_for_the_core(layer: w.Layer, layers: str) -> None:
    assert steps(plan_of(graph(convolution(4, 3), layer))) == [layers]


@pytest.mark.parametrize(
    ("layers", "shape", "config", "notes"),
    [
        (
            [w.Pool(kind="AVERAGE_POOL_2D", window=(24, 24), stride=(24, 24))],
            (1, 24, 24, 30),
            "micro,unified_bytes=1024",
            {"AVERAGE_POOL_2D": "strips of one row do not fit beside 0 bytes, wanted at most "},
        ),
        (
            [convolution(4, 3), w.Pool(window=(5, 5), stride=(5, 5))],
            (1, 10, 10, 3),
            "micro,accumulator_depth=16",
            {"CONV_2D": "wanted windows of at most 16 sums, got 5 x 5"},
        ),
        (
            [convolution(4, 3)],
            (1, 3, 400, 3),
            "micro,unified_bytes=1024",
            {"CONV_2D": "wanted rows below unified_bytes = 1024, got "},
        ),
        (
            [convolution(4, 3), w.Reshape(shape=(1, 192)), dense(5, 192)],
            (1, 6, 8, 3),
            "micro,parameter_channels=4",
            dict.fromkeys(
                ("CONV_2D", "FULLY_CONNECTED"),
                "wanted parameters of at least 8 channels, got parameter_channels = 4",
            )
            | {"RESHAPE": "moves no bytes"},
        ),
    ],
)
def test_what_fits_no_memory_goes_to_the_host(layers, shape, config, notes) -> None:
    """One compilation: the schedule and the passes after it see only what fits."""
    program = compile_graph(graph(*layers, shape=shape), preset(config))
    got = {step.kind: step.note for step in program.host}
    assert got.keys() == notes.keys()
    assert all(got[kind].startswith(note) for kind, note in notes.items()), got


def test_floating_point_is_for_the_host() -> None:
    quantize = w.Quantize(output_scale=0.1, output_zero_point=3)
    plan = plan_of(graph(quantize, convolution(4, 3), w.Dequantize(), kind="float32"))
    assert steps(plan) == ["QUANTIZE", "CONV_2D", "DEQUANTIZE"]
    program = compile_graph(graph(quantize, convolution(4, 3), kind="float32"), preset("nano"))
    (source,), (result,) = program.inputs, program.outputs
    assert (source.dtype, source.address, result.dtype) == ("float32", -1, "int8")
    assert program.host[0].note == "float32 input or output"


def test_what_neither_can_run_is_refused_by_name() -> None:
    whole = graph(convolution(4, 3), convolution(2, 4))
    operations = (whole.operations[0], replace(whole.operations[1], kind="HASHTABLE_LOOKUP"))
    message = r"operator 1 HASHTABLE_LOOKUP \('output_1'\): .*not supported"
    with pytest.raises(CompileError, match=message):
        plan_of(replace(whole, operations=operations))


@pytest.mark.parametrize(
    ("layer", "items"),
    [
        (w.Softmax(), 3),
        (w.Transpose(permutation=(0, 3, 1, 2)), 3),
        (w.Transpose(permutation=(1, 0, 2, 3)), 1),
        (w.Split(axis=0, parts=3), 1),
        (w.Binary(kind="MUL", second=MANY[0, 0], output_scale=1.0), 3),
        (w.Binary(kind="MUL", second=MANY, output_scale=1.0), 1),
    ],
)
def test_items_are_separate_where_the_host_keeps_them_apart(layer, items, monkeypatch) -> None:
    plan = on_nano(graph(convolution(4, 3), layer, shape=(3, 6, 8, 3)))
    assert plan.items == items
    first, _ = plan.steps
    assert isinstance(first, tuple) and first[1].network.items == 3
    monkeypatch.setattr(compiler, "simplified", lambda graph: graph)
    program = compile_graph(graph(convolution(4, 3), layer, shape=(3, 6, 8, 3)), preset("nano"))
    assert max(one.macs for one in program.layers) * items == 3 * 6 * 8 * 4 * 27


def program_of(batch: int) -> tuple[Graph, Program]:
    """Return a network of three parts, with constants for the host."""
    scales = np.arange(1, 5, dtype=np.int8).reshape(1, 1, 4)
    made = graph(
        *(convolution(4, 3), BILINEAR, convolution(4, 4)),
        w.Binary(kind="MUL", second=scales, second_scale=0.25, output_scale=0.3),
        *(w.Reshape(shape=(2, 768)), dense(10, 768), w.Softmax(), w.Dequantize()),
        shape=(2, 6, 8, 3),
    )
    return made, compile_graph(made, preset("nano"), batch)


def test_file_of_a_program_of_several_parts() -> None:
    _, program = program_of(2)
    assert Program.from_bytes(program.to_bytes()) == program
    with pytest.raises(ValueError, match="wanted one part of one section, got ([23]) of \\1"):
        assert program.main
    numbers = sorted(n for part in program.parts for n in {*part.mains[0].layers} - {-1})
    assert numbers == list(range(len(program.layers)))


def test_many_inputs_go_through_in_pieces(rng, monkeypatch) -> None:
    _, program = program_of(2)
    x = rng.integers(-128, 128, (11, 6, 8, 3)).astype(np.int8)
    results = []
    for most in (1, 5, 100):
        monkeypatch.setattr(session, "_MOST_SAMPLES", most)
        with open_session(program) as opened:
            results.append(opened.run([x])[0])
            assert opened.statistics.inputs == 11
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("batch", [1, 3])
def test_any_number_of_inputs_in_any_batch(batch: int, rng: np.random.Generator) -> None:
    """One run after the other, and each input by itself, give the same."""
    _, program = program_of(batch)
    x = rng.integers(-128, 128, (5, 6, 8, 3)).astype(np.int8)
    with open_session(program) as opened:
        (whole,) = opened.run([x])
        (again,) = opened.run([x])
        alone = [opened.run([each[None]])[0] for each in x]
        assert opened.statistics.inputs == 15
    assert whole.dtype == np.float32 and whole.shape == (5, 10)
    np.testing.assert_array_equal(whole, again)
    np.testing.assert_array_equal(whole, np.concatenate(alone))


def test_host_alone(rng: np.random.Generator) -> None:
    program = compile_graph(graph(w.Softmax()), preset("nano"))
    assert program.parts == ()
    x = rng.integers(-128, 128, (4, 6, 8, 3)).astype(np.int8)
    with open_session(program) as opened:
        assert opened.run([x])[0].shape == x.shape


def test_report_names_the_host_between_the_layers() -> None:
    made, _ = program_of(2)
    compiled = compile_steps(made, preset("nano"), 2)
    program = compiled.program
    finishes = [n for section in program.per_batch for n in range(1, section.count + 1)]
    table = report.rows(program, finishes, bounds(compiled))
    kinds = [(row.operator, row.runs_on) for row in table[:-1]]
    core, host = "core", "host"
    assert kinds == [
        *(("CONV_2D", core), ("RESIZE_BILINEAR", host), ("CONV_2D", core)),
        *((kind, where) for kind, where in kinds[3:-3]),
        *(("FULLY_CONNECTED", core), ("SOFTMAX", host), ("DEQUANTIZE", host)),
    ]
    assert ("MUL", host) in kinds or ("MUL", core) in kinds
    assert table[-1].cycles == sum(section.count for section in program.per_batch)


def test_float_ends_in_both_interfaces(rng: np.random.Generator) -> None:
    quantize = w.Quantize(output_scale=0.1, output_zero_point=3)
    add = w.Add(second="output_1", output_scale=1.0)
    layers = [quantize, dense(7, 5), w.Activation(), add, w.Dequantize()]
    ends = {"input_shape": (1, 5), "input_scale": 1.0, "input_type": "float32"}
    content = w.write_sequential(layers, **ends)
    x = rng.normal(0, 4, (3, 5)).astype(np.float32)
    opened = InferenceSession(content)
    (source,) = opened.get_inputs()
    assert (source.type, opened.get_outputs()[0].type) == ("tensor(float)", "tensor(float)")
    (y,) = opened.run(None, {source.name: x})
    interpreter = Interpreter(model_content=content)
    (about,) = interpreter.get_input_details()
    assert about["dtype"] is np.float32 and about["quantization"] == (0.0, 0)
    interpreter.allocate_tensors()
    for each, wanted in zip(x, y, strict=True):
        interpreter.set_tensor(about["index"], each[None])
        interpreter.invoke()
        (end,) = interpreter.get_output_details()
        np.testing.assert_array_equal(interpreter.get_tensor(end["index"])[0], wanted)
