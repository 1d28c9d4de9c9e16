"""Gradients of convolutions in a training step: sums over the pixels of all images."""

from celosia.hw.arch.isa import Opcode
from celosia.sw.compiler.emit.access import span
from celosia.sw.training.step.emitter import Emitter, block, loops
from celosia.sw.training.step.places import Chunk, balanced


def append(emit: Emitter, chunks: list[Chunk], halves: list[int]) -> None:
    """Append the gradients of chunks of a convolution, each in its half of the accumulators.

    The pixels that a weight multiplies are a column of the image's grid; the errors of as many
    pixels, between which there are zeros, are moved into tiles. Chunks of one block share them.
    """
    layout = emit.layout
    number = chunks[0].block.layer
    conv, buffers = layout.convolutions[number], layout.gradient_buffers[number]
    g = conv.geometry
    emit.layer = number
    blocks = sorted({chunk.block.number for chunk in chunks})
    for image in range(conv.batch):
        source = buffers.images[image % 2]
        emit.copy_bytes(Opcode.LOAD, source, conv.images + image * g.image_bytes, g.image_bytes)
        for slot, j in enumerate(blocks):
            errors = buffers.errors[slot][image % 2]
            external = conv.errors + (image * g.blocks + j) * g.error_bytes
            emit.copy_bytes(Opcode.LOAD, errors, external, g.error_bytes)
            tile = _move(emit, chunks[0], errors, 2 * slot + image % 2)
            for half, chunk in zip(halves, chunks, strict=True):
                if chunk.block.number == j:
                    _gradient(emit, chunk, source, tile, half, image)


def _move(emit: Emitter, chunk: Chunk, errors: int, turn: int) -> int:
    """Append the move of a plane of errors into tiles, and return the first."""
    conv = emit.layout.convolutions[chunk.block.layer]
    g = conv.geometry
    tile = emit.layout.changing + turn * conv.gradient_tiles
    for first, last in balanced(g.taps, emit.config.accumulator_rows - 1, g.size):
        start, count = tile + first // g.size, emit.layout.tiles_of(last - first)
        emit.add(
            Opcode.MOVE_WEIGHTS,
            (block(False, errors, g.error_bytes), span("weights", True, start, count)),
            unified=errors + (g.error_origin + first) * g.size,
            taps=g.size,
            tile=start,
            **loops(((last - first, g.size),)),
        )
    return tile


def _gradient(emit: Emitter, chunk: Chunk, source: int, tile: int, half: int, image: int) -> None:
    """Append the part of a gradient that is of one image."""
    conv = emit.layout.convolutions[chunk.block.layer]
    g = conv.geometry
    first, last = conv.kernel_rows[chunk.part]
    row = g.grid * g.pitch
    emit.product(
        block(False, source, g.image_bytes),
        source + first * row,
        ((g.channels, 1), (conv.layer.kernel, g.pitch), (last - first, row)),
        tile,
        taps=g.taps,
        half=half,
        accumulate=image > 0,
        run=1,
        skip=(g.pitch - 1) // g.size,
    )
