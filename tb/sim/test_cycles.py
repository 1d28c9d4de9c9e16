from pathlib import Path

import numpy as np
import pytest

from celosia.hw.arch.config import PRESETS, preset
from celosia.hw.arch.isa import Instruction, Opcode, Space, Unit, assemble
from celosia.sim.cycles import COSTS, estimate, work
from celosia.sim.schedule import MachineError
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load

EDGE = PRESETS["edge"]
HALT = Instruction(Opcode.HALT)


def total(*instructions: Instruction, config=EDGE, costs=COSTS) -> int:
    return estimate([*instructions, HALT], config, costs).total


def matmul(**values: int) -> Instruction:
    return Instruction(Opcode.MATMUL, **values)


@pytest.mark.parametrize(
    ("instruction", "cycles"),
    [
        (matmul(x_count=64, taps=784), 49 * 64),
        (matmul(x_count=1, taps=784), 49 * 16),
        (matmul(x_count=5, y_count=4, taps=17), 2 * 20),
        (Instruction(Opcode.LOAD, rows=64, length=784, external_pitch=784), 64 * 49),
        (Instruction(Opcode.LOAD, external=8, rows=2, length=16, external_pitch=16), 4),
        (Instruction(Opcode.STORE, external=15, length=2), 2),
        (Instruction(Opcode.LOAD_WEIGHTS, tiles=3), 48),
        (Instruction(Opcode.LOAD_PARAMS, count=5), 5),
        (Instruction(Opcode.FILL, x_count=3, channels=9), 6),
        (Instruction(Opcode.VECTOR, x_count=3, channels=9, window_x_count=4), 3 * 2 * 4),
        (
            Instruction(
                Opcode.VECTOR, source=Space.ACCUMULATORS, x_count=3, channels=9, window_x_count=4
            ),
            3 * 4,
        ),
    ],
)
def test_work_of_one_instruction(instruction: Instruction, cycles: int):
    assert work(instruction, EDGE)[0] == cycles


#: Cycles of one run by batch, counted by the RTL at latency 32 and bandwidth 1:
#: celosia run sw/models/mnist_mlp.tflite --batch N --input X.npy --output Y.npy --stats S.json
RTL_CYCLES = {1: 6_667, 16: 6_762, 64: 26_188}
RTL_SETUP_CYCLES = 6_636


@pytest.mark.parametrize("batch", RTL_CYCLES)
def test_close_to_what_the_rtl_takes(batch: int, mnist_model: Path):
    program = compile_graph(load(mnist_model), EDGE, batch)
    assert estimate(program.main.code, EDGE).total == pytest.approx(RTL_CYCLES[batch], rel=0.03)
    setup = estimate(program.setup.code, EDGE).total
    assert setup == pytest.approx(RTL_SETUP_CYCLES, rel=0.03)


@pytest.mark.parametrize(("rows", "each"), [(1, 16), (4, 4), (16, 1)])
def test_more_weight_rows_help_at_one_pixel(rows: int, each: int):
    config = preset(f"edge,weight_rows={rows}")
    assert work(matmul(taps=784), config)[0] == 49 * each
    assert work(matmul(x_count=2, taps=784), config)[0] == 49 * max(each, 4)


@pytest.mark.parametrize("field", ["x_count", "y_count", "z_count", "taps"])
def test_more_work_never_takes_less(field: str):
    totals = [total(matmul(**{field: n})) for n in range(1, 200, 7)]
    assert all(np.diff(totals) >= 0)
    assert totals[-1] > totals[0]


def test_slower_memory_takes_as_much_longer():
    load = Instruction(Opcode.LOAD, length=64)
    slow = COSTS._replace(memory=COSTS.memory + 100)
    # Once for the fetch of the program, once for the data.
    assert total(load, costs=slow) - total(load) == 200


def test_units_side_by_side_take_as_long_as_the_slowest():
    load = Instruction(Opcode.LOAD, length=8000)
    fill = Instruction(Opcode.FILL, x_count=400, channels=8)
    both, alone = total(load, fill), total(load)
    assert 0 <= both - alone <= 10
    ordered = total(
        Instruction(Opcode.LOAD, **load.fields | {"post": 1}),
        Instruction(Opcode.FILL, **fill.fields | {"wait": 1}),
    )
    assert ordered >= alone + 400


def test_instructions_of_one_unit_follow_one_another():
    program = assemble(
        "MATMUL x_count=64 taps=784\nMATMUL x_count=64 taps=784 post=0\n"
        "VECTOR source=ACCUMULATORS x_count=64 channels=16 wait=0\nFENCE\nSTORE length=32\nHALT"
    )
    result = estimate(program, EDGE)
    first, second, drain, fence, store, halt = result.instructions
    assert second.start == first.start + first.work
    assert second.finish <= drain.start
    assert drain.finish <= fence.start
    assert fence.finish <= store.start
    assert store.finish <= halt.start
    assert result.total == halt.finish
    assert [cost.index for cost in result.instructions] == list(range(6))
    assert all(cost.cycles >= cost.work for cost in result.instructions)
    assert result.busy == {
        Unit.LOAD: 0,
        Unit.STORE: 2,
        Unit.MATRIX: 2 * 49 * 64,
        Unit.VECTOR: 64 * 2,
    }
    assert sum(result.busy.values()) < result.total


def test_a_full_queue_holds_up_what_follows():
    many = [matmul(x_count=64, taps=784)] * 10
    result = estimate([*many, Instruction(Opcode.FILL), HALT], EDGE)
    fill = result.instructions[10]
    assert fill.start >= result.instructions[10 - EDGE.queue_depth - 1].start
    quick = estimate([Instruction(Opcode.FILL), *many, HALT], EDGE)
    assert quick.instructions[0].start < 100
    assert quick.total == pytest.approx(result.total, abs=10)


def test_a_program_that_does_not_end_has_no_estimate():
    with pytest.raises(MachineError):
        estimate(assemble("LOAD wait=1\nHALT"), EDGE)
