"""``celosia compile``: a model to a program."""

import argparse

from celosia.sw.cli.arguments import Commands, add_batch, add_output, add_preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.export.program import c_program
from celosia.sw.files import writable, write_atomically
from celosia.sw.frontend.source import load
from celosia.sw.shipped import model_path


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command("compile", "compile a model to a program", run)
    made.add_argument("model", metavar="MODEL", help=".tflite or .onnx file, or a shipped model")
    add_output(
        made, "program to write; as data for the driver in C if it ends in .c", required=True
    )
    add_preset(made)
    add_batch(made, 1, "inputs of one run (1)")


def run(arguments: argparse.Namespace) -> None:
    """Compile a model to a program."""
    model = model_path(arguments.model)
    writable(arguments.output, sources=(model,))
    program = compile_graph(load(model), arguments.preset, arguments.batch)
    if arguments.output.suffix == ".c":
        write_atomically({arguments.output: c_program(program, arguments.output.stem).encode()})
    else:
        program.save(arguments.output)
