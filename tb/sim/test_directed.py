"""Instructions and addresses of the directed runs of coverage; `make coverage` runs them."""

import random

import pytest
from coverage import directed
from coverage.directed import VAST

from celosia.hw.arch import isa
from celosia.hw.arch.isa import Opcode
from celosia.sim import footprint


@pytest.mark.parametrize("opcode", directed._MOVING)
def test_rich_instructions_are_legal_and_differ(opcode: Opcode, seed: int) -> None:
    rng = random.Random(seed)
    drawn = [directed.rich(opcode, rng) for _ in range(5)]
    for i in drawn:
        isa.check(i, VAST)
        assert directed._playable(i)
    assert len(set(drawn)) > 1


def test_corners_are_the_greatest_values() -> None:
    for opcode, name in ((Opcode.LOAD, "rows"), (Opcode.VECTOR, "x_count"), (Opcode.FILL, "value")):
        _, high, _ = isa.limits(VAST)[opcode][name]
        for less in (0, 1):
            i = directed._corner(opcode, name, less)
            assert i and i.fields[name] == high - less
    # More pixels than there are rows of sums do not run.
    i = directed._corner(Opcode.MATMUL, "x_count", 0)
    assert i and VAST.accumulator_depth // 2 < i.x_count <= VAST.accumulator_rows


@pytest.mark.parametrize("opcode", directed._MOVING)
def test_wrong_instructions_are_wrong(opcode: Opcode, seed: int) -> None:
    found = list(directed._beyond(opcode, random.Random(seed)))
    assert len(found) >= 40
    for i in found:
        with pytest.raises((isa.Illegal, footprint.OutOfRange)):
            isa.check(i, VAST)
            footprint.touches(i, VAST)


def test_addresses_of_programs_are_aligned_and_apart_from_what_is_stored(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        address = directed._far(rng)
        assert address % 64 == 0 and address < 1 << 32
        assert address % directed._MEMORY >= directed._HALF
