"""Estimates of a few instructions on `edge`."""

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.presets import PRESETS
from celosia.sim.timing.costs import Costs
from celosia.sim.timing.cycles import COSTS, estimate

EDGE = PRESETS["edge"]
HALT = Instruction(Opcode.HALT)


def total(*instructions: Instruction, config: Config = EDGE, costs: Costs = COSTS) -> int:
    """Return the cycles of instructions, HALT after them."""
    return estimate([*instructions, HALT], config, costs).total


def matmul(**values: int) -> Instruction:
    """Return a MATMUL with some fields."""
    return Instruction(Opcode.MATMUL, **values)
