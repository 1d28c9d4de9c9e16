"""Check of a program: its instructions by the hazard checker, its operators of the host."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sw.ir.parts import Section
from celosia.sw.ir.program import Program, ProgramError
from celosia.sw.layers.errors import CompileError
from celosia.sw.operators.host import check as require_runs

_CONSTANTS = (Opcode.LOAD_WEIGHTS, Opcode.LOAD_PARAMS)


def verify(program: Program, code: Mapping[int, Sequence[Instruction]]) -> None:
    """Refuse a program whose result depends on timing, or that the core or the host would refuse.

    ``code``: the instructions of each section, by its address. Raises CompileError if a check
    fails, naming the instructions and the layer, a fault of the compiler; or the operator, a fault
    of the model.
    """
    from celosia.sim.check.hazards import Fault, Hazard, MachineError, check_hazards

    for operator in program.host:
        try:
            require_runs(operator)
        except ProgramError as error:
            raise CompileError(str(error)) from None
    names = {section.address: name for name, section in program.sections}

    def check(section: Section, written: Any) -> Any:
        """Check a section; return the contents of the memories after it."""
        try:
            return check_hazards(code[section.address], program.config, initial=written)
        except (Hazard, MachineError) as error:
            index = error.instructions[-1] if isinstance(error, Hazard) else error.index
            number = section.layers[index]
            layer = program.layers[number].name if number >= 0 else "no layer"
            where = f"{names[section.address]} of {program.name}, {layer}"
            of_counts = isinstance(error, Hazard) and error.fault is Fault.SEMAPHORE
            advice = (
                "; a smaller batch needs fewer counts" if of_counts and program.batch > 1 else ""
            )
            raise CompileError(f"{error}{advice}", layer=where) from error

    constants: Any = None
    for section in program.constants:
        constants = check(section, constants)
    for part in program.parts:
        written = constants
        for section in (*part.setups, *part.mains):
            written = check(section, written)
    if program.constants:
        shared = [section.address for section in program.constants]
        others = (code[address] for address in names if address not in shared)
        _check_kept(program, [i for address in shared for i in code[address]], others)


def _check_kept(
    program: Program, constants: Iterable[Instruction], others: Iterable[Iterable[Instruction]]
) -> None:
    """Refuse resident constants that other constants or a part overwrite.

    Raises CompileError, see ``verify``.
    """
    from celosia.sim.check.footprint import Memory, touches

    where = f"constants of {program.name}"
    taken: dict[Memory, list[tuple[int, int]]] = {memory: [] for memory in Memory}
    for memory, write, pattern in (t for i in constants for t in touches(i, program.config)):
        if write:
            taken[memory].append((pattern.base, pattern.last))
    for memory, places in taken.items():
        for (_, last), (base, _) in pairwise(sorted(places)):
            if base <= last:
                wanted = f"a {memory.value} for each constant"
                raise CompileError(f"wanted {wanted}, got {base} twice", layer=where)
    if any(i.opcode in _CONSTANTS for section in others for i in section):
        raise CompileError("wanted constants that stay, got loads of others", layer=where)
