"""Instructions and addresses of the directed runs of coverage; `make coverage` runs them."""

import random

import pytest
from coverage import corners, device, directed
from coverage.directed import VAST

from celosia.hw.arch import isa
from celosia.hw.arch.isa import Opcode
from celosia.sim.check import footprint


@pytest.mark.parametrize("opcode", directed._MOVING)
def test_rich_instructions_are_legal_and_differ(opcode: Opcode, seed: int) -> None:
    rng = random.Random(seed)
    drawn = [directed.rich(opcode, rng) for _ in range(5)]
    for i in drawn:
        isa.check(i, VAST)
        assert device.playable(i, VAST)
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
        address = device.far(rng)
        assert address % 64 == 0 and address < 1 << 32
        assert address % device.MEMORY >= device.HALF


def test_segments_of_each_length_jump_over_half_of_the_buffer(seed: int) -> None:
    config = corners.CORNERS["jumps"].config
    found = list(corners.jumping(config, random.Random(seed)))
    for i in found:
        isa.check(i, config)
        assert device.playable(i, config)
    half = config.unified_bytes // config.rows // 2
    for opcode, side in corners._SIDES:
        of = [i.fields for i in found if i.opcode is opcode and i.fields[f"{side}_skip"] == half]
        assert {f[f"{side}_run"] for f in of} == {1, 2, 4}


def test_last_segments_leave_the_buffer(seed: int) -> None:
    config = corners.CORNERS["leaves"].config
    for i in corners.leaving(config, random.Random(seed)):
        isa.check(i, config)
        with pytest.raises(footprint.OutOfRange):
            footprint.touches(i, config)
