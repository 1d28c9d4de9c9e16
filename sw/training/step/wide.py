"""First matrix product after convolutions: its inputs and weights are streamed, part by part."""

from celosia.hw.arch.isa import Opcode
from celosia.sw.layers.weight_bytes import MOST
from celosia.sw.training.step.emitter import Emitter


def load_inputs(emit: Emitter, part: int, turn: int) -> None:
    """Append the load of a part of the inputs of a batch."""
    streamed = emit.layout.streamed
    first, last = streamed.parts[part]
    emit.copy(
        Opcode.LOAD,
        streamed.inputs[turn],
        (0, emit.layout.batch),
        streamed.external + first,
        last - first,
        external_pitch=streamed.count,
    )


def errors(emit: Emitter) -> None:
    """Append the errors of the inputs, part by part: errors times weights, turned."""
    layout = emit.layout
    streamed = layout.streamed
    emit.layer = streamed.number
    turn = 0
    for part, (first, last) in enumerate(streamed.parts):
        for j, block in enumerate(streamed.blocks[part]):
            matrix, rows = streamed.turned[turn % 2], (0, last - first)
            turn += 1
            emit.copy(Opcode.LOAD, matrix, rows, block.external_high, layout.size)
            for group in range((last - first) // layout.size):
                tile = layout.changing + group * len(streamed.blocks[part]) + j
                begin = group * layout.size
                emit.move(matrix, tile, count=layout.size, first=begin, column=True)
        _part(emit, part)


def _part(emit: Emitter, part: int) -> None:
    """Append sums and errors of a part, and their store."""
    layout = emit.layout
    streamed, batch, size = layout.streamed, layout.batch, layout.size
    number, (first, last) = streamed.number, streamed.parts[part]
    results = streamed.results[part % 2]
    groups, limit = (last - first) // size, emit.config.accumulator_depth // batch
    errors, taps = layout.errors[number], layout.outputs[number]
    for begin in range(0, groups, limit):
        half, some = emit.next_half(), range(begin, min(begin + limit, groups))
        for place, group in enumerate(some):
            row, tile = place * batch, layout.changing + group * (taps // size)
            noise = layout.noise_tiles[number]
            emit.multiply(errors, noise, taps=size, half=half, row=row, column=taps)
            emit.multiply(errors, tile, taps=taps, half=half, row=row, accumulate=True)
        emit.drain(
            results,
            begin * size,
            f"back{number}",
            half=half,
            channels=size,
            blocks=len(some),
            low=-MOST,
        )
    emit.copy(
        Opcode.STORE,
        results,
        (0, batch),
        layout.convolutions[-1].pooled + first,
        last - first,
        external_pitch=streamed.count,
    )
