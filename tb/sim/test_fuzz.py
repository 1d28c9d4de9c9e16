"""Cases of the fuzzer and their expected results, without a simulator."""

import random
from dataclasses import replace

import numpy as np
import pytest

from celosia.hw.arch import commands, isa
from celosia.hw.arch.isa import Error, Instruction, Opcode, Unit
from celosia.sim.check import hazards
from celosia.sim.check.schedule import MachineError
from celosia.sw.fuzz import expectation, stage
from celosia.sw.fuzz.activity import misplaced
from celosia.sw.fuzz.campaign import Plan, case_of
from celosia.sw.fuzz.case import Bus, Case, CaseFault, load, save
from celosia.sw.fuzz.programs.configurations import CONFIGURATIONS, configurations, draw
from celosia.sw.fuzz.programs.faulty import KINDS
from celosia.sw.fuzz.programs.legal import legal
from celosia.sw.fuzz.shrink import shrink
from celosia.sw.fuzz.trial import Problem, Trial

LEAST, ODD = CONFIGURATIONS["least"], CONFIGURATIONS["odd"]
HALT = Instruction(Opcode.HALT)


def case(*instructions: Instruction, config=ODD, fault: CaseFault | None = None) -> Case:
    return Case(config, 1, instructions, fault=fault)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_legal_programs_are_legal(name: str, seed: int) -> None:
    rng = random.Random(seed)
    config = CONFIGURATIONS[name]
    assert stage.unsupported(config) is None
    for _ in range(4):
        found = legal(config, rng)
        hazards.check_hazards(found.code, config)
        assert expectation.expect(found).exact


def test_drawn_cores_are_supported(seed: int) -> None:
    rng = random.Random(seed)
    cores = [draw(rng) for _ in range(20)]
    assert len({core.fingerprint for core in cores}) > 10
    for core in cores:
        assert expectation.expect(legal(core, rng, 3)).exact


def test_cores_by_name() -> None:
    assert [core.name for core in configurations("tall,least", 0, 0)] == ["tall", "least"]
    assert configurations(None, 0, 0) == list(CONFIGURATIONS.values())
    assert configurations(None, 3, 5) == configurations(None, 3, 5)
    with pytest.raises(ValueError, match="configurations: wanted some of .*, got 'huge'"):
        configurations("least,huge", 0, 0)


