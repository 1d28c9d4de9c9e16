"""Bounds check: external memory that a program wrote outside of its stores."""

from typing import Any

import numpy as np

from celosia.hw.arch.isa import Opcode
from celosia.sw.ir.program import Program

#: Bytes of external memory up to which it is looked through.
_MOST = 1 << 26


class Damage(Exception):
    """Byte written outside of all stores; the message has its address."""


def check_bounds(program: Program, memory: np.ndarray) -> None:
    """Look for bytes that are not zero, and that neither host nor program may have written.

    ``program``: program that has run, with or without an error; ``memory`` (numpy.ndarray): uint8,
    all of external memory, which was zero before.
    Raises ``Damage`` if there is one.
    """
    stores = _stores(program)
    code = [section for _, section in program.sections]
    itself = any(
        block.base < section.address + len(section.code) and block.last >= section.address
        for block in stores
        for section in code
    )
    # A program that overwrites its instructions may store to any address.
    if memory.size > _MOST or itself:
        return
    left = memory != 0
    spans = [(segment.address, len(segment.data)) for segment in program.segments]
    spans += [(section.address, len(section.code)) for section in code]
    for part in program.parts:
        spans += [(p.address, program.batch * p.bytes_per_item) for p in part.inputs]
    for address, count in spans:
        left[address : address + count] = False
    for block in stores:
        # A store that reaches past the end must write nothing.
        if block.last < left.size:
            block.mark(left, False)
    if left.any():
        raise Damage(f"byte {int(np.argmax(left)):#x} was written, which nobody names")


def _stores(program: Program) -> list[Any]:
    """Return the addresses of the stores of a program."""
    from celosia.sim.check.footprint import external_block

    found = []
    for _, section in program.sections:
        for instruction in section.instructions:
            # No core runs a store without rows or bytes.
            if instruction.opcode is Opcode.STORE and instruction.rows and instruction.length:
                found.append(external_block(instruction))
    return found
