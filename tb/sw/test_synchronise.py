from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
import prerequisites
import pytest
from networks import serialize
from random_networks.cases import case
from whole_networks.small import through_memory

from celosia.hw.arch.config import MOST_COUNT, Config
from celosia.hw.arch.isa import UNITS, Instruction, Opcode, Unit
from celosia.hw.arch.presets import PRESETS, preset
from celosia.sim.check.footprint import Memory, touches
from celosia.sim.check.hazards import Fault, Hazard, check_hazards
from celosia.sw.compiler.compile import compile_graph, compile_steps
from celosia.sw.compiler.emit.access import Access, Step
from celosia.sw.compiler.emit.synchronise import SEMAPHORE, synchronise
from celosia.sw.frontend.tflite import load
from celosia.sw.layers.errors import CompileError
from celosia.sw.runtime.interpreter import open_session

NANO = PRESETS["nano"]


def load_step(start: int, count: int) -> Step:
    access = Access("unified", True, 0, 0, 0, 1, start, start + count)
    return Step(Instruction(Opcode.LOAD, unified=start, length=count), (access,), 0)


def store_step(start: int, count: int) -> Step:
    access = Access("unified", False, 0, 0, 0, 1, start, start + count)
    return Step(Instruction(Opcode.STORE, unified=start, length=count), (access,), 0)


def fill_step(start: int, count: int) -> Step:
    access = Access("unified", True, 0, 0, 0, 1, start, start + count)
    return Step(Instruction(Opcode.FILL, channels=count, destination_base=start), (access,), 0)


def test_a_semaphore_for_each_pair() -> None:
    assert len(SEMAPHORE) == 12 and sorted(SEMAPHORE.values()) == list(range(12))


def test_dependence_takes_one_post_and_one_wait() -> None:
    first, second = synchronise([load_step(0, 8), store_step(4, 2)], NANO)
    bit = 1 << SEMAPHORE[Unit.LOAD, Unit.STORE]
    assert (first.post, first.wait, second.post, second.wait) == (bit, 0, 0, bit)


#: An instruction of each unit.
OF_UNIT = {UNITS[o]: o for o in (Opcode.LOAD, Opcode.STORE, Opcode.MATMUL, Opcode.FILL)}


@pytest.mark.parametrize("memory", ["unified", "weights", "parameters", "accumulators"])
@pytest.mark.parametrize("pair", SEMAPHORE, ids=lambda pair: "-".join(u.name for u in pair))
def test_every_order_that_matters_is_kept(pair: tuple[Unit, Unit], memory: str) -> None:
    """A semaphore between two units where either of them writes; none where both read."""
    for writes in product((False, True), repeat=2):
        steps = [
            Step(Instruction(OF_UNIT[unit]), (Access(memory, write, 0, 0, 0, 1, 8, 16),), 0)
            for unit, write in zip(pair, writes, strict=True)
        ]
        first, second = synchronise(steps, NANO)
        bit = any(writes) << SEMAPHORE[pair]
        assert (first.wait, first.post, second.wait, second.post) == (0, bit, bit, 0)


def test_independent_work_is_left_alone() -> None:
    made = synchronise([load_step(0, 8), store_step(8, 2), fill_step(20, 4)], NANO)
    assert all(i.wait == 0 and i.post == 0 for i in made)


def test_only_the_latest_producer_posts() -> None:
    made = synchronise([load_step(0, 4), load_step(4, 4), store_step(0, 8)], NANO)
    assert [bool(i.post) for i in made] == [False, True, False]


def test_what_is_known_is_not_reported_again() -> None:
    steps = synchronise([load_step(0, 8), fill_step(0, 4), store_step(0, 8)], NANO)
    # The store waits for the fill, which has waited for the load.
    assert steps[2].wait == 1 << SEMAPHORE[Unit.VECTOR, Unit.STORE]
    assert steps[0].post == 1 << SEMAPHORE[Unit.LOAD, Unit.VECTOR]


def test_second_reader_of_a_unit_does_not_wait() -> None:
    made = synchronise([load_step(0, 8), store_step(0, 2), store_step(4, 2)], NANO)
    assert made[2].wait == 0


def test_blocks_that_interleave_do_not_conflict() -> None:
    left = Access("unified", True, 100, 10, 0, 5, 0, 4)
    right = Access("unified", False, 100, 10, 0, 5, 4, 10)
    other = Access("unified", False, 101, 10, 0, 5, 4, 10)
    assert not left.conflicts(right) and not right.conflicts(left)
    assert left.conflicts(other)
    assert not right.conflicts(other)


