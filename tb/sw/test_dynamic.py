"""Products of two computed matrices: terms of zero points, copies, tiles, and instructions."""

from typing import Any

import networks as w
import numpy as np
import pytest
from dynamic_products import code, dynamic, lowered, on_host, part_of
from networks import Chain, Graph, serialize

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Opcode, Space, Unit
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.compiler.compiled import bounds
from celosia.sw.compiler.layout.pitches import lay_out
from celosia.sw.compiler.layout.scratch import scratch_limit, scratch_of, spreads
from celosia.sw.frontend.tflite import load
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.quantize import identity_scaling
from celosia.sw.layers.spec import DynamicProduct, Transpose
from celosia.sw.layers.terms import Correction

OPTION = ",activation_weights=true"
EDGE = preset(f"edge{OPTION}")


def product(chain: Chain, first: int, second: int, *, turned: bool = False, **printed: Any) -> None:
    """Add a BATCH_MATMUL."""
    shapes = chain.tensor(first).shape, chain.tensor(second).shape
    batch, rows = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2]), shapes[0][-2]
    printed = {"scale": 0.5, "zero_point": 0, "adjX": False, **printed}
    shape = (*batch, rows, shapes[1][-2] if turned else shapes[1][-1])
    chain.operator("BATCH_MATMUL", shape, inputs=[first, second], adjY=turned, **printed)


def of_inputs(first, second, zeros=(0, 0), **printed: Any) -> Graph:
    """Return the graph of a product of two inputs."""
    chain = Chain(first, 0.05, zeros[0])
    product(chain, 0, chain.input("second", second, 0.03, zeros[1]), **printed)
    return chain.graph()


def projected(chain: Chain, channels: int) -> int:
    """Add a convolution of the input to some channels."""
    chain.back_to(0)
    weights = np.ones((channels, 1, 1, chain.last.shape[3]), np.int8)
    about = {"weight_scale": 0.01, "bias": np.zeros(channels, np.int32), "output_scale": 0.5}
    w.Convolution(weights=weights, **about).add(chain)
    return chain.number


def attention(heads: int = 2, rows: int = 5, depth: int = 7) -> Graph:
    """Return the graph of a product of two projections of an image."""
    chain = Chain((1, heads, rows, 3), 0.05, 0)
    product(chain, projected(chain, depth), projected(chain, depth), turned=True)
    return chain.graph()


@pytest.mark.parametrize(
    ("zeros", "times", "bytes_of"),
    [
        ((0, 0), (0, 0), []),
        ((3, 0), (1, 0), [-3]),
        ((0, -127), (0, 1), [127]),
        # 128 is no int8.
        ((-128, -128), (2, 2), [64, 64]),
        ((127, 5), (1, 1), [-127, -5]),
    ],
)
def test_a_zero_point_is_a_term_of_its_own(zeros, times, bytes_of) -> None:
    network = lowered(of_inputs((1, 2, 5, 7), (1, 2, 7, 6), zeros))
    layer = dynamic(network)
    terms = (layer.columns, layer.lines)
    assert tuple(term.times if term else 0 for term in terms) == times
    contents = [value.contents for value in network.values if value.contents is not None]
    assert [set(each.ravel().tolist()) for each in contents] == [{byte} for byte in bytes_of]
    # Copied sums of columns are as many times as large.
    assert (layer.scalings[1].left - identity_scaling().left).tolist() == [times[0] == 2]
    assert layer.passes == 1 + sum(times)
    assert layer.scaling.bias.tolist() == [7 * zeros[0] * zeros[1]]
    for term, count in zip(terms, (7, 6), strict=True):
        assert term is None or network.values[term.value].bytes_per_item == count


def test_vectors_are_read_in_place_and_columns_from_a_copy() -> None:
    network = lowered(of_inputs((3, 5, 7), (3, 7, 6)))
    assert [layer.kind for layer in network.layers] == ["BATCH_MATMUL"]
    network = lowered(of_inputs((1, 2, 3, 5, 7), (1, 2, 3, 6, 7), turned=True))
    copy, layer = network.layers
    assert copy.kind == "COPY" and isinstance(layer, DynamicProduct)
    value = network.values[layer.second]
    assert (value.height, value.width, value.channels, value.spread) == (6, 6, 7, True)


def test_columns_of_a_result_that_nothing_else_reads_need_no_copy() -> None:
    network = lowered(attention())
    assert [layer.kind for layer in network.layers] == ["CONV_2D", "CONV_2D", "BATCH_MATMUL"]
    assert network.values[dynamic(network).second].spread
    chain = Chain((1, 2, 5, 3), 0.05, 0)
    matrix = projected(chain, 7)
    product(chain, matrix, matrix, turned=True)
    # The matrix and its transpose are one value.
    assert len(lowered(chain.graph()).layers) == 2
    network = lowered(chain.graph(chain.number, matrix))
    assert [layer.kind for layer in network.layers] == ["CONV_2D", "COPY", "BATCH_MATMUL"]


