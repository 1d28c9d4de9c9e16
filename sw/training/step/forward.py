"""Forward pass of a training step: activations, logits, and the error of the softmax."""

from collections.abc import Iterator

from celosia.hw.arch.isa import Opcode, Rounding, Space, Window
from celosia.sw.training.scheme import ONE
from celosia.sw.training.step import backward
from celosia.sw.training.step.emitter import Emitter
from celosia.sw.training.step.layout import Block


def load(emit: Emitter) -> None:
    """Append the loads of what the first product needs, besides its weights."""
    layout = emit.layout
    count = len(layout.sets) * emit.config.lanes
    emit.load_parameters(layout.parameters, 0, count)
    images, batch = layout.activations[0], layout.batch
    emit.copy(Opcode.LOAD, images, (0, batch), layout.images, layout.inputs[0])


def _rest(emit: Emitter) -> Iterator[None]:
    """Append the loads of constants and of rows for each image, one for each turn."""
    layout, batch = emit.layout, emit.layout.batch
    emit.load_weights(layout.tile_content, 0, layout.constant_tiles)
    yield
    emit.load_table("exponential")
    targets = [layout.products, layout.differences, *(layout.errors[n] for n in layout.noisy)]
    for matrix, external in zip(targets, layout.rows, strict=True):
        yield
        emit.copy(Opcode.LOAD, matrix, (0, batch), external, matrix.pitch)
    for block in layout.early_blocks:
        yield
        backward.load_block(emit, block)


def products(emit: Emitter) -> None:
    """Append the matrix products of all layers; the last gives logits.

    Tiles are loaded as many products ahead as there are places for them. Other loads, which the
    products do not need, come between.
    """
    layout, rest = emit.layout, _rest(emit)
    jobs = [block for blocks in layout.blocks for block in blocks]
    places = layout.forward

    def tiles(turn: int) -> None:
        if turn < len(jobs):
            block = jobs[turn]
            emit.layer = block.layer
            count = layout.tiles_of(layout.inputs[block.layer])
            emit.load_weights(block.external_high, places[turn % len(places)], count)

    for turn in range(len(places)):
        tiles(turn)
    for turn, block in enumerate(jobs):
        next(rest, None)
        _product(emit, block, places[turn % len(places)], turn % 2)
        tiles(turn + len(places))
        if block.layer + 1 < len(layout.blocks):
            backward.masks(emit, block.layer + 1, block.number * layout.size)
    for _ in rest:
        pass


def _product(emit: Emitter, block: Block, tile: int, half: int) -> None:
    """Append the product with a block of weights, and its results."""
    layout, number = emit.layout, block.layer
    emit.layer = number
    final = number == len(layout.blocks) - 1
    emit.multiply(layout.activations[number], tile, taps=layout.inputs[number], half=half)
    emit.drain(
        layout.logits if final else layout.activations[number + 1],
        block.number * layout.size,
        f"sum{number}",
        half=half,
        channels=layout.size,
        rounding=Rounding.DOUBLE,
        low=-128 if final else 0,
    )


def softmax(emit: Emitter) -> None:
    """Append the exponentials of the logits, and their reciprocal sums on a diagonal."""
    layout, last = emit.layout, emit.layout.outputs[-1]
    _maximum(emit)
    _clear(emit)
    for number, tile in enumerate(layout.centre):
        half = number % 2
        emit.multiply(layout.logits, tile, taps=last + 1, half=half)
        channels, column = _real(emit, number)
        table, matrix = "exponential", layout.exponentials
        emit.drain(matrix, column, "same", half=half, channels=channels, table=table)
    emit.load_table("reciprocal")
    half = len(layout.centre) % 2
    emit.multiply(layout.exponentials, layout.ones, taps=last, half=half)
    _reciprocals(emit, half)


def _maximum(emit: Emitter) -> None:
    """Append the maxima of the logits, in the column after them."""
    batch, last, logits = emit.layout.batch, emit.layout.outputs[-1], emit.layout.logits
    emit.vector(
        (
            logits.access(False, (0, batch), (0, last)),
            logits.access(True, (0, batch), (last, last + 1)),
        ),
        "same",
        x_count=batch,
        source_base=logits.at(),
        source_x_stride=logits.pitch,
        window=Window.MAX.value,
        window_x_count=emit.layout.classes,
        window_x_stride=1,
        destination_base=logits.at(0, last),
        destination_x_stride=logits.pitch,
    )


def _reciprocals(emit: Emitter, half: int) -> None:
    """Append the reciprocals of sums, on the diagonal of the products' first columns."""
    batch, products = emit.layout.batch, emit.layout.products
    emit.vector(
        (emit.half(half), products.access(True, (0, batch), (0, batch))),
        "reciprocal",
        table="reciprocal",
        source=Space.ACCUMULATORS,
        x_count=batch,
        source_base=half * emit.config.accumulator_depth,
        source_x_stride=1,
        destination_base=products.at(),
        destination_x_stride=products.pitch + 1,
        zero_point=-128,
    )


def error(emit: Emitter) -> None:
    """Append the error of the logits: right class minus softmax, without its mean."""
    layout = emit.layout
    size, batch, last = layout.size, layout.batch, layout.outputs[-1]
    for number, tile in enumerate(layout.product):
        half = number % 2
        emit.move(layout.exponentials, tile, count=batch, first=number * size)
        emit.multiply(layout.products, tile, taps=layout.row_lengths[0], half=half)
        channels, column = _real(emit, number)
        emit.drain(layout.differences, column, "error", half=half, channels=channels, low=-ONE)
    for number, tile in enumerate(layout.project):
        half = number % 2
        emit.multiply(layout.differences, tile, taps=last + size, half=half)
        channels, column = _real(emit, number)
        emit.drain(layout.errors[-1], column, "error", half=half, channels=channels, low=-ONE)


def _real(emit: Emitter, number: int) -> tuple[int, int]:
    """Return the classes in a block of the last layer, and its first column."""
    size = emit.layout.size
    return min(size, emit.layout.classes - number * size), number * size


def _clear(emit: Emitter) -> None:
    """Append the zeros beside the exponentials, in the columns of no class."""
    matrix, classes = emit.layout.exponentials, emit.layout.classes
    if classes < matrix.pitch:
        emit.add(
            Opcode.FILL,
            (matrix.access(True, (0, matrix.rows), (classes, matrix.pitch)),),
            x_count=matrix.rows,
            channels=matrix.pitch - classes,
            destination_base=matrix.at(0, classes),
            destination_x_stride=matrix.pitch,
        )