def random_program(rng: np.random.Generator) -> list[Instruction]:
    steps: list[Step] = [fill_step(0, 64)]
    for _ in range(60):
        make = (load_step, store_step, fill_step)[rng.integers(3)]
        start = int(rng.integers(0, 56))
        steps.append(make(start, int(rng.integers(1, 9))))
    made = [*synchronise(steps, NANO), Instruction(Opcode.HALT)]
    moves = [i for i in made if i.opcode in (Opcode.LOAD, Opcode.STORE)]
    for external, instruction in enumerate(moves):
        instruction.fields["external"] = 64 * external
    return made


def test_random_programs_have_no_hazard(rng: np.random.Generator) -> None:
    for _ in range(20):
        made = random_program(rng)
        check_hazards(made, NANO)
        posts, waits = (Counter[int](), Counter[int]())
        for instruction in made:
            posts.update(bit for bit in range(16) if instruction.post >> bit & 1)
            waits.update(bit for bit in range(16) if instruction.wait >> bit & 1)
        assert posts == waits


def test_every_wait_is_needed(rng: np.random.Generator) -> None:
    made = random_program(rng)
    waiting = next(n for n, i in enumerate(made) if i.wait)
    made[waiting].fields["wait"] = 0
    with pytest.raises(Hazard) as caught:
        check_hazards(made, NANO)
    assert caught.value.fault in (Fault.RACE, Fault.LEFTOVER)


@pytest.mark.thorough
def test_counts_that_could_pass_the_limit_are_refused() -> None:
    # Besides the counts, waits in a queue, in the register after it and in the unit.
    count = MOST_COUNT - NANO.queue_depth - 1
    steps = [load_step(n, 1) for n in range(count)]
    # Each store needs the load of the same byte alone, and comes long after all of them.
    steps += [store_step(n, 1) for n in range(count)]
    with pytest.raises(CompileError, match=f"at most {MOST_COUNT} counts"):
        synchronise(steps, NANO)


SEEDS = (1, 20_001, 50_000, 80_001, 90_001, 100_001)
CASES = [*product((None,), (1024, 2048)), *product(SEEDS, (2048, 65536))]


@pytest.mark.parametrize(("seed", "unified_bytes"), CASES)
def test_accesses_cover_what_instructions_touch(seed: int | None, unified_bytes: int) -> None:
    """Those of external memory too, where a program reads what it has written."""
    config = preset(f"nano,unified_bytes={unified_bytes}")
    content = through_memory() if seed is None else serialize(case(seed).graph)
    compiled, outside = compile_steps(load(content), config, 2), 0
    for part in compiled.parts:
        touched = [(step, *one) for step in part.steps for one in bounds(step, config)]
        external = [(w, a, b) for _, m, w, a, b in touched if m is Memory.EXTERNAL]
        written = [(first, last) for writes, first, last in external if writes]
        read = [(first, last) for writes, first, last in external if not writes]
        for step, memory, writes, first, last in touched:
            if memory is Memory.EXTERNAL:
                others = read if writes else written
                if not any(first <= b and a <= last for a, b in others):
                    continue
                outside += 1
            covered = [
                access
                for access in step.accesses
                if access.memory == memory.name.lower() and (access.writes or not writes)
            ]
            assert any(a.start <= first and last < a.end for a in covered), step
    assert outside or seed is not None


def bounds(step: Step, config: Config) -> Iterator[tuple[Memory, bool, int, int]]:
    """Yield memory, direction, lowest and highest address of what an instruction touches."""
    for memory, writes, pattern in touches(step.instruction, config):
        addresses = pattern.addresses()
        first, last = int(addresses.min()), int(addresses.max())
        if memory is Memory.ACCUMULATORS:
            # A row of sums is one address.
            first, last = first // config.columns, last // config.columns
        yield memory, writes, first, last


@pytest.mark.parametrize("unified_bytes", [1024, 2048, 65536])
@pytest.mark.parametrize("joined", [False, True])
def test_values_outside_come_back_whole(unified_bytes: int, joined: bool, rng) -> None:
    """All rows of all stripes of all samples, as LiteRT has them."""
    content = through_memory(joined=joined)
    x = rng.integers(-128, 128, (3, 24, 12, 8)).astype(np.int8)
    program = compile_graph(load(content), preset(f"nano,unified_bytes={unified_bytes}"), 2)
    with open_session(program) as session:
        found = session.run([x])
    for number, sample in enumerate(x):
        right = prerequisites.litert_outputs(content, sample[None])
        for result, (one,) in zip(found, right, strict=True):
            np.testing.assert_array_equal(result[number], one)