@pytest.mark.parametrize("sizes", ["nano", "micro", "edge"])
@pytest.mark.parametrize("depth", [1, 4, 7, 16, 17])
def test_columns_lie_in_as_many_banks_as_they_have_bytes(sizes: str, depth: int) -> None:
    config = preset(sizes + OPTION)
    network = lowered(attention(depth=depth))
    layer = dynamic(network)
    first, second = (lay_out(network, {}, config)[v] for v in (layer.source, layer.second))
    assert second.pixel % config.rows == 1 and depth <= second.pixel < depth + config.rows
    assert first.pixel == depth


def test_an_activation_after_it_is_part_of_it() -> None:
    chain = Chain((1, 2, 5, 7), 0.05, 0)
    product(chain, 0, chain.input("second", (1, 2, 7, 6), 0.03, 0))
    chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
    layer = dynamic(lowered(chain.graph()))
    assert layer.kind == "BATCH_MATMUL+LOGISTIC" and layer.table is not None


def constant_first() -> Graph:
    chain = Chain((1, 2, 7, 6), 0.05, 0)
    matrix = w.Constant(np.ones((1, 2, 5, 7), np.int8), 0.03)
    printed = {"scale": 0.5, "zero_point": 0, "adjX": False, "adjY": False}
    chain.operator("BATCH_MATMUL", (1, 2, 5, 6), inputs=[matrix, 0], **printed)
    return chain.graph()


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (constant_first(), "wanted a first input that is not constant"),
        (of_inputs((4, 4), (4, 4)), "wanted matrices of 4 samples"),
        (of_inputs((1, 1, 1, 40000), (1, 1, 40000, 1)), "wanted sums of at most 33025 products"),
        (of_inputs((1, 1, 1), (1, 1, 1), scale=1e-13), "wanted a factor below 2^30"),
    ],
)
def test_refusals(graph: Graph, reason: str) -> None:
    with pytest.raises(CompileError) as error:
        lowered(graph)
    assert error.value.reason.startswith(reason)


def test_a_core_without_the_option_leaves_it_to_the_host() -> None:
    (step,) = on_host(attention(), preset("edge"))
    note = "the core lacks the option `activation_weights`; preset `transformer` has it"
    assert step.note == note


def test_too_small_a_weight_buffer_leaves_it_to_the_host() -> None:
    config = preset(f"edge,weight_tiles=2{OPTION}")
    (step,) = on_host(of_inputs((1, 2, 5, 7), (1, 2, 7, 6), (1, 1)), config)
    assert step.note == "wanted at least 8 weight tiles, got 2"


def test_one_instruction_moves_fewer_rows_than_the_accumulators_have() -> None:
    graph = of_inputs((1, 1, 5, 700), (1, 1, 700, 3))
    config = preset(f"edge,accumulator_depth=64{OPTION}")
    assert [i.x_count for i in code(graph, config, Opcode.MOVE_WEIGHTS)] == [112] * 6 + [28]
    reason = scratch_limit(lowered(graph), preset(f"edge,accumulator_depth=8{OPTION}"))
    assert reason == "wanted more than 16 rows of accumulators, got 16"


def test_tiles_are_the_last_of_the_weight_buffer() -> None:
    network = lowered(of_inputs((1, 2, 5, 70), (1, 2, 70, 6), (1, 1)))
    scratch = scratch_of(network, EDGE)
    # Four regions of five steps, and the tile of −1.
    assert (scratch.first, scratch.steps, scratch.turns) == (EDGE.weight_tiles - 21, 5, 4)
    assert [scratch.slot(turn) for turn in range(5)] == [492, 497, 502, 507, 492]
    assert list(scratch.constants.values()) == [491]
    small = scratch_of(network, preset(f"edge,weight_tiles=16{OPTION}"))
    assert (small.first, small.steps, small.turns) == (12, 1, 3)
    assert scratch_of(lowered(attention()), EDGE).constants == {}


def test_instructions_of_rows_and_of_columns() -> None:
    config = preset(f"micro{OPTION}")
    straight = code(of_inputs((1, 2, 5, 20), (1, 2, 20, 12)), config, Opcode.MOVE_WEIGHTS)
    # Two output tiles of two heads: a pixel for each tap, of the tile's columns.
    assert [(i.x_count, i.x_stride, i.taps) for i in straight] == 2 * [(20, 12, 8), (20, 12, 4)]
    graph = of_inputs((1, 1, 5, 20), (1, 1, 12, 20), turned=True)
    turned = code(graph, config, Opcode.MOVE_WEIGHTS)
    # Pixels of 25 bytes: a column is a byte of each.
    assert [(i.x_count, i.x_stride, i.taps) for i in turned] == [(20, 1, 8), (20, 1, 4)]
    assert [(i.run, i.skip) for i in turned] == 2 * [(1, 3)]
    assert turned[1].unified - turned[0].unified == 8 * 25


