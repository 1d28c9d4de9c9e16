import time

import numpy as np
import pytest

from celosia.hw.arch import commands, isa
from celosia.hw.arch.config import MOST_COUNT
from celosia.hw.arch.isa import Error, Instruction, Mode, Opcode, assemble
from celosia.hw.arch.presets import PRESETS, preset
from celosia.sim.check.footprint import Memory, reach
from celosia.sim.check.hazards import Fault, Hazard, Written, check_hazards
from celosia.sim.check.schedule import MachineError

SMALL = preset(
    "nano,unified_bytes=1024,weight_tiles=16,accumulator_depth=32,lanes=2,parameter_channels=16,"
    "tables=2,outstanding=32,dsp_columns=0,activation_weights=true,elementwise_products=true"
)
HALT = Instruction(Opcode.HALT)


def found(text: str, initial: Written | None = None) -> Hazard:
    with pytest.raises(Hazard) as caught:
        check_hazards(assemble(text), SMALL, initial=initial)
    return caught.value


def legal(text: str, initial: Written | None = None) -> Written:
    return check_hazards(assemble(text), SMALL, initial=initial)


def everything() -> Written:
    return Written(SMALL, everything=True)


# Reads sums, and writes what no other of these instructions touches.
DRAIN = "VECTOR source=ACCUMULATORS destination_base=100"
# Two instructions that touch the same address, by memory; {0} and {1} take semaphores.
PAIRS = {
    "unified": ("LOAD length=8 {0}", "FILL destination_base=7 channels=3 {1}"),
    "unified read": ("FILL channels=8 {0}", "STORE unified=7 length=1 {1}"),
    "unified matmul": ("LOAD length=8 {0}", "MATMUL taps=4 unified=4 {1}"),
    "weights": ("LOAD_WEIGHTS tile=2 tiles=2 {0}", "MATMUL taps=8 tile=3 {1}"),
    "moved": ("MOVE_WEIGHTS x_count=5 tile=2 {0}", "LOAD_WEIGHTS tile=3 {1}"),
    "unified move": ("FILL channels=8 {0}", "MOVE_WEIGHTS unified=4 taps=4 {1}"),
    "parameters": ("LOAD_PARAMS first=4 count=2 {0}", "VECTOR params=4 channels=1 {1}"),
    "tables": ("LOAD_PARAMS kind=TABLES first=1 {0}", "VECTOR use_table=1 table=1 {1}"),
    "accumulators": ("MATMUL accumulator=3 {0}", f"{DRAIN} source_base=3 {{1}}"),
    "half": ("MATMUL accumulator=3 {0}", f"{DRAIN} source_base=9 {{1}}"),
    "second half": (
        "MATMUL accumulator=40 {0}",
        f"{DRAIN} source_base=31 x_count=2 source_x_stride=1 {{1}}",
    ),
    "external": ("STORE external=100 length=4 {0}", "LOAD external=103 unified=512 {1}"),
    "external weights": ("STORE external=79 {0}", "LOAD_WEIGHTS external=64 {1}"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_race_is_found_and_a_semaphore_or_fence_cures_it(name: str):
    first, second = PAIRS[name]
    race = found(f"{first}\n{second}\nHALT".format("", ""), everything())
    assert race.fault is Fault.RACE
    assert race.instructions == (0, 1)
    for number, text in enumerate((first, second)):
        assert f"instruction {number} ({text.split()[0]} " in str(race)
    legal(f"{first}\n{second}\nHALT".format("post=5", "wait=5"), everything())
    legal(f"{first}\nFENCE\n{second}\nHALT".format("", ""), everything())
    legal(f"{second}\n{first}\nHALT".format("wait=1", "post=1"), everything())
    late = found(f"{first}\n{second}\nNOP wait=5\nHALT".format("post=5", ""), everything())
    assert late.fault is Fault.RACE


@pytest.mark.parametrize(
    "text",
    [
        # Neighbours, both sides.
        "LOAD length=8\nFILL destination_base=8 channels=3",
        "LOAD unified=8 length=8\nFILL channels=8",
        # Interleaved rows.
        "LOAD rows=4 unified_pitch=8 length=4\nFILL destination_base=4 x_count=4 "
        "destination_x_stride=8 channels=4",
        # Runs: 2 bytes of every 6.
        "FILL channels=6 destination_run=2 destination_skip=1\nLOAD unified=2 length=4",
        # Taps past the last are not read.
        "LOAD unified=5 length=3\nMATMUL taps=5",
        # Two readers.
        "STORE length=8\nMATMUL taps=4\nVECTOR channels=4 destination_base=100",
        # The other half.
        "MATMUL accumulator=3\nVECTOR source=ACCUMULATORS source_base=32 destination_base=100",
        # Two readers of external memory.
        "LOAD length=4\nSTORE external=4 unified=8 length=4",
        # Two instructions of one unit.
        "LOAD length=8\nLOAD length=8",
    ],
)
def test_neighbours_do_not_race(text: str):
    legal(f"{text}\nHALT", everything())


@pytest.mark.parametrize(
    "text",
    [
        "FILL channels=6 destination_run=2 destination_skip=1\nLOAD unified=2 length=5",
        "LOAD rows=4 unified_pitch=8 length=5\nFILL destination_base=4 x_count=4 "
        "destination_x_stride=8 channels=4",
        "LOAD unified=4 length=3\nMATMUL taps=5",
        "LOAD unified=9 length=1\nMATMUL taps=6 run=3 skip=1 unified=1",
    ],
)
def test_one_byte_is_enough(text: str):
    assert found(f"{text}\nHALT", everything()).fault is Fault.RACE


def test_order_passes_through_other_units():
    store = "STORE external=99 length=4 wait=1\nHALT"
    legal(f"LOAD length=4 post=0\nFILL destination_base=8 wait=0 post=1\n{store}")
    broken = f"LOAD length=4\nFILL destination_base=8 post=1\n{store}"
    assert found(broken, everything()).fault is Fault.RACE


def test_a_nop_that_waits_orders_all_that_follows():
    legal("LOAD length=4 post=0\nNOP wait=0\nSTORE external=99 length=4\nHALT")


def test_the_second_take_waits_for_the_second_post():
    loads = "LOAD length=4 post=0\nLOAD unified=4 length=4 post=0\n"
    legal(loads + "STORE external=99 length=4 wait=0\nSTORE external=99 length=8 wait=0\nHALT")
    one = found(loads + "STORE external=99 length=8 wait=0\nSTORE external=99 wait=0\nHALT")
    assert (one.fault, one.instructions) == (Fault.RACE, (1, 2))


def test_posts_of_two_units_order_nothing_until_all_are_taken():
    posts = "LOAD length=4 post=0\nFILL destination_base=4 channels=4 post=0\n"
    both = "STORE external=99 length=8 wait=0\nHALT"
    first = found(posts + "STORE external=99 length=4 wait=0\n" + both)
    assert (first.fault, first.instructions) == (Fault.RACE, (0, 2))
    legal(posts + "STORE external=99 unified=100 wait=0\n" + both, everything())


def test_a_fence_starts_the_count_of_posts_anew():
    legal(
        "LOAD length=4 post=0\nSTORE external=99 length=4 wait=0\nFENCE\n"
        "FILL channels=4 post=0\nSTORE external=99 length=4 wait=0\nHALT"
    )


def test_a_count_left_over_by_a_phase_is_taken_first():
    text = "LOAD length=4 post=0\nFENCE\nLOAD unified=4 length=4 post=0\n"
    early = text + "STORE external=99 length=8 wait=0\nSTORE external=99 wait=0\nHALT"
    assert found(early).fault is Fault.RACE
    legal(text + "STORE external=99 length=4 wait=0\nSTORE external=99 length=8 wait=0\nHALT")


def test_a_vector_that_reads_what_it_wrote_races_with_itself():
    shift = "VECTOR x_count=4 source_x_stride=1 destination_base=1 destination_x_stride=1\nHALT"
    hazard = found(shift, everything())
    assert (hazard.fault, hazard.instructions) == (Fault.RACE, (0, 0))
    apart = "VECTOR x_count=4 source_x_stride=2 destination_x_stride=2 channels=2\nHALT"
    legal(apart, everything())
    back = "VECTOR x_count=4 source_base=1 source_x_stride=1 destination_x_stride=1\nHALT"
    legal(back, everything())


@pytest.mark.parametrize("mode", [Mode.ADD, Mode.MAX])
def test_a_vector_may_combine_with_its_own_sums(mode: Mode):
    vector = f"VECTOR x_count=2 destination=ACCUMULATORS mode={mode.name}"
    legal(f"{vector}\nHALT", everything())
    legal(f"{vector} channels=4 destination_y_stride=1 y_count=3\nHALT", everything())


@pytest.mark.parametrize("mode", isa.PRODUCT_MODES)
def test_a_vector_may_not_multiply_a_sum_twice(mode: Mode):
    vector = f"VECTOR x_count=2 destination=ACCUMULATORS mode={mode.name}"
    legal(f"{vector} destination_x_stride=1\nHALT", everything())
    hazard = found(f"{vector}\nHALT", everything())
    assert (hazard.fault, hazard.instructions) == (Fault.RACE, (0, 0))


def test_an_overwriting_vector_of_sums_may_not_feed_itself():
    vector = "VECTOR x_count=2 source=ACCUMULATORS destination=ACCUMULATORS"
    legal(f"{vector} source_x_stride=1 destination_x_stride=1\nHALT", everything())
    legal(f"{vector} source_base=1 source_x_stride=1 destination_x_stride=1\nHALT", everything())
    own = f"{vector} source_x_stride=1 destination_base=1 destination_x_stride=1\nHALT"
    assert found(own, everything()).fault is Fault.RACE
    assert found(f"{vector}\nHALT", everything()).fault is Fault.RACE


@pytest.mark.parametrize(
    "text",
    [
        "LOAD wait=0\nHALT",
        "LOAD wait=0 post=1\nFILL destination_base=9 wait=1 post=0\nHALT",
        "LOAD wait=0\nLOAD wait=0\nLOAD wait=0\nLOAD wait=0\nFILL destination_base=99 post=0\nHALT",
        "FILL post=0\nSTORE wait=0\nSTORE wait=0\nHALT",
        "NOP wait=3\nHALT",
        "HALT wait=3",
    ],
)
def test_deadlock(text: str):
    hazard = found(text, everything())
    assert hazard.fault is Fault.DEADLOCK
    assert "waits for ever for semaphore" in str(hazard)


DEADLOCKS = [
    ("STORE wait=4\nFILL wait=3 post=4\nHALT", 0, "4"),
    ("FILL wait=3 post=4\nSTORE wait=4\nHALT", 0, "3; no instruction posts 3"),
    ("NOP\nFILL wait=3+5 post=4\nSTORE wait=4 post=5\nHALT", 1, "3 and 5; no instruction posts 3"),
    ("FILL wait=3\nSTORE\nHALT wait=7", 0, "3; no instruction posts 3"),
]


@pytest.mark.parametrize(("text", "index", "end"), DEADLOCKS)
def test_deadlock_names_the_first_instruction_that_waits(text: str, index: int, end: str):
    program = assemble(text)
    hazard = found(text, everything())
    assert hazard.instructions == (index,)
    name = f"instruction {index} ({isa.disassemble(program[index])})"
    assert str(hazard) == f"DEADLOCK: {name} waits for ever for semaphore {end}"


UNWRITTEN = {
    "STORE unified=8 length=4": "unified buffer byte 8",
    "FILL\nFENCE\nSTORE unified_pitch=4 rows=2": "unified buffer byte 4",
    "MATMUL taps=4": "unified buffer byte 0",
    "FILL channels=4\nFENCE\nMATMUL taps=4 tile=3": "weight tile 3",
    "FILL channels=4\nFENCE\nMOVE_WEIGHTS x_count=8 taps=4 tile=1\nMATMUL taps=4 tile=3": "weight tile 3",
    "FILL channels=4\nFENCE\nMOVE_WEIGHTS x_count=2 x_stride=1 taps=4": "unified buffer byte 4",
    "FILL channels=3\nFENCE\nSTORE length=4": "unified buffer byte 3",
    "VECTOR source=ACCUMULATORS source_base=2": "accumulator row 2 column 0",
    "FILL\nVECTOR params=2": "parameters of channel 2",
    "FILL channels=3\nLOAD_PARAMS count=3\nFENCE\n"
    "VECTOR channels=3 use_table=1 table=1": "reads table 1",
    "FILL\nLOAD_PARAMS count=3\nFENCE\n"
    "VECTOR destination=ACCUMULATORS mode=MAX": "accumulator row 0 column 0",
    "LOAD length=4\nLOAD_WEIGHTS\nFENCE\nMATMUL taps=4 accumulate=1": "accumulator row 0 column 0",
}


@pytest.mark.parametrize("text", UNWRITTEN)
def test_unwritten(text: str):
    hazard = found(f"{text}\nHALT")
    index = len(text.splitlines()) - 1
    assert (hazard.fault, hazard.instructions) == (Fault.UNWRITTEN, (index,))
    assert UNWRITTEN[text] in str(hazard)
    assert text.splitlines()[-1] in str(hazard)


def test_written_goes_from_program_to_program():
    setup = assemble("LOAD_WEIGHTS tile=3\nLOAD_PARAMS count=4\nHALT")
    main = assemble(
        "LOAD length=8 post=0\nMATMUL taps=4 tile=3 wait=0 post=1\n"
        "VECTOR source=ACCUMULATORS channels=4 per_channel=1 destination_base=64 wait=1 post=2\n"
        "STORE unified=64 length=4 wait=2\nHALT"
    )
    with pytest.raises(Hazard, match="UNWRITTEN: instruction 1"):
        check_hazards(main, SMALL)
    written = check_hazards([setup, main], SMALL)
    check_hazards(main, SMALL, initial=check_hazards(setup, SMALL))
    check_hazards([commands.encode(setup), commands.encode(main), main], SMALL)
    assert np.flatnonzero(written.places[Memory.WEIGHTS]).tolist() == [3]
    unified = np.flatnonzero(written.places[Memory.UNIFIED]).tolist()
    assert unified == [*range(8), *range(64, 68)]


def test_initial_is_not_changed():
    initial = Written(SMALL)
    check_hazards(assemble("FILL\nHALT"), SMALL, initial=initial)
    assert not any(places.any() for places in initial.places.values())


def test_leftover():
    hazard = found("FILL post=3\nFILL post=3\nSTORE wait=3\nHALT")
    assert (hazard.fault, hazard.instructions) == (Fault.LEFTOVER, (1,))
    assert "semaphore 3 is left at 1" in str(hazard)


def test_two_units_may_not_take_one_semaphore():
    text = "LOAD length=4 post=0\nLOAD length=4 post=0\nSTORE wait=0\nFILL wait=0\nHALT"
    hazard = found(text, everything())
    assert (hazard.fault, hazard.instructions) == (Fault.SEMAPHORE, (2, 3))
    legal("FILL post=0\nSTORE wait=0\nFENCE\nLOAD post=0\nFILL wait=0\nHALT", everything())


def test_a_count_that_may_overflow():
    post, take = Instruction(Opcode.FILL, post=1), Instruction(Opcode.STORE, unified=8, wait=1)
    check_hazards([*[post, take] * MOST_COUNT, HALT], SMALL, initial=everything())
    program = [post, take] * (MOST_COUNT + 1)
    with pytest.raises(Hazard, match="past 255") as caught:
        check_hazards([*program, HALT], SMALL, initial=everything())
    assert caught.value.fault is Fault.SEMAPHORE
    # Counts that a fence finds stay: few posts after it are too many.
    left = [*[post] * 200, Instruction(Opcode.FENCE), *[post, take] * 100, *[take] * 200]
    with pytest.raises(Hazard, match="past 255"):
        check_hazards([*left, HALT], SMALL, initial=everything())
    back = [Instruction(Opcode.FILL, post=1, wait=2 if n else 0) for n in range(4100)]
    forth = [Instruction(Opcode.STORE, unified=8, wait=1, post=2) for _ in range(4099)]
    forth.append(Instruction(Opcode.STORE, unified=8, wait=1))
    program = [i for pair in zip(back, forth, strict=True) for i in pair]
    check_hazards([*program, HALT], SMALL, initial=everything())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("LOAD unified=1020 length=5\nHALT", Error.RANGE),
        ("VECTOR table=2\nHALT", Error.FIELD),
        ("NOP", Error.PROGRAM),
    ],
)
def test_illegal_instructions_are_machine_errors(text: str, error: Error):
    with pytest.raises(MachineError) as caught:
        check_hazards(assemble(text), SMALL)
    assert caught.value.error is error


