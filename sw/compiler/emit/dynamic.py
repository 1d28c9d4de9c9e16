"""Instructions of products of two computed matrices."""

from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sw.compiler.emit.access import Step, span
from celosia.sw.compiler.emit.addressing import Addressing, loops
from celosia.sw.compiler.schedule.actions import MoveWeights, MultiplyMoved, Range, Region
from celosia.sw.compiler.spec import DynamicProduct, Term


def move_weights(about: Addressing, action: MoveWeights) -> Step:
    """Return the move of tiles from the unified buffer."""
    layer = about.network.layers[action.layer]
    assert isinstance(layer, DynamicProduct)
    first, last = about.channels(action.layer, action.tile)
    taps = _taps(about, layer, action)
    if action.term is Term.LINES:
        region, stride, counts = _constant(about, layer, action, last - first), 0, about.config.rows
    elif layer.transposed:
        region, pitch = _rows(about, layer.second, layer.second_matrix, action, (first, last), taps)
        stride, counts = 1, taps[1] - taps[0]
    else:
        region, pitch = _rows(about, layer.second, layer.second_matrix, action, taps, (first, last))
        stride, counts = pitch, taps[1] - taps[0]
    fields = loops((1, 1, counts), (0, 0, stride))
    if layer.transposed and action.term is Term.PRODUCT:
        pitch = about.placement.layouts[layer.second].pixel
        fields |= {"run": 1, "skip": (pitch - 1) // about.config.rows}
    instruction = Instruction(
        Opcode.MOVE_WEIGHTS,
        unified=about.address(region),
        taps=last - first,
        tile=action.slot,
        **fields,
    )
    accesses = (
        about.access(region, writes=False),
        span("weights", True, action.slot, action.last_step - action.first_step),
    )
    return Step(instruction, accesses, action.layer)


def multiply_moved(about: Addressing, action: MultiplyMoved) -> Step:
    """Return a pass over tiles made of activations."""
    layer = about.network.layers[action.layer]
    assert isinstance(layer, DynamicProduct)
    taps = _taps(about, layer, action)
    count = action.rows[1] - action.rows[0]
    if action.term is Term.COLUMNS:
        region, stride = _constant(about, layer, action, taps[1] - taps[0]), 0
    else:
        region, stride = _rows(about, layer.source, layer.first_matrix, action, action.rows, taps)
    instruction = Instruction(
        Opcode.MATMUL,
        unified=about.address(region),
        taps=taps[1] - taps[0],
        tile=action.slot,
        accumulator=action.half * about.config.accumulator_depth + action.accumulator,
        accumulate=int(action.accumulate),
        **loops((1, 1, count), (0, 0, stride)),
    )
    accesses = (
        about.access(region, writes=False),
        span("weights", False, action.slot, action.last_step - action.first_step),
        span("accumulators", True, action.half, 1),
    )
    return Step(instruction, accesses, action.layer)


def _taps(about: Addressing, layer: DynamicProduct, action: MoveWeights | MultiplyMoved) -> Range:
    """Return the first tap of an action's steps, and the one after the last."""
    rows = about.config.rows
    return action.first_step * rows, min(action.last_step * rows, layer.taps)


def _rows(
    about: Addressing,
    value: int,
    matrix: tuple[int, int],
    action: MoveWeights | MultiplyMoved,
    rows: Range,
    columns: Range,
) -> tuple[Region, int]:
    """Return a region of a head's matrix of some extents, and the bytes from row to row."""
    found, layout = about.network.values[value], about.placement.layouts[value]
    pixel = layout.pixel if found.channels == matrix[1] else matrix[1]
    # In a flat value, a head's rows follow those of the head before.
    row, before = (action.head, 0) if found.height > 1 else (0, action.head * matrix[0])
    region = Region(
        value=value,
        sub_batch=action.sub_batch,
        samples=action.block.samples,
        rows=(row, row + 1),
        columns=(
            (before + rows[0]) * pixel + columns[0],
            (before + rows[1] - 1) * pixel + columns[1],
        ),
    )
    return region, pixel


def _constant(
    about: Addressing, layer: DynamicProduct, action: MoveWeights | MultiplyMoved, count: int
) -> Region:
    """Return the region of some bytes of the constant of a term."""
    terms = {Term.COLUMNS: layer.columns, Term.LINES: layer.lines}
    term = terms[action.term]
    assert term
    return Region(
        value=term.value,
        sub_batch=action.sub_batch,
        samples=action.block.samples,
        rows=(0, 1),
        columns=(0, count),
    )