def test_passes_of_a_tile() -> None:
    """A pass for the tile, two for the first zero point, and one a step for the second."""
    config = preset(f"micro{OPTION}")
    graph = of_inputs((1, 1, 5, 20), (1, 1, 20, 3), (-128, 7))
    passes = code(graph, config, Opcode.MATMUL)
    assert [i.taps for i in passes] == [20, 20, 20, 8, 8, 4]
    assert [i.accumulate for i in passes] == [0, 1, 1, 1, 1, 1]
    assert [i.x_stride for i in passes] == [20, 0, 0, 20, 20, 20]
    assert len({i.tile for i in passes[3:]}) == 1
    moves = code(graph, config, Opcode.MOVE_WEIGHTS)
    assert [(i.x_count, i.x_stride) for i in moves] == [(8, 0), (20, 3)]


def test_a_long_reduction_passes_through_few_tiles() -> None:
    config = preset(f"micro,weight_tiles=16{OPTION}")
    moves = code(of_inputs((1, 1, 5, 50), (1, 1, 50, 3)), config, Opcode.MOVE_WEIGHTS)
    assert [i.x_count for i in moves] == [16, 16, 16, 2]
    assert [i.tile for i in moves] == [14, 12, 14, 12]


def test_rows_of_few_heads_share_a_half_of_the_accumulators() -> None:
    passes = code(of_inputs((1, 6, 20, 16), (1, 6, 16, 16)), EDGE, Opcode.MATMUL)
    assert [i.accumulator for i in passes] == [0, 20, 40, 512, 532, 552]
    long = of_inputs((1, 1, 1100, 16), (1, 1, 16, 16))
    assert [i.x_count for i in code(long, EDGE, Opcode.MATMUL)] == [366, 367, 367]


def test_tiles_move_before_the_passes_of_the_one_before() -> None:
    part = part_of(of_inputs((1, 2, 32, 8), (1, 2, 8, 8)), preset(f"micro{OPTION}"))
    code = [i.opcode for i in part.mains[0].instructions if i.unit is Unit.MATRIX]
    assert code == [*[Opcode.MOVE_WEIGHTS] * 2, *[Opcode.MATMUL] * 2]


def spread(graph: Graph, config: Config) -> bool:
    network = lowered(graph)
    return spreads(dynamic(network), scratch_of(network, config), config)


def test_sums_of_columns_are_copied_if_the_array_is_busier() -> None:
    # Four steps of 64 rows; the vector unit takes two cycles a row.
    wide = (1, 4, 64, 64), (1, 4, 64, 16)
    assert spread(of_inputs(*wide, (-128, 0)), EDGE)
    assert spread(of_inputs(*wide, (1, 1)), EDGE)
    # No zero point; few steps; few rows; more steps than slots; a slow requantiser.
    assert not spread(of_inputs(*wide, (0, 1)), EDGE)
    assert not spread(of_inputs((1, 4, 64, 16), (1, 4, 16, 16), (1, 1)), EDGE)
    assert not spread(of_inputs((1, 4, 8, 64), (1, 4, 64, 16), (1, 1)), EDGE)
    assert not spread(of_inputs(*wide, (1, 1)), preset(f"edge,weight_tiles=16{OPTION}"))
    assert not spread(of_inputs(*wide, (1, 1)), preset(f"edge,requantizer=sequential{OPTION}"))


def test_sums_of_columns_are_made_for_one_row_and_copied() -> None:
    part = part_of(of_inputs((1, 5, 64, 64), (1, 5, 64, 16), (-128, 0)), EDGE)
    instructions = part.mains[0].instructions
    passes = [i for i in instructions if i.opcode is Opcode.MATMUL]
    # Two heads a job, in the halves in turn. The sums of the next job come in the middle of one.
    counts = [(i.x_count, i.accumulator, i.accumulate) for i in passes]
    one = [(1, 511, 0), (1, 510, 0)]
    other = [(x, row + 512, add) for x, row, add in one]
    halves = [*one, (64, 0, 1), *other, (64, 64, 1), (64, 512, 1), one[0], (64, 576, 1)]
    assert counts == [*halves, (64, 0, 1)]
    vectors = [i for i in instructions if i.opcode is Opcode.VECTOR]
    copies = [i for i in vectors if i.destination == Space.ACCUMULATORS.value]
    expected = [(511, 0, 64), (510, 64, 64), (1023, 512, 64), (1022, 576, 64), (511, 0, 64)]
    assert [(i.source_base, i.destination_base, i.x_count) for i in copies] == expected


