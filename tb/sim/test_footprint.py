"""Footprints: instructions that differ only in their bases share one computation."""

import numpy as np
import pytest

from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.presets import preset
from celosia.sim.check.footprint import Memory, OutOfRange, touches

MICRO = preset("micro")
#: Memories, and the distance of their addresses.
OUTSIDE, UNIFIED = (Memory.EXTERNAL, 1), (Memory.UNIFIED, 1)
TILES, SUMS = (Memory.WEIGHTS, 1), (Memory.ACCUMULATORS, MICRO.columns)


def addresses(i: Instruction) -> set[tuple[Memory, bool, int]]:
    """Return every address that an instruction touches."""
    return {
        (memory, write, int(address))
        for memory, write, pattern in touches(i, MICRO)
        for address in np.unique(pattern.addresses())
    }


@pytest.mark.parametrize(
    ("i", "moves"),
    [
        (
            Instruction(Opcode.LOAD, rows=3, length=5, unified_pitch=8, external_pitch=20),
            {"external": OUTSIDE, "unified": UNIFIED},
        ),
        (Instruction(Opcode.LOAD_WEIGHTS, tiles=2), {"external": OUTSIDE, "tile": TILES}),
        (
            Instruction(Opcode.MATMUL, x_count=3, x_stride=8, taps=12, accumulate=1),
            {"unified": UNIFIED, "tile": TILES, "accumulator": SUMS},
        ),
        (
            Instruction(Opcode.MOVE_WEIGHTS, x_count=9, x_stride=8, taps=5),
            {"unified": UNIFIED, "tile": TILES},
        ),
        (
            Instruction(Opcode.VECTOR, source=1, channels=6, x_count=2, source_x_stride=1),
            {"source_base": SUMS, "params": (Memory.PARAMETERS, 1), "destination_base": UNIFIED},
        ),
        (
            Instruction(Opcode.FILL, channels=5, y_count=2, destination_y_stride=9),
            {"destination_base": UNIFIED},
        ),
    ],
    ids=lambda value: value.opcode.name if isinstance(value, Instruction) else "",
)
def test_bases_shift_their_touches(i: Instruction, moves: dict[str, tuple[Memory, int]]) -> None:
    still = addresses(i)
    assert {memory for memory, _, _ in still} == {memory for memory, _ in moves.values()}
    for field, (memory, unit) in moves.items():
        by = 8
        moved = {(where, write, a + by * unit * (where is memory)) for where, write, a in still}
        assert addresses(i.but(**{field: by})) == moved
    # The shared footprint has not changed.
    assert addresses(i) == still


def test_a_footprint_depends_on_all_other_fields() -> None:
    i = Instruction(Opcode.VECTOR, channels=4, use_table=1)
    assert Memory.TABLES in {touch.memory for touch in touches(i, MICRO)}
    assert Memory.TABLES not in {touch.memory for touch in touches(i.but(use_table=0), MICRO)}
    wide = [touch.pattern.last for touch in touches(i.but(channels=9), MICRO)]
    assert wide != [touch.pattern.last for touch in touches(i, MICRO)]
    row, shared = (touches(i.but(channels=9, per_channel=each), MICRO)[1] for each in (1, 0))
    assert [row.pattern.size, shared.pattern.size] == [9, MICRO.lanes] and MICRO.lanes < 9
    other = preset("nano")
    half = Instruction(Opcode.MATMUL, x_count=2, accumulator=1)
    sums = {config.name: touches(half, config)[-1].pattern.base for config in (MICRO, other)}
    assert sums == {"micro": MICRO.columns, "nano": other.columns}


def test_touches_of_the_same_places_are_one() -> None:
    """Equal touches are one object: the checks of hazards rely on it."""
    i = Instruction(Opcode.MATMUL, x_count=2, taps=3, unified=8)
    first, other = touches(i, MICRO), touches(i.but(unified=9, tile=1), MICRO)
    assert all(a is b for a, b in zip(first, touches(i.but(wait=1), MICRO), strict=True))
    assert [a is b for a, b in zip(first, other, strict=True)] == [False, False, True]


def test_addresses_out_of_range() -> None:
    last = MICRO.unified_bytes - 4
    i = Instruction(Opcode.FILL, channels=4, destination_base=last)
    assert touches(i, MICRO)[0].pattern.last == MICRO.unified_bytes - 1
    message = f"up to unified buffer byte {MICRO.unified_bytes - 1}, got"
    with pytest.raises(OutOfRange, match=message):
        touches(i.but(destination_base=last + 1), MICRO)
    depth = MICRO.accumulator_depth
    sums = Instruction(Opcode.MATMUL, x_count=2, accumulator=depth - 2)
    touches(sums, MICRO)
    with pytest.raises(OutOfRange, match="accumulator: wanted rows 0 to"):
        touches(sums.but(accumulator=depth - 1), MICRO)
