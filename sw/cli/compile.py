"""``celosia compile``: a model to a program."""

import argparse
from pathlib import Path

from celosia.sw.cli.arguments import Commands, add_output, add_preset, whole
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.files import writable
from celosia.sw.frontend.tflite import load

__all__ = ["add_parsers", "run"]


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command("compile", "compile a model to a program", run)
    made.add_argument("model", type=Path, metavar="MODEL", help=".tflite file")
    add_output(made, "program to write", required=True)
    add_preset(made)
    made.add_argument("--batch", type=whole, default=1, metavar="N", help="inputs of one run")


def run(arguments: argparse.Namespace) -> None:
    """Compile a model to a program."""
    writable(arguments.output, sources=(arguments.model,))
    program = compile_graph(load(arguments.model), arguments.preset, arguments.batch)
    program.save(arguments.output)
