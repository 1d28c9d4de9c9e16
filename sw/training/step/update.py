"""Updates of a training step: gradients, steps of the weights, high and low bytes."""

from collections.abc import Iterator

from celosia.hw.arch.isa import Opcode, Rounding, Space
from celosia.sw.compiler.emit.access import span
from celosia.sw.layers.weight_bytes import MOST
from celosia.sw.training.step import backward, wide
from celosia.sw.training.step.conv import errors, gradients
from celosia.sw.training.step.emitter import Emitter
from celosia.sw.training.step.places import Block, Chunk

#: Chunks in flight: one in each half of the accumulators.
_AT_ONCE = 2

#: Errors before the mask are in the other half.
_FIRST_HALF = 1


def updates(emit: Emitter) -> None:
    """Append the errors of hidden layers and the updates of all weights, two chunks at a time.

    While the array works on one chunk, the vector unit works on the other. The errors of a layer's
    inputs come before the update of its weights, their mask after the first gradients.
    """
    layout = emit.layout
    groups = list(_groups(layout.chunks))
    loaded = {id(block) for block in layout.early_blocks}
    layers = [some[0].block.layer for some in groups]
    before, unmasked = len(layout.inputs), 0
    turn = _FIRST_HALF
    for some, following, layer in zip(groups, [*groups[1:], []], layers, strict=True):
        if layer != before:
            unmasked = layer if _errors(emit, layer) else 0
        before = layer
        _load(emit, some, [], loaded)
        halves = [(turn + n) % _AT_ONCE for n in range(len(some))]
        turn += len(some)
        for half, chunk in zip(halves, some, strict=True):
            _load_noise(emit, chunk)
            if layer >= layout.first:
                _gradient(emit, chunk, half)
        if layer < layout.first:
            gradients.append(emit, some, halves)
        if unmasked:
            backward.mask(emit, unmasked)
            unmasked = 0
        for half, chunk in zip(halves, some, strict=True):
            _round(emit, chunk, half)
        if following and following[0].block.layer in (layer, *layout.held):
            # The errors of other layers, which come first, use the bytes of their blocks.
            _load(emit, following, some, loaded)
        for half, chunk in zip(halves, some, strict=True):
            _add_weights(emit, chunk, half)
        for half, chunk in zip(halves, some, strict=True):
            _write(emit, chunk, half)


def _errors(emit: Emitter, layer: int) -> bool:
    """Append the errors that a layer's gradients and the layers before need.

    Returns True if the errors of its inputs are to be masked.
    """
    layout = emit.layout
    if layer < layout.first:
        errors.append(emit, layer)
    elif layer > layout.first:
        backward.errors(emit, layer)
        return True
    else:
        wide.errors(emit)
    return False


def _groups(chunks: list[Chunk]) -> Iterator[list[Chunk]]:
    """Yield chunks of one layer that are in flight together; no two blocks of them share bytes."""
    group: list[Chunk] = []
    for chunk in chunks:
        if len(group) == _AT_ONCE or any(_apart(chunk.block, other.block) for other in group):
            yield group
            group = []
        group.append(chunk)
    yield group


def _apart(one: Block, two: Block) -> bool:
    return one.layer != two.layer or (one is not two and one.high == two.high)


def _load(emit: Emitter, chunks: list[Chunk], busy: list[Chunk], loaded: set[int]) -> None:
    """Append the loads of blocks that are not there, unless busy ones have their bytes.

    The inputs of a streamed part come with its first block.
    """
    for chunk in chunks:
        block = chunk.block
        if id(block) in loaded or any(block.high == other.block.high for other in busy):
            continue
        loaded.add(id(block))
        backward.load_block(emit, block)
        if emit.layout.is_streamed(block.layer) and block.number == 0:
            wide.load_inputs(emit, chunk.part, chunk.part % 2)


def _gradient(emit: Emitter, chunk: Chunk, half: int) -> None:
    """Append the gradient of a chunk: columns of the activations times errors."""
    block, rows, layout = chunk.block, chunk.rows, emit.layout
    size, batch, number = layout.size, layout.batch, block.layer
    emit.layer = number
    tile = layout.gradient[block.number % 2]
    if rows[0] == 0:
        emit.move(layout.errors[number], tile, count=batch, first=block.number * size)
    source = layout.source(number, chunk.part % 2)
    emit.product(
        source.access(False, (0, batch), rows),
        source.at(0, rows[0]),
        ((rows[1] - rows[0], 1),),
        tile,
        taps=batch,
        half=half,
        run=1,
        skip=(source.pitch - 1) // size,
    )


def _load_noise(emit: Emitter, chunk: Chunk) -> None:
    """Append the load of the parameters that shift a gradient, with noise as bias."""
    layout = emit.layout
    emit.layer = chunk.block.layer
    external = layout.noise + chunk.number * layout.chunk_parameters
    emit.load_parameters(external, layout.noise_slot(chunk), layout.size)


def _round(emit: Emitter, chunk: Chunk, half: int) -> None:
    """Append the shift of a gradient to a step, in place; the parameters add noise."""
    layout, rows = emit.layout, chunk.rows
    emit.layer = chunk.block.layer
    slot = layout.noise_slot(chunk)
    emit.vector(
        (),
        slot,
        half=half,
        destination=Space.ACCUMULATORS.value,
        x_count=rows[1] - rows[0],
        channels=layout.size,
        destination_base=half * emit.config.accumulator_depth,
        destination_x_stride=1,
    )


def _add_weights(emit: Emitter, chunk: Chunk, half: int) -> None:
    """Append the sum of step and weight: low bytes once, high bytes times 2^LOW_BITS."""
    block, rows, layout = chunk.block, chunk.rows, emit.layout
    size = layout.size
    emit.layer = block.layer
    emit.add(
        Opcode.MATMUL,
        (
            block.low.access(False, rows, (0, size)),
            block.high.access(False, rows, (0, size)),
            span("weights", False, layout.identity, 2),
            emit.half(half),
        ),
        unified=block.low.at(rows[0]),
        x_count=rows[1] - rows[0],
        x_stride=block.low.pitch,
        taps=2 * size,
        run=size,
        skip=(block.high.base - block.low.base) // size - 1,
        tile=layout.identity,
        accumulator=half * emit.config.accumulator_depth,
        accumulate=1,
    )


def _write(emit: Emitter, chunk: Chunk, half: int) -> None:
    """Append the new bytes of a chunk, and their stores."""
    block, rows, size = chunk.block, chunk.rows, emit.layout.size
    emit.layer = block.layer
    for matrix, external, name, rounding, least in (
        (block.high, block.external_high, "high", Rounding.SINGLE, -MOST),
        (block.low, block.external_low, "low", Rounding.DOUBLE, -128),
    ):
        emit.vector(
            (matrix.access(True, rows, (0, size)),),
            name,
            half=half,
            rounding=rounding,
            x_count=rows[1] - rows[0],
            channels=size,
            destination_base=matrix.at(rows[0]),
            destination_x_stride=matrix.pitch,
            low=least,
        )
        emit.copy(Opcode.STORE, matrix, rows, external + rows[0] * size, size)
