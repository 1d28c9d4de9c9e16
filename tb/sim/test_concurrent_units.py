"""Estimates of units that work at the same time, or wait for each other."""

import pytest
from estimated import EDGE, HALT, matmul, total

from celosia.hw.arch.isa import Instruction, Opcode, Unit, assemble
from celosia.sim.check.schedule import MachineError
from celosia.sim.timing.cycles import estimate


def test_concurrent_units_take_as_long_as_the_slowest():
    load = Instruction(Opcode.LOAD_WEIGHTS, tiles=30)
    fill = Instruction(Opcode.FILL, x_count=400, channels=8)
    both, alone = total(load, fill), total(load)
    assert 0 <= both - alone <= 10
    ordered = total(
        Instruction(Opcode.LOAD_WEIGHTS, **load.fields | {"post": 1}),
        Instruction(Opcode.FILL, **fill.fields | {"wait": 1}),
    )
    assert ordered >= alone + 400


def test_writes_of_the_vector_unit_come_before_those_of_loads():
    load = Instruction(Opcode.LOAD, length=8000)
    fill = Instruction(Opcode.FILL, x_count=2000, channels=8)
    assert total(fill, load) >= max(total(load), total(fill)) + 400


def test_reads_of_the_vector_unit_come_before_those_of_the_array():
    passes = matmul(x_count=100, taps=320)
    pool = Instruction(Opcode.VECTOR, x_count=300, channels=8, destination_base=4096)
    assert total(passes, pool) == pytest.approx(total(passes) + 300, abs=10)


def test_instructions_of_one_unit_follow_one_another():
    program = assemble(
        "MATMUL x_count=64 taps=784\nMATMUL x_count=64 taps=784 post=0\n"
        "VECTOR source=ACCUMULATORS x_count=64 channels=16 wait=0\nFENCE\nSTORE length=32\nHALT"
    )
    result = estimate(program, EDGE)
    first, second, drain, fence, store, halt = result.instructions
    assert second.finish == first.finish + second.work
    assert second.start < first.finish
    assert second.finish <= drain.start
    assert drain.finish <= fence.finish
    assert fence.finish <= store.start
    assert store.finish <= halt.finish
    assert result.total == halt.finish
    assert [cost.index for cost in result.instructions] == list(range(6))
    assert all(cost.cycles >= cost.work for cost in result.instructions)
    matrix, vector = 2 * 49 * 64, 1 + 63 * 2
    busy = {Unit.LOAD: 0, Unit.STORE: 2, Unit.MATRIX: matrix, Unit.VECTOR: vector}
    assert result.busy == busy
    assert sum(result.busy.values()) < result.total


def test_a_full_queue_holds_up_what_follows():
    many = [matmul(x_count=64, taps=784)] * 10
    result = estimate([*many, Instruction(Opcode.FILL), HALT], EDGE)
    fill = result.instructions[10]
    # One runs and one has its semaphores, besides those in the queue.
    assert fill.start >= result.instructions[10 - EDGE.queue_depth - 2].start
    quick = estimate([Instruction(Opcode.FILL), *many, HALT], EDGE)
    assert quick.instructions[0].start < 100
    assert quick.total == pytest.approx(result.total, abs=20)


def test_reads_in_every_cycle_leave_the_array_none():
    pool = Instruction(Opcode.VECTOR, x_count=1000, channels=4, source_x_stride=4)
    # Cycles of the RTL; some of the passes run between the reads.
    assert total(pool, matmul(taps=784)) == pytest.approx(1859, rel=0.01)


def test_units_that_take_one_anothers_counts_have_no_estimate():
    program = assemble(
        "MATMUL x_count=64 taps=784 post=0\n"
        "FILL x_count=4 channels=4 wait=0 post=0 destination_base=9000\n"
        "LOAD length=4 unified=20000 wait=0\nHALT"
    )
    with pytest.raises(MachineError, match="WATCHDOG .* waits for counts that another unit took"):
        estimate(program, EDGE)


def test_a_program_that_does_not_end_has_no_estimate():
    with pytest.raises(MachineError):
        estimate(assemble("LOAD wait=1\nHALT"), EDGE)
