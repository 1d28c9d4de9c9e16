"""Forward pass of a training step: activations, logits, and the error of the softmax."""

from collections.abc import Iterator
from dataclasses import dataclass

from celosia.hw.arch.isa import Opcode, Rounding, Window
from celosia.sw.layers.weight_bytes import MOST
from celosia.sw.training.step import backward, wide
from celosia.sw.training.step.emitter import Emitter
from celosia.sw.training.step.layout import Layout


@dataclass(frozen=True)
class _Job:
    """Product of a batch with a part of a block of weights.

    ``layer``, ``number``: of the block; ``part``, ``rows``: of its rows; ``last``: the sums are
    complete after it; ``weights``: external address of the tiles.
    """

    layer: int
    number: int
    part: int
    rows: tuple[int, int]
    last: bool
    weights: int


def load(emit: Emitter) -> None:
    """Append the loads of what the first product needs, besides its weights."""
    layout = emit.layout
    count = len(layout.sets) * emit.config.lanes
    emit.load_parameters(layout.parameters, 0, count)
    for number, external in layout.dropped.items():
        plane = layout.masked[number + 1][1]
        emit.copy(Opcode.LOAD, plane, (0, layout.batch), external, layout.outputs[number])


def _rest(emit: Emitter) -> Iterator[None]:
    """Append the loads of constants and of rows for each image, one for each turn."""
    layout, batch = emit.layout, emit.layout.batch
    emit.load_table("exponential")
    targets = [layout.shares, layout.differences, *(layout.errors[n] for n in layout.noisy)]
    for matrix, external in zip(targets, layout.rows, strict=True):
        yield
        emit.copy(Opcode.LOAD, matrix, (0, batch), external, matrix.pitch)
    for block in layout.early_blocks:
        yield
        backward.load_block(emit, block)


def _jobs(layout: Layout) -> Iterator[_Job]:
    """Yield the products of the forward pass, in order."""
    for number in layout.products:
        count, high = layout.inputs[number], layout.weights[number][0]
        parts = layout.streamed.parts if layout.is_streamed(number) else [(0, count)]
        for j in range(layout.outputs[number] // layout.size):
            for part, rows in enumerate(parts):
                weights = high + (j * count + rows[0]) * layout.size
                yield _Job(number, j, part, rows, part == len(parts) - 1, weights)


def products(emit: Emitter) -> None:
    """Append the matrix products of all layers; the last gives logits.

    Tiles are loaded as many products ahead as there are places for them. Other loads, which the
    products do not need, come between.
    """
    layout, batch = emit.layout, _rest(emit)
    jobs = list(_jobs(layout))
    places = layout.forward

    def load(turn: int) -> None:
        if turn < len(jobs):
            job = jobs[turn]
            emit.layer = job.layer
            count = layout.tiles_of(job.rows[1] - job.rows[0])
            emit.load_weights(job.weights, places[turn % len(places)], count)
            if layout.is_streamed(job.layer):
                wide.load_inputs(emit, job.part, turn % 2)

    for turn in range(len(places)):
        load(turn)
    half = 0
    for turn, job in enumerate(jobs):
        next(batch, None)
        _product(emit, job, places[turn % len(places)], turn, half)
        load(turn + len(places))
        if job.last:
            half = 1 - half
            if job.layer + 1 < len(layout.inputs):
                backward.masks(emit, job.layer + 1, job.number * layout.size)
    for _ in batch:
        pass


def _product(emit: Emitter, job: _Job, tile: int, turn: int, half: int) -> None:
    """Append the product of a job, and the results if the sums are complete."""
    layout, number = emit.layout, job.layer
    emit.layer = number
    taps = job.rows[1] - job.rows[0]
    source = layout.source(number, turn % 2)
    emit.multiply(source, tile, taps=taps, half=half, accumulate=job.part > 0)
    if not job.last:
        return
    final = number == len(layout.inputs) - 1
    target = layout.logits if final else layout.activations[number + 1]
    if number in layout.dropped:
        target = layout.masked[number + 1][0]
    emit.drain(
        target,
        job.number * layout.size,
        f"sum{number}",
        half=half,
        channels=layout.size,
        rounding=Rounding.DOUBLE,
        low=-128 if final else 0,
    )
    if number in layout.dropped:
        _drop(emit, number, job.number * layout.size)


def _drop(emit: Emitter, number: int, column: int) -> None:
    """Append a block of a layer's results with dropout: its sum with -128 is less than 0.

    The planes of the errors and their masks, which come later, hold results and what is left out.
    """
    layout, batch = emit.layout, emit.layout.batch
    target, columns = layout.activations[number + 1], (column, column + layout.size)
    results, dropped = layout.masked[number + 1][:2]
    emit.vector(
        (
            *(matrix.access(False, (0, batch), columns) for matrix in (results, dropped)),
            target.access(True, (0, batch), columns),
        ),
        "same",
        x_count=batch,
        channels=layout.size,
        source_base=results.at(0, column),
        source_x_stride=results.pitch,
        window=Window.SUM.value,
        window_x_count=2,
        window_x_stride=dropped.base - results.base,
        destination_base=target.at(0, column),
        destination_x_stride=target.pitch,
        low=0,
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
    batch, shares = emit.layout.batch, emit.layout.shares
    emit.vector(
        (shares.access(True, (0, batch), (0, batch)),),
        "reciprocal",
        half=half,
        table="reciprocal",
        x_count=batch,
        destination_base=shares.at(),
        destination_x_stride=shares.pitch + 1,
        zero_point=-128,
    )


def error(emit: Emitter) -> None:
    """Append the error of the logits: right class minus softmax, without its mean."""
    layout = emit.layout
    size, batch, last = layout.size, layout.batch, layout.outputs[-1]
    for number, tile in enumerate(layout.product):
        half = number % 2
        emit.move(layout.exponentials, tile, count=batch, first=number * size)
        emit.multiply(layout.shares, tile, taps=layout.row_lengths[0], half=half)
        channels, column = _real(emit, number)
        emit.drain(layout.differences, column, "error", half=half, channels=channels, low=-MOST)
    for number, tile in enumerate(layout.project):
        half = number % 2
        emit.multiply(layout.differences, tile, taps=last + size, half=half)
        channels, column = _real(emit, number)
        emit.drain(
            layout.errors[len(layout.inputs) - 1],
            column,
            "error",
            half=half,
            channels=channels,
            low=-MOST,
        )


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
