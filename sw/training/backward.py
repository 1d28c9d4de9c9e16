"""Backward pass of a training step: errors of hidden layers."""

from celosia.hw.arch.isa import Opcode, Window
from celosia.sw.training.layout import Block, Matrix
from celosia.sw.training.scheme import ONE
from celosia.sw.training.steps import Emitter


def load_block(emit: Emitter, block: Block) -> None:
    """Append the loads of a block of weights into the unified buffer."""
    for matrix, external in ((block.high, block.external_high), (block.low, block.external_low)):
        emit.copy(Opcode.LOAD, matrix, (0, matrix.rows), external, emit.layout.size)


def errors(emit: Emitter, number: int) -> None:
    """Append the errors of the layer before a layer: errors times the transposed weights."""
    layout = emit.layout
    size, batch, blocks = layout.size, layout.batch, layout.blocks[number]
    emit.layer = number
    for block in blocks:
        for turn, tile in enumerate(layout.back[number]):
            emit.move(block.high, tile + block.number, count=size, first=turn * size, column=True)
    most = emit.config.accumulator_depth // batch
    groups = layout.back[number]
    for turn, first in enumerate(range(0, len(groups), most)):
        some = groups[first : first + most]
        for place, tile in enumerate(some):
            taps = layout.outputs[number] + size
            emit.multiply(layout.errors[number], tile, taps=taps, half=turn % 2, row=place * batch)
        emit.drain(
            layout.masked[0],
            first * size,
            f"back{number}",
            half=turn % 2,
            channels=size,
            blocks=len(some),
            low=-ONE,
        )
    _mask(emit, number)


def _mask(emit: Emitter, number: int) -> None:
    """Append the gradient of ReLU: errors of activations that are zero become zero.

    A mask is -128 there, else 0. An error of at most ONE plus twice the mask is at most -129,
    clamps to -128, and a table turns that into 0.
    """
    layout, batch = emit.layout, emit.layout.batch
    source, width = layout.activations[number], layout.inputs[number]
    plane = layout.masked[1].base - layout.masked[0].base
    pitch = layout.masked[0].pitch
    emit.load_table("mask")
    emit.vector(
        (
            source.access(False, (0, batch), (0, width)),
            *(layout.masked[n].access(True, (0, batch), (0, width)) for n in (1, 2)),
        ),
        "threshold",
        x_count=batch,
        y_count=2,
        channels=width,
        source_base=source.at(),
        source_x_stride=source.pitch,
        destination_base=layout.masked[1].at(),
        destination_x_stride=pitch,
        destination_y_stride=plane,
        zero_point=-128,
        high=0,
    )
    target: Matrix = layout.errors[number - 1]
    emit.vector(
        (
            *(matrix.access(False, (0, batch), (0, width)) for matrix in layout.masked),
            target.access(True, (0, batch), (0, width)),
        ),
        "same",
        table="mask",
        x_count=batch,
        channels=width,
        source_base=layout.masked[0].at(),
        source_x_stride=pitch,
        window=Window.SUM.value,
        window_x_count=len(layout.masked),
        window_x_stride=plane,
        destination_base=target.at(),
        destination_x_stride=target.pitch,
    )
