import gc
from typing import Any

import numpy as np
import prerequisites
import pytest
from networks import Convolution, Depthwise, FullyConnected, write_fully_connected, write_sequential

from celosia.hw.arch.isa import Opcode
from celosia.hw.arch.presets import preset
from celosia.sim.timing.cycles import estimate
from celosia.sw.compiler import compile as passes
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import MOST_BATCH
from celosia.sw.ir.program import Program
from celosia.sw.layers.errors import CompileError
from celosia.sw.runtime.interpreter import open_session
from celosia.sw.shipped import shipped

CONFIGS = {
    "nano": preset("nano"),
    "micro": preset("micro"),
    "edge": preset("edge"),
    "narrow": preset("edge,columns=8"),
    "odd": preset(
        "micro,columns=12,unified_bytes=4096,weight_tiles=24,accumulator_depth=16,lanes=4,"
        "parameter_channels=24,dsp_columns=0"
    ),
    "two tiles": preset("micro,weight_tiles=2,unified_bytes=2048,parameter_channels=8"),
    "tpu_v1": preset("tpu_v1"),
}


def random_model(rng: np.random.Generator, widths: list[int]) -> bytes:
    """Return layers of the given widths, of every activation, bias and kind of scale."""
    layers = []
    for taps, channels in zip(widths, widths[1:], strict=False):
        scale = rng.uniform(0.002, 0.02, rng.choice([1, channels])).astype(np.float32)
        bias = rng.integers(-3000, 3000, channels).astype(np.int32)
        layers.append(
            FullyConnected(
                weights=rng.integers(-127, 128, (channels, taps)).astype(np.int8),
                weight_scale=scale if scale.size > 1 else float(scale[0]),
                bias=bias if rng.random() < 0.8 else None,
                output_scale=float(rng.uniform(0.02, 0.3)) * np.sqrt(taps),
                output_zero_point=int(rng.integers(-128, 128)),
                activation=str(rng.choice(["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])),
            )
        )
    zero_point = int(rng.integers(-128, 128))
    return write_fully_connected(layers, input_scale=0.05, input_zero_point=zero_point)


def run(program: Program, x: np.ndarray) -> np.ndarray:
    with open_session(program) as session:
        (y,) = session.run([x])
    return y


@pytest.mark.parametrize("name", CONFIGS)
def test_random_networks_match_the_reference(name: str, rng: np.random.Generator) -> None:
    widest = 120 if name in ("odd", "two tiles") else 300
    for _ in range(5):
        widths = [int(width) for width in rng.integers(1, widest + 1, rng.integers(2, 5))]
        batch, count = int(rng.integers(1, 40)), int(rng.integers(1, 60))
        model = random_model(rng, widths)
        x = rng.integers(-128, 128, (count, widths[0])).astype(np.int8)
        program = compile_graph(load(model), CONFIGS[name], batch)
        expected = prerequisites.litert_outputs(model, x)[0]
        assert np.array_equal(run(program, x), expected), (widths, batch, count)


def test_shipped_model_matches_the_reference(mnist_model, mnist) -> None:
    model = mnist_model.read_bytes()
    x = (mnist[0][:200].reshape(-1, 784).astype(np.int16) - 128).astype(np.int8)
    program = compile_graph(load(model), preset("edge"), 64)
    assert np.array_equal(run(program, x), prerequisites.litert_outputs(model, x)[0])


def test_same_model_gives_the_same_program(mnist_model) -> None:
    graph = load(mnist_model)
    first, second = (compile_graph(graph, preset("micro"), 8).to_bytes() for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("batch", "most"), [(1, 1.04 * 6400), (64, 1.05 * 25600)])
def test_schedule_keeps_the_array_busy(mnist_model, batch: int, most: float) -> None:
    program = compile_graph(load(mnist_model), preset("edge"), batch)
    assert estimate(program.main.code, program.config).total <= most


def test_little_is_loaded_before_the_array_starts(mnist_model) -> None:
    program = compile_graph(load(mnist_model), preset("edge"), 1)
    first, multiply, second = program.main.instructions[:3]
    assert (first.opcode, first.length) == (Opcode.LOAD, 64)
    assert (second.opcode, second.length) == (Opcode.LOAD, 720)
    assert multiply.opcode is Opcode.MATMUL and multiply.taps == 64


@pytest.mark.parametrize("name", ["mnist_cnn_5x5", "fashion_cnn"])
def test_the_array_begins_on_the_first_rows_of_an_image(mnist_model, name: str) -> None:
    program = compile_graph(load(mnist_model.with_stem(name)), preset("edge"), 1)
    code = program.main.instructions
    loads = [i for i in code if i.opcode is Opcode.LOAD]
    first, second, *others = (i for i in code if i.opcode is Opcode.MATMUL)
    assert [(i.rows, i.length) for i in loads] == [(6, 28), (22, 28)]
    # Windows of 5 with two rows of padding, and of 3 without, both for pools of two rows.
    assert first.y_count == 4 and first.wait == second.wait != 0
    # Both make what the next tile makes at once, in rows of accumulators side by side.
    assert first.y_count + second.y_count == others[0].y_count
    assert second.accumulator == first.accumulator + first.y_count * first.x_count
    assert (first.tile, first.taps) == (second.tile, second.taps)


def test_the_last_block_of_few_steps_is_small() -> None:
    """Of 25 rows of 5 pixels and 4 steps: 45 pixels at the end drain before the next tile."""
    zeros, shape = np.zeros(64, np.int32), (1, 25, 5, 64)
    weights = np.ones((64, 1, 1, 64), np.int8)
    layers = [Convolution(weights=weights, weight_scale=0.01, output_scale=0.5, bias=zeros)] * 2
    graph = load(write_sequential(layers, input_shape=shape, input_scale=0.1, input_zero_point=3))
    program = compile_graph(graph, preset("edge"), 1)
    drains = [i for i in program.main.instructions if i.opcode is Opcode.VECTOR]
    assert [i.y_count for i in drains] == ([16] * 4 + [9] * 4) * 2


@pytest.mark.parametrize(("name", "sizes"), [("mnist_cnn_5x5", "edge"), ("mnist_mlp", "nano")])
def test_an_input_comes_before_tiles_that_stream(mnist_model, name: str, sizes: str) -> None:
    # The first tiles of a layer stay, so that the array has something to do meanwhile.
    program = compile_graph(load(mnist_model.with_stem(name)), preset(sizes), 1)
    opcodes = [i.opcode for i in program.main.instructions]
    fetched, loaded = opcodes.index(Opcode.LOAD_WEIGHTS), opcodes.index(Opcode.LOAD)
    assert loaded < fetched


def test_resident_weights_load_once(mnist_model) -> None:
    program = compile_graph(load(mnist_model), preset("edge"), 4)
    opcodes = [i.opcode for i in program.main.instructions]
    assert Opcode.LOAD_WEIGHTS not in opcodes and Opcode.LOAD_PARAMS not in opcodes
    tiles = [i.tiles for i in program.setup.instructions if i.opcode is Opcode.LOAD_WEIGHTS]
    assert sum(tiles) == 400
    assert all(layer.resident for layer in program.layers)


def test_weights_that_do_not_fit_stream(mnist_model) -> None:
    program = compile_graph(load(mnist_model), preset("nano"), 4)
    assert [layer.resident for layer in program.layers] == [False, False]
    assert any(i.opcode is Opcode.LOAD_WEIGHTS for i in program.main.instructions)


def test_batch_that_does_not_fit_runs_in_parts(mnist_model) -> None:
    program = compile_graph(load(mnist_model), preset("edge"), 200)
    loads = [i for i in program.main.instructions if i.opcode is Opcode.LOAD]
    assert sum(i.rows * i.length for i in loads) == 200 * 784
    stores = [i for i in program.main.instructions if i.opcode is Opcode.STORE]
    assert len(stores) == 3 and sum(i.length for i in stores) == 200 * 10


@pytest.mark.parametrize(("width", "channels"), [(4096, 16), (1 << 15, 2)])
def test_margins_wider_than_one_fill(width: int, channels: int, rng: np.random.Generator) -> None:
    """A row of an image has 65,536 bytes, one more than FILL takes."""
    weights = rng.integers(-9, 10, (1, 3, 3, channels)).astype(np.int8)
    layer = Depthwise(weights=weights, weight_scale=0.01, output_scale=0.5, padding="SAME")
    shape = (1, 2, width, channels)
    content = write_sequential([layer], input_shape=shape, input_scale=0.5, input_zero_point=3)
    program = compile_graph(load(content), preset("edge,unified_bytes=524288"), 1)
    instructions = [i for _, section in program.sections for i in section.instructions]
    assert max(i.channels for i in instructions if i.opcode is Opcode.FILL) == 65535
    x = rng.integers(-128, 128, shape).astype(np.int8)
    np.testing.assert_array_equal(run(program, x), prerequisites.litert_outputs(content, x)[0])


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_left_as_it_was(on: bool, rng: np.random.Generator) -> None:
    graph, was = load(random_model(rng, [5, 5])), gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        compile_graph(graph, preset("micro"))
        assert gc.isenabled() == on
        with pytest.raises(CompileError):
            compile_graph(graph, preset("micro"), 0)
        assert gc.isenabled() == on
    finally:
        (gc.enable if was else gc.disable)()


def test_what_cannot_fit_runs_on_the_host(rng: np.random.Generator) -> None:
    weights = np.ones((100, 2000), np.int8)
    layer = FullyConnected(weights=weights, weight_scale=0.5, output_scale=1.0)
    graph = load(write_fully_connected([layer], input_scale=0.01))
    (operator,) = compile_graph(graph, preset("micro,unified_bytes=2048"), 1).host
    assert "2100 bytes" in operator.note and "unified_bytes = 2048" in operator.note


@pytest.mark.parametrize("batch", [0, -1, MOST_BATCH + 1])
def test_batch_out_of_range_is_refused(rng: np.random.Generator, batch: int) -> None:
    with pytest.raises(CompileError, match=f"batch: wanted 1 to {MOST_BATCH}"):
        compile_graph(load(random_model(rng, [5, 5])), preset("micro"), batch)


@pytest.mark.thorough
def test_too_many_instructions_are_refused_before_the_long_passes(root, monkeypatch) -> None:
    graph, right = load(root / "sw" / "models" / "mnist_cnn_deep.tflite"), passes.least_instructions
    least: list[int] = []
    scheduled = passes.schedule

    def refused(arrangement: Any) -> Any:
        """Only the batch of one is scheduled, for the advice."""
        assert max(least) > 1000 > least[-1]
        return scheduled(arrangement)

    monkeypatch.setattr(
        passes, "least_instructions", lambda *given: least.append(right(*given)) or least[-1]
    )
    for sizes, batch in (("edge", 5), ("nano", 2)):
        program = compile_graph(graph, preset(sizes), batch)
        assert 0 < least.pop() <= program.main.count
    monkeypatch.setattr(passes.policy, "PART_INSTRUCTIONS", 1000)
    monkeypatch.setattr(passes, "schedule", refused)
    with pytest.raises(CompileError, match="^network: wanted at most 1000 instructions, got"):
        compile_graph(graph, preset("edge"), 64)


@pytest.mark.parametrize(
    "limit",
    ["celosia.sim.check.order.MOST_COUNT", "celosia.sw.compiler.emit.synchronise.MOST_COUNT"],
)
def test_too_many_counts_of_a_semaphore(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler's own bound, and that of the checker, name the remedy."""
    monkeypatch.setattr(limit, 1)
    with pytest.raises(CompileError, match="a smaller batch needs fewer"):
        compile_graph(load(shipped()["mnist_cnn_3x3"].path), preset("micro"), 4)
