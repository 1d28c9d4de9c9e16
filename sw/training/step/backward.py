"""Backward pass of a training step: errors of hidden layers."""

from celosia.hw.arch.isa import Opcode, Window
from celosia.sw.layers.weight_bytes import MOST
from celosia.sw.training.step.emitter import Emitter
from celosia.sw.training.step.places import Block


def load_block(emit: Emitter, block: Block) -> None:
    """Append the loads of a block of weights into the unified buffer."""
    for matrix, external in ((block.high, block.external_high), (block.low, block.external_low)):
        emit.copy(Opcode.LOAD, matrix, (0, matrix.rows), external, emit.layout.size)


def errors(emit: Emitter, number: int) -> None:
    """Append the errors of a layer's inputs, before their mask: errors times turned weights."""
    layout = emit.layout
    size, batch, blocks = layout.size, layout.batch, layout.blocks[number]
    emit.layer = number
    for block in blocks:
        for turn, tile in enumerate(layout.back[number]):
            emit.move(block.high, tile + block.number, count=size, first=turn * size, column=True)
    limit = emit.config.accumulator_depth // batch
    groups = layout.back[number]
    for turn, first in enumerate(range(0, len(groups), limit)):
        some = groups[first : first + limit]
        for place, tile in enumerate(some):
            taps = layout.outputs[number] + size
            emit.multiply(layout.errors[number], tile, taps=taps, half=turn % 2, row=place * batch)
        emit.drain(
            layout.masked[number][0],
            first * size,
            f"back{number}",
            half=turn % 2,
            channels=size,
            blocks=len(some),
            low=-MOST,
        )
    emit.load_table("mask")


def masks(emit: Emitter, number: int, column: int) -> None:
    """Append the masks of a block of a layer's inputs: -128 where they are zero, else 0, twice."""
    layout, batch = emit.layout, emit.layout.batch
    source, columns = layout.activations[number], (column, column + layout.size)
    first, *copies = layout.masked[number]
    emit.vector(
        (
            source.access(False, (0, batch), columns),
            *(matrix.access(True, (0, batch), columns) for matrix in copies),
        ),
        "threshold",
        x_count=batch,
        y_count=len(copies),
        channels=layout.size,
        source_base=source.at(0, column),
        source_x_stride=source.pitch,
        destination_base=copies[0].at(0, column),
        destination_x_stride=first.pitch,
        destination_y_stride=copies[0].base - first.base,
        zero_point=-128,
        high=0,
    )


def mask(emit: Emitter, number: int) -> None:
    """Append the gradient of ReLU, in place: errors of activations that are zero become zero.

    An error of at most MOST plus twice the mask is at most -129, clamps to -128, and a table turns
    that into 0.
    """
    layout, batch = emit.layout, emit.layout.batch
    planes, width = layout.masked[number], layout.inputs[number]
    errors = planes[0]
    emit.vector(
        (
            *(matrix.access(False, (0, batch), (0, width)) for matrix in planes),
            errors.access(True, (0, batch), (0, width)),
        ),
        "same",
        table="mask",
        x_count=batch,
        channels=width,
        source_base=errors.at(),
        source_x_stride=errors.pitch,
        window=Window.SUM.value,
        window_x_count=len(planes),
        window_x_stride=planes[1].base - errors.base,
        destination_base=errors.at(),
        destination_x_stride=errors.pitch,
    )
