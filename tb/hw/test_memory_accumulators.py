"""Accumulators: operations of the matrix unit and accesses of the vector unit against NumPy."""

import numpy as np
import pysim
import pytest

from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY, Accumulators


def wrap(values):
    """Return ``values`` as int32 holds them."""
    return (np.asarray(values, np.int64) + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("depth", [-4, 0, 1, 2, 3, 6, 12])
def test_depths_are_refused(depth):
    wanted = f"^depth: wanted a power of two, at least 4, got {depth}$"
    with pytest.raises(ValueError, match=wanted):
        Accumulators(columns=2, depth=depth, sum_bits=18)


@pytest.mark.parametrize("columns", [1, 3, 16])
def test_construction(columns):
    dut = Accumulators(columns=columns, depth=8, sum_bits=20)
    assert (dut.columns, dut.depth, dut.sum_bits) == (columns, 8, 20)
    assert dut.latency == dut.WRITE_LATENCY + columns - 1 == columns + 2
    assert (dut.SUM_LATENCY, ACCUMULATOR_LATENCY) == (2, 4)
    assert len(dut.row) == 4


class Script:
    """Operations of each cycle, and the sums that the docstring promises.

    A write is of the cycle of its sums, and known two cycles before; a read is known in the cycle
    before its own.
    """

    def __init__(self, dut, cycles):
        self.dut = dut
        self.cycles = cycles
        self.operations = {}
        self.reads = {}
        self.writes = {}

    def operate(self, cycle, row, accumulate, sums):
        assert cycle not in self.operations
        self.operations[cycle] = (row, accumulate, np.asarray(sums))

    def expected(self):
        """Return the sums of each read, by the cycle of its request."""
        memory = np.zeros((2 * self.dut.depth, self.dut.columns), np.int64)
        responses = {}
        pending = {}
        for cycle in range(self.cycles):
            # An operation adds to what the ones before it made, readable or not.
            if cycle in pending:
                row, value = pending.pop(cycle)
                memory[row] = value
            if cycle in self.operations:
                row, accumulate, sums = self.operations[cycle]
                waiting = [value for place, value in pending.values() if place == row]
                old = (waiting or [memory[row]])[-1] if accumulate else 0
                pending[cycle + self.dut.latency] = row, wrap(old + sums)
            if cycle in self.writes:
                row, mask, sums = self.writes[cycle]
                memory[row] = np.where(mask, sums, memory[row])
            if cycle in self.reads:
                assert self.reads[cycle] != self.writes.get(cycle + 1, (None,))[0]
                responses[cycle] = memory[self.reads[cycle]].copy()
        return responses

    def run(self):
        """Play the script and compare every read."""
        dut = self.dut
        expected = self.expected()
        compared = []

        async def bench(ctx):
            for cycle in range(-2, self.cycles + ACCUMULATOR_LATENCY):
                row, accumulate, _ = self.operations.get(cycle, (0, 0, None))
                ctx.set(dut.enable, cycle in self.operations)
                ctx.set(dut.row, row)
                ctx.set(dut.accumulate, accumulate)
                for j in range(dut.columns):
                    source = self.operations.get(cycle - dut.SUM_LATENCY - j)
                    # Noise where no operation wants sums.
                    ctx.set(dut.sums[j], int(source[2][j]) if source else (cycle * 37) % 100)
                ctx.set(dut.port.read.enable, cycle + 1 in self.reads)
                ctx.set(dut.port.read.row, self.reads.get(cycle + 1, 0))
                row, mask, _ = self.writes.get(cycle + 2, (0, [], []))
                ctx.set(dut.port.write.enable, cycle + 2 in self.writes)
                ctx.set(dut.port.write.row, row)
                ctx.set(dut.port.write.mask, sum(1 << j for j, bit in enumerate(mask) if bit))
                for j, value in enumerate(self.writes.get(cycle, (0, [], []))[2]):
                    ctx.set(dut.port.write.sums[j], int(value))
                requested = cycle + 1 - ACCUMULATOR_LATENCY
                if requested in expected:
                    got = [ctx.get(dut.port.sums[j]) for j in range(dut.columns)]
                    assert got == expected[requested].tolist(), f"read in cycle {requested}"
                    compared.append(requested)
                await ctx.tick()

        pysim.run(dut, bench)
        assert compared == sorted(expected)


def operations(script, rng, *, half, first, last, rate):
    """Put random operations on a few rows of ``half`` into the cycles, legally spaced."""
    dut = script.dut
    top = 1 << (dut.sum_bits - 1)
    latest = {}
    between = {}
    # Few rows, so that they meet; the first and the last of the half among them.
    rows = [half * dut.depth + r for r in (0, 1, dut.depth - 1)]
    row = rows[0]
    for cycle in range(first, last):
        if rng.random() >= rate:
            continue
        row = row if rng.random() < 0.4 else int(rng.choice(rows))
        accumulate = bool(rng.random() < 0.7)
        alone = dut.forwards and not between.get(row)
        apart = cycle - latest.get(row, -9) >= 4 or alone
        if accumulate and not apart:
            continue
        sums = rng.choice([-top, top - 1, *rng.integers(-top, top, 6)], dut.columns)
        script.operate(cycle, row, accumulate, sums)
        latest[row] = cycle
        between = {other: other != row for other in rows}


@pytest.mark.parametrize("rate", [0.3, 0.7, 1.0])
@pytest.mark.parametrize(("columns", "depth", "sum_bits"), [(1, 4, 16), (3, 4, 18), (5, 8, 24)])
@pytest.mark.parametrize("forwards", [False, True])
def test_halves_swap_between_matrix_and_vector(columns, depth, sum_bits, rate, forwards, rng):
    dut = Accumulators(columns=columns, depth=depth, sum_bits=sum_bits, forwards=forwards)
    phase = 24 + dut.latency
    script = Script(dut, 14 * phase)
    for n in range(14):
        begin = n * phase
        # The last operation is readable in the very first cycle of the next phase.
        operations(script, rng, half=n % 2, first=begin, last=begin + 25, rate=rate)
        other = (1 - n % 2) * depth
        rows = [other, other + 1, other + depth - 1]
        # The sums of a write are written in their cycle.
        for cycle in range(begin + 1, begin + phase):
            if rng.random() < 0.4:
                mask = rng.random(columns) < 0.6
                values = rng.choice(
                    [-(2**31), 2**31 - 1, *rng.integers(-(2**31), 2**31, 3)], columns
                )
                script.writes[cycle] = (int(rng.choice(rows)), mask, values)
        # Columns look a cycle later.
        for cycle in range(begin, begin + phase - 1):
            row = int(rng.choice(rows))
            if row != script.writes.get(cycle + 1, (None,))[0]:
                script.reads[cycle] = row
    assert script.operations and script.writes
    script.run()


@pytest.mark.parametrize(
    ("forwards", "gap"),
    [*((True, gap) for gap in (1, 2, 3, 4, 5, 7)), *((False, gap) for gap in (4, 5, 7))],
)
@pytest.mark.parametrize("first", [False, True])
def test_additions_to_one_row_at_every_distance(forwards, gap, first):
    dut = Accumulators(columns=2, depth=4, sum_bits=18, forwards=forwards)
    script = Script(dut, 8 * gap + dut.latency + 2)
    script.writes[0] = (6, [1, 1], [1000, -1000])
    for n in range(8):
        script.operate(1 + n * gap, 6, bool(n or first), [n + 1, -100 * n])
    script.reads[1 + 7 * gap + dut.latency] = 6
    script.run()


@pytest.mark.parametrize("row", [0, 2])
@pytest.mark.parametrize("forwards", [False, True])
def test_addition_follows_a_write_of_the_vector_unit_in_the_next_cycle(row, forwards):
    """Also where it is the first operation of all, on the row that registers begin with."""
    dut = Accumulators(columns=3, depth=4, sum_bits=18, forwards=forwards)
    script = Script(dut, 2 + dut.latency)
    script.writes[0] = (row, [1, 0, 1], [2**31 - 1, 5, -(2**31)])
    script.operate(1, row, True, [1, 7, -1])
    script.reads[1 + dut.latency] = row
    assert list(script.expected().values())[0].tolist() == [-(2**31), 7, 2**31 - 1]
    script.run()


def test_write_is_read_from_the_cycle_of_its_sums_on():
    dut = Accumulators(columns=2, depth=4, sum_bits=18)
    script = Script(dut, 5)
    for cycle in range(4):
        script.writes[cycle] = (cycle % 2 * 4, [1, 1], [cycle + 1, -cycle - 1])
        script.reads[cycle] = cycle % 2 * 4
    script.run()


def test_one_row_may_be_added_to_every_fourth_cycle_between_others():
    dut = Accumulators(columns=4, depth=4, sum_bits=18)
    script = Script(dut, 60)
    for cycle in range(40):
        script.operate(cycle, cycle % 4, True, np.full(4, cycle + 1))
    for row in range(4):
        script.reads[39 + dut.latency + row] = row
    script.run()


def test_vector_accesses_to_the_half_in_use_do_not_disturb_the_sums(rng):
    dut = Accumulators(columns=3, depth=8, sum_bits=18)
    script = Script(dut, 60)
    for cycle in range(40):
        script.operate(cycle, cycle % 5, cycle >= 5, rng.integers(-1000, 1000, 3))
    for row in range(5):
        script.reads[40 + dut.latency + row] = row
    plain = script.expected()
    # Rows 6 and 7 are touched by nobody else.
    for cycle in range(40):
        script.writes[cycle] = (6 + cycle % 2, [1, 1, 1], rng.integers(-9, 9, 3))
    noise = Script(dut, 60)
    noise.operations, noise.writes = script.operations, script.writes
    noise.reads = script.reads
    for requested, sums in noise.expected().items():
        assert np.array_equal(sums, plain[requested])
    noise.run()
