"""Semaphores that order the instructions of a program."""

import random
from collections.abc import Sequence

import numpy as np

from celosia.hw.arch.config import SEMAPHORES, Config
from celosia.hw.arch.isa import EXECUTING, Instruction, Opcode, Unit
from celosia.sim.check import footprint
from celosia.sim.check.footprint import Touch

_PAIRS = [(a, b) for a in EXECUTING for b in EXECUTING if a is not b]


def _clash(ours: Sequence[Touch], theirs: Sequence[Touch], config: Config) -> bool:
    """Return True if an instruction writes a byte that another unit's instruction touches.

    The matrix unit owns half of the accumulators while it runs.
    """
    half = config.accumulator_depth * config.columns
    for one in ours:
        for other in theirs:
            if one.memory is not other.memory or not (one.write or other.write):
                continue
            if one.memory is footprint.Memory.ACCUMULATORS:
                spans = [(p.base // half, p.last // half) for p in (one.pattern, other.pattern)]
                if spans[0][0] <= spans[1][1] and spans[1][0] <= spans[0][1]:
                    return True
                continue
            low = max(one.pattern.base, other.pattern.base)
            high = min(one.pattern.last, other.pattern.last)
            if low <= high and np.any(
                one.pattern.bitmap(low, high) & other.pattern.bitmap(low, high)
            ):
                return True
    return False


def ordered(
    instructions: Sequence[Instruction], config: Config, numbers: Sequence[int] = range(SEMAPHORES)
) -> list[Instruction]:
    """Return a program with the semaphores between conflicting instructions, and HALT.

    Each ordered pair of units has a semaphore. An instruction waits for the latest conflicting one
    of the other unit, unless its unit waited for a later one before. A FENCE orders everything.
    Semaphores that the instructions already have remain.

    ``instructions``: without HALT; ``config``: the core; ``numbers``: the semaphores of the pairs,
    twelve of them.
    """
    touches = [footprint.touches(i, config) for i in instructions]
    wait = [i.wait for i in instructions]
    post = [i.post for i in instructions]
    known = dict.fromkeys(_PAIRS, -1)
    for n, instruction in enumerate(instructions):
        if instruction.opcode is Opcode.FENCE:
            known = dict.fromkeys(_PAIRS, n)
        if instruction.unit is Unit.SEQUENCER:
            continue
        for unit in EXECUTING:
            if unit is instruction.unit:
                continue
            pair = (unit, instruction.unit)
            for before in range(n - 1, known[pair], -1):
                if instructions[before].unit is unit and _clash(
                    touches[before], touches[n], config
                ):
                    mask = 1 << numbers[_PAIRS.index(pair)]
                    wait[n] |= mask
                    post[before] |= mask
                    known[pair] = before
                    break
    program = [
        Instruction(i.opcode, **(i.fields | {"wait": w, "post": p}))
        for i, w, p in zip(instructions, wait, post, strict=True)
    ]
    return [*program, Instruction(Opcode.HALT)]


def linked(
    instructions: Sequence[Instruction], rng: random.Random, numbers: Sequence[int]
) -> list[Instruction]:
    """Return the instructions with random waits that are not needed.

    Each semaphore of ``numbers`` belongs to two units, which may include the sequencer: one posts
    it, the other takes it.
    """
    wait = [i.wait for i in instructions]
    post = [i.post for i in instructions]
    for number in numbers:
        before, after = rng.sample(list(Unit), 2)
        counts = 0
        for n, i in enumerate(instructions):
            if i.unit is before and rng.random() < 0.3:
                post[n] |= 1 << number
                counts += 1
            elif i.unit is after and counts and rng.random() < 0.5:
                wait[n] |= 1 << number
                counts -= 1
        for n in reversed(range(len(instructions))):
            # Posts that no instruction takes are removed.
            if counts and post[n] >> number & 1:
                post[n] &= ~(1 << number)
                counts -= 1
    return [
        Instruction(i.opcode, **(i.fields | {"wait": w, "post": p}))
        for i, w, p in zip(instructions, wait, post, strict=True)
    ]
