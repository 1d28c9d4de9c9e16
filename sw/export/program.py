"""A compiled program as a source file for the driver in C."""

import re
from collections.abc import Iterable, Sequence

from celosia.sw.ir.parts import Port, Section
from celosia.sw.ir.program import Program, ProgramError


def _bytes(name: str, content: bytes) -> str:
    lines = [",".join(map(str, content[n : n + 24])) for n in range(0, len(content), 24)]
    return f"static const uint8_t {name}[] = {{\n" + ",\n".join(lines) + "\n};\n"


def _array(kind: str, name: str, entries: Iterable[str]) -> str:
    return (
        f"static const celosia_{kind} {name}[] = {{\n"
        + "".join(f"    {{{entry}}},\n" for entry in entries)
        + "};\n"
    )


def _sections(sections: Iterable[Section]) -> list[str]:
    return [f"0x{s.address:x}, {s.words}" for s in sections]


def _ports(ports: Sequence[Port], batch: int) -> list[str]:
    return [f"0x{port.address:x}, {batch * port.bytes_per_item}" for port in ports]


def c_program(program: Program, name: str) -> str:
    """Return C that defines the ``celosia_program`` of a program, see ``celosia.h``.

    ``program``: all of it runs on the core; ``name``: name of the variable; what C does not allow
    in it becomes an underscore.
    Raises ``ProgramError`` if the host has to do some of the work, or keeps tensors from one batch
    to the next.
    """
    ports = (*program.inputs, *program.outputs)
    host = [operator.kind for operator in program.host]
    if host or program.variables or any(port.address < 0 for port in ports):
        what = ", ".join(host) or "variables"
        raise ProgramError(f"{program.name}: C wants a program of the core alone, got {what}")
    name = re.sub(r"\W|^(?=\d)", "_", name, flags=re.ASCII)
    contents = [(s.address, s.data) for s in program.segments]
    contents += [(section.address, section.code) for _, section in program.sections]
    contents = [(address, data) for address, data in contents if data]
    arrays = {
        "once": ("section", _sections(program.once)),
        "each": ("section", _sections(program.each)),
        "inputs": ("port", _ports(program.inputs, program.batch)),
        "outputs": ("port", _ports(program.outputs, program.batch)),
    }
    segments = [f"0x{a:x}, {len(d)}, data_{n}" for n, (a, d) in enumerate(contents)]
    counts = ", ".join(str(len(entries)) for _, entries in arrays.values())
    return "\n".join(
        [
            f"/* {program.name} for {program.config.name}, batch {program.batch}. */",
            '#include "celosia.h"\n',
            *(_bytes(f"data_{n}", data) for n, (_, data) in enumerate(contents)),
            _array("segment", "segments", segments),
            *(_array(kind, key, entries) for key, (kind, entries) in arrays.items()),
            f"extern const celosia_program {name};",
            f"const celosia_program {name} = {{",
            f"    0x{program.config.fingerprint:08x}, 0x{program.memory_bytes:x},",
            f"    {len(segments)}, {counts},",
            "    segments, once, each, inputs, outputs",
            "};\n",
        ]
    )