def double_buffered(tiles: int) -> list[Instruction]:
    """Double-buffered weights, and sums drained from the half that is not being filled.

    Semaphores: 0, 1 weights loaded; 2, 3 sums ready; 4, 5 half drained; 6, 7 weights used.
    """
    text = "LOAD rows=64 length=784 unified_pitch=784 external_pitch=784 post=0\n"
    text += "LOAD_PARAMS kind=CHANNELS count=16\nFENCE wait=0\n"
    for t in range(tiles):
        side = t % 2
        again, more = t >= 2, t + 2 < tiles
        text += f"""
            LOAD_WEIGHTS tile={49 * side} tiles=49 {f"wait={6 + side}" * again} post={side}
            MATMUL x_count=64 x_stride=784 taps=784 tile={49 * side} accumulator={512 * side} \
                wait={side}{f"+{4 + side}" * again} post={2 + side}{f"+{6 + side}" * more}
            VECTOR source=ACCUMULATORS source_base={512 * side} source_x_stride=1 x_count=64 \
                channels=16 per_channel=1 destination_base={60000 + t % 4 * 16} \
                destination_x_stride=64 wait={2 + side} {f"post={4 + side}" * more}
        """
    return [*assemble(text), HALT]


def test_a_long_program_is_checked_quickly():
    program = double_buffered(160)
    began = time.perf_counter()
    check_hazards(program, PRESETS["edge"])
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize("semaphore", range(8))
def test_every_semaphore_of_a_pipeline_is_needed(semaphore: int):
    bit = 1 << semaphore
    broken = []
    for i in double_buffered(12):
        fields = i.fields | {"wait": i.wait & ~bit, "post": i.post & ~bit}
        broken.append(Instruction(i.opcode, **fields))
    with pytest.raises(Hazard) as caught:
        check_hazards(broken, PRESETS["edge"])
    assert caught.value.fault is Fault.RACE


def test_reach_is_the_end_of_what_is_touched() -> None:
    load = Instruction(Opcode.LOAD, unified=10, length=5, rows=2, unified_pitch=8)
    fill = Instruction(Opcode.FILL, destination_base=3, channels=4)
    config = PRESETS["nano"]
    assert reach([load, fill], Memory.UNIFIED, config) == 10 + 8 + 5
    assert reach([fill], Memory.UNIFIED, config) == 7
    assert reach([fill], Memory.WEIGHTS, config) == 0
