"""Instructions as units receive them."""

from typing import Any

from celosia.hw.arch.isa import LAYOUTS, Instruction


def issued_bits(instruction: Instruction) -> int:
    """Return the bits of ``fields`` in the ``instruction`` stream of a unit."""
    values: Any = {"opcode": instruction.opcode, **instruction.fields}
    return LAYOUTS[instruction.opcode].const(values).as_bits()