def test_bound_counts_the_passes_of_the_product_alone() -> None:
    graph = of_inputs((1, 4, 64, 20), (1, 4, 20, 40), (1, 1))
    compiled = compile_steps(load(serialize(graph)), EDGE)
    # Two steps and three output tiles of 64 pixels for each of four heads.
    assert bounds(compiled)[-1] == 2 * 3 * 4 * 64
    note = "sums of columns are copied; 2 passes of each tile, for zero points"
    assert note in compiled.program.layers[-1].note


def test_corrections_name_bytes_and_times() -> None:
    layer = dynamic(lowered(of_inputs((1, 2, 5, 7), (1, 2, 7, 6), (-128, 1))))
    assert layer.columns == Correction(value=layer.sources[2], times=2)
    assert layer.lines == Correction(value=layer.sources[3], times=1)


def test_heads_share_a_matrix() -> None:
    layer = dynamic(lowered(of_inputs((2, 3, 1, 5, 7), (2, 1, 4, 7, 6))))
    # Two samples: three matrices of the first input and four of the second make twelve.
    assert layer.matrices == tuple(zip(*[divmod(n, 4) for n in range(12)], strict=True))
    with pytest.raises(CompileError, match="wanted matrices of 2 samples"):
        lowered(of_inputs((2, 2, 5, 7), (2, 7, 6)))


def test_columns_of_the_first_matrix() -> None:
    chain = Chain((1, 2, 20, 5), 0.05, 0)
    other = chain.input("second", (1, 2, 20, 6), 0.03, 0)
    printed = {"scale": 0.5, "zero_point": 0, "adjX": True, "adjY": False}
    chain.operator("BATCH_MATMUL", (1, 2, 5, 6), inputs=[0, other], **printed)
    first, *_ = code(chain.graph(), preset(f"micro{OPTION}"), Opcode.MATMUL)
    # Pixels of 9 bytes: 20 taps are a byte of each.
    assert (first.x_count, first.x_stride, first.taps, first.run, first.skip) == (5, 1, 20, 1, 1)


def transposed(shape: tuple[int, ...], order: tuple[int, ...], *more: w.Layer) -> Graph:
    chain = Chain(shape, 0.05, 0)
    for layer in (w.Transpose(permutation=order), *more):
        layer.add(chain)
    return chain.graph()


@pytest.mark.parametrize(
    ("shape", "order", "seen", "result"),
    [
        ((1, 5, 2, 7), (0, 2, 1, 3), (5, 2, 7), (1, 10, 7)),
        ((3, 5, 2, 7), (0, 2, 1, 3), (5, 2, 7), (1, 10, 7)),
        ((1, 5, 2, 3, 4), (0, 2, 1, 3, 4), (5, 2, 12), (1, 10, 12)),
        ((1, 5, 2, 1, 3, 4), (0, 3, 2, 4, 1, 5), (5, 6, 4), (1, 30, 4)),
        ((1, 2, 3, 5, 4), (0, 3, 1, 2, 4), (6, 5, 4), (1, 30, 4)),
        ((1, 5, 2, 3, 4), (0, 2, 3, 1, 4), (5, 6, 4), (1, 30, 4)),
    ],
)
def test_pixels_are_transposed(shape, order, seen, result) -> None:
    network = lowered(transposed(shape, order))
    (layer,) = network.layers
    assert isinstance(layer, Transpose) and layer.seen == seen
    value = network.values[layer.result]
    assert (value.height, value.width, value.channels) == result
    (copy,) = code(transposed(shape, order), preset("edge"), Opcode.VECTOR)
    assert (copy.x_count, copy.y_count, copy.channels) == seen
    strides = (copy.source_y_stride, copy.source_x_stride)
    assert strides == (seen[2], seen[1] * seen[2])


def test_a_transposed_image_stays_one_for_readers_of_images() -> None:
    network = lowered(transposed((1, 5, 2, 7), (0, 2, 1, 3), w.Pool(window=(1, 2))))
    value = network.values[network.layers[0].result]
    assert (value.height, value.width, value.channels) == (2, 5, 7)


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (0, 3, 2, 1)])
def test_other_orders_are_refused(order: tuple[int, ...]) -> None:
    with pytest.raises(CompileError) as error:
        lowered(transposed((1, 5, 2, 7), order))
    assert error.value.reason.startswith("wanted an order that swaps rows and columns of pixels")
