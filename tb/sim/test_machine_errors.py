import numpy as np
import pytest

from celosia.hw.arch import commands
from celosia.hw.arch.config import MOST_COUNT
from celosia.hw.arch.isa import Error, Instruction, Kind, Opcode, Space, Unit
from celosia.hw.arch.presets import preset
from celosia.sim.check.hazards import Hazard
from celosia.sim.check.schedule import MachineError
from celosia.sim.model.machine import Machine

HALT = Instruction(Opcode.HALT)
SMALL = preset(
    "micro,rows=4,columns=6,unified_bytes=1024,weight_tiles=16,accumulator_depth=32,bus_bytes=4,"
    "parameter_channels=16,tables=3,queue_depth=3,dsp_columns=0,activation_weights=true"
)
WAITS = Instruction(Opcode.LOAD, wait=8)
OUTSIDE = {
    "load": (Unit.LOAD, Instruction(Opcode.LOAD, unified=1020, length=5)),
    "load rows": (Unit.LOAD, Instruction(Opcode.LOAD, rows=3, unified_pitch=512)),
    "load past 4 GiB": (Unit.LOAD, Instruction(Opcode.LOAD, external=(1 << 32) - 4, length=5)),
    "store": (Unit.STORE, Instruction(Opcode.STORE, unified=1023, length=2)),
    "weights": (Unit.LOAD, Instruction(Opcode.LOAD_WEIGHTS, tile=15, tiles=2)),
    "params": (Unit.LOAD, Instruction(Opcode.LOAD_PARAMS, first=15, count=2)),
    "tables": (Unit.LOAD, Instruction(Opcode.LOAD_PARAMS, kind=Kind.TABLES, first=3)),
    "taps": (Unit.MATRIX, Instruction(Opcode.MATMUL, unified=1020, taps=5)),
    "skips": (Unit.MATRIX, Instruction(Opcode.MATMUL, taps=3, run=1, skip=255)),
    "tiles": (Unit.MATRIX, Instruction(Opcode.MATMUL, tile=15, taps=5)),
    "half": (Unit.MATRIX, Instruction(Opcode.MATMUL, accumulator=30, x_count=3)),
    "bytes moved": (Unit.MATRIX, Instruction(Opcode.MOVE_WEIGHTS, unified=1020, taps=5)),
    "tiles filled": (Unit.MATRIX, Instruction(Opcode.MOVE_WEIGHTS, tile=15, x_count=5)),
    "count": (Unit.MATRIX, Instruction(Opcode.MOVE_WEIGHTS, z_count=64)),
    "source": (Unit.VECTOR, Instruction(Opcode.VECTOR, source_base=1020, channels=5)),
    "window": (Unit.VECTOR, Instruction(Opcode.VECTOR, window_x_count=3, window_x_stride=512)),
    "row": (Unit.VECTOR, Instruction(Opcode.VECTOR, source=Space.ACCUMULATORS, source_base=64)),
    "destination": (Unit.VECTOR, Instruction(Opcode.VECTOR, destination_base=1023, channels=2)),
    "channel": (Unit.VECTOR, Instruction(Opcode.VECTOR, params=14, channels=3, per_channel=1)),
    "fill": (
        Unit.VECTOR,
        Instruction(Opcode.FILL, x_count=2, destination_x_stride=1023, channels=2),
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_range(name: str):
    unit, wrong = OUTSIDE[name]
    machine = Machine(SMALL, memory_bytes=1 << 12)
    before = machine.state
    with pytest.raises(MachineError, match=rf"instruction 1 \({wrong.opcode.name} ") as caught:
        machine.run([Instruction(Opcode.NOP), wrong, HALT])
    assert (caught.value.error, caught.value.unit, caught.value.index) == (Error.RANGE, unit, 1)
    for memory, array in machine.state.items():
        np.testing.assert_array_equal(array, before[memory], err_msg=memory)


def test_the_last_byte_of_everything_is_inside():
    machine = Machine(SMALL, memory_bytes=64)
    sums = Space.ACCUMULATORS
    program = [
        Instruction(Opcode.STORE, external=63, unified=1023),
        Instruction(Opcode.MATMUL, unified=1020, taps=4, tile=15, accumulator=61, x_count=3),
        Instruction(Opcode.MOVE_WEIGHTS, unified=1018, taps=6, tile=15, x_count=4),
        Instruction(Opcode.MOVE_WEIGHTS, y_count=63),
        Instruction(Opcode.VECTOR, source=sums, source_base=63, params=14, channels=2),
        Instruction(Opcode.FILL, destination_base=1023, value=77),
        HALT,
    ]
    machine.run(program)
    assert machine.unified[1023] == 77


def failing(program: list[Instruction] | bytes) -> MachineError:
    with pytest.raises(MachineError) as caught:
        Machine(SMALL, memory_bytes=64).run(program)
    return caught.value


def test_bus_error():
    error = failing([Instruction(Opcode.STORE, external=63, length=2), HALT])
    assert (error.error, error.unit) == (Error.BUS, Unit.STORE)
    assert "63, got 64" in str(error)


@pytest.mark.parametrize(
    ("address", "length", "message"),
    [
        (0x2000, 1, None),
        (0x3FFF, 1, None),
        (0x1FFF, 1, "from byte 8192 on, got 8191"),
        (0x1FFF, 2, "from byte 8192 on, got 8191"),
        (0x4000, 1, "up to byte 16383, got 16384"),
        (0x3FFF, 2, "up to byte 16383, got 16384"),
    ],
)
def test_bounds(address: int, length: int, message: str | None):
    """Bounds are rounded to 4 KiB, as those of a core."""
    machine = Machine(SMALL, memory_bytes=1 << 15)
    program = [Instruction(Opcode.STORE, external=address, length=length), HALT]
    machine.run(program)
    machine.bounds = 0x2345, 0x3001
    if message is None:
        machine.run(program)
        return
    with pytest.raises(MachineError, match=message) as caught:
        machine.run(program)
    assert (caught.value.error, caught.value.unit) == (Error.BUS, Unit.STORE)


def test_field_error_lets_earlier_instructions_run():
    machine = Machine(SMALL)
    fill = Instruction(Opcode.FILL, value=1)
    with pytest.raises(MachineError, match="LOAD unified: wanted 0 to 1023, got 1024") as caught:
        machine.run([fill, Instruction(Opcode.LOAD, unified=1024), fill])
    assert (caught.value.error, caught.value.index) == (Error.FIELD, 1)
    assert caught.value.unit is Unit.SEQUENCER
    assert machine.unified[0] == 1


def test_opcode_error():
    error = failing(commands.encode([Instruction(Opcode.NOP)]) + bytes(64))
    assert (error.error, error.unit, error.index) == (Error.OPCODE, Unit.SEQUENCER, 1)


@pytest.mark.parametrize("program", [[], [Instruction(Opcode.NOP)]])
def test_program_error(program: list[Instruction]):
    error = failing(program)
    assert (error.error, error.unit) == (Error.PROGRAM, Unit.SEQUENCER)
    assert error.index == len(program)


def test_semaphore_error():
    post = Instruction(Opcode.NOP, post=1)
    Machine(SMALL).run([post] * MOST_COUNT + [HALT])
    error = failing([post] * (MOST_COUNT + 1) + [HALT])
    assert (error.error, error.unit, error.index) == (Error.SEMAPHORE, Unit.SEQUENCER, MOST_COUNT)


@pytest.mark.parametrize(
    ("program", "unit", "index"),
    [
        ([WAITS, HALT], Unit.LOAD, 0),
        ([Instruction(Opcode.FILL, wait=2), WAITS, HALT], Unit.LOAD, 1),
        ([Instruction(Opcode.NOP, wait=1), HALT], Unit.SEQUENCER, 0),
        ([Instruction(Opcode.HALT, wait=1)], Unit.SEQUENCER, 0),
        ([WAITS, WAITS, WAITS, WAITS, Instruction(Opcode.FILL, post=8), HALT], Unit.LOAD, 0),
    ],
)
def test_deadlock(program: list[Instruction], unit: Unit, index: int):
    error = failing(program)
    assert (error.error, error.unit, error.index) == (Error.WATCHDOG, unit, index)
    assert "waits for ever for semaphore" in str(error)


def test_check_comes_first_and_knows_earlier_programs():
    machine = Machine(SMALL)
    store = [Instruction(Opcode.STORE, external=100, length=4), HALT]
    with pytest.raises(Hazard, match="UNWRITTEN"):
        machine.run(store, check=True)
    machine.run([Instruction(Opcode.FILL, channels=4, value=5), HALT])
    machine.run(store, check=True)
    assert machine.memory[100:104].tolist() == [5, 5, 5, 5]


def test_memory_must_not_be_empty():
    with pytest.raises(ValueError, match="memory_bytes: wanted at least 1, got 0"):
        Machine(SMALL, memory_bytes=0)


def test_a_program_of_broken_length_is_refused():
    with pytest.raises(ValueError, match="wanted a multiple of 4 bytes, got 65"):
        Machine(SMALL).run(bytes(65))
