import numpy as np
import pytest

from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sim.check.order import Clocks


def chance(program: list[Instruction], rng: np.random.Generator) -> set[tuple[int, int]]:
    """Pairs (a, b) with a finished before b began, in one run at random speeds."""
    counts = [0] * 16
    queues: dict[object, list[int]] = {}
    for index, i in enumerate(program):
        queues.setdefault(i.unit, []).append(index)
    moves = [(kind, unit) for kind in ("start", "end") for unit in queues]
    speed = {move: 10.0 ** rng.integers(-3, 4) for move in moves}
    running: dict[object, int] = {}
    finished: list[int] = []
    pairs = set()
    while any(queues.values()) or running:
        ready = [
            ("start", unit)
            for unit, queue in queues.items()
            if queue
            and unit not in running
            and all(counts[s] for s in range(16) if program[queue[0]].wait >> s & 1)
        ]
        may = ready + [("end", unit) for unit in running]
        kind, unit = max(may, key=lambda move: speed[move] * rng.random())
        sign = 1 if kind == "end" else -1
        if kind == "start":
            index = running[unit] = queues[unit].pop(0)
            pairs |= {(a, index) for a in finished}
            mask = program[index].wait
        else:
            index = running.pop(unit)
            finished.append(index)
            mask = program[index].post
        for s in range(16):
            counts[s] += sign * (mask >> s & 1)
    return pairs


@pytest.mark.parametrize("posters", [1, pytest.param(4, marks=pytest.mark.thorough)])
def test_order_holds_in_every_run(posters: int, rng: np.random.Generator):
    for _ in range(12):
        program = random_pipeline(rng, posters)
        clocks = Clocks(program, range(len(program)))
        always = set.intersection(*(chance(program, rng) for _ in range(150)))
        every = [(a, b) for a in range(len(program)) for b in range(len(program)) if a != b]
        sure = {pair for pair in every if clocks.before(*pair)}
        assert sure <= always
        # With one posting unit for each semaphore the clocks are exact.
        assert posters > 1 or sure == always


def random_pipeline(rng: np.random.Generator, posters: int) -> list[Instruction]:
    """Instructions of random units, each semaphore with one taker, every take posted before."""
    opcodes = (Opcode.LOAD, Opcode.STORE, Opcode.MATMUL, Opcode.FILL)
    counts = [0] * 8
    program = []
    for _ in range(10):
        unit = int(rng.integers(4))
        mine = [s for s in range(8) if s % 4 == unit and counts[s] and rng.random() < 0.7]
        may = [s for s in range(8) if posters > 1 or s // 4 * 2 + s % 2 == unit]
        post = sum(1 << s for s in may if rng.random() < 0.4)
        for s in range(8):
            counts[s] += (post >> s & 1) - (s in mine)
        wait = sum(1 << s for s in mine)
        program.append(Instruction(opcodes[unit], wait=wait, post=post))
    return program
