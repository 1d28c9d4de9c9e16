"""``celosia assemble`` and ``celosia disassemble``: text to instructions, and back."""

import argparse
import sys
from pathlib import Path

from celosia.hw.arch import commands, isa
from celosia.hw.arch.config import Config
from celosia.sw.cli.arguments import Commands, add_check, add_output
from celosia.sw.cli.raw import decode
from celosia.sw.files import read_file, writable, write_atomically
from celosia.sw.ir.program import MAGIC, Program
from celosia.sw.runtime.session import InputError


def add_parsers(command: Commands) -> None:
    """Add the commands."""
    parser = command("assemble", "translate assembly to instructions", assemble)
    parser.add_argument("file", type=Path, metavar="FILE", help="text, an instruction a line")
    add_output(parser, "words to write", required=True)
    add_check(parser)

    parser = command("disassemble", "translate instructions to assembly", disassemble)
    parser.add_argument("file", type=Path, metavar="FILE", help="words, or a program")
    add_output(parser, "text to write instead of showing it")


def assemble(arguments: argparse.Namespace) -> None:
    """Translate assembly to instructions."""
    writable(arguments.output, sources=(arguments.file,))
    content = read_file(arguments.file)
    try:
        text = content.decode()
        words = commands.encode(isa.assemble(text))
    except UnicodeDecodeError:
        raise InputError(f"{arguments.file}: not a text file") from None
    except ValueError as error:
        raise InputError(f"{arguments.file}: {error}") from None
    if not words:
        raise InputError(f"{arguments.file}: wanted an instruction, got none")
    if arguments.check:
        _check(arguments.file, words, arguments.check)
    write_atomically({arguments.output: words})


def _check(path: Path, words: bytes, config: Config) -> None:
    """Refuse instructions that a core refuses, or whose result depends on the speed of units."""
    from celosia.sim.check.hazards import Hazard, MachineError, check_hazards

    try:
        check_hazards(words, config)
    except (Hazard, MachineError) as error:
        raise InputError(f"{path}: {error}") from None


def disassemble(arguments: argparse.Namespace) -> None:
    """Translate instructions to assembly."""
    writable(arguments.output, sources=(arguments.file,))
    content = read_file(arguments.file)
    if content.startswith(MAGIC):
        program = Program.load(arguments.file)
        lines = []
        for name, section in program.sections:
            lines.append(f"# {name}, at {section.address:#x}")
            lines += map(isa.disassemble, section.instructions)
    else:
        lines = [isa.disassemble(one) for one in decode(arguments.file, content)]
        if not lines:
            raise InputError(f"{arguments.file}: wanted an instruction, got none")
    text = "".join(line + "\n" for line in lines)
    if arguments.output:
        write_atomically({arguments.output: text.encode()})
    else:
        sys.stdout.write(text)