def test_a_number_is_always_the_same_case() -> None:
    for faults in (False, True):
        plan = Plan((LEAST, ODD), 3, faults)
        assert case_of(plan, 7) == case_of(plan, 7)
        assert case_of(plan, 7) != case_of(plan, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_survives_its_text(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(5):
        found = KINDS[kind][0](legal(ODD, rng, 6), rng)
        assert load(save(found, ("why", "how"))) == found


def test_text_is_assembly() -> None:
    text = save(case(Instruction(Opcode.LOAD, length=9), HALT))
    assert isa.assemble(text) == [Instruction(Opcode.LOAD, length=9), HALT]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("HALT\n", "wanted a program, and a line '#!' with its configuration"),
        ("#! {}\n", "wanted a program"),
        ("#! {}\nHALT\n", "line '#!': 'bus'"),
        ("#! {\nHALT\n", "line 1: "),
        ("#! {}\n#word 00\n", "wanted words of 4 bytes"),
        ("#! {}\n\nHOLT\n", "line 3: opcode: wanted HALT, got 'HOLT'"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        load(text)
    assert message in str(refusal.value)


#: Possible errors of the kinds of faults whose errors are known.
ENDS = {
    "opcode": {Error.OPCODE},
    "field": {Error.FIELD},
    "range": {Error.BUS, Error.RANGE},
    "address": {Error.BUS, Error.RANGE},
    "bounds": {Error.BUS, Error.RANGE},
    "no_halt": {Error.PROGRAM},
    "stuck": {Error.WATCHDOG, Error.PROGRAM},
    "overflow": {Error.SEMAPHORE, None},
}


@pytest.mark.parametrize("kind", ENDS)
def test_errors_by_construction(kind: str, seed: int) -> None:
    """Each kind ends in its error, and the machine model agrees with the expectation."""
    rng = random.Random(seed)
    for _ in range(8):
        found = KINDS[kind][0](legal(ODD, rng, 6), rng)
        expected = expectation.expect(found)
        assert expected.ends is not None
        assert {end and end[0] for end in expected.ends} <= ENDS[kind]
        machine = stage_machine(found)
        try:
            machine.run(found.code)
            end = None
        except MachineError as error:
            end = (error.error, error.unit, error.index)
        assert end in expected.ends


def stage_machine(found: Case):
    from celosia.sim.model.machine import Machine

    machine = Machine(found.config, memory_bytes=found.memory_bytes)
    machine.bounds = found.bounds
    first, numbers = found.bounds[0], np.random.default_rng(1)
    machine.memory[first:] = stage.content(found.config, numbers, found.memory_bytes - first)
    return machine


def test_bytes_that_stores_address() -> None:
    store = Instruction(Opcode.STORE, external=100, external_pitch=7, rows=3, length=4)
    far = Instruction(Opcode.STORE, external=stage.SIZE - 2, length=64)
    refused = Instruction(Opcode.STORE, external=200, length=ODD.unified_bytes + 1)
    found = expectation.named(case(store, far, refused, HALT))
    wanted = np.zeros(stage.SIZE, np.bool_)
    for first in (100, 107, 114):
        wanted[first : first + 4] = True
    wanted[-2:] = True
    assert np.array_equal(found, wanted)


def test_instructions_that_share_a_beat() -> None:
    rows = Instruction(Opcode.LOAD, external=70, external_pitch=100, rows=2, length=3)
    other = Instruction(Opcode.LOAD, external=256, length=8)
    found = case(rows, other, Instruction(Opcode.STORE, external=170), HALT)
    # Beats are four bytes wide.
    assert expectation.holders(found, 68, write=False) == {0}
    assert expectation.holders(found, 172, write=False) == {0}
    assert expectation.holders(found, 263, write=False) == {1}
    assert expectation.holders(found, 168, write=True) == {2}
    assert expectation.holders(found, 100, write=False) == set()


def test_unpredictable_programs() -> None:
    itself = Instruction(Opcode.STORE, external=stage.CODE, length=8)
    assert not expectation.expect(case(itself, HALT)).bounded
    endless = Instruction(Opcode.VECTOR, x_count=60_000, y_count=60_000)
    assert expectation.expect(case(endless, HALT)).ends is None
    race = (Instruction(Opcode.LOAD, length=8), Instruction(Opcode.STORE, length=8))
    assert expectation.expect(case(*race, HALT)) == (False, frozenset([None]), False, True)
    # Two units wait for one count.
    both = [Instruction(opcode, wait=1) for opcode in (Opcode.STORE, Opcode.MATMUL)]
    contested = expectation.expect(case(Instruction(Opcode.NOP, post=1), *both, HALT))
    assert contested.allows(None) and contested.allows((Error.WATCHDOG, Unit.STORE, 1))
    assert not contested.allows((Error.FIELD, Unit.SEQUENCER, 1))
    # The first one waits in the sequencer; if it gets the count, no word is left.
    first, second = Instruction(Opcode.NOP, wait=1), Instruction(Opcode.STORE, wait=1)
    late = expectation.expect(case(Instruction(Opcode.NOP, post=1), second, first))
    assert late.allows((Error.PROGRAM, Unit.SEQUENCER, 3))
    assert late.allows((Error.WATCHDOG, Unit.SEQUENCER, 2))


def test_shrinking_finds_the_culprit(seed: int) -> None:
    """A legal program fails only because of a FILL of more than 9 bytes."""
    rng = random.Random(seed)
    config = ODD
    found = legal(config, rng)
    fill = Instruction(Opcode.FILL, channels=40, value=3, x_count=2, destination_x_stride=50)
    found = replace(found, items=(fill, *found.items), bus=Bus((0.5,) * 5))

    def run(tried: Case) -> Trial:
        bad = any(i.opcode is Opcode.FILL and i.channels > 9 for i in commands.decode(tried.code))
        problems = [Problem("memory", "")] if bad else []
        expected = expectation.Expected(True, frozenset([None]))
        return Trial(None, expected, problems)  # pyright: ignore[reportArgumentType]

    small = shrink(found, run(found), run)
    first, last = commands.decode(small.code)
    assert first.opcode is Opcode.FILL and first.channels == 10 and last == HALT
    assert first.x_count == 1 and first.value == 0 and small.bus == Bus()


def test_cycles_in_the_wrong_class() -> None:
    config = CONFIGURATIONS["square4"]
    program = isa.assemble(
        "LOAD length=16 post=3\nMATMUL taps=9 x_count=5 wait=3\n"
        "FILL x_count=3 channels=4\nSTORE length=8 external=64\nHALT\n"
    )
    right = {
        "sequencer": {"busy": 12, "memory": 30, "drain": 4},
        "load": {"busy": 5, "memory": 3, "drain": 8, "empty": 30},
        "store": {"busy": 5, "drain": 8, "empty": 33},
        "matrix": {"busy": 15, "weights": 6, "semaphore_3": 20, "empty": 5},
        "vector": {"busy": 15, "drain": 3, "empty": 28},
    }
    assert misplaced(right, commands.encode(program), config) == []
    for unit, changes, message in (
        ("matrix", {"busy": 14, "drain": 1}, "matrix: wanted 15 to 15 busy, got 14"),
        ("matrix", {"semaphore_2": 1}, "matrix: wanted no cycle of semaphore_2"),
        ("load", {"busy": 3, "memory": 5}, "load: wanted 4 to 5 busy, got 3"),
        ("store", {"busy": 6}, "store: wanted 2 to 5 busy, got 6"),
        ("load", {"weights": 1}, "load: wanted no cycle of weights"),
        ("vector", {"busy": 2}, "vector: wanted 12 to 88 busy, got 2"),
        ("sequencer", {"busy": 11, "empty": 1}, "sequencer: wanted 12 to 12 busy, got 11"),
    ):
        wrong = misplaced({**right, unit: right[unit] | changes}, commands.encode(program), config)
        assert wrong[0] == message
    idle = [i for i in program if i.unit is not Unit.VECTOR]
    assert "vector: wanted no cycle of drain" in misplaced(right, commands.encode(idle), config)
