"""A compiled program for other languages: data of the driver in C, memory of a Verilog bench."""

import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from celosia.hw.arch.commands import WORD_BYTES
from celosia.sw.ir.parts import Port, Section
from celosia.sw.ir.program import Program, ProgramError

#: Keywords of C, and names in the file of a program besides the variable.
_TAKEN = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long main register restrict return short signed sizeof static struct switch "
    "typedef union unsigned void volatile while _Bool _Complex _Imaginary "
    "segments once each inputs outputs".split()
)
_HEADER = files("celosia.sw.driver") / "celosia.h"


def c_name(stem: str) -> str:
    """Return the variable of a program in a file of this name; other characters become ``_``.

    Raises ``ProgramError`` if C or the driver has another meaning for it.
    """
    name = re.sub(r"\W|^(?=\d)", "_", stem, flags=re.ASCII)
    driver = re.findall(r"celosia\w*", _HEADER.read_text(), re.IGNORECASE)
    if name in _TAKEN or name in driver or re.fullmatch(r"data_\d+", name):
        raise ProgramError(f"{stem}.c: wanted the name of a variable, got {name!r} of C or driver")
    return name


def _bytes(name: str, content: bytes) -> str:
    lines = [",".join(map(str, content[n : n + 24])) for n in range(0, len(content), 24)]
    return f"static const uint8_t {name}[] = {{\n" + ",\n".join(lines) + "\n};\n"


def _array(kind: str, name: str, entries: Iterable[str]) -> str:
    return (
        f"static const celosia_{kind} {name}[] = {{\n"
        + "".join(f"    {{{entry}}},\n" for entry in entries)
        + "};\n"
    )


def _tables(program: Program) -> dict[str, tuple[str, list[tuple[Any, ...]]]]:
    """Return what runs and the ends of a program, by name: a kind, then the fields of each."""
    batch = program.batch

    def sections(entries: Iterable[Section]) -> list[tuple[Any, ...]]:
        return [(f"0x{section.address:x}", section.words) for section in entries]

    def ports(entries: Iterable[Port]) -> list[tuple[Any, ...]]:
        return [
            (
                f"0x{port.address:x}",
                batch * port.bytes_per_item,
                f"{float(port.scale)!r}f",
                port.zero_point,
            )
            for port in entries
        ]

    return {
        "once": ("section", sections(program.once)),
        "each": ("section", sections(program.per_batch)),
        "inputs": ("port", ports(program.inputs)),
        "outputs": ("port", ports(program.outputs)),
    }


def _contents(program: Program, language: str) -> list[tuple[int, bytes]]:
    """Return addresses and bytes that a program has in memory before it runs.

    Raises ``ProgramError`` if the host has to do some of the work, or keeps tensors from one batch
    to the next.
    """
    ports = (*program.inputs, *program.outputs)
    host = [operator.kind for operator in program.host]
    if host or program.variables or any(port.address < 0 for port in ports):
        what = ", ".join(host) or "variables"
        requirement = f"{language} wants a program of the core alone"
        raise ProgramError(f"{program.name}: {requirement}, got {what}")
    contents = [(s.address, s.data) for s in program.segments]
    contents += [(section.address, section.code) for _, section in program.sections]
    return [(address, data) for address, data in contents if data]


def _title(program: Program) -> str:
    """Return program, core and batch for a comment: one line that does not end it."""
    name = re.sub(r"\*/|[^ -~]", "_", program.name)
    return f"{name} for {program.config.name}, batch {program.batch}"


def c_program(program: Program, name: str) -> str:
    """Return C that defines the ``celosia_program`` of a program, see ``celosia.h``.

    ``program``: all of it runs on the core; ``name``: name of the variable, see :func:`c_name`.
    Raises ``ProgramError`` if there is work for the host, or the variable cannot have this name.
    """
    name = c_name(name)
    contents, tables = _contents(program, "C"), _tables(program)
    segments = [f"0x{a:x}, {len(d)}, data_{n}" for n, (a, d) in enumerate(contents)]
    counts = ", ".join(str(len(entries)) for _, entries in tables.values())
    return "\n".join(
        [
            f"/* {_title(program)}. */",
            '#include "celosia.h"\n',
            *(_bytes(f"data_{n}", data) for n, (_, data) in enumerate(contents)),
            _array("segment", "segments", segments),
            *(
                _array(kind, key, (", ".join(map(str, entry)) for entry in entries))
                for key, (kind, entries) in tables.items()
            ),
            f"extern const celosia_program {name};",
            f"const celosia_program {name} = {{",
            f"    0x{program.config.fingerprint:08x}, 0x{program.memory_bytes:x},",
            f"    {len(segments)}, {counts},",
            "    segments, once, each, inputs, outputs",
            "};\n",
        ]
    )


def hex_program(program: Program) -> str:
    """Return the memory of a program for Verilog's ``$readmemh``: words of 32 bits from address 0.

    The lowest byte of a word is the one with the lowest address. Comments at the head name
    addresses and sizes. Raises ``ProgramError`` if there is work for the host.
    """
    fields = {"section": ("program_address", "program_length"), "port": ("address", "bytes")}
    image = bytearray(-(-program.memory_bytes // WORD_BYTES) * WORD_BYTES)
    for address, data in _contents(program, "$readmemh"):
        image[address : address + len(data)] = data
    words = [image[n : n + WORD_BYTES][::-1].hex() for n in range(0, len(image), WORD_BYTES)]
    head = [
        f"{_title(program)}: {len(words)} words",
        f"fingerprint 0x{program.config.fingerprint:08x}",
    ]
    for name, (kind, entries) in _tables(program).items():
        where, length = fields[kind]
        head += [f"{name}: {where} {address}, {length} {size}" for address, size, *_ in entries]
    return "\n".join([*(f"// {line}" for line in head), *words, ""])
