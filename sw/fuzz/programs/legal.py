"""Random cases with legal programs, which a core must run as the machine model does."""

import random
from functools import reduce
from operator import or_

from celosia.hw.arch.config import SEMAPHORES, Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sw.fuzz import stage
from celosia.sw.fuzz.case import CHANNELS, Bus, Case
from celosia.sw.fuzz.programs.generator import Generator
from celosia.sw.fuzz.programs.ordering import linked, ordered

_LONGEST = 30


def bus(rng: random.Random) -> Bus:
    """Return an external memory of random speed, with pauses on none, one or some channels."""
    chance = (0.1, 0.5, 0.8, 0.9)
    pauses = [0.0] * len(CHANNELS)
    match rng.randrange(4):
        case 0:
            pass
        case 1:
            pauses[rng.randrange(len(pauses))] = rng.choice(chance)
        case _:
            pauses = [rng.choice((0.0, *chance)) for _ in CHANNELS]
    return Bus(
        tuple(pauses), rng.choice([1, 2, 8, 32, 100]), rng.choice([0.25, 0.5, 1.0, 1.0, 2.0])
    )


def middle(config: Config, rng: random.Random, longest: int = _LONGEST) -> list[Instruction]:
    """Return random instructions, also of the sequencer, without semaphores."""
    generator = Generator(
        config, rng, source=stage.SOURCE, target=stage.TARGET, parameters=stage.PARAMETERS
    )
    synchronising = rng.choice([0.0, 0.05, 0.2])

    def one() -> Instruction:
        if rng.random() < synchronising:
            return Instruction(rng.choice([Opcode.NOP, Opcode.NOP, Opcode.FENCE]))
        return generator.any()

    return [one() for _ in range(rng.randint(1, longest))]


def program(config: Config, rng: random.Random, longest: int = _LONGEST) -> list[Instruction]:
    """Return a legal program that fills the core, runs random instructions, and stores all state.

    Semaphores are numbered at random; those that are left add waits that are not needed.
    """
    numbers = rng.sample(range(SEMAPHORES), SEMAPHORES)
    inner = [*stage.opening(config), *middle(config, rng, longest), *stage.closing(config)]
    *inner, halt = ordered(inner, config, numbers)
    used = reduce(or_, (i.wait for i in inner))
    return [*linked(inner, rng, [s for s in numbers if not used >> s & 1]), halt]


def legal(config: Config, rng: random.Random, longest: int = _LONGEST) -> Case:
    """Return a case with a legal program."""
    items = tuple(program(config, rng, longest))
    return Case(config, rng.getrandbits(32), items, bus(rng))
