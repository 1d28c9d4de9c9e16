"""The judge of the machine model goes over what was emitted."""

from celosia.sw.compiler.errors import CompileError
from celosia.sw.ir.program import Program

__all__ = ["verify"]


def verify(program: Program) -> None:
    """Refuse a program in which something depends on chance, or that the core would refuse.

    Raises
    ------
    CompileError
        Naming the instructions and the layer. It means that the compiler has a fault.
    """
    from celosia.sim.hazards import Hazard, MachineError, judge

    for place, part in enumerate(program.parts):
        which = f" of part {place}" if len(program.parts) > 1 else ""
        written = None
        for name, section in (("setup", part.setup), ("main", part.main)):
            try:
                written = judge(section.code, program.config, initial=written)
            except (Hazard, MachineError) as error:
                index = error.instructions[-1] if isinstance(error, Hazard) else error.index
                number = section.layers[index]
                layer = program.layers[number].name if number >= 0 else "no layer"
                where = f"{name}{which} of {program.name}, {layer}"
                raise CompileError(str(error), layer=where) from error
